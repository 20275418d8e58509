"""numpy.from_dlpack, and numpy's arrays."""

from types import SimpleNamespace
from typing import Any

import numpy as np

import dlpack

from ..._abi import Seen
from ..checks import gives, withholds
from ..memory import Memory, Skip, references_of
from . import Consumer
from .datatypes import FORMATS

from_dlpack: Any = np.from_dlpack
LEGACY = np.lib.NumpyVersion(np.__version__) < "2.1.0"  # it knows no structure that says whether memory may be written


def known(obj: Any, array: Any = None) -> Memory:
    """What numpy says of an array: the object itself, or one that shares the object's memory."""
    array = obj if array is None else array
    return Memory(
        obj,
        array.dtype.name,
        array.shape,
        array.tobytes(),
        array.ctypes.data,
        tuple(stride // array.itemsize for stride in array.strides),
        None if LEGACY else not array.flags.writeable,
        references=references_of(obj),
    )


def aligned(values: Any) -> Any:
    """A copy at a multiple of 64 bytes: jax copies other memory."""
    values = np.asarray(values)
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def matrix() -> Any:
    return aligned(np.arange(12, dtype="f4").reshape(3, 4))


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def scalar() -> Memory:
    number: Any = np.float32(7)
    return known(number, np.asarray(memoryview(number)))


def big_endian() -> Memory:
    array = np.arange(6, dtype=">f4")
    memory = known(array)
    memory.values = array.astype("f4").tobytes()
    memory.copy = None
    return memory


def array_struct(array: Any) -> Memory:
    """The protocol from before buffers: the capsule holds the array, and numpy makes it anew each time."""
    capsule = array.__array_struct__
    memory = known(SimpleNamespace(__array_struct__=capsule), array)
    memory.references = references_of(capsule)
    return memory


PROVIDERS = {
    "ndarray": lambda: known(matrix()),
    "ndarray, read-only": lambda: known(read_only(matrix())),
    "ndarray, transposed": lambda: known(matrix().T),
    "ndarray, reversed": lambda: known(matrix()[::-1, ::-2]),
    "ndarray, broadcast": lambda: known(np.broadcast_to(aligned(np.arange(3, dtype="f4")), (4, 3))),
    "ndarray, big-endian, copy=None": big_endian,
    "memoryview of an ndarray": lambda: known(memoryview(array := matrix()), array),
    "memmap": lambda: known(np.memmap(__file__, np.uint8, "r", shape=(100,))),
    "masked array's data": lambda: known(np.ma.array(np.arange(3), mask=[False, True, False]).data),
    "scalar": scalar,
    "__array_struct__": lambda: array_struct(matrix().T),
}


class FromDLPack(Consumer):
    name = "numpy"
    readonly = "stays read-only"

    def take(self, x: Any) -> Any:
        return from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        readonly = None if LEGACY else not taken.flags.writeable
        return Seen(taken.dtype.name, taken.shape, taken.tobytes(), taken.ctypes.data, readonly)


class AsArray(FromDLPack):
    """By the buffer protocol, or as an array of ml_dtypes where those are installed."""

    name = "numpy.asarray"
    protocol = "__array__"

    def take(self, x: Any) -> Any:
        return np.asarray(x)

    def see(self, taken: Any) -> Seen:
        return super().see(taken)._replace(readonly=not taken.flags.writeable)


class ByArrayInterface(AsArray):
    protocol = "__array_interface__"
    name = "numpy, __array_interface__"

    def take(self, x: Any) -> Any:
        return np.asarray(SimpleNamespace(__array_interface__=x.__array_interface__, keeps=x))


class ByArrayStruct(AsArray):
    protocol = "__array_struct__"
    name = "numpy, __array_struct__"

    def take(self, x: Any) -> Any:
        return np.asarray(SimpleNamespace(__array_struct__=x.__array_struct__))


CONSUMERS: list[Consumer] = [FromDLPack(), AsArray(), ByArrayInterface(), ByArrayStruct()]


def gives_every_data_type() -> None:
    gives(*(known(np.arange(6).reshape(2, 3).astype(dtype)) for dtype in FORMATS))


def gives_arrays_of_every_layout() -> None:
    gives(known(np.array(3.0)), known(np.zeros((3, 0))), known(np.ones((1,) * 30 + (2, 3))))
    gives(known(np.matrix([[1, 2], [3, 4]])), known(np.arange(20_000).reshape(100, 200).T))
    gives(array_struct(read_only(matrix())))


def converts_every_data_type_of_another_byte_order() -> None:
    for dtype in FORMATS:
        values = np.arange(6).astype(dtype)
        if values.itemsize > 1:
            memory = known(values.astype(values.dtype.newbyteorder()))
            memory.values, memory.copy = values.tobytes(), None
            gives(memory)


def withholds_what_has_no_data_type_in_dlpack() -> None:
    makers = {
        "text": lambda: np.array(["a"]),
        "objects": lambda: np.array([None, 1]),
        "dates": lambda: np.array(["2020-01-01"], "M8[D]"),
        "records": lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]),
        "other byte order": lambda: np.zeros(2, ">f4"),
        "strides that are no multiple of the item": lambda: np.zeros(3, [("a", "f4"), ("b", "u1")])["a"],
    }
    if np.dtype(np.longdouble).itemsize > 8:  # on Windows it is a float64
        makers["80-bit floats"] = lambda: np.zeros(2, np.longdouble)
    withholds(makers)


def writes_into_a_bytearray() -> None:
    if LEGACY:
        raise Skip("numpy before 2.1 takes all memory as read-only")
    source = bytearray(8)
    from_dlpack(dlpack.asdlpack(source))[3] = 7
    assert source == bytes([0, 0, 0, 7, 0, 0, 0, 0]), source


def cannot_write_into_bytes() -> None:
    assert not from_dlpack(dlpack.asdlpack(b"bytes")).flags.writeable


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives arrays of every layout": gives_arrays_of_every_layout,
    "converts every data type of another byte order": converts_every_data_type_of_another_byte_order,
    "withholds what has no data type in DLPack": withholds_what_has_no_data_type_in_dlpack,
    "writes into a bytearray": writes_into_a_bytearray,
    "cannot write into bytes": cannot_write_into_bytes,
}
