"""Tables of pyarrow, polars, pandas and duckdb as matrices; pyarrow's items of a fixed number of bytes."""

import gc
import weakref
from functools import partial

import duckdb
import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from dlpack import asdlpack, copy_into, frombuffer, to
from support.refusals import refused

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def chunked(array, ends, before=0):
    """A pyarrow table of the matrix, in chunks that end at these rows; each chunk is a slice from row `before` on."""
    batches = []
    for first, end in zip([0, *ends], [*ends, len(array)], strict=True):
        filled = np.concatenate([np.ones((before, array.shape[1]), array.dtype), array[first:end]])
        columns = [pa.array(np.ascontiguousarray(column)) for column in filled.T]
        batches.append(pa.record_batch(columns, [f"c{i}" for i in range(len(columns))])[before:])
    return pa.Table.from_batches(batches)


MAKERS = {
    "pyarrow": lambda table: table,
    "a batch of pyarrow": lambda table: table.combine_chunks().to_batches()[0],
    "structures of pyarrow": lambda table: table.to_struct_array(),
    "polars": lambda table: pl.from_arrow(table, rechunk=False),
    "structures of polars": lambda table: pl.from_arrow(table, rechunk=False).to_struct("s"),
    "pandas": lambda table: table.to_pandas(),
    "Arrow in pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda table: duckdb.from_arrow(table),
}


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_table_is_numpys_column_stack(library, dtype):
    if dtype == "float16" and "duckdb" in library:
        dtype = "float32"  # duckdb has no other
    random = np.random.default_rng(0)
    for _ in range(4):
        rows, columns = random.integers(1, 60), random.integers(2, 12)
        array = random.integers(0, 2 if dtype == "bool" else 100, (rows, columns)).astype(dtype)
        ends = sorted(random.integers(1, rows, 2).tolist()) if rows > 1 else []
        table = chunked(array, ends, before=int(random.integers(0, 12)))
        obj = MAKERS[library](table)
        for copy in None, True:
            x = asdlpack(obj, copy=copy)
            assert (x.shape, x.dtype, x.strides) == (array.shape, dtype, (columns, 1))
            assert np.array_equal(np.from_dlpack(x), np.column_stack([table[i].to_numpy() for i in range(columns)]))


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas", "duckdb"])
def test_table_goes_to_other_libraries(library):
    array = np.arange(12.0).reshape(4, 3)
    obj = MAKERS[library](chunked(array, [1]))
    assert torch.equal(torch.from_dlpack(asdlpack(obj, copy=None)), torch.from_numpy(array))
    assert torch.equal(to(obj, "torch", copy=None), torch.from_numpy(array))
    target = np.zeros((4, 3))
    copy_into(obj, target)
    assert np.array_equal(target, array)


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas", "Arrow in pandas", "duckdb"])
def test_table_is_refused_without_copy(library):
    obj = MAKERS[library](chunked(np.ones((2, 2)), []))
    hint, details = "pass copy=None to copy them into one matrix", {"columns": 2, "protocol": "__arrow_c_stream__"}
    refused(lambda: asdlpack(obj), "columns", hint=hint, **details)


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas", "duckdb"])
def test_table_of_several_types_names_the_column(library):
    table = pa.table({"a": [1.0], "b": [2.0], "c": [3]})
    refused(lambda: asdlpack(MAKERS[library](table), copy=None), "column-types", column="c", dtype="int64")


@pytest.mark.parametrize("library", ["pyarrow", "polars", "Arrow in pandas", "duckdb"])
def test_nulls_of_a_table_name_the_column(library):
    table = pa.table({"a": [1.0, 2.0], "b": [2.0, None]})
    refused(lambda: asdlpack(MAKERS[library](table), copy=None), "nulls", column="b")


@pytest.mark.parametrize("library", ["pyarrow", "polars", "duckdb"])
@pytest.mark.parametrize("column", ["x", b"x", None, {"y": 1}, [1]])
def test_column_without_numbers_is_named(library, column):
    table = pa.table({"a": [1, 2], "b": [column, column]})
    with pytest.raises(BufferError) as caught:
        asdlpack(MAKERS[library](table), copy=None)
    assert caught.value.details["column"] == "b"


def test_memory_of_a_table_is_given_back():
    """The copy is the object's own, and the table's memory goes with the table."""
    gc.collect()
    before = pa.total_allocated_bytes()
    table = pa.table({name: pa.array(range(1000), pa.int64()) for name in "ab"})
    x = asdlpack(table, copy=None)
    del table
    gc.collect()
    assert pa.total_allocated_bytes() == before
    assert np.from_dlpack(x)[999].tolist() == [999, 999]


def test_large_table_is_copied_right():
    array = np.random.default_rng(0).random((1 << 18, 9))
    table = chunked(array, [100_001])
    assert np.array_equal(np.from_dlpack(asdlpack(table, copy=None)), array)


# pandas.


def test_nan_of_pandas_stays():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [np.nan, 2.0]})
    x = asdlpack(frame, copy=None)
    assert np.array_equal(np.from_dlpack(x), frame.to_numpy(), equal_nan=True)
    assert np.isnan(np.from_dlpack(asdlpack(frame[["a"]]))[1])


@pytest.mark.parametrize("index", [[5, 6], ["x", "y"], pd.MultiIndex.from_tuples([(1, 2), (3, 4)])])
@pytest.mark.parametrize("dtype", ["int64", "Int64", pd.ArrowDtype(pa.int64())])
def test_index_of_pandas_is_not_a_column(index, dtype):
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=index, dtype=dtype)
    assert np.from_dlpack(asdlpack(frame, copy=None)).tolist() == [[1, 3], [2, 4]]
    assert np.from_dlpack(asdlpack(frame[["a"]])).tolist() == [1, 2]


def test_frame_of_one_column_is_shared_with_pandas():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    x = asdlpack(frame)
    assert (x.shape, x.obj is frame) == ((3,), True)
    assert x.pointer == frame["a"].to_numpy().ctypes.data
    frame.iloc[1, 0] = 7
    assert np.from_dlpack(x)[1] == frame.iloc[1, 0] == 7
    gone = weakref.ref(frame)
    del frame
    assert gone() is not None
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "bool", ">f4"])
def test_numbers_of_pandas_that_arrow_lacks_become_a_matrix(dtype):
    array = np.arange(6).reshape(3, 2).astype(dtype)
    result = np.from_dlpack(asdlpack(pd.DataFrame(array), copy=None))
    assert np.array_equal(result, array)
    assert result.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["Float64", "boolean"])
def test_missing_values_of_pandas_extensions_are_nulls(dtype):
    frame = pd.DataFrame({"a": [1, 0], "b": [1, None]}, dtype=dtype)
    refused(lambda: asdlpack(frame, copy=None), "nulls", column="b")
    assert np.from_dlpack(asdlpack(frame[:1], copy=None)).tolist() == [[1, 1]]


def test_frame_without_rows_is_an_empty_matrix():
    assert asdlpack(pd.DataFrame({"a": [], "b": []}, dtype="f4"), copy=None).shape == (0, 2)
    assert asdlpack(pl.DataFrame({"a": [], "b": []}, schema={"a": pl.Int8, "b": pl.Int8}), copy=None).shape == (0, 2)
    assert asdlpack(pa.schema([("a", "i4"), ("b", "i4")]).empty_table(), copy=None).shape == (0, 2)


def test_index_that_another_frame_exports_as_a_column_is_refused():
    class Frame:
        columns, shape = ["a"], (2, 1)

        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 1))

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": [1, 2], "__index_level_0__": [5, 6]}).__arrow_c_stream__()

    refused(lambda: asdlpack(Frame(), copy=None), "other-rows")


# Items of a fixed number of bytes.


class BFloat16(pa.ExtensionType):
    """Arrow's type for bfloat16 as lance.arrow defines it."""

    def __init__(self):
        super().__init__(pa.binary(2), "lance.bfloat16")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


@pytest.mark.parametrize("make", [lambda array: array, lambda array: pa.chunked_array([array])])
def test_fixed_size_binary_is_shared_as_any_type(make):
    array = pa.array([b"abcd", b"efgh", b"ijkl"], pa.binary(4))[1:]
    x = frombuffer(make(array), "bfloat16", (-1, 2))
    assert (x.shape, x.readonly, x.pointer) == ((2, 2), True, array.buffers()[1].address + 4)
    assert bytes(frombuffer(x, "uint8")) == b"efghijkl"


def test_bytes_of_any_length_are_refused():
    for array in pa.array([b"ab"]), pl.Series([b"ab"]):
        refused(partial(frombuffer, array, "uint8"), "bytes")


def test_lance_bfloat16_is_read_as_bfloat16():
    numbers = np.arange(6, dtype=ml_dtypes.bfloat16)
    storage = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2), 6, [None, pa.py_buffer(numbers.view("u1"))])
    array = pa.ExtensionArray.from_storage(BFloat16(), storage)
    x = asdlpack(array[2:])
    assert (x.dtype, x.pointer) == ("bfloat16", numbers.ctypes.data + 4)
    assert torch.from_dlpack(x).tolist() == [2, 3, 4, 5]
    chunks = pa.chunked_array([array[:2], array])
    assert np.asarray(asdlpack(chunks, copy=None)).tolist() == [0, 1, 0, 1, 2, 3, 4, 5]
    table = pa.table({"a": array, "b": array})
    assert torch.from_dlpack(asdlpack(table, copy=None))[5].tolist() == [5, 5]
    nulls = pa.ExtensionArray.from_storage(BFloat16(), pa.array([b"ab", None], pa.binary(2)))
    with pytest.raises(BufferError, match="1 of 2 items are null"):
        _ = asdlpack(nulls).shape


def test_fixed_size_binary_of_a_stream_is_not_read_twice():
    """The refusal has read the stream, so nothing would be left."""
    table = pa.table({"a": pa.array([b"abcd"], pa.binary(4))})
    refused(lambda: frombuffer(table.to_reader(), "uint8"), "bytes")
    assert frombuffer(table, "uint8").shape == (4,)


def test_bytes_refused_by_another_protocol_are_not_asked_of_arrow():
    class Void:
        __array_interface__ = np.zeros(2, "V4").__array_interface__

    refused(lambda: frombuffer(Void(), "uint8"), "bytes")
