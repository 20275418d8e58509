"""mlx.core.from_dlpack, and mlx's arrays."""

import dataclasses
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..._to import NARROWER, TAKERS
from ..expectations import NO_PADDED, Consumer, Rule, dtype, layout
from ..memory import Memory, of_buffer


def known(array: Any) -> Memory:
    """What the buffer of an array says."""
    dtype = str(array.dtype).removeprefix("mlx.core.")
    # What it exports holds no reference to the Python object. A legacy structure can't say that it may be written.
    return dataclasses.replace(of_buffer(array, dtype), references=None, readonly=None)


def matrix() -> Any:
    return mx.arange(6).reshape(2, 3)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "array": lambda: known(matrix()),
    "array, transposed": lambda: known(matrix().T),
    "array, reversed": lambda: known(matrix()[::-1]),
    "array, bfloat16": lambda: known(matrix().astype(mx.bfloat16)),
}


SMALLER = {name: NARROWER[name] for name in TAKERS["mlx"].narrows(mx)}
RULES = [
    layout("mlx"),
    Rule("refused", "mlx has no such type", dtype("float8*")),
    NO_PADDED,
    Rule("copied", "mlx copies memory of the CPU", lambda memory: memory.size > 0, becomes=SMALLER),
]

CONSUMERS = [Consumer("mlx", mx.from_dlpack, readonly="copied", rules=RULES)]
