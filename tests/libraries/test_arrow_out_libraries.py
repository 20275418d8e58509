"""A DLPackObject as Arrow data: what pyarrow, polars, pandas, nanoarrow and duckdb make of it, besides what
python -m dlpack.tests tries: every type and layout."""

import sys

import duckdb
import nanoarrow as na
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dlpack import asdlpack
from support.capi import Speaks
from support.layouts import numbers
from support.refusals import refused
from support.threads import in_threads


def test_nobody_takes_the_memory_for_memory_with_nulls():
    x = asdlpack(np.arange(3))
    assert pa.array(x).null_count == 0
    assert not na.Array(x).schema.nullable
    assert pl.Series(x).null_count() == 0


@pytest.mark.filterwarnings("ignore:.*Converting unregistered extension")
def test_the_other_consumers_take_rows_as_lists():
    source = numbers("f8", (2, 3))
    x = asdlpack(source)
    assert na.Array(x).to_pylist() == source.tolist()
    assert [row.tolist() for row in pd.Series.from_arrow(x)] == source.tolist()
    assert duckdb.sql("select * from x").fetchall() == [((0, 1, 2),), ((3, 4, 5),)]
    series = pl.Series(x)
    assert str(series.dtype).startswith("Extension('arrow.fixed_shape_tensor'")
    assert series.ext.storage().to_list() == source.tolist()


def test_polars_makes_no_column_of_one_object():
    x = asdlpack(np.arange(3))
    refused(lambda: pl.DataFrame({"a": x}), "no-array", NotImplementedError)
    assert pl.DataFrame({"a": np.asarray(x)})["a"].to_list() == [0, 1, 2]
    assert pl.DataFrame({"a": pl.Series(x)})["a"].to_list() == [0, 1, 2]


def test_a_requested_schema_changes_nothing():
    x = asdlpack(np.arange(3, dtype="i4"))
    assert pa.array(x, pa.int32()).to_pylist() == [0, 1, 2]
    wish = pa.field("", pa.int64()).__arrow_c_schema__()
    wished = Speaks(__arrow_c_array__=lambda requested_schema=None: x.__arrow_c_array__(wish))
    assert pa.array(wished).type == pa.int32()
    assert len(x.__arrow_c_array__(requested_schema=wish)) == 2
    for arguments, keywords in (((None, None), {}), ((), {"schema": None})):
        with pytest.raises(TypeError):
            x.__arrow_c_array__(*arguments, **keywords)


def test_arrow_round_trip_keeps_the_values_and_the_memory():
    column = pa.array([1, 2, 3], pa.int16())
    again = pa.array(asdlpack(pl.Series(asdlpack(column))))
    assert again.equals(column)
    assert again.buffers()[1].address == column.buffers()[1].address
    tensors = pa.array(asdlpack(numbers("f4", (2, 3, 2))))
    assert pa.array(asdlpack(tensors)).equals(tensors)


def test_consumers_on_other_threads_release_what_they_took():
    x = asdlpack(memoryview(bytes(24)).cast("i", (2, 3)))

    def work(number):
        for _ in range(200):
            array = pa.array(x)
            assert array.to_numpy_ndarray().shape == (2, 3)
            x.__arrow_c_array__()

    before = sys.getrefcount(x)
    in_threads(work, 4)
    assert sys.getrefcount(x) == before
