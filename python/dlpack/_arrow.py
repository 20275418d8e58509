"""What Arrow needs of Python: whether a table is an array, and what an exported schema says of lists."""

from __future__ import annotations

from sys import byteorder

from ._errors import hint_for, refusal, refused_by_frame
from ._foreign import text_of

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

    from ._dlpack import DLPackObject


def check_rows(obj: Any, rows: int) -> Exception | None:
    """An array that gives itself as a table of so many rows may have another shape: xarray's do, and their coordinates
    are columns, too. The shape of a table with one column has two dimensions; pandas gives the index of one without
    columns. Of what is no array the shape may be costly: duckdb's runs a query."""
    shape = getattr(obj, "shape", None) if hasattr(obj, "__array__") else None
    is_table = hasattr(type(obj), "columns")
    if isinstance(shape, tuple) and (shape[:1] if is_table and 0 not in shape[1:] else shape) != (rows,):
        return BufferError(f"shape {shape}: its Arrow table has {rows} rows instead (pass numpy.asarray(obj))")
    if shape is not None and len(getattr(obj, "coords", ())) > 0:
        return BufferError("its Arrow table has the coordinates as columns, too (pass numpy.asarray(obj))")
    return None


def explain(obj: object, protocol: str, error: Exception) -> Exception:
    """Returns the error of describing obj's memory with a hint, if there is one for obj. An error that obj raised has a
    traceback, and stays as it is."""
    text = text_of(error)
    if type(error) in (BufferError, ValueError) and error.__traceback__ is None and not text.endswith(")"):
        if text.startswith(("Arrow format ", "__arrow_c_")):
            text += hint_for("Arrow", obj, " null" in text)
        elif text.startswith(("format ", "typestr ")):
            text += hint_for("items", obj, text)
        elif text.startswith("data is NULL"):
            text += hint_for("data is NULL", obj, text)
        error = type(error)(text)
    return stream_failed(obj, error) if protocol == "__arrow_c_stream__" else error


def describe_column(x: DLPackObject, letter: str, is_compact: bool) -> bytes | Exception:
    """The format of x's items, in 8 bytes, and their metadata, in 80; then, where rows are lists, the lists' format, in
    24 bytes, and the metadata that make them tensors. C has these lengths."""
    if letter not in ITEMS:
        return BufferError(refusal(x, "no Arrow type"))
    items = BOOLEANS if x.dtype == "bool" else ITEMS[letter]
    if is_compact and x.ndim == 1:
        return items
    shape = x.shape
    if not shape:
        return BufferError(
            "shape (): expected one dimension or more, as Arrow's arrays have a length (numpy.asarray(x).reshape(1) "
            "has one)"
        )
    if not is_compact:
        return BufferError(refusal(x, "not row-major"))
    size = 1  # math.prod of them, whose module would take a tenth of this package's import
    for length in shape[1:]:
        size *= length
    if size >= 1 << 31:
        return BufferError(
            f"shape: rows of {size} items; expected at most {(1 << 31) - 1}, the longest of Arrow's fixed-size lists "
            "(numpy.asarray(x).reshape(-1) has no rows)"
        )
    parameters = '{"shape":[' + ",".join(map(str, shape[1:])) + "]}"
    return items + f"+w:{size}".encode().ljust(24, b"\0") + extension("arrow.fixed_shape_tensor", parameters)


def extension(name: str, parameters: str) -> bytes:
    """The metadata of an extension type, as the C data interface lays them out."""
    texts = "ARROW:extension:name", name, "ARROW:extension:metadata", parameters
    pairs = [len(text).to_bytes(4, byteorder) + text.encode() for text in texts]
    return (2).to_bytes(4, byteorder) + b"".join(pairs)


ITEMS = {letter: letter.encode().ljust(88, b"\0") for letter in "csilCSILefg"}
BOOLEANS = (b"c".ljust(8, b"\0") + extension("arrow.bool8", "")).ljust(88, b"\0")


def is_read_once(obj: object) -> bool:
    """An Arrow stream that is no container: reading it may consume it."""
    if not hasattr(obj, "__arrow_c_stream__"):
        return False
    for name in "__dlpack__", "__array_interface__", "__array_struct__", "__arrow_c_array__", "__len__":
        if hasattr(obj, name):
            return False
    return True


def streams_instead(obj: object, refusal: BaseException) -> BaseException | None:
    """The refusal of obj's array; None where obj gives a stream instead: nanoarrow refuses so to give several chunks
    as one array."""
    has_stream = isinstance(refusal, ValueError) and getattr(obj, "__arrow_c_stream__", None) is not None
    return None if has_stream else refusal


def stream_failed(obj: object, error: Exception) -> Exception:
    """What is raised where obj's stream was not given, or could not be read."""
    kinds = TypeError, ValueError, OverflowError, NotImplementedError, ImportError
    for kind in type(obj).__mro__ if isinstance(error, kinds) else ():
        if str(kind.__module__).startswith(("pandas.", "xarray.")):
            return refused_by_frame(obj, error)
    return error if error.__traceback__ else stream_was_read(obj, error)  # of obj's own method in Python


def stream_was_read(obj: object, error: Exception) -> Exception:
    """An error that came after obj's stream was read, or in it."""
    if type(error) not in (BufferError, ValueError) or not is_read_once(obj):
        return error
    return type(error)(
        f"{text_of(error)}; before that make this stream anew, if it can be read only once: it has been read"
    )
