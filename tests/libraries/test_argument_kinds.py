"""Data types, shapes, devices and streams of other libraries as arguments."""

import array
import json
import re
import sys
from types import SimpleNamespace
from unittest import mock

import jax
import ml_dtypes
import numpy as np
import pytest
import torch

from dlpack import asdlpack, from_pointer, frombuffer
from support.alone import alone
from support.capi import SUBBYTE_TYPE_PADDED, look
from support.refusals import refused


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("f4", "float32"),
        ("fp32", "float32"),
        ("torch.float32", "float32"),
        ("torch.half", "float16"),
        ("BF16", "bfloat16"),
        ("F8_E4M3", "float8_e4m3fn"),
        (str(torch.bfloat16), "bfloat16"),
        (float, "float64"),
        (torch.bfloat16, "bfloat16"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
        (torch.float4_e2m1fn_x2, "float4_e2m1fnx2"),
        (torch.half, "float16"),
        (torch.bool, "bool"),
        (jax.numpy.bfloat16, "bfloat16"),
        (jax.numpy.int16, "int16"),
    ],
    ids=repr,
)
def test_a_data_type_by_another_librarys_name(dtype, name):
    assert frombuffer(bytearray(16), dtype).dtype == name


@pytest.mark.parametrize("dtype", [torch.int4, torch.uint2], ids=str)
def test_items_below_a_byte_take_one_each_as_in_torch(dtype):
    x = frombuffer(bytes(4), dtype)
    assert (x.shape, look(x.__dlpack__(max_version=(1, 0))).flags & SUBBYTE_TYPE_PADDED) == ((4,), SUBBYTE_TYPE_PADDED)


SHAPES = {
    "list": [2, 3],
    "range": range(2, 4),
    "numpy": np.array([2, 3]),
    "torch": torch.tensor([2, 3]),
    "torch.Size": torch.zeros(2, 3).shape,
    "jax": jax.numpy.array([2, 3]),
    "array": array.array("i", [2, 3]),
    "memoryview": memoryview(array.array("q", [2, 3])),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_and_strides_by_any_sequence(shape):
    data = np.arange(32, dtype="u1")
    for x in (
        frombuffer(data, "uint8", shape, strides=shape),
        from_pointer(data.ctypes.data, shape, "uint8", strides=shape),
    ):
        assert (x.shape, x.strides) == ((2, 3), (2, 3))
    assert frombuffer(data, "uint8", np.array(6)).shape == frombuffer(data, "uint8", torch.tensor(6)).shape == (6,)


class Endless:
    """It has no end, and says that it has 10**12 items."""

    def __len__(self):
        return 10**12

    def __getitem__(self, i):
        return 1


NO_INTS = ["23", b"23", {0: 2}, {2, 3}, np.array([2.5]), np.array([[2, 3]]), object(), [[2]], asdlpack(b"23")]


@pytest.mark.parametrize("shape", NO_INTS)
def test_a_shape_that_is_not_a_sequence_of_ints_is_refused(shape):
    with pytest.raises(TypeError, match="shape: expected an int, or a sequence of ints, of 64 bits, got"):
        frombuffer(bytearray(16), "uint8", shape)
    refused(lambda: frombuffer(bytearray(16), "uint8", Endless()), "dimensions", ValueError, most=64, ndim=65)


CPU_DEVICES = {
    "torch.device": torch.device("cpu"),
    "jax Device": jax.devices("cpu")[0],
    "numpy array": np.zeros(1),
    "DLPackObject": asdlpack(b"x"),
}


@pytest.mark.parametrize("device", CPU_DEVICES.values(), ids=CPU_DEVICES)
def test_a_device_by_an_object_that_is_one_or_is_on_one(device):
    data = np.arange(4)
    assert asdlpack(data, device=device).pointer == data.ctypes.data
    assert from_pointer(data.ctypes.data, 4, "int64", device=device).device == (1, 0)


def test_a_torch_device_of_a_gpu_has_its_number():
    with pytest.raises(
        BufferError, match="device kDLCUDA:1: the data is on kDLCPU:0, and copy=False forbids to copy it"
    ):
        asdlpack(bytearray(4), device=torch.device("cuda", 1))
    refused(lambda: asdlpack(bytearray(4), device=torch.device("mps")), "unknown-device", ValueError, device="'mps:0'")


@pytest.mark.parametrize("device", [np.ndarray, 5, (1, 2, 3), object(), None.__class__])
def test_a_wrong_device_is_an_error_that_says_what_to_pass(device):
    with pytest.raises(TypeError, match="device: expected a name such as .* device of torch, jax or cupy, got"):
        asdlpack(bytearray(4), device=device)


@alone
def test_a_data_type_of_paddle_says_what_it_is():
    import paddle

    for name in "bfloat16", "float8_e4m3fn", "complex64", "bool", "int8":
        assert frombuffer(bytearray(16), getattr(paddle, name)).dtype == name


class Says:
    """A data type that answers so."""

    def __init__(self, answer):
        self.answer = answer

    def __dlpack_data_type__(self):
        return self.answer


def test_a_data_type_by_its_numbers():
    data = np.zeros(16, "u1")
    assert frombuffer(data, Says((4, 16, 1))).dtype == "bfloat16"
    assert from_pointer(data.ctypes.data, 1, Says((2, np.int8(32), 4)), owner=data).dtype == "float32x4"
    for wrong in None, (2, 32), [2, 32, 1], (2, 32, "1"), (2.0, 32, 1), (2**70, 32, 1):
        with pytest.raises(ValueError, match="dtype: __dlpack_data_type__.* must return ints, .code, bits, lanes."):
            frombuffer(data, Says(wrong))
    for unknown in (2, 33, 1), (99, 8, 1), (-1, 8, 1), (2, 32, 0):
        with pytest.raises(ValueError, match=f"dtype {re.escape(json.dumps(str(unknown)))}: unknown"):
            frombuffer(data, Says(unknown))


@alone
def test_a_mock_in_the_place_of_a_library_changes_nothing():
    """As where documentation is built, or tests run, without the library."""
    device = jax.devices("cpu")[0]
    for name in ("torch", "cupy", "numpy", "ctypes"):
        with mock.patch.dict(sys.modules, {name: mock.MagicMock()}):
            assert asdlpack(bytearray(8), device=device).device == (1, 0)
            assert frombuffer(bytearray(8), ml_dtypes.bfloat16).dtype == "bfloat16"
            assert frombuffer(bytearray(8), SimpleNamespace(name="int16")).dtype == "int16"


def test_a_context_manager_of_a_device_is_refused_as_a_device():
    with pytest.raises(TypeError, match="device: expected a name"):
        asdlpack(bytearray(8), device=torch.cuda.device(0))


@pytest.mark.parametrize("kind", [str, np.dtype])
def test_an_object_that_lies_about_its_class_is_told_as_what_it_is(kind):
    liar = mock.Mock(spec=kind)
    with pytest.raises(TypeError, match="dtype: expected a name"):
        frombuffer(bytearray(8), liar)
    with pytest.raises(TypeError, match="device: expected a name"):
        asdlpack(bytearray(8), device=liar)
