"""Arrays of torch, jax, tensorflow, pyarrow, numba and Pillow, in and out by each function."""

import jax.numpy as jnp
import ml_dtypes
import numba.cuda
import numpy as np
import pyarrow
import pytest
import tensorflow
import torch
from PIL import Image

from dlpack import asdlpack, describe, frombuffer
from support.capi import Managed, Speaks

MEMORY = bytes(range(24))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bfloat16, "bfloat16"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
        (torch.float4_e2m1fn_x2, "float4_e2m1fnx2"),
        (torch.half, "float16"),
        (torch.bool, "bool"),
        (jnp.bfloat16, "bfloat16"),
        (jnp.int16, "int16"),
        (tensorflow.bfloat16, "bfloat16"),
    ],
    ids=repr,
)
def test_a_data_type_of_a_library_names_it(dtype, name):
    assert frombuffer(bytearray(48), dtype).dtype == name


@pytest.mark.parametrize(
    "obj",
    [torch.frombuffer(bytearray(MEMORY), dtype=torch.int64).reshape(3, 1), pyarrow.py_buffer(MEMORY)],
    ids=["torch", "pyarrow.Buffer"],
)
def test_compact_memory_of_a_library_is_taken_as_bytes(obj):
    x = frombuffer(obj, "uint8")
    assert bytes(np.from_dlpack(x)) == MEMORY
    assert x.size == 24
    assert x.obj is obj


def test_a_tensor_with_gaps_is_refused_with_the_way_out():
    obj = torch.zeros(4, 4).T
    with pytest.raises(BufferError, match=r"expected it compact \(use frombuffer\(asdlpack\(obj, copy=True\), "):
        frombuffer(obj, "uint8")
    x = frombuffer(asdlpack(obj, copy=True), "uint8")
    assert x.size == asdlpack(obj).nbytes


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (
            torch.zeros(2, dtype=torch.bfloat16),
            {"owner": "torch.Tensor", "dtype": "bfloat16", "protocol": "__dlpack__"},
        ),
        (jnp.zeros(2, "int8"), {"version": None, "readonly": True, "flags": None}),
        (pyarrow.array([1, 2]), {"version": (1, 0), "readonly": True}),
    ],
    ids=["torch", "jax", "pyarrow"],
)
def test_an_array_of_a_library_is_described(obj, expected):
    about = describe(obj)
    if "version" in expected and expected["version"]:
        assert about["version"] >= expected["version"]
        expected = {name: value for name, value in expected.items() if name != "version"}
    assert {name: about[name] for name in expected} == expected
    assert list(about) == list(describe(b""))


def test_a_stream_of_pyarrow_is_described_and_not_read():
    reader = pyarrow.table({"a": [1, 2]}).to_reader()
    assert describe(reader)["protocol"] == "__arrow_c_stream__"
    assert reader.read_all().num_rows == 2


def test_a_tensor_that_needs_a_gradient_says_so():
    x = asdlpack(torch.ones(3, requires_grad=True))
    about = describe(x.obj)
    assert list(about) == ["owner", "refused"]
    assert "require gradient" in about["refused"]
    for take in np.asarray, pyarrow.array:
        with pytest.raises(BufferError, match="gradient"):
            take(x)
    for name in "__array_interface__", "__array_struct__", "__cuda_array_interface__":
        assert not hasattr(x, name)
    with pytest.raises(AttributeError, match="gradient"):
        x.__array_interface__  # noqa: B018


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_tensors_that_numpy_has_no_type_for_are_arrays_of_ml_dtypes(name):
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, name)).T
    out = np.asarray(asdlpack(tensor))
    assert (out.dtype, out.shape, out.ctypes.data) == (getattr(ml_dtypes, name), (3, 2), tensor.data_ptr())
    assert out.astype("f4").tolist() == [[0, 3], [1, 4], [2, 5]]
    out[1, 1] = 9
    assert tensor[1, 1] == 9
    tensor[0, 0] = 2
    assert out[0, 0] == 2


def test_a_bfloat16_array_of_jax_is_a_read_only_array_of_ml_dtypes():
    source = jnp.arange(3, dtype=jnp.bfloat16)
    out = np.asarray(asdlpack(source))
    assert (out.dtype, out.tolist(), out.flags.writeable) == (ml_dtypes.bfloat16, [0, 1, 2], False)
    assert out.ctypes.data == source.unsafe_buffer_pointer()


def test_numba_takes_the_cuda_interface_for_what_it_is():
    x = asdlpack(Managed(4096, shape=(2, 3), dtype=(2, 64, 1), device=(2, 0)).capsule())
    interface = x.__cuda_array_interface__
    assert np.dtype(interface["typestr"]) == np.float64
    for obj in x, Speaks(__cuda_array_interface__=interface):
        assert numba.cuda.is_cuda_array(obj)


def test_numba_takes_memory_of_the_cpu_for_none_of_cuda():
    array = np.zeros(3)
    for obj in array, bytes(3), Speaks(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__):
        assert not numba.cuda.is_cuda_array(asdlpack(obj))


def test_torch_shares_the_memory_by_whatever_way_it_takes():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    x = asdlpack(array)
    shared = torch.as_tensor(x)
    assert (shared.data_ptr(), shared.shape, shared.dtype) == (array.ctypes.data, (2, 3), torch.float32)
    copied = torch.tensor(x)
    assert (copied.data_ptr() != array.ctypes.data, copied.tolist()) == (True, array.tolist())


@pytest.mark.parametrize(
    ("shape", "mode", "size"), [((4, 5), "L", (5, 4)), ((4, 5, 3), "RGB", (5, 4)), ((4, 5, 4), "RGBA", (5, 4))]
)
def test_pillow_makes_an_image_of_it(shape, mode, size):
    pixels = np.arange(np.prod(shape), dtype="u1").reshape(shape)
    image = Image.fromarray(asdlpack(pixels))
    assert (image.mode, image.size) == (mode, size)
    np.testing.assert_array_equal(np.asarray(image), pixels)


def test_pillow_refuses_strided_pixels():
    with pytest.raises(ValueError, match="strides"):
        Image.fromarray(asdlpack(np.zeros((4, 10), "u1")[:, ::2]))
