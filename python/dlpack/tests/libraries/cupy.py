"""cupy.from_dlpack, and cupy's arrays. Both need a GPU."""

from collections.abc import Callable
from typing import Any

import cupy

from ..._abi import Seen
from ..expectations import WOULD_WRITE, Consumer, Rule
from ..findings import Skip
from ..memory import Memory, references_of

if not cupy.cuda.is_available():
    raise Skip("no CUDA device")


def known(array: Any) -> Memory:
    """Describes an array as cupy does."""
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


def see(array: Any) -> Seen:
    return Seen(array.dtype.name, array.shape, array.get().tobytes(), array.data.ptr)


RULES = [Rule("refused", "cupy takes what is on the GPU", lambda memory: not memory.gpu)]

CONSUMERS = [Consumer("cupy", cupy.from_dlpack, see, WOULD_WRITE, gpu=True, rules=RULES)]
