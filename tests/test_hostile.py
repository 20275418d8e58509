"""Objects that come back to themselves, chains without end, and garbage that is cleared in a bad order."""

import ctypes
import gc
import mmap
import weakref

import numpy as np
import pytest
from alone import alone
from capi import Managed, address

from dlpack import asdlpack, from_pointer, frombuffer
from dlpack.structs import DELETER, DLManagedTensor


class Circle:
    """A producer that refuses, and says that its memory is that of the DLPackObject made of it, or of another such."""

    def __dlpack__(self, **arguments):
        raise BufferError("not today")

    def points_to(self, other):
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (1,), "data": asdlpack(other)}


@alone
@pytest.mark.parametrize("count", [1, 3])
def test_a_circle_of_producers_is_an_error(count):
    circle = [Circle() for _ in range(count)]
    for i, producer in enumerate(circle):
        producer.points_to(circle[i - 1])
    for take in memoryview, bytes, np.from_dlpack, lambda x: x.shape:
        with pytest.raises(RecursionError, match="a producer's memory is another's, and so on 50 times"):
            take(asdlpack(circle[0]))
    with pytest.raises(RecursionError, match="expected memory at the end"):
        asdlpack(circle[0], copy=True)


CHAINS = {
    "frombuffer": lambda x: frombuffer(x, "uint8"),
    "memoryview": lambda x: asdlpack(memoryview(x)),
    "capsule": lambda x: asdlpack(x.__dlpack__(max_version=(1, 0))),
}


@alone
@pytest.mark.parametrize("longer", list(CHAINS))
def test_a_chain_of_any_length_is_given_back(longer):
    source = bytearray(8)
    x = asdlpack(source)
    for _ in range(100_000):
        x = CHAINS[longer](x)
    del x
    source.append(0)


class Garbage:
    """Whose deleter, in Python, reads a view that may be in the same garbage."""

    def __init__(self):
        self.seen = []
        self.memory = (ctypes.c_uint8 * 1)()
        self.producer = Managed(address(self.memory), name=b"dltensor", shape=(1,), dtype=(1, 8, 1))
        self.producer.struct.deleter = self.deleter = DELETER(self.delete)

    def delete(self, managed):
        view = ctypes.cast(self.producer.struct.manager_ctx, ctypes.py_object).value
        self.seen.append(bytes(view[5_000_000:5_000_002]))

    def cycle(self, x):
        reader = asdlpack(ctypes.pointer(self.producer.struct))
        view = memoryview(x)
        self.producer.struct.manager_ctx = id(view)
        cycle = []
        cycle.append((cycle, x, reader, view))  # a tuple is never cleared


@alone
@pytest.mark.parametrize("delegate", [False, True])
def test_a_view_in_garbage_reads_the_memory_of_the_object_that_its_own_was_made_of(delegate):
    garbage = Garbage()
    gc.disable()
    items = mmap.mmap(-1, 10_000_000)  # gone when it is freed, which a heap's memory need not be
    items[5_000_000:5_000_002] = b"ab"
    source = asdlpack(np.frombuffer(items, "u1") if delegate else items)
    garbage.cycle(frombuffer(source, "uint8"))
    del items, source
    gc.collect()
    assert garbage.seen == [b"ab"]


@alone
def test_the_structure_and_its_deleter_outlive_the_tensor_in_garbage():
    """ctypes frees what it clears, and it may be cleared before the object that took the structure over."""
    deleted = []
    memory, shape = (ctypes.c_uint8 * 1)(), (ctypes.c_int64 * 1)(1)

    def make():
        deleter = DELETER(lambda managed: deleted.append(managed))
        tensor = DLManagedTensor(deleter=deleter)
        tensor.dl_tensor.data, tensor.dl_tensor.shape, tensor.dl_tensor.ndim = address(memory), shape, 1
        tensor.dl_tensor.device, tensor.dl_tensor.dtype = (1, 0), (1, 8, 1)
        cycle = [asdlpack(ctypes.pointer(tensor))]
        cycle.append(cycle)
        return weakref.ref(tensor), weakref.ref(deleter)

    gc.disable()
    alive = make()
    gc.collect()
    assert len(deleted) == 1
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


def test_a_device_id_of_any_length_is_quoted_in_the_error():
    with pytest.raises(ValueError, match=r"device 'cuda:1{94}.*: expected the id behind the colon"):
        from_pointer(4096, 1, "int8", device="cuda:" + 5000 * "1")


def test_what_follows_a_typestr_is_quoted_in_the_error():
    with pytest.raises(ValueError, match='dtype "<f4 float32": malformed; expected nothing behind the bytes'):
        frombuffer(bytes(8), "<f4 float32")
