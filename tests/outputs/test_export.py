"""__dlpack__: what is in the structures that it makes. test_dlpack_arguments.py and test_errors.py have the rest."""

import ctypes

import numpy as np
import pytest

from dlpack import asdlpack
from support.capi import Managed, Speaks, address, capsule_name, consume, look
from support.refusals import refused

NUMBERS = np.arange(6, dtype="f4").reshape(2, 3)
DATA = ctypes.create_string_buffer(4)


@pytest.fixture(params=["buffer", "__dlpack__", "__array_interface__", "dltensor_versioned"])
def x(request):
    """The same memory, come in by one protocol after the other."""
    sources = {
        "buffer": memoryview(NUMBERS),
        "__dlpack__": NUMBERS,
        "__array_interface__": Speaks(__array_interface__=NUMBERS.__array_interface__),
        "dltensor_versioned": NUMBERS.__dlpack__(max_version=(1, 0)),
    }
    return asdlpack(sources[request.param])


def tensor_facts(tensor):
    return (
        tensor.data,
        (tensor.device.device_type, tensor.device.device_id),
        (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        tensor.shape[: tensor.ndim],
        tensor.strides[: tensor.ndim],
        tensor.byte_offset,
    )


FACTS = (NUMBERS.ctypes.data, (1, 0), (2, 32, 1), [2, 3], [3, 1], 0)


HUGE = min(2**31, 2 ** (8 * ctypes.sizeof(ctypes.c_long) - 1) - 1)  # numpy takes C longs, of 4 bytes on Windows


@pytest.mark.parametrize("max_version", [None, (0, 8), (0, 0)])
def test_without_version_1_the_structure_is_the_legacy_one(x, max_version):
    capsule = x.__dlpack__(None, max_version=max_version)
    assert capsule_name(capsule) == b"dltensor"
    assert tensor_facts(look(capsule).dl_tensor) == FACTS


@pytest.mark.parametrize("max_version", [(1, 0), (1, 1), (1, 3), (1, 99), (2, 0), (HUGE, 0)])
def test_from_version_1_on_the_structure_is_the_versioned_one(x, max_version):
    capsule = x.__dlpack__(max_version=max_version)
    assert capsule_name(capsule) == b"dltensor_versioned"
    managed = look(capsule)
    assert (managed.version.major, managed.flags) == (1, 0)
    assert tensor_facts(managed.dl_tensor) == FACTS


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
def test_memory_of_no_items_leaves_as_null_with_strides(shape, max_version):
    tensor = look(asdlpack(memoryview(np.zeros(shape))).__dlpack__(max_version=max_version)).dl_tensor
    assert not tensor.data
    assert tensor.shape[: tensor.ndim] == list(shape)
    assert tensor.strides[tensor.ndim - 1] == 1


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("ndim", [0, 1, 4, 5, 63])
def test_strides_are_given_whatever_the_number_of_dimensions(ndim, max_version):
    array = np.arange(1 << min(ndim, 6), dtype="i1").reshape((2,) * min(ndim, 6) + (1,) * max(ndim - 6, 0))
    tensor = look(asdlpack(memoryview(array)).__dlpack__(max_version=max_version)).dl_tensor
    assert tensor.ndim == ndim
    assert tensor.shape[:ndim] == list(array.shape)
    assert tensor.strides[:ndim] == list(array.strides)
    assert tensor.byte_offset == 0


def test_every_export_has_a_structure_of_its_own():
    x = asdlpack(bytearray(4))
    capsules = [x.__dlpack__(max_version=version) for version in (None, None, (1, 0), (1, 0))]
    managed = [consume(capsule) for capsule in capsules]
    assert len({address(one) for one in managed}) == 4
    assert len({one.dl_tensor.data for one in managed}) == 1
    managed[0].dl_tensor.shape[0] = 3  # the consumer owns what it got
    assert [one.dl_tensor.shape[0] for one in managed] == [3, 4, 4, 4]
    for one in managed:
        one.deleter(address(one))


# Arguments.


@pytest.mark.parametrize(
    ("device", "default"),
    [((8, 0), [None, -1]), ((10, 0), [None, -1, 0]), ((11, 0), [None, -1, 0]), ((14, 0), [None, -1])],
)
def test_memory_of_a_capsule_off_cuda_is_complete_in_the_default_order(device, default):
    x = asdlpack(Managed(address(DATA), shape=(4,), dtype=(1, 8, 1), device=device).capsule())
    for stream in default:
        assert look(x.__dlpack__(stream=stream)).dl_tensor.data == address(DATA)
    refused(lambda: x.__dlpack__(stream=1), *(("stream", ValueError) if 0 in default else ("stream-order",)), stream=1)
    refused(lambda: x.__dlpack__(stream=4096), "stream-order", hint="stream=-1", stream=4096)


def test_a_copied_export_does_not_change_the_object():
    data = bytearray(b"abc")
    x = asdlpack(data)
    pointer = x.pointer
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 0
    assert (x.pointer, data, x.obj) == (pointer, b"abc", data)
    assert np.from_dlpack(x).ctypes.data == pointer


def test_the_methods_are_found_on_the_type():
    """nanobind and others look there."""
    x = asdlpack(bytearray(4))
    assert capsule_name(type(x).__dlpack__(x)) == b"dltensor"
    assert type(x).__dlpack_device__(x) == (1, 0)
