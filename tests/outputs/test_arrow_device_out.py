"""A DLPackObject as an Arrow device array: the structures that a consumer written in C sees."""

import ctypes
import itertools
import sys
import weakref
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack
from dlpack._abi import capsule_pointer
from support.arrow_c import ArrowArray, ArrowDeviceArray, ArrowSchema
from support.capi import Memory, Speaks, address, on_device
from support.refusals import refused

CPU, CUDA, CUDA_HOST, METAL, ROCM = 1, 2, 3, 8, 10


def whole_of(pair):
    return ArrowDeviceArray.from_address(capsule_pointer(pair[1], b"arrow_device_array"))


def test_memory_of_the_cpu_is_shared():
    source = np.arange(6, dtype="f8")
    x = asdlpack(source)
    pair = x.__arrow_c_device_array__()
    schema = ArrowSchema.from_address(capsule_pointer(pair[0], b"arrow_schema"))
    whole = whole_of(pair)
    assert (whole.device_type, whole.device_id, whole.sync_event, list(whole.reserved)) == (CPU, -1, None, [0, 0, 0])
    assert (schema.format, whole.array.length, whole.array.null_count) == (b"g", 6, 0)
    assert whole.array.buffers[:2] == [None, source.ctypes.data]
    back = asdlpack(Speaks(__arrow_c_device_array__=x.__arrow_c_device_array__))
    assert (back.protocol, back.pointer, back.readonly) == ("__arrow_c_device_array__", source.ctypes.data, True)


@pytest.mark.parametrize("shape", [(2, 3), (4, 1), (3, 0)])
def test_more_dimensions_are_tensors(shape):
    source = np.zeros(shape, "i2")
    back = asdlpack(Speaks(__arrow_c_device_array__=asdlpack(source).__arrow_c_device_array__))
    assert (back.shape, back.dtype) == (shape, "int16")


@pytest.mark.parametrize(
    ("device", "given"), [((CUDA, 1), (CUDA, 1)), ((CUDA_HOST, 0), (CUDA_HOST, 0)), ((13, 0), (13, 0))]
)
def test_memory_of_cuda_has_its_device_and_no_event(device, given):
    x = on_device(device)
    pair = x.__arrow_c_device_array__()
    whole = whole_of(pair)
    assert ((whole.device_type, whole.device_id), whole.sync_event) == (given, None)
    assert whole.array.buffers[:2] == [None, 4096]
    back = asdlpack(Speaks(__arrow_c_device_array__=x.__arrow_c_device_array__))
    assert (tuple(map(int, back.device)), back.pointer, back.dtype) == (device, 4096, "float32")


@pytest.mark.parametrize("device", [(ROCM, 0), (11, 0), (METAL, 0), (99, 0)])
def test_memory_whose_work_cannot_be_waited_for_is_refused(device):
    x = on_device(device)
    before = sys.getrefcount(x)
    refused(x.__arrow_c_device_array__, "no-arrow-device")
    assert sys.getrefcount(x) == before


REFUSED = {
    "not-row-major": lambda: asdlpack(np.zeros(6)[::2]),
    "no-arrow-type": lambda: on_device((CUDA, 0), (5, 64, 1)),
    "no-dimension": lambda: asdlpack(np.zeros(())),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_memory_that_arrow_cannot_describe_is_refused(reason):
    x = REFUSED[reason]()
    before = sys.getrefcount(x)
    refused(x.__arrow_c_device_array__, reason)
    assert sys.getrefcount(x) == before


def test_unknown_keywords_must_be_none():
    x = asdlpack(bytes(4))
    for call in (
        lambda: x.__arrow_c_device_array__(None),
        lambda: x.__arrow_c_device_array__(requested_schema=None),
        lambda: x.__arrow_c_device_array__(object(), later=None),
        lambda: x.__arrow_c_device_array__(requested_schema=object(), later=None, last=None),
    ):
        assert len(call()) == 2
    for keywords in {"later": False}, {"requested_schema": None, "later": 1}, {"stream": 0}:
        refused(partial(x.__arrow_c_device_array__, **keywords), "unknown-keyword", NotImplementedError)
    with pytest.raises(TypeError):
        x.__arrow_c_device_array__(None, None)


def test_unconsumed_capsules_release_what_they_hold():
    source = Memory(6)
    alive = weakref.ref(source)
    pairs = [asdlpack(memoryview(source).cast("B", (2, 3))).__arrow_c_device_array__() for _ in range(3)]
    del source
    assert alive() is not None
    pairs.pop()
    pairs.clear()
    assert alive() is None


@pytest.mark.parametrize("order", list(itertools.permutations(["array", "child", "capsules"])))
def test_moved_structures_release_in_any_order(order):
    """A consumer may move the array alone, without the fields of the device around it."""
    source = Memory(range(6))
    alive = weakref.ref(source)
    held = {"capsules": asdlpack(memoryview(source).cast("B", (2, 3))).__arrow_c_device_array__()}
    given = whole_of(held["capsules"]).array

    def moved(structure):
        copy = ArrowArray()
        ctypes.memmove(address(copy), address(structure), ctypes.sizeof(copy))
        structure.release = type(structure.release)()
        return copy

    held["array"] = moved(given)
    held["child"] = moved(ArrowArray.from_address(held["array"].children[0]))
    del source, given
    for name in order:
        assert (alive() is None) == (not {"array", "child"} & held.keys())
        structure = held.pop(name)
        if name != "capsules":
            structure.release(address(structure))
    assert alive() is None
