"""Pickle and copy a DLPackObject, for Python's pickle and copy modules."""

from __future__ import annotations

from _operator import index  # importing operator takes longer

from ._arguments import dtype_text
from ._dlpack import asdlpack, from_pointer, frombuffer
from ._foreign import short_repr
from ._refusals import parts_of, refusal, reworded

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, SupportsIndex

    from ._dlpack import DLPackObject

FORM = 1  # version of the arguments that a pickle holds for `restored`


def reduced(self: DLPackObject, protocol: SupportsIndex) -> tuple[Callable[..., DLPackObject], tuple[Any, ...]]:
    """Return what pickle needs to rebuild this object: its data type, shape and memory.

    With protocol 5 (PEP 574) the memory is one buffer, which a pickler with a buffer_callback passes on zero-copy.
    Row- and column-major memory is pickled as it is; other memory is copied first. Raises TypeError if the CPU can't
    read it.
    """
    try:
        x = self._on_cpu
    except BufferError as error:
        said = f"a DLPackObject can't be pickled: {parts_of(error)[0]}"
        raise reworded(error, said, kind=TypeError) from None
    if not x._is_row_major and not x._is_column_major:
        x = asdlpack(x, copy=True)
    memory: Any = from_pointer(x.pointer, x.nbytes, "uint8", readonly=x.readonly, owner=x)
    if index(protocol) >= 5:
        from pickle import PickleBuffer

        memory = PickleBuffer(memory)
    else:
        memory = bytes(memory) if x.readonly else Writable(memory)
    return restored, (FORM, dtype_text(x.dtype), x.shape, "C" if x._is_row_major else "F", memory)


class Writable:
    """Wraps memory that a pickle before protocol 5 holds as a bytearray, without making a bytearray first."""

    def __init__(self, memory: DLPackObject) -> None:
        self.memory = memory

    def __reduce__(self) -> tuple[type[bytearray], tuple[bytes]]:
        return bytearray, (bytes(self.memory),)


def restored(form: object = None, *arguments: Any) -> DLPackObject:
    """Return the pickled object over the unpickler's memory, or over a copy if that memory is misaligned."""
    if type(form) is int and form > FORM:
        found = short_repr(form)
        said = f"pickle of a DLPackObject: it has form {found}, expected {FORM}"
        raise refusal(ValueError, "newer-pickle", said, "upgrade dlpack-go here", form=form)
    try:
        dtype, shape, order, memory = arguments
        bytes_given = memoryview(memory).nbytes
        if not (are(int, form) and are(str, dtype, order) and are(tuple, shape) and are(int, *shape)):
            raise TypeError("a field is of another type than a pickler writes")
        if form != FORM or order not in ("C", "F"):
            raise ValueError(f"form {form} and order {short_repr(order)}, expected {FORM} and 'C' or 'F'")
        x = rebuilt(memory, dtype, shape, strides=column_major(shape) if order == "F" else None, copy=None)
    except (BufferError, TypeError, ValueError) as error:
        said = f"pickle of a DLPackObject: it is damaged, or its buffers are others ({error})"
        raise refusal(ValueError, "damaged-pickle", said) from error
    if bytes_given != x.nbytes:
        said = (
            f"pickle of a DLPackObject: it has {bytes_given} bytes, expected {x.nbytes} for {dtype} of shape {shape}; "
            "it is damaged, or its buffers are others"
        )
        raise refusal(ValueError, "damaged-pickle", said, "give loads what buffer_callback got, in that order")
    return x


def are(kind: type, *values: object) -> bool:
    """True if all values are of exactly this type: frombuffer also accepts what converts to it, such as True for 1."""
    return [value for value in values if type(value) is not kind] == []


def rebuilt(memory: Any, dtype: str, shape: tuple[int, ...], **options: Any) -> DLPackObject:
    """Calls frombuffer. Raises ValueError unless dtype and shape are as a pickler writes them: not ">f4", and no -1."""
    x = frombuffer(memory, dtype, shape, **options)
    if (dtype_text(x.dtype), x.shape) != (dtype, shape):
        raise ValueError(f"{dtype} of shape {shape}, expected {dtype_text(x.dtype)} of shape {x.shape}")
    return x


def column_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns column-major strides for a shape, in elements."""
    strides, items = [], 1
    for length in shape:
        strides.append(items)
        items *= length
    return tuple(strides)


def shared(self: DLPackObject) -> DLPackObject:
    """Return a DLPackObject with the same memory."""
    return asdlpack(self)


def copied(self: DLPackObject, memo: dict[int, Any]) -> DLPackObject:
    """Return a contiguous copy of the memory, on the same device."""
    return asdlpack(self, copy=True)


# The names that errors and profilers show.
MEMBERS = {"__reduce_ex__": reduced, "__copy__": shared, "__deepcopy__": copied}
for name, function in MEMBERS.items():
    function.__name__, function.__qualname__ = name, f"DLPackObject.{name}"
