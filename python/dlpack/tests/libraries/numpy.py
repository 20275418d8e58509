"""numpy.from_dlpack, and numpy's arrays."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..._abi import Seen
from ..expectations import Consumer, Rule, dtype
from ..memory import Memory, references_of

from_dlpack: Any = np.from_dlpack
LEGACY = np.lib.NumpyVersion(np.__version__) < "2.1.0"  # it knows no structure that says whether memory may be written


def known(obj: Any, array: Any = None) -> Memory:
    """Describes an array as numpy does: the object itself, or one that shares the object's memory."""
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
    memory.values, memory.converted = array.astype("f4").tobytes(), "the bytes have to be swapped"
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


def see(array: Any) -> Seen:
    return Seen(array.dtype.name, array.shape, array.tobytes(), array.ctypes.data, not array.flags.writeable)


def see_dlpack(array: Any) -> Seen:
    return see(array)._replace(readonly=None) if LEGACY else see(array)


def in_ml_dtypes(memory: Memory) -> bool:
    try:
        import ml_dtypes
    except ImportError:
        return False
    return hasattr(ml_dtypes, memory.dtype)


NO_TYPE = Rule("refused", "numpy has no such type", dtype("bfloat16", "float8*"))
NO_BOOL = Rule("refused", "an older numpy takes no booleans", dtype("bool"), before=(1, 25))
STAYS = "stays read-only"

CONSUMERS = [
    Consumer("numpy", from_dlpack, see_dlpack, STAYS, rules=[NO_TYPE, NO_BOOL]),
    # By the buffer protocol, or as an array of ml_dtypes where those are installed.
    Consumer("numpy.asarray", np.asarray, see, STAYS, "__array__", rules=[Rule("shared", "", in_ml_dtypes), NO_TYPE]),
    Consumer(
        "numpy, __array_interface__",
        lambda x: np.asarray(SimpleNamespace(__array_interface__=x.__array_interface__, keeps=x)),
        see,
        STAYS,
        "__array_interface__",
        rules=[NO_TYPE],
    ),
    Consumer(
        "numpy, __array_struct__",
        lambda x: np.asarray(SimpleNamespace(__array_struct__=x.__array_struct__)),
        see,
        STAYS,
        "__array_struct__",
        rules=[NO_TYPE],
    ),
]
