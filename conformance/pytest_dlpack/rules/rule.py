"""A rule: a sentence on producers or consumers, its source, and a check that a library keeps it."""

import functools
import mmap
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..findings import Wrong

HEADER = "dlpack.h 1.3"
PYTHON = "Python specification of DLPack"
STREAMS = "array API 2021.12, __dlpack__, stream"
KEYWORDS = "array API 2023.12, __dlpack__"
FROM_DLPACK = "array API 2023.12, from_dlpack"
PRACTICE = "no text says it, but programs rely on it"

Severity = Literal["must", "should"]  # should: the text recommends it, can be read in two ways, or is silent
CPU = (1, 0)
CODES = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}  # by numpy's kind
# Tried in this order: a library may hold some data types alone, vectors alone, or scalars alone.
KINDS = [(kind, shape) for shape in ((2, 3), (6,), ()) for kind in ("float32", "float64", "int32", "int64", "uint8")]
DATA_TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
Check = Callable[[Any], None]


@dataclass(frozen=True)
class Rule:
    id: str  # begins with "producer-" or "consumer-"
    gist: str
    source: str
    severity: Severity
    check: Check  # raises Wrong if the rule is broken, and Skip if it can't be tried

    @property
    def side(self) -> str:
        return self.id.partition("-")[0]


found: list[Rule] = []


def rule(side: str, source: str, *, should: bool = False) -> Callable[[Check], None]:
    """Makes a rule of a function: its name is the id, and its docstring the gist."""

    def add(check: Check) -> None:
        name = f"{side}-{re.sub(r'[^a-z0-9]+', '-', check.__name__.lower()).strip('-')}"
        found.append(Rule(name, check.__doc__ or "", source, "should" if should else "must", check))

    return add


producer: Callable[..., Callable[[Check], None]] = functools.partial(rule, "producer")
consumer: Callable[..., Callable[[Check], None]] = functools.partial(rule, "consumer")


def load(spec: str) -> Callable[[Any], Any]:
    """Imports the function MODULE:NAME. If its module or the function forks, the child ends when it returns."""
    module, _, name = spec.partition(":")
    process = os.getpid()

    def in_parent(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        finally:
            if os.getpid() != process:
                os._exit(0)

    library = in_parent(import_module, module)
    return functools.partial(in_parent, functools.reduce(getattr, name.split("."), library))


def program(module: str, call: str) -> list[str]:
    """Returns the command of a process that makes this call. It finds the modules of this process."""
    path = [each for each in sys.path if isinstance(each, str)]  # imports overlook a Path
    code = f"import sys; sys.path[:] = {path!r}; from {module} import {call.partition('(')[0]}; {call}"
    return [sys.executable, "-c", code]


def dtype_of(array: Any) -> tuple[int, int, int]:
    return CODES[array.dtype.kind], 8 * array.dtype.itemsize, 1


def strides_of(array: Any) -> list[int]:
    """In items."""
    return [stride // array.itemsize for stride in array.strides]


def device_of(obj: Any) -> Any:
    """Returns the answer of __dlpack_device__, with the numbers of Enum members: the standard's type is an Enum."""
    told = obj.__dlpack_device__()
    return tuple(getattr(each, "value", each) for each in told) if isinstance(told, tuple) else told


def numbers(dtype: str, shape: tuple[int, ...] = (2, 3)) -> Any:
    """A row-major array at a multiple of 64 bytes."""
    size = int(np.prod(shape))
    room = np.zeros(size * np.dtype(dtype).itemsize + 64, "u1")
    start = -room.ctypes.data % 64
    array = room[start : start + size * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    array[...] = (np.arange(1, size + 1) % (2 if dtype == "bool" else 101)).reshape(shape)
    return array


def layouts(dtype: str) -> dict[str, Any]:
    """Arrays of each memory layout."""
    cube = numbers(dtype, (2, 3, 4))
    return {
        "a vector": cube.reshape(-1),
        "0-d": cube[1, 2, 3, ...],
        "a cube": cube,
        "a part": cube.reshape(-1)[5:],
        "5-d with lengths of 1": cube.reshape(1, 2, 3, 1, 4),
        "every second": cube[..., ::2],
        "transposed": cube.T,
        "one column": cube[0, :, :1],
        "reversed": cube[::-1, :, ::-1],
        "broadcast": np.broadcast_to(cube[0], (2, 3, 4)),
    }


def empty(dtype: str) -> dict[str, Any]:
    return {"(0,)": numbers(dtype, (0,)), "(3, 0)": numbers(dtype, (3, 0))}


def soon(condition: Callable[[], bool]) -> bool:
    """Waits up to a second for the condition: a library may free on another thread."""
    last = time.monotonic() + 1
    while not condition() and time.monotonic() < last:
        time.sleep(0.001)
    return condition()


def refused(what: str, call: Callable[[], Any]) -> Exception:
    """Returns the error that a call must raise."""
    try:
        call()
    except Exception as error:
        return error.with_traceback(None)
    raise Wrong(f"{what} is accepted, expected an error")


def resident() -> int:
    """Returns how many bytes of memory this process uses."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
