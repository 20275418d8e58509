"""What comes from outside: looked at so that none of its code runs, and put into texts."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Error = TypeVar("Error", bound=BaseException)

# What asdlpack looks for, in this order: __dlpack__, then what pyext/read/protocols.c has.
PROTOCOLS = (
    "__dlpack__",
    "__array_interface__",
    "__array_struct__",
    "__cuda_array_interface__",
    "buffer",
    "__arrow_c_array__",
    "__arrow_c_stream__",
    "to_dlpack",
)
IN_WORDS = tuple(["the buffer protocol" if protocol == "buffer" else protocol for protocol in PROTOCOLS])
MOST = 100  # characters of a text from outside
FILLED = "pass obj.filled(), in which masked items are obj.fill_value"  # a hint that copy_into changes
NO_MEMORY = MemoryError, SystemError  # the second if CPython 3.11 loses the first


def is_a(kind: type, module: str, *names: str) -> bool:
    """Whether a type is one of these classes, or derives from one: by their names, since the library's module may be
    hidden, not yet filled by the thread that imports it, or emptied when Python ends."""
    for base in kind.__mro__:
        if base.__name__ in names and getattr(base, "__module__", None) == module:
            return True
    return False


def is_numpy_scalar(obj: object) -> bool:
    return is_a(type(obj), "numpy", "generic")


def field(interface: dict[str, Any], name: str, default: Any = None) -> Any:
    """Is dict.get, but locks nothing: a free-threaded build's locks the dict, and a fork may copy it locked."""
    try:
        return dict.__getitem__(interface, name) if dict.__contains__(interface, name) else default
    except KeyError:  # another thread removed it meanwhile
        return default


def type_name(obj: object) -> str:
    """ "numpy.ndarray", "bytes"."""
    name, module = type(obj).__qualname__, getattr(type(obj), "__module__", None)
    return shorten(f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name)


def short_repr(value: Any) -> str:
    """A long text or buffer is cut before its repr is made."""
    kind = type(value)
    is_flat = kind is bytes or kind is bytearray or kind is str  # `in` would ask a foreign metaclass
    try:
        return shorten(repr(value[:MOST] if is_flat else value))
    except ValueError:  # an int of thousands of digits has none
        return type_name(value)


def printable(text: str) -> str:
    """Escapes what is not printable, as repr does: a text from outside stays one line and commands no terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shorten(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def bare(error: Error) -> Error:
    """An error without its traceback, which would keep the objects here alive where the producer keeps the error."""
    return BaseException.with_traceback(error, None)


def text_of(error: BaseException) -> str:
    """Its message, whatever its arguments are."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text can't be read: {type_name(bare(failure))})"


def exception_text(error: BaseException) -> str:
    """ "BufferError: its message", which is cut in the middle where it is long: it may quote another, and so on."""
    message = text_of(error)
    if len(message) > 20 * MOST:
        message = f"{message[: 10 * MOST]} ... {message[-10 * MOST :]}"
    return f"{type_name(error)}: {message}" if message else type_name(error)


def kind_and_message(error: BaseException) -> tuple[str, str]:
    kind, _, message = exception_text(error).partition(": ")
    return kind, message


def unexpected(expected: str, value: object) -> str:
    return f"{expected}, got {short_repr(value)}"
