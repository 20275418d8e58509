"""What the libraries' checks have in common."""

from collections.abc import Callable, Mapping
from typing import Any

import dlpack
from dlpack._abi import is_capsule
from dlpack.tests.exchange import Wrong, expect, hand_over, one_line
from dlpack.tests.expectations import Rule
from dlpack.tests.libraries.standard import VERSIONED
from dlpack.tests.memory import Memory


def gives(*memories: Memory) -> None:
    """Whether a C program gets each memory, without a copy or as one, and gives it back."""
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
    """Whether each object is refused with this error: an object without memory that can be shared, made anew."""
    for name, make in objects.items():
        try:
            dlpack.asdlpack(make()).__dlpack__()
        except error:
            continue
        except Exception as other:
            raise Wrong(f"{name}: expected {error.__name__}, got {one_line(other)}") from None
        raise Wrong(f"{name}: exported, expected {error.__name__}")
