"""pandas' Series and DataFrames. pandas takes no DLPack: it takes numpy's arrays, without a copy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dlpack

from ..checks import withholds
from ..memory import Memory, Skip
from .numpy import known


def series() -> Any:
    return pd.Series([1.0, 2.0, 3.0])


def by_itself() -> Memory:
    provided = series()
    return known(provided, provided.to_numpy())


def arrow_backed() -> Memory:
    try:
        from . import pyarrow

        provided = pd.Series([1, 2, 3], dtype="int64[pyarrow]")
    except ImportError:
        raise Skip("pyarrow is not installed") from None
    return pyarrow.known(provided.array.__arrow_array__().chunk(0))


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Series": by_itself,
    "Series.to_numpy()": lambda: known(series().to_numpy()),
    "Series, Arrow-backed: its pyarrow array": arrow_backed,
    "DataFrame column": lambda: known(pd.DataFrame(np.arange(6.0).reshape(3, 2))[1].to_numpy()),
}


def becomes_a_series_without_a_copy_by_way_of_numpy() -> None:
    source = bytearray(8)
    taken = pd.Series(np.from_dlpack(dlpack.asdlpack(source)), copy=False)
    source[3] = 7
    assert taken.tolist() == [0, 0, 0, 7, 0, 0, 0, 0], taken


def speaks_no_protocol_that_asdlpack_reads() -> None:
    withholds({"a DataFrame": lambda: pd.DataFrame({"a": [1, 2]})}, TypeError)


CHECKS = {
    "our memory becomes a Series without a copy, by way of numpy": becomes_a_series_without_a_copy_by_way_of_numpy,
    "a DataFrame speaks no protocol that asdlpack reads": speaks_no_protocol_that_asdlpack_reads,
}
