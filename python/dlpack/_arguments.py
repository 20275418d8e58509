"""Arguments that C does not read: everything but plain names, ints and tuples. What C calls returns the call with plain
arguments, for C to make, or an exception, for C to raise."""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]  # importing functools takes longer
from sys import modules  # the dict itself: sys loses it when Python ends

from ._dlpack import asdlpack, from_pointer, frombuffer
from ._errors import index, pair_of, short_repr, wrong, wrong_pair
from ._object import device_types

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

BUILTINS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}  # as in numpy

SHAPE = "shape: expected an int, or a tuple or list of ints, of 64 bits"
STRIDES = "strides: expected elements, an int or a tuple or list of ints, of 64 bits"
OFFSET = "offset: expected bytes, an int of 64 bits from 0 on"
POINTER = (
    "pointer: expected an address, an int of 64 bits from 0 on, or a ctypes pointer (of a ctypes int pass its .value; "
    "for an object with memory use asdlpack or frombuffer)"
)
STREAM = "stream: expected None or an int of 64 bits"
DEVICE = (
    "device: expected a name such as 'cpu' or 'cuda:1', or a tuple of two ints of 32 bits, (device type, device id) "
    "(of a torch.device pass the str)"
)


def plain_asdlpack(obj: object, copy: bool | None, device: object, owner: object) -> Any:
    return plain(partial(asdlpack, obj, copy=copy, owner=owner), device=device_pair(device))


def plain_frombuffer(
    obj: object, dtype: object, shape: object, offset: object, strides: object, copy: bool | None
) -> Any:
    return plain(
        partial(frombuffer, obj, copy=copy),
        offset=integer(offset, OFFSET, 0, 2**64),
        dtype=dtype_text(dtype),
        shape=None if shape is None else lengths(shape, SHAPE),
        strides=None if strides is None else lengths(strides, STRIDES),
    )


def plain_from_pointer(
    pointer: object,
    shape: object,
    dtype: object,
    strides: object,
    device: object,
    readonly: bool,
    owner: object,
    stream: object,
) -> Any:
    start: int | Exception | None = address(pointer)
    if start is None:
        start = integer(pointer, POINTER, 0, 2**64)
        if isinstance(start, Exception):
            return start
    elif owner is None:
        owner = pointer  # it knows what it leads to
    return plain(
        partial(from_pointer, start, readonly=readonly, owner=owner),
        stream=None if stream is None else integer(stream, STREAM),
        shape=lengths(shape, f"{SHAPE} (a pointer has no length)" if shape is None else SHAPE),
        dtype=dtype_text(dtype),
        strides=None if strides is None else lengths(strides, STRIDES),
        device=device_pair(device),
    )


def plain(call: Any, **arguments: object) -> Any:
    """The call with these arguments too, or the first of them that is an exception."""
    for value in arguments.values():
        if isinstance(value, Exception):
            return value
    return partial(call, **arguments)


def fitting(value: object, least: int = -(2**63), end: int = 2**63) -> int | None:
    """An int, or what has __index__, as an int itself; None where it is neither, or not from least to below end."""
    number = index(value)
    return number if number is not None and least <= number < end else None


def integer(value: object, expected: str, least: int = -(2**63), end: int = 2**63) -> int | Exception:
    number = fitting(value, least, end)
    return wrong(expected, value, (value,)) if number is None else number


def lengths(value: object, expected: str) -> tuple[int, ...] | Exception:
    items = value if isinstance(value, (tuple, list)) else (value,)
    found = tuple([fitting(item) for item in items])
    return wrong(expected, value, items) if None in found else found  # type: ignore[return-value]


def device_pair(device: object) -> tuple[int, int] | Exception:
    """A device by its name, or as a pair of ints; paddle's CPU tensors say (1, None)."""
    if isinstance(device, str):
        return named_device(device)
    kind, id = pair_of(device)
    number, id = [fitting(item, -(2**31), 2**31) for item in (kind, 0 if id is None else id)]
    return wrong_pair(DEVICE, device) if number is None or id is None else (number, id)


def named_device(text: str) -> tuple[int, int] | Exception:
    """ "cpu" or "cuda:1" as (device type, device id)."""
    types = {type.name.removeprefix("kDL").lower(): type.value for type in device_types()}
    name, colon, number = text.partition(":")
    device_type = types.get(name.removeprefix("kDL").lower())
    if device_type is None:
        return ValueError(
            f"device {short_repr(text)}: unknown; expected one of {', '.join(types)}, and an id as in 'cuda:1'"
        )
    if colon and not (number.isascii() and number.isdigit() and len(number) <= 10 and int(number) < 2**31):
        return ValueError(f"device {short_repr(text)}: expected the id behind the colon, as in 'cuda:1'")
    return device_type, int(number or 0)


def dtype_text(dtype: object) -> str | Exception:
    """The name of a data type; of numpy's dtypes their typestr, as in the array interface."""
    text = str.__str__(dtype) if isinstance(dtype, str) else carried_name(dtype)
    if isinstance(text, str) and not text.isprintable():
        return ValueError(f"dtype: expected a name such as 'float32', got {short_repr(text)}")
    return text


def carried_name(dtype: Any) -> str | Exception:
    """The name of the data type that an object carries."""
    numpy = modules.get("numpy")
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
        return TypeError(f"dtype: {expected}, got {dtype!r:.100}")
    return name


def address(pointer: Any) -> int | None:
    """The address in a ctypes pointer; None where it is no such pointer."""
    ctypes = modules.get("ctypes")
    if ctypes is None or not isinstance(pointer, (ctypes.c_void_p, ctypes.c_char_p, ctypes._Pointer)):
        return None
    return ctypes.c_void_p.from_buffer(pointer).value or 0  # ctypes.cast would make a reference cycle


def refuse_pointer(obj: object) -> Exception | None:
    """frombuffer's object: a ctypes pointer's buffer is the pointer itself, not what it leads to."""
    if address(obj) is None:
        return None
    return TypeError(
        "frombuffer: expected an object with memory of its own, got a ctypes pointer, which has no length "
        "(pass from_pointer(pointer, shape, dtype))"
    )
