"""Hands one object to one consumer: finds out if its memory is shared, and expects that nothing is lost."""

import contextlib
import ctypes
import gc
import operator
import struct
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dlpack

from .._abi import Seen, compact
from .expectations import Consumer, Rule
from .findings import Skip, Wrong, difference, expect, one_line
from .libraries.datatypes import FORMATS
from .memory import Memory
from .results import Exchange, Outcome

EXPORTS: dict[str, Callable[[Any], Any]] = {  # how memory is asked for, but for DLPack
    "buffer": memoryview,
    "__array__": operator.methodcaller("__array__"),
    "__array_interface__": operator.attrgetter("__array_interface__"),
    "__array_struct__": operator.attrgetter("__array_struct__"),
    "__arrow_c_array__": operator.methodcaller("__arrow_c_array__"),
}


@dataclass
class Handed:
    """The outcome. Plain data: an exception would hold the frames, and these the memory."""

    outcome: Outcome
    proof: str = ""
    refused_by: str = ""
    text: str = ""


def exchange(consumer: Consumer, version: str, make: Callable[[], Memory], cell: Exchange) -> None:
    """Hands an object to the consumer, and fills in the cell. version is that of the consumer's library."""
    memory = make()
    rule = consumer.expected(version, memory)
    cell.expected, cell.reason = rule.outcome, rule.reason
    if memory.gpu and not consumer.gpu:
        raise Skip(f"{consumer.name} takes no memory of a GPU")
    if rule.outcome == "skipped":
        raise Skip(rule.reason)
    try:
        handed = hand_over(consumer, memory, memory.copy, rule)
        cell.outcome, cell.proof = handed.outcome, handed.proof
        cell.refused_by, cell.text = handed.refused_by, handed.text
        expect(memory.copy is not None or handed.outcome != "shared", "shared, although it has to be copied")
        copied = hand_over(consumer, make(), True, rule)
        if handed.outcome == "refused":
            cell.copy = "works" if copied.outcome == "copied" else "refused"
        elif memory.size > 0 and (memory.packed or not memory.gpu):  # a GPU's copies move rows
            expect(copied.outcome == "copied", f"with copy=True it is {copied.outcome}: {copied.text}")
    except Wrong as error:
        cell.outcome, cell.text = "failed", str(error)
    if cell.less_than_expected:
        cell.text = f"{cell.outcome}, expected {cell.expected}. {cell.text}".rstrip()
        cell.outcome = "failed"


def hand_over(consumer: Consumer, memory: Memory, copy: bool | None, rule: Rule) -> Handed:
    """Lets the consumer take the memory and drop it, and checks that all is as before."""
    gc.collect()
    before = memory.references() if memory.references else 0
    wrapped, handed = take(consumer, memory, copy, rule, before)
    gc.collect()
    expect(wrapped() is None, "the DLPackObject outlives its last consumer")
    if memory.references:
        left = memory.references() - before
        expect(left == 0, f"the memory's owner is left with {left:+d} references")
    if memory.resize:
        memory.resize()
    return handed


def take(
    consumer: Consumer, memory: Memory, copy: bool | None, rule: Rule, before: int
) -> tuple[Callable[[], Any], Handed]:
    """Returns a weak reference to the DLPackObject, and what became of it."""
    try:
        x = memory.share(memory.obj, copy=copy)
    except Exception as error:
        return lambda: None, Handed("refused", refused_by="dlpack", text=one_line(error))
    wrapped = weakref.ref(x)
    try:
        taken = consumer.take(x)
    except Exception as error:
        text = one_line(error)
        by = "dlpack" if refuses_export(consumer, x) else consumer.name
        return wrapped, Handed("refused", refused_by=by, text=text)
    check_description(x, memory, copy)
    del x
    seen = consumer.see(taken)
    check_values(seen, memory, rule)
    if memory.size == 0:
        return wrapped, Handed("shared", proof="empty")
    if copy is True or not shares(consumer, taken, seen, memory):
        return wrapped, Handed("copied")
    if None not in (seen.readonly, memory.readonly):
        expect(seen.readonly == memory.readonly, f"arrived with readonly {seen.readonly}, expected {memory.readonly}")
    check_hold(memory, before)
    check_values(consumer.see(taken), memory, rule)
    return wrapped, Handed("shared", proof="write" if seen.address is None else "address")


def refuses_export(consumer: Consumer, x: dlpack.DLPackObject) -> bool:
    """True if x raises, not the consumer. Asks once more, with x behind an object that listens."""
    if consumer.protocol in EXPORTS:
        try:
            EXPORTS[consumer.protocol](x)
        except Exception:
            return True
        return False
    listener = Listener(x)
    with contextlib.suppress(Exception):
        consumer.take(listener)
    return listener.raised


class Listener:
    """Gives what x gives, and notes whether x has raised. A class of its own for each x, with x in it, would be garbage
    that a free-threaded CPython does not find after gc.freeze."""

    def __init__(self, x: dlpack.DLPackObject) -> None:
        self.x: dlpack.DLPackObject = x
        self.raised: bool = False

    def __dlpack__(self, **arguments: Any) -> Any:
        self.raised = False
        try:
            return self.x.__dlpack__(**arguments)
        except BufferError:
            self.raised = True
            raise

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def check_description(x: dlpack.DLPackObject, memory: Memory, copy: bool | None) -> None:
    """Expects that the DLPackObject describes the memory as the library that owns it does."""
    copied = memory.size > 0 and x.pointer != memory.address
    expect(not copied or copy is not False, f"pointer is {x.pointer:#x}, expected {memory.address or 0:#x}")
    expect(copied or copy is not True or memory.size == 0, "asdlpack(copy=True) did not copy")
    expect(not copied or x.pointer % 64 == 0, f"the copy is at {x.pointer:#x}, expected a multiple of 64")
    expect(x.dtype == memory.dtype, f"dtype is {x.dtype}, expected {memory.dtype}")
    expect(x.shape == memory.shape, f"shape is {x.shape}, expected {memory.shape}")
    expect(x.nbytes == len(memory.values), f"nbytes is {x.nbytes}, expected {len(memory.values)}")
    strides = compact(memory.shape) if copied else memory.strides
    same = all(memory.shape[i] == 1 or x.strides[i] == stride for i, stride in enumerate(strides))
    expect(same or memory.size == 0, f"strides are {x.strides}, expected {strides}")
    readonly = memory.readonly and not copied and copy is not True
    expect(readonly is None or x.readonly == readonly, f"readonly is {x.readonly}, expected {readonly}")


def shares(consumer: Consumer, taken: Any, seen: Seen, memory: Memory) -> bool:
    """True if the consumer has the owner's address, as far as it tells, and sees what is written there."""
    if seen.address is not None and seen.address != memory.address:
        return False
    if seen.address is not None and (memory.readonly is not False or memory.gpu):
        return True
    if memory.readonly is not False or memory.gpu:
        raise Skip(f"{consumer.name} tells no address, and what may not be written can't show that it is shared")
    first = ctypes.c_uint8.from_address(memory.address or 0)
    first.value ^= 1
    written = consumer.see(taken).values
    first.value ^= 1
    if seen.address is None:
        return written != seen.values
    expect(written != seen.values, "has the memory's address, but does not see what is written to it")
    return True


def check_hold(memory: Memory, before: int) -> None:
    """Expects that the memory stays in place as long as the consumer has it."""
    if memory.references:
        expect(memory.references() > before, "the consumer has the memory, but holds no reference to its owner")
    if memory.resize:
        try:
            memory.resize()
        except BufferError:
            return
        raise Wrong("the memory can be resized or closed although a consumer has it")


def check_values(seen: Seen, memory: Memory, rule: Rule) -> None:
    dtype = rule.becomes.get(memory.dtype, memory.dtype)
    expect(seen.dtype == dtype, f"dtype arrived as {seen.dtype}, expected {dtype}")
    expect(seen.shape == memory.shape, f"shape arrived as {seen.shape}, expected {memory.shape}")
    if seen.values != memory.values:
        same = dtype in FORMATS and dtype != memory.dtype
        same = same and numbers(seen.values, dtype) == numbers(memory.values, memory.dtype)
        expect(same, f"values arrived as {difference(seen.values, memory.values)}")


def numbers(values: bytes, dtype: str) -> list[Any]:
    return [number for item in struct.iter_unpack(f"={FORMATS[dtype]}", values) for number in item]
