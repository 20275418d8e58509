"""Read the arguments and array interfaces that C does not: all but plain names, ints and tuples.

Functions that C calls return plain values, or an exception for C to raise.
"""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]  # importing functools takes longer
from sys import byteorder, modules  # the dict itself: sys loses it at exit

from ._dlpack import _COPY_ALIGNMENT, _MAX_NDIM
from ._errors import hint_for
from ._foreign import SMALL_INTS, field, is_a, short_repr, unexpected
from ._refusals import refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ._device import DLDeviceType

    Function = TypeVar("Function", bound=Callable[..., Any])

BUILTINS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}  # as in numpy

SHAPE = "shape: expected an int, or a sequence of ints, of 64 bits"
STRIDES = "strides: expected elements, an int or a sequence of ints, of 64 bits"
COPY = "copy: expected True, False or None"
READONLY = "readonly: expected True, False or None"
ALIGN = f"align: expected None or a power of two from 1 to {_COPY_ALIGNMENT}, to which copies are aligned"
OFFSET = "offset: expected bytes, an int of 64 bits from 0 on"
POINTER = "pointer: expected an address, an int of 64 bits from 0 on, or a ctypes pointer"
DTYPE = "dtype: expected a name such as 'float32', or an object that carries one (of numpy, ml_dtypes or torch)"
STREAM = "stream: expected None, an int of 64 bits, or an object with __cuda_stream__"
VERSION = "max_version: expected None or a tuple of two ints of 64 bits, (major, minor)"
INTS = "a tuple of two ints of 32 bits, (device type, device id)"
DEVICE = (
    f"device: expected a name such as 'cpu' or 'cuda:1', {INTS}, an object with __dlpack_device__, or a device of "
    "torch, jax or cupy"
)
TARGET = f"dl_device: expected None or {INTS}"
# Other libraries' names of device types; "" for those of devices that DLPack lacks.
DEVICES = {
    "gpu": "cuda",
    "hip": "rocm",
    "host": "cpu",
    "hpu": "",
    "meta": "",
    "mps": "metal",
    "mtia": "",
    "npu": "ascend",
    "pinned": "cudahost",
    "xpu": "oneapi",
}


def plain(call: Any, **arguments: object) -> Any:
    """Returns call with these arguments added, or the first argument that is an exception."""
    for value in arguments.values():
        if isinstance(value, Exception):
            return value
    return partial(call, **arguments)


def fitting(value: object, least: int = -(2**63), end: int = 2**63) -> int | None:
    """Returns value as an exact int if it is an integer n with least <= n < end; else None."""
    number = index(value)
    return number if number is not None and least <= number < end else None


def index(value: Any) -> int | None:
    """Returns an exact int for an int or an object with __index__: a subclass of int may override comparison. None for
    anything else, and if a __index__ in C raises TypeError, as that of an array with several items does."""
    if type(value) is int:
        return value
    convert = getattr(type(value), "__index__", None)
    try:
        return None if convert is None else int.__index__(convert(value))
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise
        return None


def wrong(expected: str, value: object, items: list[object] | tuple[object, ...]) -> Exception:
    """Returns a ValueError if all items are ints, since they are out of range then; else a TypeError."""
    kind = TypeError if None in [index(item) for item in items] else ValueError
    return kind(unexpected(expected, value))


def flag(value: object, expected: str) -> bool | Exception:
    """Returns a bool for Python's or numpy's bool; else a TypeError."""
    if isinstance(value, bool) or is_a(type(value), "numpy", "bool", "bool_"):
        return bool(value)
    return TypeError(unexpected(expected, value))


def plain_copy(copy: object) -> object:
    return copy if copy is None or copy is True or copy is False else TypeError(unexpected(COPY, copy))


def plain_readonly(readonly: object) -> bool | Exception | None:
    return None if readonly is None else flag(readonly, READONLY)


def integer(value: object, expected: str, least: int = -(2**63), end: int = 2**63) -> int | Exception:
    number = fitting(value, least, end)
    return wrong(expected, value, (value,)) if number is None else number


def lengths(value: object, expected: str) -> tuple[int, ...] | Exception:
    items = value if isinstance(value, (tuple, list)) else items_of(value)
    found = integers(items)
    return wrong(expected, value, items) if found is None else found


def items_of(value: Any) -> tuple[object, ...]:
    """Returns the items of a sequence, such as an array, but at most _MAX_NDIM + 1; for anything else, (value,).

    A DLPackObject (only its type has _tensor) isn't a sequence: its __len__ and __getitem__ only raise a hint."""
    kind = type(value)
    is_sequence = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
    is_sequence = is_sequence and not hasattr(kind, "keys") and not hasattr(kind, "_tensor")
    if not is_sequence or isinstance(value, (int, str, bytes, bytearray)) or getattr(value, "shape", None) == ():
        return (value,)
    count = min(len(value), _MAX_NDIM + 1)
    return tuple([value[i] for i in range(count)])  # a generator would turn StopIteration into RuntimeError


def integers(values: object) -> tuple[int, ...] | None:
    """Returns a tuple or list of 64-bit ints as a tuple of ints; None for anything else."""
    if not isinstance(values, (tuple, list)):
        return None
    found = tuple([fitting(value) for value in values])  # map would end early at a value's StopIteration
    return None if None in found else found  # type: ignore[return-value]


def pair_of(value: object) -> tuple[object, object]:
    """Returns value if it is a tuple of two items, else (None, None)."""
    return value if isinstance(value, tuple) and len(value) == 2 else (None, None)


def version_pair(version: object) -> tuple[int, ...] | Exception:
    return integers(pair_of(version)) or wrong(VERSION, version, pair_of(version))


def device_ints(device: object) -> tuple[int, int] | None:
    """Returns (device type, device id) as 32-bit ints, or None. Accepts the (1, None) of paddle's CPU tensors, and the
    plain Enum that Open3D's tensors have as the type."""
    kind, id = pair_of(device)
    if is_a(type(kind), "enum", "Enum"):
        kind = kind.value  # type: ignore[attr-defined]
    number, id = fitting(kind, -(2**31), 2**31), fitting(0 if id is None else id, -(2**31), 2**31)
    return None if number is None or id is None else (number, id)


imported: list[type[DLDeviceType]] = []


def device_types() -> type[DLDeviceType]:
    """Returns DLDeviceType. Imports it at first use, since importing enum takes longer than the whole package. Keeps
    the class, not its module: Python empties modules at exit."""
    if not imported:
        try:
            from ._device import DLDeviceType
        except (AttributeError, TypeError):  # Python has emptied the modules that import needs
            raise ImportError("dlpack._device can't be imported any more: Python ends") from None
        imported.append(DLDeviceType)
    return imported[0]


# If enum is loaded, import this now: a child forked while another thread imports it later would wait forever.
if "enum" in modules:
    device_types()


def device(number: int, id: int) -> tuple[int, int]:
    """Returns (DLDeviceType, id). The type is a plain int if it can't be imported: Python ends, or the root changed."""
    try:
        kind = device_types()
        return kind.__new__(kind, number), id  # kind(number) needs enum's globals, gone at exit
    except ImportError:
        return number, id


def device_pair(device: object) -> tuple[int, int] | Exception:
    """Returns (device type, device id) of a name, a pair, a device object, or an object on a device; else an error."""
    if issubclass(type(device), str):  # isinstance would believe a mock's __class__
        return named_device(str.__str__(device))
    return device_ints(device) or carried_device(device) or wrong(DEVICE, device, pair_of(device))


def carried_device(device: Any) -> tuple[int, int] | Exception | None:
    """Returns the device of an object with __dlpack_device__ (arrays, paddle's places), or of a device of torch, jax or
    cupy. None for anything else."""
    if isinstance(device, (type, tuple)):
        return None
    if hasattr(device, "__dlpack_device__"):
        return device_ints(device.__dlpack_device__())
    if is_a(type(device), "torch", "device"):
        return named_device(f"{device.type}:{device.index or 0}")
    if is_a(type(device), "cupy.cuda.device", "Device"):
        return named_device(f"{'rocm' if modules['cupy'].cuda.runtime.is_hip else 'cuda'}:{device.id}")
    platform = getattr(getattr(device, "client", None), "platform", None)
    id = getattr(device, "local_hardware_id", None) or 0  # None for the CPU
    return named_device(f"{platform}:{id}") if isinstance(platform, str) else None


def named_device(text: str) -> tuple[int, int] | Exception:
    """Reads "cpu" or "cuda:1" as (device type, device id)."""
    types = {type.name.removeprefix("kDL").lower(): type.value for type in device_types()}
    name, colon, number = text.partition(":")
    name = name.removeprefix("kDL").lower()
    if name in types and (is_id(number) or not colon):
        return types[name], int(number or 0)
    cure = ""
    if name in types:
        said = f"device {short_repr(text)}: expected the id behind the colon, as in 'cuda:1'"
    else:
        from difflib import get_close_matches

        said = f"device {short_repr(text)}: unknown; expected the name of a DLDeviceType, such as 'cpu' or 'cuda:1'"
        kind = name.rstrip("0123456789")  # of "cuda0"
        id = number if colon else name[len(kind) :]
        if near := DEVICES.get(kind, "".join(get_close_matches(kind, types, 1))):
            cure = f"did you mean '{near}{f':{id}' if is_id(id) else ''}'?"
    return refusal(ValueError, "unknown-device", said, cure, device=short_repr(text))


def is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31


def stream_handle(stream: Any) -> int | Exception:
    """Returns the handle of an int, or of an object whose __cuda_stream__() returns (version 0, handle). Such a handle
    of 0 becomes 1, the legacy default stream."""
    if isinstance(stream, type) or not hasattr(stream, "__cuda_stream__"):
        return integer(stream, STREAM)
    answer = stream.__cuda_stream__()
    version, handle = [fitting(item, 0) for item in pair_of(answer)]
    if version != 0 or handle is None:
        return ValueError(unexpected("stream: __cuda_stream__() must return (0, handle)", answer))
    return handle or 1


class Padded(str):
    """The name of a data type whose items are smaller than a byte and fill one each. A plain str means packed items."""

    __slots__ = ()


def dtype_text(dtype: object) -> str | Exception:
    """Returns the name of a data type, or the typestr (as in the array interface) of a numpy dtype."""
    text = str.__str__(dtype) if issubclass(type(dtype), str) else carried_name(dtype)
    if issubclass(type(dtype), Padded):
        text = f"|V1 {text}"  # the typestr of ml_dtypes
    if isinstance(text, str) and not text.isprintable():
        return ValueError(f"dtype: expected a name such as 'float32', got {short_repr(text)}")
    return text


def carried_name(dtype: Any) -> str | Exception:
    """Returns the name of the data type that an object carries."""
    if isinstance(dtype, type):
        if dtype in BUILTINS:
            return BUILTINS[dtype]
        if is_a(dtype, "numpy", "generic"):
            try:
                dtype = dtype(0).dtype
            except (TypeError, ValueError, AttributeError):  # numpy.integer, datetime64, object_
                return TypeError(unexpected(DTYPE, dtype))
    given, dtype = dtype, getattr(dtype, "dtype", dtype)  # jax.numpy.float32 has a dtype
    if issubclass(type(dtype), str):  # of a DLPackObject
        return dtype_text(dtype)
    if is_a(type(dtype), "numpy", "dtype"):
        hidden = dtype.kind in "VW" or dtype.str[1:] == "f1"
        return f"{dtype.str} {item_name(dtype)}" if hidden else str(dtype.str)
    if hasattr(dtype, "__dlpack_data_type__") and not isinstance(dtype, type):
        return data_type_numbers(dtype)
    name = getattr(dtype, "name", None)
    if not isinstance(name, str):
        name = "" if isinstance(dtype, (bytes, bytearray, int)) else str(dtype)  # str(bytes) raises under -bb
    name = name.rpartition(".")[2]
    if name.removeprefix("u") in SMALL_INTS and getattr(dtype, "itemsize", getattr(dtype, "size", None)) == 1:
        return f"|V1 {name}"  # torch and tensorflow store one per byte
    if dtype is None or not name.isidentifier():
        return TypeError(unexpected(DTYPE, given))
    return name


def data_type_numbers(dtype: Any) -> str | Exception:
    """Returns "(code, bits, lanes)" of an object with __dlpack_data_type__ (data-apis/array-api#972), such as paddle's
    data types."""
    answer = dtype.__dlpack_data_type__()
    numbers = integers(answer) if isinstance(answer, tuple) and len(answer) == 3 else None
    if numbers is None:
        return ValueError(unexpected("dtype: __dlpack_data_type__() must return ints, (code, bits, lanes)", answer))
    return str(numbers)


def address(pointer: Any) -> int | None:
    """Returns the address in a ctypes pointer; None for anything else."""
    kind = type(pointer)
    if is_a(kind, "ctypes", "c_void_p", "c_char_p", "c_wchar_p") or is_a(kind, "_ctypes", "_Pointer", "CFuncPtr"):
        return int.from_bytes(memoryview(pointer).tobytes(), byteorder)  # ctypes.cast would make a reference cycle
    return None


def unsigned(value: object) -> int | None:
    return fitting(value, 0, 2**64)


def address_and_flag(data: object) -> tuple[int, bool] | None:
    if not isinstance(data, tuple) or len(data) != 2 or (start := unsigned(data[0])) is None:
        return None
    return start, bool(data[1])


def typestr_text(value: object) -> str | None:
    text = str.__str__(value) if isinstance(value, str) else " "
    return text if " " not in text and text.isprintable() else None


# Per field: its name, a function that returns its value in plain types (None if it is wrong), what is expected.
FIELDS: tuple[tuple[str, Any, str], ...] = (
    ("typestr", typestr_text, "a str such as '<f4'"),
    ("shape", integers, "a tuple of ints of 64 bits"),
    ("strides", integers, "a tuple of ints of 64 bits"),
    ("mask", lambda mask: mask, "a mask"),
    ("stream", fitting, "None or an int of 64 bits"),
    ("offset", unsigned, "a number of bytes"),
    ("data", address_and_flag, "(address, readonly) with an address of 64 bits"),
    ("version", unsigned, "an int from 0 on"),
)


def plain_interface(protocol: str, interface: Any) -> dict[str, object] | Exception:
    """Returns an array interface with plain values, or the error of its first wrong field."""
    if not issubclass(type(interface), dict):
        return malformed(protocol, unexpected(f"{protocol}: expected a dict", interface))
    of_cuda = protocol == "__cuda_array_interface__"
    needed = ("typestr", "shape", "data") if of_cuda else ("typestr", "shape")
    plain: dict[str, object] = {}
    for name, read, expected in FIELDS:  # not a dict: CPython 3.11 may crash iterating one without memory
        value = field(interface, name)
        if value is None:
            if name in needed:
                return malformed(protocol, f"{protocol}: no '{name}'; expected {expected}", name)
        elif name == ("offset" if of_cuda else "stream"):
            pass
        elif name == "data" and not of_cuda and not isinstance(value, tuple):
            plain[name] = value
        else:
            plain[name] = read(value)
            if plain[name] is None:
                return malformed(protocol, unexpected(f"{protocol}['{name}']: expected {expected}", value), name)
    return plain


def no_buffer(protocol: str, data: object) -> Exception:
    """Returns the error for data that is neither an address nor an object with a buffer."""
    expected = "(address, readonly), an object with a buffer, or nothing where the object itself has a buffer"
    if data is None:
        return malformed(protocol, f"{protocol}: no 'data'; expected {expected}", "data")
    return malformed(protocol, unexpected(f"{protocol}['data']: expected {expected}", data), "data")


def malformed(protocol: str, said: str, field: str | None = None) -> Exception:
    return refusal(ValueError, "array-interface", said, protocol=protocol, field=field)


def item_name(dtype: object) -> object:
    """Returns the name of a data type; "void" for a structure, which may have the name of a number."""
    return getattr(dtype, "name", None) if getattr(dtype, "names", None) is None else "void"


def refuse_mask(obj: Any) -> Exception | None:
    """Returns an error for numpy's masked arrays: their protocols export the items without the mask."""
    if not is_a(type(obj), "numpy.ma", "MaskedArray") and not is_a(type(obj), "numpy.ma.core", "MaskedArray"):
        return None
    name = type(obj).__name__
    said = f"{name} of numpy has a mask, which DLPack can't say"
    return refusal(BufferError, "mask", said, hint_for("mask", obj), type=name)


def name_hidden(obj: Any, typestr: str) -> bytes:
    """Appends obj.dtype.name to the typestr: ml_dtypes hides its types behind "V1", "V2", "W4" and "f1"."""
    name = item_name(getattr(obj, "dtype", None))
    text = str.__str__(name) if isinstance(name, str) else ""
    return (f"{typestr} {text}" if text and text.isprintable() else typestr).encode()
