"""How a library takes memory, and what is expected of that: sharing, unless a rule says something else, and why."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from .._abi import Seen, read
from .._to import TAKERS, is_compact
from .memory import Memory
from .results import Outcome

Condition = Callable[[Memory], bool]

PADDED = "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"  # a byte an item
WOULD_WRITE = "not known to it: it would write"


@dataclass(frozen=True)
class Rule:
    outcome: Outcome
    reason: str
    when: Condition = lambda memory: True
    before: tuple[int, ...] = ()  # holds for the versions of the library before this one
    becomes: dict[str, str] = field(default_factory=dict)  # data types that arrive as others

    def fits(self, version: str, memory: Memory) -> bool:
        return (not self.before or release(version) < self.before) and self.when(memory)


@dataclass(frozen=True)
class Consumer:
    """One way in which a library takes memory."""

    name: str  # of the class or function that users know
    take: Callable[[Any], Any]  # makes the library's own object, or raises the library's own error
    see: Callable[[Any], Seen] = read  # what the library says of its object; else what the object exports by itself
    readonly: str = "not known to it"  # what becomes of read-only memory: for people
    protocol: str = "__dlpack__"  # what it asks for last
    gpu: bool = False  # whether it takes memory of a GPU too
    rules: Sequence[Rule] = ()

    def expected(self, version: str, memory: Memory) -> Rule:
        """The first rule that fits."""
        if memory.withheld:
            return Rule("refused", memory.withheld)
        for rule in *self.rules, NO_PADDED:
            if rule.fits(version, memory):
                return rule
        return Rule("copied", memory.converted) if memory.converted else Rule("shared", "")


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def dtype(*patterns: str) -> Condition:
    return lambda memory: any(fnmatchcase(memory.dtype, pattern) for pattern in patterns)


def negative_strides(memory: Memory) -> bool:
    pairs = zip(memory.shape, memory.strides, strict=True)
    return memory.size > 0 and any(stride < 0 and extent > 1 for extent, stride in pairs)


def not_row_major(memory: Memory) -> bool:
    return not memory.packed


def unaligned(align: int) -> Condition:
    """True if asdlpack shares memory whose address is not a multiple of `align`; its own copies are aligned."""
    return lambda memory: not memory.converted and memory.size > 0 and (memory.address or 0) % align != 0


NO_PADDED = Rule("refused", "it has no type with one such item in each byte", dtype(*PADDED))
LAYOUTS: dict[str, tuple[str, Condition]] = {
    "forward": ("has no negative strides", negative_strides),
    "compact": ("needs memory without gaps", lambda memory: not is_compact(memory)),
    "row-major": ("needs row-major memory without gaps", not_row_major),
}


def layout(library: str) -> Rule:
    """The layouts that a library refuses, as dlpack.to has them."""
    words, refused = LAYOUTS[TAKERS[library].layout]
    return Rule("refused", f"{library} {words}", refused)


def arrow_rules() -> Iterator[Rule]:
    """The rules of consumers of Arrow's arrays."""
    yield Rule("refused", "Arrow has no such type", dtype("complex*", "bfloat16", "float8*"))
    yield Rule("refused", "Arrow's arrays have a length", lambda memory: memory.shape == ())
    yield Rule("refused", "Arrow's arrays are compact and row-major", not_row_major)
