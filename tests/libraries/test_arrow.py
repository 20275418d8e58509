"""Arrow data, by __arrow_c_array__ and __arrow_c_stream__, from the libraries that have it."""

import gc
import resource
import signal
import sys
import weakref
from pathlib import Path

import duckdb
import jax
import nanoarrow as na
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
import xarray

from dlpack import asdlpack
from dlpack._dlpack import _core_calls
from support.alone import alone, python
from support.arrow_c import Column, Stream, only_arrow
from support.capi import IS_COPIED, look
from support.process import resident

NUMBERS = np.arange(1, 25, dtype="i4")
TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def chunked(*chunks):
    return pa.chunked_array([pa.array(chunk, pa.int32()) for chunk in chunks])


def lists(values, *sizes, items=pa.int32):
    """Fixed-size lists of these sizes, from the inside out, of the values."""
    array = pa.array(values, items())
    for size in sizes:
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


# Each is given NUMBERS, and shares its memory or holds a copy of its own.
PRODUCERS = {
    "pyarrow.Array": lambda: only_arrow(pa.array(NUMBERS)),
    "pyarrow.ChunkedArray": lambda: pa.chunked_array([pa.array(NUMBERS)]),
    "pyarrow.RecordBatch": lambda: pa.record_batch({"a": NUMBERS}),
    "pyarrow.Table": lambda: pa.table({"a": NUMBERS}),
    "pyarrow.StructArray": lambda: only_arrow(pa.StructArray.from_arrays([pa.array(NUMBERS)], names=["a"])),
    "pyarrow.RecordBatchReader": lambda: pa.table({"a": NUMBERS}).to_reader(),
    "pyarrow.ExtensionArray": lambda: only_arrow(
        pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "x", "y"), pa.array(NUMBERS))
    ),
    "polars.Series": lambda: pl.Series(NUMBERS),
    "polars.DataFrame": lambda: pl.DataFrame({"a": NUMBERS}),
    "pandas.Series": lambda: pd.Series(NUMBERS),
    "pandas.Series of Arrow": lambda: pd.Series(NUMBERS, dtype="int32[pyarrow]"),
    "pandas.DataFrame": lambda: pd.DataFrame({"a": NUMBERS}),
    "nanoarrow.Array": lambda: na.Array(NUMBERS, na.int32()),
    "nanoarrow.CArray": lambda: na.c_array(NUMBERS, na.int32()),
    "nanoarrow.ArrayStream": lambda: na.ArrayStream(NUMBERS, na.int32()),
    "duckdb relation": lambda: duckdb.sql("select a::integer as a from range(1, 25) as numbers(a)"),
}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_producer_is_read_and_its_memory_is_read_only(producer):
    x = asdlpack(PRODUCERS[producer]())
    assert x.protocol in ("__arrow_c_array__", "__arrow_c_stream__")
    assert (x.dtype, x.shape, x.strides, x.readonly) == ("int32", (24,), (1,), True)
    out = np.from_dlpack(x)
    assert out.ctypes.data == x.pointer
    assert not out.flags.writeable
    np.testing.assert_array_equal(out, NUMBERS)
    assert torch.from_dlpack(x).tolist() == NUMBERS.tolist()
    assert jax.numpy.from_dlpack(x).tolist() == NUMBERS.tolist()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda array: only_arrow(pa.array(array)),
        lambda array: pa.chunked_array([pa.array(array)]),
        lambda array: pa.table({"a": array}),
        lambda array: pd.Series(array, copy=False),
        lambda array: na.c_array(array),
    ],
    ids=["pyarrow.Array", "pyarrow.ChunkedArray", "pyarrow.Table", "pandas.Series", "nanoarrow.CArray"],
)
def test_what_is_written_to_the_memory_is_seen_through_arrow_until_the_last_consumer_is_gone(wrap):
    array = np.arange(1000, dtype="f8")
    x = asdlpack(wrap(array))
    assert x.pointer == array.ctypes.data
    first, second = np.from_dlpack(x), torch.from_dlpack(x)
    del x
    array[7] = -1
    assert (first[7], second[7]) == (-1, -1)
    gone = weakref.ref(array)
    del array, first
    gc.collect()
    assert gone() is not None
    assert second[7] == -1
    del second
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", TYPES)
def test_every_primitive_type_is_read(name):
    values = np.arange(5).astype(name)
    for obj in only_arrow(pa.array(values)), pa.chunked_array([pa.array(values)]):
        x = asdlpack(obj)
        assert x.dtype == name
        np.testing.assert_array_equal(np.from_dlpack(x), values, strict=True)


def test_memory_that_the_library_owns_is_freed_with_the_last_consumer():
    before = pa.total_allocated_bytes()
    column = pa.chunked_array([pa.array(range(100_000), pa.int64())])
    x = asdlpack(column)
    assert x.pointer == column.chunk(0).buffers()[1].address
    out = np.from_dlpack(x)
    del column, x
    assert pa.total_allocated_bytes() >= before + 800_000
    assert out[99_999] == 99_999
    del out
    assert pa.total_allocated_bytes() == before


# Slices.


def test_a_sliced_array_is_shared_from_its_offset():
    array = pa.array(NUMBERS)
    for slice in (
        array[5:9],
        pa.chunked_array([array[5:9]]),
        pa.table({"a": array})[5:9],
        pa.record_batch([array], "a")[5:9],
    ):
        x = asdlpack(slice)
        assert x.pointer == NUMBERS.ctypes.data + 20
        assert np.from_dlpack(x).tolist() == [6, 7, 8, 9]


def test_a_sliced_polars_series_is_shared_from_its_offset():
    series = pl.Series(NUMBERS)
    assert asdlpack(series[3:7]).pointer == asdlpack(series).pointer + 12
    assert np.from_dlpack(asdlpack(series[3:7])).tolist() == [4, 5, 6, 7]


def test_offsets_of_lists_and_of_their_items_add_up():
    inner = pa.array(np.arange(100), pa.int32())[4:]
    outer = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(inner, 2)[3:], 3)[5:8]
    x = asdlpack(only_arrow(outer))
    assert (x.shape, x.strides) == ((3, 3, 2), (6, 2, 1))
    assert np.from_dlpack(x).tolist() == outer.to_pylist()
    assert x.pointer == inner.buffers()[1].address + 4 * (4 + 2 * 3 + 6 * 5)


def test_offsets_of_a_batch_and_of_its_column_add_up():
    column = pa.array(NUMBERS)[2:]
    batch = pa.RecordBatch.from_struct_array(pa.StructArray.from_arrays([column], names=["a"])[3:])
    assert asdlpack(batch).pointer == NUMBERS.ctypes.data + 20
    structs = pa.StructArray.from_arrays([column], names=["a"])[3:6]
    assert np.from_dlpack(asdlpack(only_arrow(structs))).tolist() == [6, 7, 8]
    by_hand = Column(
        b"+s", children=[Column(items=NUMBERS, array={"offset": 2, "length": 20})], array={"offset": 3, "length": 4}
    )
    assert np.from_dlpack(asdlpack(by_hand.exporter())).tolist() == [6, 7, 8, 9]


def test_a_slice_without_items_has_no_address():
    for array in pa.array(NUMBERS)[3:3], pa.array([True] * 9)[4:4], lists(NUMBERS, 2)[12:], pa.array([None, 1])[1:1]:
        for copy in False, None, True:
            x = asdlpack(only_arrow(array), copy=copy)
            assert (x.size, x.shape[0], x.pointer) == (0, 0, 0)
    assert asdlpack(pl.Series([], dtype=pl.Boolean)).shape == (0,)


# Dimensions.


def test_fixed_size_lists_are_dimensions():
    x = asdlpack(only_arrow(lists(NUMBERS, 4, 3)))
    assert (x.shape, x.strides, x.readonly) == ((2, 3, 4), (12, 4, 1), True)
    assert np.from_dlpack(x).tolist() == NUMBERS.reshape(2, 3, 4).tolist()
    assert x.pointer == NUMBERS.ctypes.data
    assert torch.from_dlpack(x).shape == (2, 3, 4)


def test_polars_arrays_are_dimensions():
    series = pl.Series(NUMBERS.reshape(2, 3, 4))
    assert series.dtype == pl.Array(pl.Int32, (3, 4))
    x = asdlpack(series)
    assert x.shape == (2, 3, 4)
    assert np.from_dlpack(x).tolist() == series.to_list()


@pytest.mark.parametrize("permutation", [None, [0, 1], [1, 0]])
def test_fixed_shape_tensors_have_their_shape_and_permutation(permutation):
    tensor = pa.fixed_shape_tensor(pa.int32(), [3, 4], permutation=permutation, dim_names=["row", "column"])
    array = pa.ExtensionArray.from_storage(tensor, lists(NUMBERS, 12))
    expected = array.to_numpy_ndarray()
    for obj in only_arrow(array), pa.chunked_array([array]), pa.table({"a": array}):
        x = asdlpack(obj)
        assert x.pointer == NUMBERS.ctypes.data
        assert x.shape == expected.shape
        assert x.strides == tuple(stride // 4 for stride in expected.strides)
        np.testing.assert_array_equal(np.from_dlpack(x), expected, strict=True)


def test_a_permuted_tensor_has_the_dimensions_in_the_order_of_the_standard():
    """Dimension i is dimension permutation[i] of the memory. pyarrow's own to_numpy_ndarray, and its __dlpack__, miss
    items where the permutation is not its own inverse."""
    values = np.arange(48, dtype="i4")
    tensor = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[2, 0, 1])
    array = pa.ExtensionArray.from_storage(tensor, lists(values, 24))
    expected = values.reshape(2, 2, 3, 4).transpose(0, 3, 1, 2)
    x = asdlpack(only_arrow(array[1:]))
    assert (x.shape, x.strides) == ((1, 4, 2, 3), (24, 1, 12, 4))
    np.testing.assert_array_equal(np.from_dlpack(x), expected[1:])
    copied = asdlpack(pa.chunked_array([array, array]), copy=None)
    assert copied.strides == (24, 6, 3, 1)
    np.testing.assert_array_equal(np.from_dlpack(copied), np.concatenate([expected, expected]))


def test_a_permutation_may_leave_the_last_dimension_where_it_is():
    tensor = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=[1, 0, 2])
    x = asdlpack(only_arrow(pa.ExtensionArray.from_storage(tensor, lists(NUMBERS, 24))))
    np.testing.assert_array_equal(np.from_dlpack(x), NUMBERS.reshape(1, 2, 3, 4).transpose(0, 2, 1, 3), strict=True)


def test_lists_of_tensors_have_the_dimensions_of_both():
    tensor = pa.fixed_shape_tensor(pa.int32(), [3, 2], permutation=[1, 0])
    array = pa.ExtensionArray.from_storage(tensor, lists(NUMBERS, 6))
    x = asdlpack(only_arrow(pa.FixedSizeListArray.from_arrays(array, 2)))
    assert (x.shape, x.strides) == ((2, 2, 2, 3), (12, 6, 1, 2))
    np.testing.assert_array_equal(np.from_dlpack(x), NUMBERS.reshape(2, 2, 3, 2).transpose(0, 1, 3, 2))


# Booleans.


def test_bool8_is_shared_as_booleans():
    storage = pa.array([1, 0, 1, 1], pa.int8())
    x = asdlpack(pa.ExtensionArray.from_storage(pa.bool8(), storage))
    assert (x.dtype, x.pointer) == ("bool", storage.buffers()[1].address)
    assert np.from_dlpack(x).tolist() == [True, False, True, True]


@pytest.mark.parametrize("start", range(10))
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 65, 200])
def test_bit_packed_booleans_are_unpacked_from_any_bit_on(start, count):
    values = np.random.default_rng(count).integers(0, 2, start + count + 3).astype(bool)
    for obj in pa.array(values)[start : start + count], pl.Series(values)[start : start + count]:
        x = asdlpack(obj, copy=None)
        out = np.from_dlpack(x)
        np.testing.assert_array_equal(out, values[start : start + count], strict=True)
        assert not x.readonly


def test_lists_of_booleans_are_unpacked_too():
    values = np.arange(30) % 3 == 0
    array = lists(values, 5, 2, items=pa.bool_)[1:]
    x = asdlpack(array, copy=True)
    assert (x.dtype, x.shape) == ("bool", (2, 2, 5))
    np.testing.assert_array_equal(np.from_dlpack(x), values.reshape(3, 2, 5)[1:])


@pytest.mark.parametrize("obj", [pl.Series([True]), pa.chunked_array([[True], [False]])], ids=["polars", "pyarrow"])
def test_bit_packed_booleans_are_not_copied_unasked(obj):
    with pytest.raises(BufferError, match='"b": bit-packed booleans; expected a byte an item .pass copy=None to copy'):
        asdlpack(obj)


def test_what_pyarrow_refuses_by_dlpack_is_read_by_arrow():
    array = pa.array([True, False, True])
    with pytest.raises(BufferError) as error:
        np.from_dlpack(asdlpack(array))
    said = str(error.value)
    assert "__dlpack__ said pyarrow.lib.ArrowTypeError: Bit-packed" in said
    assert "__arrow_c_array__ said BufferError" in said
    assert "pass copy=None" in said
    assert np.from_dlpack(asdlpack(array, copy=None)).tolist() == [True, False, True]


@pytest.mark.filterwarnings("error")
def test_a_producer_that_refuses_is_not_asked_in_a_way_that_it_warns_of():
    assert asdlpack(pa.array([True]), copy=None).dtype == "bool"


# Chunks.

CHUNKED = {
    "pyarrow.ChunkedArray": lambda: chunked([1, 2], [3], [4, 5, 6]),
    "pyarrow.Table": lambda: pa.table({"a": chunked([1, 2], [3], [4, 5, 6])}),
    "polars.Series": lambda: pl.Series([1, 2], dtype=pl.Int32).append(pl.Series([3, 4, 5, 6], dtype=pl.Int32)),
    "pandas.Series": lambda: pd.Series(pd.arrays.ArrowExtensionArray(chunked([1, 2], [3], [4, 5, 6]))),
}


@pytest.mark.parametrize("producer", CHUNKED)
@pytest.mark.parametrize("copy", [None, True])
def test_several_chunks_become_one_copy(producer, copy):
    obj = CHUNKED[producer]()
    references = sys.getrefcount(obj)
    x = asdlpack(obj, copy=copy)
    assert (x.dtype, x.shape, x.readonly) == ("int32", (6,), False)
    assert x.pointer % 64 == 0
    assert x.obj is None
    assert sys.getrefcount(obj) == references
    assert "a copy" in repr(x)
    assert np.from_dlpack(x).tolist() == [1, 2, 3, 4, 5, 6]
    assert torch.from_dlpack(x).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("producer", CHUNKED)
def test_several_chunks_are_not_copied_unasked(producer):
    with pytest.raises(BufferError, match="2 chunks or more; expected one .pass copy=None .*combine_chunks.*rechunk"):
        asdlpack(CHUNKED[producer]())


def test_combined_chunks_are_shared():
    combined = chunked([1, 2], [3]).combine_chunks()
    assert asdlpack(combined).pointer == combined.buffers()[1].address
    assert asdlpack(CHUNKED["polars.Series"]().rechunk()).shape == (6,)


def test_a_large_duckdb_result_comes_in_chunks():
    relation = duckdb.sql("select a::double as a from range(2_500_000) as numbers(a)")
    with pytest.raises(BufferError, match="2 chunks or more"):
        asdlpack(relation)
    np.testing.assert_array_equal(np.from_dlpack(asdlpack(relation, copy=None)), np.arange(2_500_000.0), strict=True)


def test_empty_chunks_do_not_count():
    column = chunked([], [1, 2], [], [])
    assert asdlpack(column).pointer == column.chunk(1).buffers()[1].address
    empty = [Column(items=NUMBERS[:0]) for _ in range(3)]
    assert asdlpack(Stream(*empty).exporter()).shape == (0,)
    assert [column.array_released for column in empty] == [1, 1, 1]


@pytest.mark.parametrize("copy", [False, None, True])
def test_no_chunk_at_all_is_memory_without_items_of_the_type_of_the_stream(copy):
    x = asdlpack(pa.chunked_array([], pa.int16()), copy=copy)
    assert (x.dtype, x.shape, x.pointer) == ("int16", (0,), 0)
    x = asdlpack(pa.chunked_array([], pa.list_(pa.list_(pa.float32(), 2), 3)), copy=copy)
    assert (x.dtype, x.shape) == ("float32", (0, 3, 2))
    x = asdlpack(pa.chunked_array([], pa.fixed_shape_tensor(pa.int8(), [2, 3], permutation=[1, 0])), copy=copy)
    assert x.shape == (0, 3, 2)
    assert asdlpack(pa.table({"a": pa.array([], pa.int64())}), copy=copy).dtype == "int64"
    with pytest.raises(BufferError, match="text"):
        asdlpack(pa.chunked_array([], pa.string()), copy=copy)


def test_chunks_of_lists_keep_their_dimensions():
    first, second = lists(NUMBERS, 4)[1:3], lists(NUMBERS[::-1], 4)[5:]
    x = asdlpack(pa.chunked_array([first, second]), copy=None)
    assert (x.shape, x.strides) == ((3, 4), (4, 1))
    assert np.from_dlpack(x).tolist() == first.to_pylist() + second.to_pylist()


def test_chunks_of_booleans_are_unpacked_into_one_copy():
    values = np.arange(50) % 3 == 0
    array = pa.array(values)
    x = asdlpack(pa.chunked_array([array[3:11], array[11:12], array[12:]]), copy=None)
    np.testing.assert_array_equal(np.from_dlpack(x), values[3:], strict=True)


def test_one_chunk_is_shared_with_copy_none_and_copied_with_copy_true():
    column = pa.chunked_array([pa.array(NUMBERS)])
    assert asdlpack(column, copy=None).pointer == NUMBERS.ctypes.data
    x = asdlpack(column, copy=True)
    assert x.pointer != NUMBERS.ctypes.data
    assert not x.readonly
    assert np.from_dlpack(x).tolist() == NUMBERS.tolist()


def test_chunks_are_released_as_soon_as_they_are_copied():
    before = pa.total_allocated_bytes()
    x = asdlpack(pa.chunked_array([pa.array(range(1000)), pa.array(range(1000))]), copy=None)
    assert x.size == 2000
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("copy", [None, True])
def test_chunks_are_joined_by_one_call_into_go(copy):
    asdlpack(chunked([1], [2, 3]), copy=copy)
    before = _core_calls()
    assert asdlpack(chunked([4], [5, 6]), copy=copy).size == 3
    assert _core_calls() == before + 1


@alone
def test_a_copy_of_chunks_is_not_copied_again():
    """There is memory for one copy, of 256 MB, and not for two."""
    chunks = pa.chunked_array([pa.array(np.arange(8 << 20, dtype="i4"))] * 8)
    asdlpack(chunked([1], [2]), copy=None)  # starts the core
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (400 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for copy in None, True:
        assert asdlpack(chunks, copy=copy).nbytes == 256 << 20


def test_a_copy_of_chunks_is_exported_as_a_copy():
    x = asdlpack(chunked([1], [2]), copy=None)
    assert look(x.__dlpack__(max_version=(1, 1))).flags == IS_COPIED


# Nulls.


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (lambda: pa.chunked_array([[1, None, 3, None, 5]]), "2 of 5 items are null"),
        (lambda: pl.Series([1, None, 3]), "1 of 3 items are null"),
        (lambda: pd.Series([1, None], dtype="Int64"), "1 of 2 items are null"),
        (lambda: na.Array([None, None, 1], na.int64()), "2 of 3 items are null"),
        (lambda: pl.Series([True, None]), "1 of 2 items are null"),
        (lambda: pa.table({"a": pa.array([None, 1.5])}), "1 of 2 items are null"),
        (lambda: duckdb.sql("select null::integer as a"), "1 of 1 items are null"),
        (lambda: pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)), "2 of 4 items are null"),
        (lambda: pl.Series([[1, None]], dtype=pl.Array(pl.Int8, 2)), "1 of 2 items are null"),
        (lambda: pl.Series([{"a": 1}, None, {"a": 3}]), "1 of 3 items are null"),
        (lambda: pl.Series([[[1, 2], None], None], dtype=pl.Array(pl.Int8, (2, 2))), "4 of 8 items are null"),
    ],
)
@pytest.mark.parametrize("copy", [False, None, True])
def test_nulls_are_refused_with_their_number_and_the_way_out(obj, said, copy):
    with pytest.raises(BufferError, match=f"{said}.*fill_null"):
        asdlpack(obj(), copy=copy)


def test_nulls_in_any_chunk_are_refused():
    with pytest.raises(BufferError, match="1 of 2 items are null"):
        asdlpack(pa.chunked_array([[1, 2], [3, None]]), copy=None)


def test_filled_nulls_are_exported():
    assert np.from_dlpack(asdlpack(pl.Series([1, None]).fill_null(0))).tolist() == [1, 0]
    assert np.from_dlpack(asdlpack(pc.fill_null(pa.chunked_array([[1, None]]), 0))).tolist() == [1, 0]


def test_nulls_outside_a_slice_are_none():
    array = pa.array([None, 1, 2, None], pa.int32())
    assert np.from_dlpack(asdlpack(only_arrow(array[1:3]))).tolist() == [1, 2]
    array = pa.array([None, [1, None], [2, 3]], pa.list_(pa.int32(), 2))
    assert np.from_dlpack(asdlpack(only_arrow(array[2:]))).tolist() == [[2, 3]]


# Refusals.


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (lambda: pl.Series(["a"]), "text"),
        (lambda: pl.Series([b"a"]), "bytes"),
        (lambda: pl.Series(["a"], dtype=pl.Categorical), "dictionary-encoded"),
        (lambda: pl.Series(["a"], dtype=pl.Enum(["a"])), "dictionary-encoded"),
        (lambda: pl.Series([1]).cast(pl.Decimal(10, 2)), "decimals.*cast"),
        (lambda: pl.Series([1], dtype=pl.Int32).cast(pl.Date), "times.*int32: .cast"),
        (
            lambda: pl.Series([1]).cast(pl.Datetime("us", "America/Argentina/Buenos_Aires")),
            "Buenos_Aires.*int64: .cast",
        ),
        (lambda: pl.Series([1]).cast(pl.Duration), "times.*int64: .cast"),
        (lambda: pl.Series([1]).cast(pl.Time), "times.*int64: .cast"),
        (lambda: pl.Series([[1]]), "lists of any length"),
        (lambda: pl.Series([{"a": 1, "b": 2}]), '2 columns: "a", "b"; .*pass one alone'),
        (lambda: pa.table({"a": [1], "b": [2], "c": [3], "d": [4]}), '4 columns: "a", "b", "c", ...; .*one alone'),
        (lambda: pa.table({}), "0 columns"),
        (lambda: pa.table({"a": [{"b": 1}]}), "structure"),
        (lambda: pd.DataFrame({"a": [1], "b": [2]}), '2 columns: "a", "b"'),
        (lambda: pd.Series(["a"]), "text"),
        (lambda: pa.chunked_array([pa.nulls(1)]), "nulls"),
        (lambda: pa.chunked_array([pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))]), "maps"),
        (lambda: pa.chunked_array([pc.run_end_encode(pa.array([1, 1]))]), "run-end"),
        (lambda: duckdb.sql("select 'a' as a"), "text"),
        (lambda: na.Array(["a"], na.string()), "text"),
    ],
)
@pytest.mark.parametrize("copy", [False, None])
def test_what_dlpack_has_no_word_for_is_refused_with_the_way_out(obj, said, copy):
    with pytest.raises(BufferError, match=said):
        asdlpack(obj(), copy=copy)


def test_the_type_is_refused_before_the_chunks_are():
    with pytest.raises(BufferError, match="text"):
        asdlpack(pa.chunked_array([["a"], ["b"]]))


def test_a_scalar_of_arrow_shares_nothing():
    with pytest.raises(TypeError, match="__arrow_c_array__ and __arrow_c_stream__"):
        asdlpack(pa.scalar(1))


# The protocols themselves.


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 1, 2), (2, 0, 3), (0,)])
def test_what_goes_out_by_arrow_comes_in_as_it_was(dtype, shape):
    array = np.ones(shape, dtype)
    x = asdlpack(only_arrow(asdlpack(array)))
    assert (x.protocol, x.dtype, x.shape, x.readonly) == ("__arrow_c_array__", dtype, shape, True)
    assert x.pointer == (array.ctypes.data if array.size else 0)


def test_an_error_of_python_behind_a_stream_is_told():
    def batches():
        yield pa.record_batch({"a": NUMBERS})
        raise RuntimeError("the generator broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int32()}), batches())
    with pytest.raises(BufferError, match="get_next failed with errno .*the generator broke"):
        asdlpack(reader, copy=None)


@alone
def test_a_result_of_duckdb_without_end_can_be_interrupted():
    class Alarm(Exception):
        pass

    def ring(signum, frame):
        raise Alarm

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # where it is not, it ends there
    relation = duckdb.sql("select 1::tinyint as a from range(1_000_000_000_000)")
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(Alarm):
        asdlpack(relation, copy=None)


BITS = pa.array([True, False] * 50_000)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.chunked_array([BITS, BITS]),
        lambda: pa.chunked_array([BITS, pa.nulls(1, pa.bool_())]),
        lambda: pa.chunked_array([["text"], ["text"]]),
        lambda: pa.table({"a": BITS, "b": BITS}),
        lambda: only_arrow(BITS),
    ],
    ids=["chunks", "a chunk with nulls", "chunks of text", "two columns", "an array"],
)
@pytest.mark.parametrize("copy", [False, None, True])
def test_memory_does_not_grow(make, copy):
    def use():
        try:
            asdlpack(make(), copy=copy)
        except BufferError:
            pass

    for _ in range(100):
        use()
    before, arrow = resident(), pa.total_allocated_bytes()
    for _ in range(300):
        use()
    assert resident() - before < 8 << 20  # a leak of one chunk's items is 30 MB
    assert pa.total_allocated_bytes() == arrow


def test_pyarrow_is_not_needed():
    result = python("""
import sys
sys.modules["pyarrow"] = None
import nanoarrow, numpy, polars, dlpack
for obj in polars.Series([1, 2, 3]), nanoarrow.c_array([1, 2, 3], nanoarrow.int64()):
    print(numpy.from_dlpack(dlpack.asdlpack(obj)))
""")
    assert (result.stdout, result.stderr) == ("[1 2 3]\n[1 2 3]\n", "")


def test_an_array_that_gives_itself_as_a_table_keeps_its_shape_or_is_refused():
    array = np.arange(6.0).reshape(2, 3)
    for copy in False, None, True:
        with pytest.raises(
            BufferError, match=r"shape \(2, 3\): its Arrow table has 6 rows .*pass numpy.asarray\(obj\)"
        ):
            asdlpack(xarray.DataArray(array), copy=copy)
    assert np.from_dlpack(asdlpack(np.asarray(xarray.DataArray(array)))).tolist() == array.tolist()
    table = pa.table({"a": pa.chunked_array([[1, 2], [3]])})
    assert np.from_dlpack(asdlpack(table, copy=None)).tolist() == [1, 2, 3]


def test_the_shape_of_a_table_that_is_no_array_is_not_asked_for():
    """Of a duckdb relation it runs the query once more."""

    class Table:
        __arrow_c_stream__ = pa.table({"a": NUMBERS}).__arrow_c_stream__

        @property
        def shape(self):
            raise AssertionError

    assert asdlpack(Table()).shape == (24,)
