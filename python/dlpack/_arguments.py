"""Arguments that C does not read: everything but plain names, ints and tuples. C calls these functions, and they call
the extension again with plain arguments, or raise."""

from __future__ import annotations

import sys

from ._errors import short_repr
from ._object import devices

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

BUILTINS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}  # as in numpy

SHAPE = "shape: expected an int, or a tuple or list of ints, of 64 bits"
STRIDES = "strides: expected elements, an int or a tuple or list of ints, of 64 bits"
OFFSET = "offset: expected bytes, an int of 64 bits from 0 on"
POINTER = (
    "pointer: expected an address, an int of 64 bits from 0 on, or a ctypes pointer (what has memory itself goes by "
    "asdlpack or frombuffer)"
)
DEVICE = (
    "device: expected a name such as 'cpu' or 'cuda:1', or a tuple of two ints of 32 bits, (device type, device id) "
    "(of a torch.device pass the str)"
)


def asdlpack(extension: Any, obj: object, copy: bool | None, device: object, owner: object) -> Any:
    return extension.asdlpack(obj, copy=copy, device=device_pair(device), owner=owner)


def frombuffer(
    extension: Any, obj: object, dtype: object, shape: object, offset: object, strides: object, copy: bool | None
) -> Any:
    if (start := integer(offset, 0, 2**64)) is None:
        raise wrong(offset, OFFSET)
    return extension.frombuffer(
        obj, dtype_text(dtype), lengths(shape, SHAPE), offset=start, strides=lengths(strides, STRIDES), copy=copy
    )


def from_pointer(
    extension: Any,
    pointer: object,
    shape: object,
    dtype: object,
    strides: object,
    device: object,
    readonly: bool,
    owner: object,
    stream: object,
) -> Any:
    if (start := integer(pointer, 0, 2**64)) is None:
        if (start := address(pointer)) is None:
            raise wrong(pointer, POINTER)
        if owner is None:
            owner = pointer  # it knows what it leads to
    if stream is not None and (number := integer(stream)) is None:
        raise TypeError(f"stream: expected None or an int of 64 bits, got {short_repr(stream)}")
    return extension.from_pointer(
        start,
        lengths(shape, SHAPE),
        dtype_text(dtype),
        strides=lengths(strides, STRIDES),
        device=device_pair(device),
        readonly=readonly,
        owner=owner,
        stream=None if stream is None else number,
    )


def integer(value: Any, least: int = -(2**63), end: int = 2**63) -> int | None:
    """An int, or what has __index__, as an int itself; None where it is neither, or not from least to below end."""
    if type(value) is not int:
        index = getattr(type(value), "__index__", None)
        if index is None:
            return None
        try:
            value = int.__index__(index(value))  # a subclass may compare as it likes
        except TypeError:
            return None
    return value if least <= value < end else None


def lengths(value: object, expected: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    found = tuple([integer(item) for item in (value if isinstance(value, (tuple, list)) else (value,))])
    if None in found:
        raise wrong(value, expected)
    return found  # type: ignore[return-value]


def wrong(value: object, expected: str) -> Exception:
    """An int that does not fit has the wrong value, everything else the wrong type."""
    text = f"{expected}, got {short_repr(value)}"
    return ValueError(text) if isinstance(value, int) else TypeError(text)


def device_pair(device: object) -> tuple[int, int]:
    """A device by its name, or as a pair of ints; paddle's CPU tensors say (1, None)."""
    if isinstance(device, str):
        pair: tuple[int, int] = devices().device(device)
        return pair
    if isinstance(device, tuple) and len(device) == 2:
        number, id = (integer(0 if item is None else item, -(2**31), 2**31) for item in device)
        if number is not None and id is not None:
            return number, id
    raise TypeError(f"{DEVICE}, got {short_repr(device)}")


def dtype_text(dtype: object) -> str:
    """The name of a data type; of numpy's dtypes their typestr, as in the array interface."""
    text = str.__str__(dtype) if isinstance(dtype, str) else carried_name(dtype)
    try:
        text.encode()
    except UnicodeEncodeError:
        readable = False
    else:
        readable = "\0" not in text
    if not readable:
        raise ValueError(f"dtype: expected a name such as 'float32', got {short_repr(text)}")
    return text


def carried_name(dtype: Any) -> str:
    """The name of the data type that an object carries."""
    numpy = sys.modules.get("numpy")
    if isinstance(dtype, type):
        if dtype in BUILTINS:
            return BUILTINS[dtype]
        if numpy is not None and issubclass(dtype, numpy.generic):
            dtype = numpy.dtype(dtype)
    dtype = getattr(dtype, "dtype", dtype)  # jax.numpy.float32
    if numpy is not None and isinstance(dtype, numpy.dtype):
        hidden = dtype.kind in "VW" or dtype.str[1:] == "f1"
        return f"{dtype.str} {dtype.name}" if hidden else str(dtype.str)
    name = getattr(dtype, "name", None)
    if not isinstance(name, str):
        name = str(dtype)  # torch.bfloat16
    name = name.rpartition(".")[2].replace("_x2", "x2")
    if dtype is None or not name.isidentifier():
        expected = "expected a name such as 'float32', or an object that carries one (of numpy, ml_dtypes or torch)"
        raise TypeError(f"dtype: {expected}, got {dtype!r:.100}")
    return name


def address(pointer: Any) -> int | None:
    """The address in a ctypes pointer; None where it is no such pointer."""
    ctypes = sys.modules.get("ctypes")
    if ctypes is None or not isinstance(pointer, (ctypes.c_void_p, ctypes.c_char_p, ctypes._Pointer)):
        return None
    return ctypes.c_void_p.from_buffer(pointer).value or 0  # ctypes.cast would make a reference cycle


def refuse_pointer(obj: object) -> None:
    """frombuffer's object: a ctypes pointer's buffer is the pointer itself, not what it leads to."""
    if address(obj) is not None:
        raise TypeError(
            "frombuffer: expected an object with memory of its own, got a ctypes pointer, which has no length "
            "(pass from_pointer(pointer, shape, dtype))"
        )
