"""What reading Arrow needs of Python's library: the JSON of extension types."""

from __future__ import annotations

import math

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any, TypeGuard


def tensor_layout(metadata: bytes, size: int, most: int) -> tuple[list[int], list[int]]:
    """What the metadata of arrow.fixed_shape_tensor say of lists of `size` items: the lengths of at most `most`
    dimensions as they lie in memory, and the permutation that gives their order."""
    import json

    try:
        layout = json.loads(metadata)
    except (ValueError, RecursionError) as error:
        raise malformed("metadata", metadata, "JSON") from error
    if not isinstance(layout, dict):
        raise malformed("metadata", metadata, "a JSON object")
    shape = layout.get("shape")
    if not is_ints(shape):
        raise malformed("shape", shape, "a list of lengths")
    if len(shape) > most:
        raise malformed("shape", shape, f"at most {most} dimensions")
    if math.prod(shape) != size or max(shape, default=0) >= 1 << 63:
        raise malformed("shape", shape, f"the {size} items of its lists")
    permutation = layout.get("permutation")
    if permutation is None:
        permutation = list(range(len(shape)))
    elif not is_ints(permutation) or sorted(permutation) != list(range(len(shape))):
        raise malformed("permutation", permutation, f"each of 0 to {len(shape) - 1} once")
    return shape, permutation


def check_rows(obj: Any, rows: int) -> None:
    """What gives itself as a table of so many rows may be an array of another shape: xarray's are."""
    shape = getattr(obj, "shape", None) if hasattr(obj, "__array__") else None
    if isinstance(shape, tuple) and shape and shape[0] != rows:
        raise BufferError(f"shape {shape}: its Arrow table has {rows} rows instead (pass numpy.asarray(obj))")


def is_ints(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def malformed(field: str, value: object, expected: str) -> ValueError:
    text = repr(value)
    quoted = text if len(text) <= 100 else f"{text[:100]}..."
    return ValueError(f"arrow.fixed_shape_tensor: {field} is {quoted}; expected {expected}")
