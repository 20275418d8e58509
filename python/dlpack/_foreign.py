"""Inspect foreign objects, and quote them in messages, with as little of their own code as possible."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Error = TypeVar("Error", bound=BaseException)

# The protocols that asdlpack tries, in this order: __dlpack__, then those of pyext/read/protocols.c.
PROTOCOLS = (
    "__dlpack__",
    "__array_interface__",
    "__array_struct__",
    "__cuda_array_interface__",
    "buffer",
    "__arrow_c_device_array__",
    "__arrow_c_device_stream__",
    "__arrow_c_array__",
    "__arrow_c_stream__",
    "to_dlpack",
)
IN_WORDS = tuple(["the buffer protocol" if protocol == "buffer" else protocol for protocol in PROTOCOLS])
SMALL_INTS = [f"int{bits}" for bits in range(1, 8)]
SMALL_IN_ML_DTYPES = "int2 int4 uint2 uint4 float4_e2m1fn float6_e2m3fn float6_e3m2fn".split()  # less than a byte
IN_ML_DTYPES = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu"
)
# The package that gives numpy a data type.
INSTALLED = dict.fromkeys([*IN_ML_DTYPES.split(), *SMALL_IN_ML_DTYPES], "ml_dtypes")
INSTALLED |= dict.fromkeys(["complex32", "bcomplex32"], "ml_dtypes 0.6")
MOST = 100  # characters quoted of a foreign text
NO_MEMORY = MemoryError, SystemError  # CPython 3.11 may lose a MemoryError and raise SystemError


def is_a(kind: type, module: str, *names: str) -> bool:
    """True if a type is one of these classes, or derives from one. Compares names, since the library's module may be
    hidden, half imported by another thread, or emptied at exit."""
    for base in kind.__mro__:
        if base.__name__ in names and getattr(base, "__module__", None) == module:
            return True
    return False


def is_numpy_scalar(obj: object) -> bool:
    return is_a(type(obj), "numpy", "generic")


def field(interface: dict[str, Any], name: str, default: Any = None) -> Any:
    """Does what dict.get does, but never locks the dict, as a free-threaded build does: a fork may copy it locked."""
    try:
        return dict.__getitem__(interface, name) if dict.__contains__(interface, name) else default
    except KeyError:  # another thread removed it meanwhile
        return default


def type_name(obj: object) -> str:
    """Returns the name of obj's type: "numpy.ndarray", or "bytes" for a builtin."""
    name, module = type(obj).__qualname__, getattr(type(obj), "__module__", None)
    return shorten(f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name)


def short_repr(value: Any) -> str:
    """Returns a repr of limited length. Cuts a long str, bytes or bytearray before calling repr."""
    kind = type(value)
    is_flat = kind is bytes or kind is bytearray or kind is str  # `in` would call a foreign metaclass
    try:
        return shorten(repr(value[:MOST] if is_flat else value))
    except ValueError:  # repr refuses an int of thousands of digits
        return type_name(value)


def printable(text: str) -> str:
    """Escapes unprintable characters as repr does: a foreign text stays on one line, and can't control a terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shorten(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def bare(error: Error) -> Error:
    """Drops the traceback of an error. If the producer keeps the error, its traceback would keep our objects alive."""
    return BaseException.with_traceback(error, None)


def text_of(error: BaseException) -> str:
    """Returns the message of an error, or says that reading it failed."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text can't be read: {type_name(bare(failure))})"


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """Returns ("BufferError", its message). Cuts a long message in the middle, since it may quote other errors."""
    message = text_of(error)
    if len(message) > 20 * MOST:
        message = f"{message[: 10 * MOST]} ... {message[-10 * MOST :]}"
    return type_name(error), message


def exception_text(error: BaseException) -> str:
    """Returns "BufferError: its message"."""
    kind, message = kind_and_message(error)
    return f"{kind}: {message}" if message else kind


def unexpected(expected: str, value: object) -> str:
    return f"{expected}, got {short_repr(value)}"
