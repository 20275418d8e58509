"""What every library is tested for: it takes our objects and gives its own, without a copy and without a leak."""

import array
import ctypes
import functools
import gc
import mmap
import weakref
from collections.abc import Callable
from typing import ClassVar

import capi
import ml_dtypes  # noqa: F401  numpy then knows its types by name
import numpy as np
import pytest

import dlpack

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEXES = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEXES]
FLOAT8 = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"]
FLOAT8 += ["float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]  # in the order of DLPack's codes, from 7 on
SUBBYTE = ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"]  # padded to a byte each


def aligned(values):
    """A copy at a multiple of 64 bytes: jax copies other memory."""
    values = np.asarray(values)
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}


def read(obj):
    """The values of a library's object as its own capsule tells them."""
    capsule = obj.__dlpack__()
    tensor = capi.look(capsule).dl_tensor
    code, bits = tensor.dtype.code, tensor.dtype.bits
    name = "bool" if code == 6 else FLOAT8[code - 7] if code > 6 else f"{CODES[code]}{bits}"
    interface = {
        "version": 3,
        "typestr": f"|V{bits // 8}",
        "shape": tuple(tensor.shape[: tensor.ndim]),
        "strides": tuple(stride * bits // 8 for stride in tensor.strides[: tensor.ndim]) if tensor.strides else None,
        "data": ((tensor.data or 0) + tensor.byte_offset, True),
    }
    return np.asarray(capi.Speaks(__array_interface__=interface)).copy().view(name)


def address(obj):
    """The address in the capsule of a library's object."""
    capsule = obj.__dlpack__()
    tensor = capi.look(capsule).dl_tensor
    return tensor.data + tensor.byte_offset


class Memory:
    """One of our objects, its values, its address, and a weak reference to what must live as long as its consumers."""

    def __init__(self, source, values=None, copy=False, owner=None):
        values = np.asarray(source) if values is None else values
        self.values = values.copy()
        self.object = dlpack.asdlpack(source, copy=copy)
        self.address = self.object.pointer if copy else values.ctypes.data
        self.owner = weakref.ref(self.object if copy or owner is None else owner)


def mapped_file():
    memory = mmap.mmap(-1, 4096)
    memory[:5] = b"mmap!"
    return Memory(memory, np.frombuffer(memory, np.uint8), owner=memory)


def bytes_of(kind):
    source = kind(range(200))
    return Memory(source, np.frombuffer(source, np.uint8))


def array_array():
    source = array.array("d", range(20))
    return Memory(source, np.frombuffer(source), owner=source)


def ctypes_array():
    source = (ctypes.c_int32 * 3 * 2)()
    values = np.frombuffer(source, np.int32).reshape(2, 3)
    values[...] = [[1, 2, 3], [4, 5, 6]]
    return Memory(source, values, owner=source)


def view_of(values):
    """Speaks the buffer protocol alone: numpy's __dlpack__ has no part in it."""
    return Memory(memoryview(values), values, owner=values)


def copy_of_view(values):
    return Memory(memoryview(values), values, copy=True)


def ndarray(values):
    return Memory(values, owner=values)


def read_only(values):
    values.flags.writeable = False
    return Memory(values, owner=values)


MATRIX = np.arange(12, dtype="f4").reshape(3, 4)

MEMORIES: dict[str, Callable[[], Memory]] = {
    "bytes": lambda: bytes_of(bytes),
    "bytearray": lambda: bytes_of(bytearray),
    "array.array": array_array,
    "mmap": mapped_file,
    "ctypes array": ctypes_array,
    "ndarray": lambda: ndarray(aligned(MATRIX)),
    "read-only ndarray": lambda: read_only(aligned(MATRIX)),
    "vector": lambda: view_of(aligned(np.arange(12, dtype="f4"))),
    "read-only vector": lambda: read_only(aligned(np.arange(12, dtype="f4"))),
    "vector 8 bytes off alignment": lambda: view_of(aligned(np.arange(13, dtype="f8"))[1:]),
    "0-d": lambda: view_of(aligned(np.array(3, "f4"))),
    "empty": lambda: view_of(np.zeros(0, "f4")),
    "empty 2-d": lambda: view_of(np.zeros((3, 0), "f4")),
    "5-d": lambda: view_of(aligned(np.arange(32, dtype="i4").reshape(2, 2, 2, 2, 2))),
    "every second": lambda: view_of(aligned(np.arange(12, dtype="f4"))[::2]),
    "columns": lambda: view_of(aligned(MATRIX)[:, :2]),
    "one column": lambda: view_of(aligned(MATRIX)[:, :1]),
    "one row of a reversed": lambda: view_of(aligned(MATRIX)[::-1][:1]),
    "reversed": lambda: view_of(aligned(np.arange(12, dtype="f4"))[::-1]),
    "transposed": lambda: view_of(aligned(MATRIX).T),
    "broadcast": lambda: view_of(np.broadcast_to(aligned(np.arange(3, dtype="f4")), (4, 3))),
    "copy of bytes": lambda: Memory(bytes(range(200)), np.arange(200, dtype="u1"), copy=True),
    "copy of every second": lambda: copy_of_view(MATRIX.ravel()[::2]),
    "copy of a transposed ndarray": lambda: Memory(MATRIX.T, copy=True),
    "copy of big-endian": lambda: Memory(MATRIX.astype(">f4"), MATRIX, copy=True),
}


def memory_of(dtype):
    values = aligned(np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype))
    return Memory(values, owner=values) if values.dtype.kind == "V" or dtype in FLOAT8 else view_of(values)


def of_each(names, make):
    """One entry of a table for each of the names: a function that calls make with it."""
    return {name: functools.partial(make, name) for name in names}


MEMORIES |= of_each(["bfloat16", *DTYPES, *FLOAT8, *SUBBYTE], memory_of)

NOT_COMPACT = ("every second", "columns", "one column", "reversed", "broadcast")


def refusals(*groups):
    """(names, exception) pairs as one table."""
    return {name: error for names, error in groups for name in names}


def weak_reference(obj):
    """A weak reference, or one that is dead from the start where an object can't have any."""
    try:
        return weakref.ref(obj)
    except TypeError:
        return lambda: None


class Exchange:
    """A library. What it refuses, and what it copies, is its own doing: known, so that a change is seen."""

    refused: ClassVar[dict] = {}  # name in MEMORIES: the exception of its from_dlpack
    things: ClassVar[dict] = {}  # name: a function that makes an object of the library
    withheld: ClassVar[dict] = {}  # the same, of objects that have no shareable memory

    def take(self, obj): ...

    def address(self, taken): ...

    def values(self, taken): ...

    def copies(self, name, address):
        """Whether it takes a copy of the memory; name is None for its own."""
        return False

    def received(self, values):
        """What becomes of our values when it takes them."""
        return values

    def _check(self, taken, values):
        found = self.values(taken)
        assert (found.dtype, found.shape) == (values.dtype, values.shape)
        assert found.tobytes() == values.tobytes()

    @pytest.mark.parametrize("name", MEMORIES)
    def test_takes_our_memory_without_a_copy_and_gives_it_back(self, name):
        memory = MEMORIES[name]()
        if name in self.refused:
            with pytest.raises(self.refused[name]) as refusal:
                self.take(memory.object)
            del refusal
        else:
            taken = self.take(memory.object)
            if memory.values.size > 0:
                assert (self.address(taken) == memory.address) != self.copies(name, memory.address)
            del memory.object
            gc.collect()
            self._check(taken, self.received(memory.values))
            del taken
        memory.object = None
        gc.collect()
        assert memory.owner() is None

    def test_gives_its_memory_without_a_copy(self, thing):
        obj = self.things[thing]()
        values = self.values(obj).copy()
        x = dlpack.asdlpack(obj)
        assert x.obj is obj
        assert x.device == (dlpack.DLDeviceType.kDLCPU, 0)
        assert (x.dtype, x.shape) == (values.dtype.name, values.shape)
        if values.size > 0:
            assert x.pointer == self.address(obj)
        memory = capi.array_at(x, values.dtype)
        assert memory.tobytes() == values.tobytes()
        owner = weak_reference(obj)
        del obj, x
        gc.collect()
        assert memory.tobytes() == values.tobytes()
        del memory
        gc.collect()
        assert owner() is None

    def test_gives_its_memory_to_numpy_and_to_itself(self, thing):
        obj = self.things[thing]()
        values = self.values(obj).copy()
        x = dlpack.asdlpack(obj)
        address = x.pointer
        again = self.take(x)
        self._check(again, values)
        if values.size > 0:
            assert (self.address(again) == address) != self.copies(None, address)
        del again
        if values.dtype.kind in "biufc" and values.dtype.name in DTYPES:
            taken = np.from_dlpack(x)
            del obj, x
            gc.collect()
            assert values.size == 0 or taken.ctypes.data == address
            assert (taken.dtype, taken.shape) == (values.dtype, values.shape)
            assert taken.tobytes() == values.tobytes()

    def test_says_why_it_withholds(self, withheld):
        make, error = self.withheld[withheld]
        obj = make()
        with pytest.raises(error):
            dlpack.asdlpack(obj).__dlpack__()
        owner = weak_reference(obj)
        del obj
        gc.collect()
        assert owner() is None
