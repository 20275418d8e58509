"""cudf.from_dlpack, which copies what is in a legacy capsule, and cudf's columns. Both need a GPU."""

import importlib
from collections.abc import Callable
from typing import Any

import cupy

from dlpack._abi import Seen, look
from dlpack.tests.expectations import NO_PADDED, Consumer, Rule, dtype
from dlpack.tests.findings import Skip
from dlpack.tests.memory import Memory, references_of

if not cupy.cuda.is_available():
    raise Skip("no CUDA device")

cudf: Any = importlib.import_module("cudf")


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


def column_major(memory: Memory) -> bool:
    """True if it is a matrix whose columns have no gaps."""
    return len(memory.shape) == 2 and (memory.size == 0 or (memory.strides[0] == 1 and memory.strides[1] > 1))


def see(taken: Any) -> Seen:
    """Describes a Series, or a DataFrame of several columns, as cudf does."""
    first = taken if taken.ndim == 1 else taken.iloc[:, 0]
    return Seen(first.dtype.name, taken.shape, taken.to_numpy().tobytes(), address(first))


NO_TYPE = dtype("bool", "float16", "complex*", "bfloat16", "float8*")
RULES = [
    Rule("refused", "a Series has no gaps", lambda m: len(m.shape) == 1 and not m.packed),
    Rule("refused", "a DataFrame is column-major", lambda m: len(m.shape) != 1 and not column_major(m)),
    Rule("refused", "cudf has no such type", NO_TYPE),
    NO_PADDED,
    Rule("skipped", "a DataFrame without columns has no rows either", lambda m: m.shape[1:] == (0,)),
    Rule("copied", "cudf copies", lambda m: m.size > 0),
]

CONSUMERS = [Consumer("cudf", lambda x: cudf.from_dlpack(x.__dlpack__()), see, "copied", gpu=True, rules=RULES)]
