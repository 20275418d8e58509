"""asdlpack(align=...): memory at a multiple of that is shared, other memory is refused, or copied there."""

import ctypes
import weakref
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack, from_pointer, frombuffer
from dlpack.structs import DLManagedTensorVersioned
from support.capi import Managed, Speaks, capsule_name, on_device
from support.layouts import PROTOCOLS
from support.refusals import refused

MAKERS = {**PROTOCOLS, "DLPackObject": lambda array: asdlpack(memoryview(array)), "delegate": asdlpack}


def at(address):
    """Four numbers whose address is that one modulo 64."""
    memory = np.arange(160, dtype="u1")
    start = (address - memory.ctypes.data) % 64
    return memory[start : start + 16].view("f4")


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("align", [4, 32, np.int8(64)])
@pytest.mark.parametrize("address", [0, 16, 36])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_aligned_memory_is_shared_and_other_refused_or_copied(make, address, align, device):
    array = at(address)
    obj = make(array)
    if address % align == 0:
        for copy in False, None:
            x = asdlpack(make(array), align=align, copy=copy, device=device)
            assert (x.pointer, np.from_dlpack(x).ctypes.data) == (array.ctypes.data, array.ctypes.data)
    else:
        multiple = {16: 16, 36: 4}[address]
        says = f"pointer {array.ctypes.data:#x} is a multiple of {multiple}; expected one of {align}, .*pass copy=None"
        with pytest.raises(BufferError, match=says):
            asdlpack(obj, align=align, device=device)
        copied = asdlpack(obj, align=align, copy=None, device=device)
        assert (copied.pointer % 64, np.from_dlpack(copied).tolist()) == (0, array.tolist())
    copied = asdlpack(make(array), align=align, copy=True, device=device)
    assert (copied.pointer % 64, np.from_dlpack(copied).tolist()) == (0, array.tolist())
    assert copied.pointer != array.ctypes.data


@pytest.mark.parametrize("offset", [1, 4])
def test_a_capsule_whose_memory_is_copied_to_be_aligned_is_consumed(offset):
    memory = np.arange(160, dtype="u1")
    start = -memory.ctypes.data % 64 + offset
    managed = Managed(memory.ctypes.data + start, shape=(3,), dtype=(2, 32, 1))
    capsule = managed.capsule()
    x = asdlpack(capsule, align=64, copy=None)
    assert (x.pointer % 64, bytes(x)) == (0, memory[start : start + 12].tobytes())
    assert (capsule_name(capsule), managed.deleted) == (b"used_dltensor_versioned", 1)


@pytest.mark.parametrize("copy", [False, None, True])
def test_memory_without_items_and_null_are_aligned(copy):
    for obj in (at(4)[:0], memoryview(at(4))[:0], from_pointer(0, (0, 3), "float32")):
        assert (asdlpack(obj, align=64, copy=copy).pointer, asdlpack(obj, align=64, copy=copy).size) == (0, 0)


def test_an_alignment_is_a_power_of_two_up_to_that_of_copies():
    expected = "align: expected None or a power of two from 1 to 64, to which copies are aligned, got"
    for wrong in 0, 3, 128, -64, 2**70:
        with pytest.raises(ValueError, match=f"{expected} {wrong}"):
            asdlpack(b"abcd", align=wrong)
    for wrong in "64", 64.0, (64,):
        with pytest.raises(TypeError, match=expected):
            asdlpack(b"abcd", align=wrong)
    assert asdlpack(memoryview(b"abcd")[1:], align=1).size == asdlpack(memoryview(b"abcd")[1:], align=None).size == 3


def test_a_producer_is_asked_at_once_and_its_memory_stays_that_one():
    """One that gives other memory to each consumer would break the promise."""
    memories = [at(0), at(4), at(4)]
    given = []

    def dlpack(**words):
        given.append(memories[len(given)])
        return given[-1].__dlpack__(**words)

    x = asdlpack(Speaks(__dlpack__=dlpack, __dlpack_device__=lambda: (1, 0)), align=64)
    assert [np.from_dlpack(x).ctypes.data for _ in range(2)] == 2 * [memories[0].ctypes.data]
    refuses = Speaks(__dlpack__=lambda **_: 1 / 0, __dlpack_device__=lambda: (1, 0))
    with pytest.raises(ZeroDivisionError):
        asdlpack(refuses, align=64)


def test_refused_objects_are_released_and_shared_ones_kept():
    array = at(4)
    gone = weakref.ref(array)
    refused(partial(asdlpack, memoryview(array), align=64), "alignment", align=64)
    x = asdlpack(asdlpack(array), align=4)
    del array
    assert gone() is not None
    del x
    assert gone() is None


def test_a_structure_is_taken_over_or_deleted():
    memory = at(4)
    managed = Managed(memory.ctypes.data, shape=(4,))
    pointer = ctypes.pointer(managed.struct)
    assert type(managed.struct) is DLManagedTensorVersioned
    refused(lambda: asdlpack(pointer, align=8), "alignment", align=8)
    assert (bool(pointer), managed.deleted) == (False, 1)
    borrowed = ctypes.pointer(managed.struct.dl_tensor)
    assert asdlpack(borrowed, align=4, owner=memory).pointer == memory.ctypes.data
    refused(lambda: asdlpack(borrowed, align=8, owner=memory), "alignment", align=8)
    assert asdlpack(borrowed, align=8, owner=memory, copy=None).pointer % 64 == 0


def test_an_offset_counts():
    """If data is a handle, byte_offset stays in its own field."""
    metal = (8, 0)
    assert asdlpack(on_device(metal, byte_offset=64), align=64).device == metal
    with pytest.raises(BufferError, match=r"pointer 0x1010 is a multiple of 16; expected one of 64"):
        asdlpack(on_device(metal, byte_offset=16), align=64)
    array = at(0)
    assert asdlpack(frombuffer(array, "float32", offset=4), align=4).pointer == array.ctypes.data + 4
    with pytest.raises(BufferError, match="is a multiple of 4"):
        asdlpack(Managed(array.ctypes.data, shape=(2,), byte_offset=4).capsule(), align=64)
