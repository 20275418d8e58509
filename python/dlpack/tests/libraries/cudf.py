"""cudf.from_dlpack, which copies what is in a legacy capsule, and cudf's columns. Both need a GPU."""

import importlib
from collections.abc import Callable
from typing import Any

import cupy

from ..._abi import Seen, look
from ..memory import Memory, Skip, references_of
from . import Consumer

if not cupy.cuda.is_available():
    raise Skip("no CUDA device")

cudf: Any = importlib.import_module("cudf")
from_dlpack = cudf.from_dlpack


def address(series: Any) -> int:
    number: int = series.__cuda_array_interface__["data"][0]
    return number


def column() -> Any:
    return cudf.Series(range(6), dtype="float32")


def series() -> Memory:
    series = column()
    values = series.to_numpy().tobytes()
    return Memory(series, "float32", (6,), values, address(series), references=references_of(series), gpu=True)


def capsule() -> Memory:
    """A legacy one: it can't say that its memory may be written."""
    series = column()
    capsule = series.to_dlpack()
    data = look(capsule).dl_tensor.data
    return Memory(capsule, "float32", (6,), series.to_numpy().tobytes(), data, readonly=True, gpu=True)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Series on CUDA": series,
    "Series.to_dlpack() on CUDA": capsule,
}


class FromDLPack(Consumer):
    name = "cudf"
    readonly = "copied"
    gpu = True

    def take(self, x: Any) -> Any:
        return from_dlpack(x.__dlpack__())

    def see(self, taken: Any) -> Seen:
        """A Series, or a DataFrame of several columns."""
        first = taken if taken.ndim == 1 else taken.iloc[:, 0]
        return Seen(first.dtype.name, taken.shape, taken.to_numpy().tobytes(), address(first))


CONSUMERS = [FromDLPack()]
