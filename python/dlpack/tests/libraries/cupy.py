"""cupy.from_dlpack, and cupy's arrays. Both need a GPU."""

from collections.abc import Callable
from typing import Any

import cupy

from ..._abi import Seen
from ..memory import Memory, Skip, references_of
from . import Consumer

from_dlpack: Any = cupy.from_dlpack

if not cupy.cuda.is_available():
    raise Skip("no CUDA device")


def known(array: Any) -> Memory:
    """What cupy says of an array."""
    return Memory(
        array,
        array.dtype.name,
        array.shape,
        array.get().tobytes(),
        array.data.ptr,
        tuple(stride // array.itemsize for stride in array.strides),
        references=references_of(array),
        gpu=True,
    )


def matrix() -> Any:
    return cupy.arange(6, dtype="f4").reshape(2, 3)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "ndarray on CUDA": lambda: known(matrix()),
    "ndarray, transposed, on CUDA": lambda: known(matrix().T),
    "ndarray, reversed, on CUDA": lambda: known(matrix()[::-1]),
}


class FromDLPack(Consumer):
    name = "cupy"
    readonly = "not known to it: it would write"
    gpu = True

    def take(self, x: Any) -> Any:
        return from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        return Seen(taken.dtype.name, taken.shape, taken.get().tobytes(), taken.data.ptr)


CONSUMERS = [FromDLPack()]
