"""A DLPackObject as Arrow data: what pyarrow, polars, pandas, nanoarrow and duckdb make of it."""

import gc
import sys
import weakref

import duckdb
import nanoarrow as na
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from dlpack import asdlpack
from support.alone import alone
from support.capi import Speaks
from support.not_arrow import REFUSED
from support.threads import in_threads

TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def numbers(dtype, shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def pyarrow_address(array):
    return array.buffers()[1].address


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", [5, 1, 0])
def test_every_consumer_takes_one_dimension(dtype, length):
    source = numbers(dtype, (length,))
    x = asdlpack(source)
    array = pa.array(x)
    array.validate(full=True)
    assert (array.type, array.to_pylist()) == (pa.from_numpy_dtype(dtype), source.tolist())
    series = pl.Series(x)
    assert (str(series.dtype).lower(), series.to_list()) == (dtype, source.tolist())
    assert na.Array(x).to_pylist() == source.tolist()
    assert pd.Series.from_arrow(x).tolist() == source.tolist()
    if length:
        assert pyarrow_address(array) == source.ctypes.data
        assert series.to_numpy(allow_copy=False).ctypes.data == source.ctypes.data
        assert np.asarray(na.Array(x).buffers[1]).ctypes.data == source.ctypes.data
        source[0] = 99
        assert array[0].as_py() == 99
    if dtype != "float16":
        assert duckdb.sql("select * from x").fetchall() == [(number,) for number in source.tolist()]


def test_nobody_takes_the_memory_for_memory_with_nulls():
    x = asdlpack(np.arange(3))
    assert pa.array(x).null_count == 0
    assert not na.Array(x).schema.nullable
    assert pl.Series(x).null_count() == 0


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (5, 1), (0, 3)])
@pytest.mark.parametrize("dtype", TYPES)
def test_pyarrow_takes_more_dimensions_as_tensors(dtype, shape):
    source = numbers(dtype, shape)
    array = pa.array(asdlpack(source))
    assert isinstance(array, pa.FixedShapeTensorArray)
    array.validate(full=True)
    assert (array.type.value_type, array.type.shape) == (pa.from_numpy_dtype(dtype), list(shape[1:]))
    out = array.to_numpy_ndarray()
    np.testing.assert_array_equal(out, source, strict=True)
    if source.size:
        assert out.ctypes.data == source.ctypes.data
        source[-1] = 77
        np.testing.assert_array_equal(out, source)


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


def test_booleans_are_taken_as_the_bytes_that_they_are():
    source = np.array([True, False, True])
    array = pa.array(asdlpack(source))
    assert (array.type, array.to_pylist()) == (pa.bool8(), [True, False, True])
    assert pyarrow_address(array) == source.ctypes.data
    rows = pa.array(asdlpack(source.reshape(3, 1)))
    assert rows.storage.flatten().to_pylist() == [True, False, True]


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


def test_arrow_data_are_shared_with_the_consumer_and_locked_for_it():
    source = bytearray(8)
    array = pa.array(asdlpack(memoryview(source).cast("i")))
    source[0] = 7
    assert array.to_pylist() == [7, 0]
    with pytest.raises(BufferError):
        source.append(0)
    part = array[1:]
    del array
    with pytest.raises(BufferError):
        source.append(0)
    del part
    source.append(0)


def test_what_came_as_arrow_goes_as_arrow():
    column = pa.array([1, 2, 3], pa.int16())
    again = pa.array(asdlpack(pl.Series(asdlpack(column))))
    assert again.equals(column)
    assert pyarrow_address(again) == pyarrow_address(column)
    tensors = pa.array(asdlpack(numbers("f4", (2, 3, 2))))
    assert pa.array(asdlpack(tensors)).equals(tensors)


def test_a_tensor_of_another_library_is_a_column():
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    array = pa.array(asdlpack(tensor))
    assert array.storage.flatten().buffers()[1].address == tensor.data_ptr()
    tensor[1, 2] = 9
    assert array.to_numpy_ndarray()[1, 2] == 9


@pytest.mark.parametrize("consumer", [pa.array, pl.Series])
@pytest.mark.parametrize("what", REFUSED)
def test_a_consumer_is_told_what_arrow_cannot_say_and_the_way_out(what, consumer):
    make, reason, way_out = REFUSED[what]
    x = make()
    before = sys.getrefcount(x)
    with pytest.raises(BufferError) as caught:
        consumer(x)
    assert reason in str(caught.value)
    assert way_out in str(caught.value)
    del caught
    assert sys.getrefcount(x) == before


@alone
def test_what_pyarrow_holds_at_the_exit_is_left_to_it():
    """It releases after Python is gone."""
    held = [asdlpack(bytearray(24)) for _ in range(3)]
    sys.held = held, [pa.array(x) for x in held], [x.__arrow_c_array__() for x in held]


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


class Memory(bytearray):
    """A bytearray that can be referred to weakly."""


def test_garbage_that_was_exported_is_collected():
    source = Memory(8)
    alive = weakref.ref(source)
    source.x = asdlpack(source)
    source.array = pa.array(asdlpack(source.x))
    del source.array
    source.capsules = source.x.__arrow_c_array__()
    del source.capsules
    del source
    gc.collect()
    assert alive() is None
