"""Functions that the libraries' checks share."""

from collections.abc import Callable, Mapping
from typing import Any

import dlpack
from dlpack._abi import is_capsule
from dlpack.tests.exchange import hand_over
from dlpack.tests.expectations import Rule
from dlpack.tests.findings import Wrong, expect, one_line
from dlpack.tests.libraries.standard import VERSIONED
from dlpack.tests.memory import Memory


def gives(*memories: Memory) -> None:
    """Expects that a C program gets each memory, zero-copy or as a copy, and gives it back."""
    for memory in memories:
        serves_once = is_capsule(memory.obj)
        for copy in (memory.copy,) if serves_once else (True, memory.copy):
            handed = hand_over(VERSIONED, memory, copy, Rule("shared", ""))
            expected = "shared" if copy is False or memory.size == 0 else "copied"
            expect(
                handed.outcome == expected,
                f"{memory.dtype}{list(memory.shape)}, copy={copy}, is {handed.outcome}: {handed.text}",
            )


def withholds(objects: Mapping[str, Callable[[], Any]], error: type[Exception] = BufferError) -> None:
    """Expects that each object is refused with this error. It has no memory that can be shared, and is made anew."""
    for name, make in objects.items():
        try:
            dlpack.asdlpack(make()).__dlpack__()
        except error:
            continue
        except Exception as other:
            raise Wrong(f"{name}: expected {error.__name__}, got {one_line(other)}") from None
        raise Wrong(f"{name}: exported, expected {error.__name__}")
