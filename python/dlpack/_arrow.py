"""What Arrow needs of Python: whether a table is an array, and what an exported schema says of lists."""

from __future__ import annotations

import math
from sys import byteorder

from ._object import refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

    from ._dlpack import DLPackObject


def check_rows(obj: Any, rows: int) -> Exception | None:
    """An array that gives itself as a table of so many rows may have another shape: xarray's do. Of what is no array
    the shape may be costly: duckdb's runs a query."""
    shape = getattr(obj, "shape", None) if hasattr(obj, "__array__") else None
    if isinstance(shape, tuple) and shape and shape[0] != rows:
        return BufferError(f"shape {shape}: its Arrow table has {rows} rows instead (pass numpy.asarray(obj))")
    return None


def describe_lists(x: DLPackObject, has_type: bool, is_compact: bool) -> bytes | Exception:
    """The format of lists that are x's rows, in 24 bytes, and behind it the metadata that make them tensors."""
    if not has_type:
        return BufferError(refusal(x, "no Arrow type"))
    if not x.shape:
        return BufferError(
            "shape (): expected one dimension or more, as Arrow's arrays have a length (numpy.asarray(x).reshape(1) "
            "has one)"
        )
    if not is_compact:
        return BufferError(refusal(x, "not row-major"))
    row, size = x.shape[1:], math.prod(x.shape[1:])
    if size >= 1 << 31:
        return BufferError(
            f"shape: rows of {size} items; expected at most {(1 << 31) - 1}, the longest of Arrow's fixed-size lists "
            "(numpy.asarray(x).reshape(-1) has no rows)"
        )
    parameters = '{"shape":[' + ",".join(map(str, row)) + "]}"
    texts = "ARROW:extension:name", "arrow.fixed_shape_tensor", "ARROW:extension:metadata", parameters
    pairs = [len(text).to_bytes(4, byteorder) + text.encode() for text in texts]
    return f"+w:{size}".encode().ljust(24, b"\0") + (2).to_bytes(4, byteorder) + b"".join(pairs)
