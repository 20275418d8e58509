"""Help C with Arrow: check that a table is an array, describe an exported column, explain errors."""

from __future__ import annotations

from sys import byteorder

from ._errors import hint_for, refuse, refused_by_frame
from ._foreign import is_a, printable, shorten
from ._refusals import Cure, as_refusal, pass_copy, refusal, reworded

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

    from ._dlpack import DLPackObject


def check_rows(obj: Any, rows: int, columns: int) -> Exception | None:
    """Returns an error if obj is an array or a DataFrame whose shape or items differ from its Arrow table, which has
    `rows` rows and `columns` columns.

    Those of xarray differ, and their coordinates are columns of the table. A table with one column has a shape of two
    dimensions; pandas exports the index of a table without columns. Only arrays are asked for their shape: it may be
    costly, and duckdb's runs a query."""
    shape = getattr(obj, "shape", None) if hasattr(obj, "__array__") else None
    is_table = hasattr(type(obj), "columns")
    if isinstance(shape, tuple) and (shape[:1] if is_table and 0 not in shape[1:] else shape) != (rows,):
        said = f"shape {shape}: its Arrow table has {rows} rows instead"
        return refusal(BufferError, "other-rows", said, AS_ARRAY, rows=rows)
    if is_table and isinstance(shape, tuple) and len(shape) == 2 and shape[1] not in (0, columns):
        said = f"shape {shape}: its Arrow table has {columns} columns instead, such as the index"
        return refusal(BufferError, "other-rows", said, AS_ARRAY, columns=columns)
    if shape is not None and len(getattr(obj, "coords", ())) > 0:
        said = "its Arrow table has the coordinates as columns, too"
        return refusal(BufferError, "coordinates", said, AS_ARRAY)
    return None


def frame_source(obj: Any, may_copy: bool) -> Any:
    """Returns the object to read in place of obj, which is obj itself unless it is a DataFrame of pandas: the array of
    its numbers, since Arrow takes NaN for null; or for other items the DataFrame without its index, which Arrow takes
    for a column. An array of two dimensions is to be copied, as the rows of a matrix."""
    kind = type(obj)
    if not is_a(kind, "pandas", "DataFrame") and not is_a(kind, "pandas.core.frame", "DataFrame"):
        return obj
    dtypes = set(obj.dtypes)
    dtype: Any = dtypes.pop() if len(dtypes) == 1 else None
    if not is_a(type(dtype), "numpy", "dtype") or dtype.kind not in "biufc":
        return obj if len(obj.columns) == 0 else obj.reset_index(drop=True)
    count = len(obj.columns)
    if count == 1:
        return obj.iloc[:, 0].to_numpy()
    if not may_copy:
        names = ", ".join([f'"{name}"' for name in obj.columns[:3]]) + ", ..." * (count > 3)
        said = f"{count} columns: {shorten(printable(names))}; DLPack holds one array"
        return refusal(BufferError, "columns", said, pass_copy(INTO_MATRIX), columns=count, names=names)
    return obj.to_numpy()


INTO_MATRIX = " to copy them into one matrix"
AS_ARRAY = Cure("pass numpy.asarray(obj)")
STREAMS = "__arrow_c_device_stream__", "__arrow_c_stream__"
ARROW = "__arrow_c_array__", "__arrow_c_device_array__", *STREAMS
OF_CONTAINERS = "__dlpack__", "__array_interface__", "__array_struct__", *ARROW[:2], "__len__"
BY_ITEMS = "format", "typestr"  # fields whose errors have a hint that depends on the items


def explain(obj: object, protocol: str, error: Exception) -> Exception:
    """Adds a hint for obj, if there is one, to an error of describing its memory. An error that obj itself raised has a
    traceback, and gets no hint."""
    if type(error) in (BufferError, ValueError) and error.__traceback__ is None:
        old = as_refusal(error)
        cure, reason = old._cure, old.reason
        if getattr(cure, "key", "") == "copy-with-library" and type(obj).__module__ == "builtins":
            cure = ""  # no library owns it
        elif cure:
            pass
        elif protocol in ARROW:
            cure = hint_for("columns", obj, reason) if "column" in old.details else ""
            cure = cure or hint_for("Arrow", obj, reason == "nulls")
        elif old.details.get("field") in BY_ITEMS:
            cure = hint_for("items", obj, reason)
        elif reason == "data-is-null":
            cure = hint_for("no memory", obj)
        if cure != old._cure or old is not error:
            error = reworded(error, cure=cure)
        error.details["protocol"] = protocol  # type: ignore[attr-defined]
    return stream_failed(obj, protocol, error)


def describe_column(x: DLPackObject, letter: str, is_compact: bool) -> bytes | Exception:
    """Returns the format of x's items in 8 bytes, and their metadata in 80. If x has two dimensions or more, its rows
    are lists: their format follows in 24 bytes, then the metadata that make them tensors. C relies on these lengths."""
    if letter not in ITEMS:
        return refuse(x, "no-arrow-type")
    items = BOOLEANS if x.dtype == "bool" else ITEMS[letter]
    if is_compact and x.ndim == 1:
        return items
    shape = x.shape
    if not shape:
        said = "shape (): expected one dimension or more, as Arrow's arrays have a length"
        return refusal(BufferError, "no-dimension", said, "numpy.asarray(x).reshape(1) has one", shape=shape)
    if not is_compact:
        return refuse(x, "not-row-major")
    size = 1  # importing math for math.prod would take a tenth of this package's import time
    for length in shape[1:]:
        size *= length
    if size >= 1 << 31:
        said = f"shape: rows of {size} items; expected at most {(1 << 31) - 1}, the longest of Arrow's fixed-size lists"
        return refusal(BufferError, "long-rows", said, "numpy.asarray(x).reshape(-1) has no rows", shape=shape)
    parameters = '{"shape":[' + ",".join(map(str, shape[1:])) + "]}"
    return items + f"+w:{size}".encode().ljust(24, b"\0") + extension("arrow.fixed_shape_tensor", parameters)


def extension(name: str, parameters: str) -> bytes:
    """Returns the metadata of an extension type in the layout of the C data interface."""
    texts = "ARROW:extension:name", name, "ARROW:extension:metadata", parameters
    pairs = [len(text).to_bytes(4, byteorder) + text.encode() for text in texts]
    return (2).to_bytes(4, byteorder) + b"".join(pairs)


ITEMS = {letter: letter.encode().ljust(88, b"\0") for letter in "csilCSILefg"}
BOOLEANS = (b"c".ljust(8, b"\0") + extension("arrow.bool8", "")).ljust(88, b"\0")


def read_once_by(obj: object) -> str | None:
    """Returns obj's protocol if obj is an Arrow stream and not a container: reading it may consume it."""
    for stream in STREAMS:  # no comprehension: CPython leaks obj if it can't allocate the cell for it
        if hasattr(obj, stream):
            break
    else:
        return None
    for name in OF_CONTAINERS:
        if hasattr(obj, name):
            return None
    return stream


def other_method(obj: object, protocol: str, error: BaseException) -> BaseException | None:
    """Returns the refusal of obj's method, or None if another can serve instead: the host's for a device's, or for an
    array obj's stream, since nanoarrow raises a ValueError for an array of several chunks."""
    if protocol == "__arrow_c_array__":
        has_other = isinstance(error, ValueError) and getattr(obj, "__arrow_c_stream__", None) is not None
    else:
        has_other = "device" in protocol and isinstance(error, NotImplementedError)
    return None if has_other else error


def stream_failed(obj: object, protocol: str, error: Exception) -> Exception:
    """Returns the error to raise if obj did not return its stream, or the stream could not be read; of another protocol
    the error itself."""
    if protocol not in STREAMS:
        return error
    kinds = TypeError, ValueError, OverflowError, NotImplementedError, ImportError
    for kind in type(obj).__mro__ if isinstance(error, kinds) else ():
        if str(kind.__module__).startswith(("pandas.", "xarray.")):
            return refused_by_frame(obj, error)
    return error if error.__traceback__ else stream_was_read(obj, error)  # obj's own Python code raised it


def stream_was_read(obj: object, error: Exception) -> Exception:
    """Adds to an error that obj's stream is used up, if it can be read only once."""
    if type(error) not in (BufferError, ValueError) or not read_once_by(obj):
        return error
    note = "; before that make this stream anew, if it can be read only once: it has been read"
    return reworded(error, note=note)
