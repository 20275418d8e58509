"""pandas' Series and DataFrames. pandas takes no DLPack: it takes numpy's arrays, and Arrow's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dlpack
from dlpack.tests.findings import Skip
from dlpack.tests.libraries.numpy import known
from dlpack.tests.memory import Memory


def series() -> Any:
    return pd.Series([1.0, 2.0, 3.0])


def by_itself() -> Memory:
    provided = series()
    return known(provided, provided.to_numpy())


def arrow() -> Any:
    try:
        from dlpack.tests.libraries import pyarrow
    except ImportError:
        raise Skip("pyarrow is not installed") from None
    return pyarrow


def of_arrow() -> Any:
    return pd.Series([1, 2, 3], dtype="int64[pyarrow]")


def array_of_arrow() -> Memory:
    memory: Memory = arrow().known(of_arrow().array.__arrow_array__().chunk(0))
    return memory


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Series": by_itself,
    "Series.to_numpy()": lambda: known(series().to_numpy()),
    "Series, Arrow-backed": lambda: arrow().of_column(of_arrow()),
    "Series, Arrow-backed: its pyarrow array": array_of_arrow,
    "DataFrame of a column": lambda: arrow().only_column(pd.DataFrame({"a": series()})),
    "DataFrame column": lambda: known(pd.DataFrame(np.arange(6.0).reshape(3, 2))[1].to_numpy()),
}


def becomes_a_series_without_a_copy_by_way_of_numpy() -> None:
    source = bytearray(8)
    taken = pd.Series(np.from_dlpack(dlpack.asdlpack(source)), copy=False)
    source[3] = 7
    assert taken.tolist() == [0, 0, 0, 7, 0, 0, 0, 0], taken


def becomes_a_series_by_arrow() -> None:
    arrow()
    if not hasattr(pd.Series, "from_arrow"):
        raise Skip(f"pandas {pd.__version__} has no Series.from_arrow")
    x = dlpack.asdlpack(series().to_numpy())
    taken = pd.Series.from_arrow(x)
    assert taken.tolist() == [1, 2, 3], taken


CHECKS = {
    "our memory becomes a Series without a copy, by way of numpy": becomes_a_series_without_a_copy_by_way_of_numpy,
    "our memory becomes a Series by Arrow": becomes_a_series_by_arrow,
}
