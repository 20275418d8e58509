"""Make the errors of copy_into say whether they mean the source or the target."""

from __future__ import annotations

from ._arrow import stream_was_read
from ._describe import is_taken_over, is_used_up
from ._errors import hint_for
from ._foreign import FILLED, text_of, type_name


def about_side(side: str, error: BaseException) -> BaseException:
    """Returns the error of reading copy_into's source or target, with the name of that side in front."""
    kind = type(error)
    if kind is not TypeError and kind is not ValueError and kind is not BufferError:
        return error
    text = text_of(error)
    if side == "target" and kind is not ValueError:  # a ValueError is about the object itself
        text = of_target(text)
    named = kind(f"{side}: {text}")
    named.__cause__ = error.__cause__
    return named.with_traceback(error.__traceback__)


def sides_were_read(source: object, target: object, error: Exception) -> Exception:
    """Returns the error of copying, with a hint, and with a note if a side is used up."""
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


def read_only_target(source: object, target: object) -> Exception:
    return BufferError(
        f"target: {type_name(target)} is read-only; expected memory that may be written, to copy the source "
        f"({type_name(source)}) into (pass a new array or bytearray, and keep it; a legacy capsule counts as read-only)"
    )


# Hints that begin with OF_THIS_PACKAGE make a copy, unless they contain one of TO_OWN_MEMORY, which lead to the
# object's own memory. A copy of copy_into's target would lose what is written to it.
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


def of_target(text: str) -> str:
    """Returns the text of an error about the target, with its hint changed to one that leads to writable memory."""
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
