"""polars' Series and DataFrames. polars takes no DLPack: it takes Arrow's arrays, without a copy."""

from collections.abc import Callable
from typing import Any

import polars as pl

from ..._abi import Seen
from ..checks import withholds
from ..memory import Memory, Skip
from . import Consumer

NUMBERS = (1, 2, 3)


def arrow() -> Any:
    """polars tells no addresses: pyarrow does."""
    try:
        from . import pyarrow
    except ImportError:
        raise Skip("pyarrow is not installed") from None
    return pyarrow


def series() -> Any:
    return pl.Series(NUMBERS, dtype=pl.Float64)


def booleans() -> Memory:
    """Eight items share a byte."""
    return Memory(pl.Series([True, False, True]), "bool", (3,), bytes([1, 0, 1]), 0, readonly=True, copy=None)


def to_numpy() -> Memory:
    try:
        from .numpy import known
    except ImportError:
        raise Skip("numpy is not installed") from None
    return known(series().to_numpy(allow_copy=False))


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Series": lambda: arrow().of_column(series()),
    "Series, sliced": lambda: arrow().of_column(series()[1:]),
    "Series of arrays": lambda: arrow().of_column(pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int32, 2))),
    "Series of booleans, copy=None": booleans,
    "Series.to_arrow()": lambda: arrow().known(series().to_arrow()),
    "Series.to_numpy()": to_numpy,
    "DataFrame of a column": lambda: arrow().only_column(pl.DataFrame({"a": series()})),
}


class Series(Consumer):
    name = "polars"
    readonly = "never written"
    protocol = "__arrow_c_array__"

    def take(self, x: Any) -> Any:
        try:
            return pl.Series(x)
        except pl.exceptions.PanicException as panic:  # it is no Exception
            raise RuntimeError(str(panic)) from None

    def see(self, taken: Any) -> Seen:
        seen: Seen = arrow().seen(taken.to_arrow())
        return seen._replace(readonly=None)


CONSUMERS = [Series()]


def withholds_what_is_no_plain_memory() -> None:
    withholds(
        {
            "booleans": lambda: pl.Series([True]),
            "nulls": lambda: pl.Series([1, None]),
            "text": lambda: pl.Series(["text"]),
            "lists": lambda: pl.Series([[1, 2], [3]]),
            "two chunks": lambda: series().append(series()),
            "two columns": lambda: pl.DataFrame({"a": NUMBERS, "b": NUMBERS}),
        }
    )


CHECKS = {"withholds what is no plain memory": withholds_what_is_no_plain_memory}
