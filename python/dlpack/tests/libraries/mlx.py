"""mlx.core.from_dlpack, and mlx's arrays."""

import dataclasses
from collections.abc import Callable
from typing import Any

import mlx.core as mx

import dlpack

from ..checks import gives, withholds
from ..memory import Memory, of_buffer
from . import Consumer
from .datatypes import FORMATS

from_dlpack = mx.from_dlpack


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


class FromDLPack(Consumer):
    name = "mlx"
    readonly = "copied"

    def take(self, x: Any) -> Any:
        return from_dlpack(x)


CONSUMERS = [FromDLPack()]


def gives_every_data_type() -> None:
    names = [name for name in FORMATS if name not in ("bool", "float64", "complex128")]
    gives(*(known(matrix().astype(dtype)) for dtype in (mx.bool_, *(getattr(mx, name) for name in names))))


def gives_arrays_of_every_rank() -> None:
    gives(known(mx.array(3.0)), known(mx.ones((1, 2, 1, 3, 2))))


def refuses_to_share_memory_of_the_cpu() -> None:
    try:
        from_dlpack(dlpack.asdlpack(bytearray(8)), copy=False)
    except ValueError as error:
        assert "without a copy" in str(error), error
    else:
        raise AssertionError("from_dlpack(x, copy=False) shared it")


def withholds_what_is_no_array() -> None:
    withholds({"a dtype": lambda: mx.float32}, TypeError)


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives arrays of every rank": gives_arrays_of_every_rank,
    "refuses to share memory of the CPU": refuses_to_share_memory_of_the_cpu,
    "withholds what is no array": withholds_what_is_no_array,
}
