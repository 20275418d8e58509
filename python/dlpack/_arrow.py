"""What Arrow needs of Python: whether a table is an array."""

from __future__ import annotations


def check_rows(shape: object, rows: int) -> None:
    """An array that gives itself as a table of so many rows may have another shape: xarray's do."""
    if isinstance(shape, tuple) and shape and shape[0] != rows:
        raise BufferError(f"shape {shape}: its Arrow table has {rows} rows instead (pass numpy.asarray(obj))")
