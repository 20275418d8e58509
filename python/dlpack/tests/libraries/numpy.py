"""numpy.from_dlpack, and numpy's arrays."""

from typing import Any

import numpy as np

import dlpack

from ..capsules import Seen
from ..memory import Memory, references_of
from . import Consumer


def aligned(values: Any) -> Any:
    """A copy at a multiple of 64 bytes: jax copies other memory."""
    values = np.asarray(values)
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def known(obj: Any, array: Any = None) -> Memory:
    """What numpy says of an array, which is the object itself where none is given."""
    array = obj if array is None else array
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Memory(
        obj,
        array.dtype.name,
        array.shape,
        array.tobytes(),
        array.ctypes.data,
        strides,
        not array.flags.writeable,
        references=references_of(obj),
    )


def matrix(dtype: str = "f4") -> Any:
    return aligned(np.arange(12, dtype=dtype).reshape(3, 4))


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


class FromDLPack(Consumer):
    name = "numpy"
    readonly = "stays read-only"

    def take(self, x: Any) -> Any:
        return np.from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        return Seen(taken.dtype.name, taken.shape, taken.tobytes(), taken.ctypes.data, not taken.flags.writeable)


CONSUMERS = [FromDLPack()]

PROVIDERS = {
    "ndarray": lambda: known(matrix()),
    "ndarray, transposed": lambda: known(matrix().T),
}


def writes_into_a_bytearray() -> None:
    source = bytearray(8)
    np.from_dlpack(dlpack.asdlpack(source))[3] = 7
    assert source == bytes([0, 0, 0, 7, 0, 0, 0, 0])


CHECKS = {"writes into a bytearray": writes_into_a_bytearray}
