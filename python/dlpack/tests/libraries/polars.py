"""polars' Series and DataFrames. polars takes no DLPack: it takes Arrow's arrays, without a copy."""

from collections.abc import Callable
from typing import Any

import polars as pl

from ..._abi import Seen
from ..expectations import Consumer, Rule, arrow_rules
from ..findings import Skip
from ..memory import Memory

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
    series = pl.Series([True, False, True])
    return Memory(series, "bool", (3,), bytes([1, 0, 1]), 0, readonly=True, converted="DLPack needs a byte an item")


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


def take(x: Any) -> Any:
    try:
        return pl.Series(x)
    except pl.exceptions.PanicException as panic:  # it is no Exception
        raise RuntimeError(str(panic)) from None


def see(series: Any) -> Seen:
    seen: Seen = arrow().seen(series.to_arrow())
    return seen._replace(readonly=None)


RULES = [
    *arrow_rules(),
    Rule("refused", "polars panics at lists without items", lambda m: m.size == 0 and len(m.shape) > 1),
]

CONSUMERS = [Consumer("polars", take, see, "never written", "__arrow_c_array__", rules=RULES)]
