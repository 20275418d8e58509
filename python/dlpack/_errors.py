"""The words of errors. Functions that C calls return a text or an exception, which C raises: CPython 3.11 loses an
exception that a Python function raises where there is no memory for its frame object."""

from __future__ import annotations

import os
from _thread import RLock
from sys import _getframe

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from types import FrameType
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
NO_MEMORY = MemoryError, SystemError  # the second if CPython 3.11 loses the first


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


def of_asdlpack(error: BaseException, obj: str = "obj") -> str:
    """The text of an error of asdlpack's, where a function says it that has no argument copy, or another one."""
    return text_of(error).replace("(pass copy=None", f"(pass asdlpack({obj}, copy=None)")


def unexpected(expected: str, value: object) -> str:
    return f"{expected}, got {short_repr(value)}"


def unexpected_value(kind: type[Exception], expected: str, value: object) -> Exception:
    return kind(unexpected(expected, value))


def no_holder(obj: object) -> Exception:
    if issubclass(type(obj), type):
        return TypeError(f"asdlpack: expected an object that holds memory, got the type {obj!r}: pass an instance")
    return TypeError("asdlpack: a weak reference keeps no memory alive: pass the object itself")


def no_protocol(obj: object) -> Exception:
    return TypeError(
        f"{type_name(obj)} object shares no memory: asdlpack looked for {', '.join(IN_WORDS[:-1])} and "
        f"{IN_WORDS[-1]}{hint_for('shares no memory', obj)}"
    )


# Held by a thread that loads _hints, and by one that forks: the child of a fork meanwhile would wait for ever for the
# end of the load.
loading = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)


def hint_for(problem: str, obj: object, *arguments: object) -> str:
    """The first hint that _hints has for obj and a problem, a key of HINTS, in brackets; or "".

    Its functions look at attributes, which may be of any type, raise, or lead to another such error: that gets no hint,
    since each level would try all functions.
    """
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_code is hint_for.__code__:
            return ""
        frame = frame.f_back
    try:
        with loading:
            from ._hints import HINTS
    except Exception:  # no memory, Python ends, or its file is gone
        return ""
    for find in HINTS[problem]:
        try:
            hint = find(obj, *arguments)
        except NO_MEMORY:  # to catch more than a few of them ends CPython 3.11
            return ""
        except Exception:  # the object's own, or another version of its library lacks
            continue
        if hint:
            return f" ({hint})"
    return ""


def buffer_error(obj: object, error: ValueError | IndexError) -> ValueError | IndexError:
    """Returns the error of an object that gives no buffer, with a hint for closed mappings and Qt's pointers."""
    if type_name(obj) == "mmap.mmap":
        return ValueError(
            f"{error} (map the file again, and keep it open until it is wrapped: then it can't be closed)"
        )
    if type_name(obj).endswith(".sip.voidptr"):
        return IndexError(f"{text_of(error)} (before that call obj.setsize(bytes))")
    return error


def needless_owner(obj: object) -> Exception:
    return TypeError(
        "owner: expected only with a pointer to a dlpack.structs.DLTensor, which is borrowed, got "
        f"{type_name(obj)}, which is kept alive itself"
    )


def field(interface: dict[str, Any], name: str, default: Any = None) -> Any:
    """Is dict.get, but locks nothing: a free-threaded build's locks the dict, and a fork may copy it locked."""
    try:
        return dict.__getitem__(interface, name) if dict.__contains__(interface, name) else default
    except KeyError:  # another thread removed it meanwhile
        return default


def wrong_answer(obj: object, method: str, expected: str, answer: object) -> Exception:
    return ValueError(f"{type_name(obj)}.{method} returned {short_repr(answer)}; expected {expected}")


def no_capsule(obj: object, method: str, answer: object) -> Exception:
    return wrong_answer(obj, method, "a capsule", answer)


def refused_by_all(obj: object, refusal: str, protocol: str | None, other: str | None) -> Exception:
    """What a producer's __dlpack__ said, and what its other protocol said, if it has one."""
    only = f"its only protocol is __dlpack__, which said {refusal}"
    said = only if protocol is None else f"__dlpack__ said {refusal}; {protocol} said {other}"
    instead = "" if said.endswith(")") and protocol is not None else hint_for("refuses", obj, refusal)
    return BufferError(f"{type_name(obj)} can't be exported: {said}{instead}")


def flat_bytes(count: int) -> BufferError:
    """After a refusal of __dlpack__, bytes that the object's own shape and item size don't confirm."""
    return BufferError(
        f"{count} bytes without their shape and type (frombuffer(obj, 'uint8') shares the bytes as they lie in memory)"
    )


def refused_by_frame(obj: object, error: Exception) -> Exception:
    """The error of pandas or xarray that pyarrow is missing or doesn't take the data, with the way out."""
    said = f"__arrow_c_stream__ said {exception_text(bare(error))}"
    return BufferError(f"{type_name(obj)} can't be exported: {said}{hint_for('table', obj)}")


def check_stream_named(obj: Any) -> Exception | None:
    """Before version 3 the CUDA array interface names no stream, and nobody waits for what a producer that has
    __dlpack__ has queued."""
    interface = obj.__cuda_array_interface__
    version = field(interface, "version", 0) if isinstance(interface, dict) else 0
    if hasattr(version, "__index__") and version >= 3:
        return None
    return BufferError(f"version {short_repr(version)} names no stream to wait for; expected version 3")


def capsule_name(name: bytes | None, legacy: str, versioned: str) -> Exception:
    text = "" if name is None else name.decode(errors="replace")
    if text in (f"used_{legacy}", f"used_{versioned}"):
        return ValueError(
            f'capsule "{text}": already consumed, which works once (ask its producer for another, or keep the '
            "DLPackObject, which can be exported any number of times)"
        )
    return ValueError(f'capsule "{text:.{MOST}}": expected the name "{legacy}" or "{versioned}"')


# Hints that begin so make a copy, unless they have one of these words, which lead to the object's own memory. A copy of
# copy_into's target would lose what is copied into it.
OF_THIS_PACKAGE = ("pass ", "copy ", "if it ", "it is open for writing", "after obj.flush()", "of a file's name")
TO_OWN_MEMORY = (
    ".set_(obj)",
    ".view(",
    ", one field",
    "bits()",
    "cast('B')",
    "ctypes.pointer",
    "ffi.buffer(",
    "get_obj()",
    "getbuffer()",
    " one by one",
    "obj.asi8",
    "pass obj.buf)",
    "pass obj.data)",
    "memmap(",
    "mmap.mmap(",
    "saved as bfloat16",
    "samples_mv",
)
COPIES = ".astype(", "pyarrow.array("
FILLED = "pass obj.filled(), in which masked items are obj.fill_value"


def about_side(side: str, error: BaseException) -> BaseException:
    """The error of reading copy_into's source or target, which says which of the two it is about."""
    kind = type(error)
    if kind is not TypeError and kind is not ValueError and kind is not BufferError:
        return error
    text = text_of(error)
    if side == "target" and kind is not ValueError:  # which says what is wrong with obj itself
        text = of_target(text)
    named = kind(f"{side}: {text}")
    named.__cause__ = error.__cause__
    return named.with_traceback(error.__traceback__)


def sides_were_read(source: object, target: object, error: Exception) -> Exception:
    """The error of copying, after both sides were read."""
    from ._arrow import stream_was_read
    from ._describe import is_taken_over, is_used_up

    if type(error) not in (BufferError, ValueError):
        return error
    before = text = text_of(error)
    side, _, said = text.partition(": ")
    used_up = "source" if is_used_up(source) else ""
    if said.startswith(("format ", "typestr ")) and not said.endswith(")"):
        text += hint_for("items", source if side == "source" else target, said)
        text = of_target(text) if side == "target" else text
    elif "nothing is converted" in text and not text.endswith(")"):
        text += hint_for("data type", source, text)
    elif "nothing is repeated (pass dlpack.frombuffer" in text:
        if reshaped := hint_for("shape", source, text):
            text = text.partition(" (pass ")[0] + reshaped
    if is_taken_over(source):
        text = text.replace("frombuffer(source,", "frombuffer(dlpack.asdlpack(source),")
    if is_used_up(target):
        used_up += " and the target" if used_up else "target"
    if used_up:
        text += f"; before that make the {used_up} anew, which can be read once"
    return stream_was_read(source, error) if text == before else type(error)(text)


def of_target(text: str) -> str:
    """The text of an error with a hint that leads to memory for writing."""
    text = text.replace(FILLED, "pass obj.data")
    text = text.replace("mode='c'", "mode='r+'").replace("ACCESS_COPY", "ACCESS_WRITE")
    text = text.replace("pass mmap", "open it in mode 'r+b', and pass mmap").replace(", with copy=None", "")
    text, is_of_text, _ = text.partition("; of text pass ")
    text, is_of_file, _ = text.partition("; if it is empty ")
    text += ")" if is_of_file or is_of_text else ""
    cut = text.rfind(" (")
    while cut > 0 and text.count("(", cut) != text.count(")", cut):
        cut = text.rfind(" (", 0, cut)
    if cut < 0 or not text.endswith(")") or not text.startswith(OF_THIS_PACKAGE, cut + 2):
        return text
    instead = text[cut:]
    own = [words for words in TO_OWN_MEMORY if words in instead]
    if own and not [words for words in COPIES if words in instead]:
        return text
    return f"{text[:cut]} (copy into a new array, and from there by the library that owns the target)"


def read_only_target(source: object, target: object) -> Exception:
    return BufferError(
        f"target: {type_name(target)} is read-only; expected memory that may be written, to copy the source "
        f"({type_name(source)}) into (pass a new array or bytearray, and keep it; a legacy capsule counts as read-only)"
    )
