"""The ways out that errors name for objects of other libraries: each one gives what asdlpack takes."""

# ruff: noqa: F401  # the texts of tables name them
import datetime
import io
import uuid
from functools import partial

import av
import cffi
import cv2
import dask
import duckdb
import h5py
import jax
import nanoarrow
import numpy as np
import onnx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import tensorflow
import torch
import xarray
import zarr
from jax.experimental import sparse

import dlpack
from dlpack import asdlpack
from support.alone import python
from support.hints import follow, hint_of
from support.refusals import refused

ffi = cffi.FFI()
NAMES = {**globals(), "numpy": np, "polars": pl, "pyarrow": pa}  # of hints
STRUCTURES = pa.struct({"a": pa.int64(), "b": pa.int64()})
SECONDS = pa.timestamp("s")
LISTS = pa.list_(pa.int64(), 2)
COLUMNS = pa.table({"a": [7], "b": [2]})
CODES = pa.array([["a", "b"], ["b", "b"]], pa.list_(pa.dictionary(pa.int8(), pa.string()), 2))
BYTES = pa.array([b"ab", b"cd", b"ef"], pa.binary(2))


def tensors():
    kind = pa.fixed_shape_tensor(pa.int64(), [2])
    return pa.ExtensionArray.from_storage(kind, pa.array([[1, 2], None], LISTS))


def traced():
    kept = []
    tensorflow.function(kept.append)(tensorflow.ones(2))
    return kept[0]


def written(file):
    file.write(b"abc")
    return file


def group_of_h5py():
    file = h5py.File(io.BytesIO(), "w")
    group = file.create_group("group")
    group["names"], group["numbers"] = ["b"], [1, 2]
    return group


def group_of_zarr():
    group = zarr.group()
    group.create_array("numbers", data=np.array([1, 2]))
    return group


def booleans():
    return pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], "int8"))


# Objects that are refused, a part of the hint, which is run as it is written, and, if similar code would give other
# items, those that it gives.
REFUSED = [
    ("jax.numpy.array([1, -2], 'int4')", "numpy.asarray(obj)", [1, -2]),
    ("jax.numpy.array([1, 2], 'uint4')", "numpy.asarray(obj)", [1, 2]),
    ("jax.random.key(0)", "jax.random.key_data(obj)"),
    ("ffi.new('float[6]')", "ffi.buffer(obj)"),
    ("pl.Series([1, None])", "obj.fill_null(0)"),
    ("pa.array([1, None])", "obj.fill_null(0)"),
    ("pd.Series([1, None], dtype='Int64')", "obj.fillna(0)"),
    ("pl.Series([1], dtype=pl.Int128)", "obj.cast(polars.Float64)"),
    ("pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}, index=[5, 6])", "obj['a']"),
    ("pd.Series([1, None])", "obj.to_numpy()"),
    ("pl.Series([[1, None], [2, 3]], dtype=pl.Array(pl.Int64, 2))", "obj.explode().fill_null(0)"),
    ("pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2))", "obj.explode().fill_null(0)"),
    ("pa.array([[1, None]], LISTS)", "obj.flatten().fill_null(0)"),
    ("pa.array([[1, 2], None], LISTS)", "obj.flatten().fill_null(0)"),
    (
        "pd.Series(pa.array([[1, None], [2, 3]], LISTS), dtype=pd.ArrowDtype(LISTS))",
        "pyarrow.array(obj).flatten().fill_null(0)",
        [1, 0, 2, 3],
    ),
    ("pa.chunked_array([pa.array([[1, None]], LISTS)])", "obj.combine_chunks().flatten().fill_null(0)"),
    (
        "pl.DataFrame({'a': pl.Series([[1, None], [2, 3]], dtype=pl.Array(pl.Int64, 2))})",
        "obj['a'].explode().fill_null(0)",
        [1, 0, 2, 3],
    ),
    ("tensors()", "obj.storage.flatten().fill_null(0)", [1, 2]),
    ("pa.chunked_array([tensors(), tensors()])", "obj.combine_chunks().storage.flatten().fill_null(0)", [1, 2, 1, 2]),
    ("pa.table({'a': tensors()})", "obj['a'].combine_chunks().storage.flatten().fill_null(0)"),
    ("duckdb.connect().sql('values (1), (null)')", "pyarrow.table(obj)[0].combine_chunks().fill_null(0)"),
    ("nanoarrow.Array([1, None], nanoarrow.int64())", "pyarrow.array(obj).fill_null(0)"),
    (
        "nanoarrow.Array.from_chunks([[1, None], [2]], nanoarrow.int64())",
        "pyarrow.chunked_array(obj).combine_chunks().fill_null(0)",
        [1, 0, 2],
    ),
    ("duckdb.connect().sql(\"select date '2000-01-01'\")", "pyarrow.table(obj)[0].combine_chunks().cast('int32')"),
    ("pa.nulls(2)", "obj.cast('int64').fill_null(0)"),
    ("pd.Series([None, None])", "pyarrow.array(obj).cast('int64').fill_null(0)"),
    ("pd.Series([{'a': 1, 'b': 2}])", "copy=None to copy them into one matrix"),
    ("pd.array([datetime.date(2000, 1, 1)], dtype=pd.ArrowDtype(pa.date32()))", "pyarrow.array(obj).cast('int32')"),
    ("pa.array(['1'])", "obj.cast('float64')"),
    ("pl.Series(['1'])", "obj.cast(polars.Float64)"),
    ("pd.Series(['1'], dtype='str')", "pyarrow.array(obj).cast('float64')"),
    ("pa.array([1], pa.decimal128(5))", "obj.cast('float64')"),
    ("pa.array([1], pa.date32())", "obj.cast('int32')"),
    ("pd.Series(pd.to_datetime(['2000-01-01']))", "obj.array.asi8, their ticks as int64"),
    ("pd.Series([datetime.date(2000, 1, 1)])", "pyarrow.array(obj).cast('int32')"),
    ("pa.array([[1, 2]], pa.list_(pa.date32(), 2))", "obj.flatten().cast('int32')"),
    ("pa.chunked_array([pa.array([[1, 2]], pa.list_(SECONDS, 2))])", "obj.combine_chunks().flatten().cast('int64')"),
    ("pl.Series([['1', '2']], dtype=pl.Array(pl.String, 2))", "obj.explode().cast(polars.Float64)"),
    ("BYTES", "dlpack.frombuffer(obj, 'uint8', (-1, 2))", [[97, 98], [99, 100], [101, 102]]),
    ("BYTES[1:3]", "dlpack.frombuffer(obj, 'uint8', (-1, 2))", [[99, 100], [101, 102]]),
    (
        "pa.array([b'a', None], pa.binary(1))",
        "dlpack.frombuffer(obj.fill_null(bytes(1)), 'uint8', (-1, 1))",
        [[97], [0]],
    ),
    ("pa.chunked_array([BYTES[2:], BYTES[:1]])", "dlpack.frombuffer(obj.combine_chunks(), ", [[101, 102], [97, 98]]),
    ("pa.table({'a': BYTES})", "dlpack.frombuffer(obj['a'].combine_chunks(), ", [[97, 98], [99, 100], [101, 102]]),
    (
        "pd.Series(BYTES[1:], dtype=pd.ArrowDtype(BYTES.type))",
        "dlpack.frombuffer(pyarrow.array(obj), ",
        [[99, 100], [101, 102]],
    ),
    ("nanoarrow.Array(BYTES[1:])", "dlpack.frombuffer(pyarrow.array(obj), ", [[99, 100], [101, 102]]),
    (
        "pa.array([uuid.UUID(int=number) for number in range(3)], pa.uuid())[2:]",
        "dlpack.frombuffer(obj.storage, ",
        [[0] * 15 + [2]],
    ),
    ("pa.array(['a']).dictionary_encode()", "obj.indices"),
    ("CODES", "obj.flatten().indices", [0, 1, 1, 1]),
    ("pa.chunked_array([CODES[:1], CODES[1:]])", "obj.combine_chunks().flatten().indices", [0, 1, 1, 1]),
    ("pd.Series(CODES, dtype=pd.ArrowDtype(CODES.type))", "pyarrow.array(obj).flatten().indices", [0, 1, 1, 1]),
    ("pl.Series([['a', 'b'], ['b', 'b']], dtype=pl.Array(pl.Categorical, 2))", "obj.explode().to_physical()"),
    ("pa.chunked_array([['a'], ['b']]).dictionary_encode()", "obj.combine_chunks().indices"),
    ("pl.Series(['a'], dtype=pl.Categorical)", "obj.to_physical()"),
    ("pd.DataFrame({'a': pd.Categorical(['x', 'y'])})", "obj['a'].cat.codes", [0, 1]),
    ("pl.DataFrame({'a': pl.Series(['x'], dtype=pl.Categorical)})", "obj['a'].to_physical()"),
    ("pa.table({'a': pa.array(['x', 'y']).dictionary_encode()})", "obj['a'].combine_chunks().indices", [0, 1]),
    ("duckdb.connect().sql(\"select 'x'::enum('x', 'y') a\")", "pyarrow.table(obj)[0].combine_chunks().indices"),
    ("pd.Series(['a'], dtype='category')", "obj.cat.codes"),
    ("pd.Series(pa.array([7], SECONDS), dtype=pd.ArrowDtype(SECONDS))", "pyarrow.array(obj).cast('int64')", [7]),
    (
        "pd.Series([datetime.datetime(1970, 1, 2)], dtype=object)",
        "pyarrow.array(obj).cast('int64')",
        [24 * 3600 * 10**6],
    ),
    ("pd.Series([datetime.time(0, 0, 1)])", "pyarrow.array(obj).cast('int64')", [10**6]),
    ("pl.Series([datetime.date(1970, 1, 8)])", "obj.to_physical()", [7]),
    ("pa.array([[1], [2, 3]])", "obj.flatten()", [1, 2, 3]),
    ("nanoarrow.Array(pa.array([[1], [2, 3]]))", "pyarrow.array(obj).flatten()", [1, 2, 3]),
    ("pa.array([[1, 2], [3, 4]], pa.list_view(pa.int64()))", "obj.flatten()"),
    ("pa.array([[1.5, 2], [3, 4]])", "pass obj.cast(pyarrow.list_(obj.type.value_type, 2))", [[1.5, 2], [3, 4]]),
    ("pa.chunked_array([[[1]], [[2, 3]]])", "obj.combine_chunks().flatten()", [1, 2, 3]),
    ("pl.Series([[1], [2, 3]])", "obj.explode()", [1, 2, 3]),
    ("pl.Series([[1, 2], [3, 4]])", "pass obj.list.to_array(2)", [[1, 2], [3, 4]]),
    ("pd.Series([[1], [2, 3]])", "pyarrow.array(obj).flatten()", [1, 2, 3]),
    ("pl.DataFrame({'a': [[1], [2, 3]]})", "obj['a'].explode().drop_nulls()", [1, 2, 3]),
    ("pl.Series([1, 2.5], dtype=pl.Object)", "numpy.asarray(obj).astype('float64')", [1, 2.5]),
    ("pa.chunked_array([[1], [2]])", "copy=None to copy them into one"),
    ("pl.concat([pl.Series([1]), pl.Series([2])], rechunk=False)", "copy=None to copy them into one"),
    ("COLUMNS.to_reader()", "copy=None to copy them into one matrix", [[7, 2]]),
    ("pa.table({'a': [1, None]}).to_reader()", "pyarrow.table(obj)['a'].combine_chunks().fill_null(0)"),
    ("duckdb.connect().sql('select 1 a, 2.5::double b')", "obj['a']"),
    (
        "pa.table({'a': [1], 'b': [1.5]})",
        "obj.cast(pyarrow.schema([(name, 'float64') for name in obj.schema.names])), with copy=None",
        [[1, 1.5]],
    ),
    ("pa.table({'a': [2**60 + 1], 'b': [1.5]})", "obj['a']", [2**60 + 1]),
    ("pa.record_batch({'a': [1], 'b': pa.array([2**63], 'uint64')})", "obj['a']", [1]),
    ("pl.DataFrame({'a': [-(2**60) - 1], 'b': [1.5]})", "obj['a']", [-(2**60) - 1]),
    ("pd.DataFrame({'a': [2**60 + 1], 'b': [1.5]})", "obj['a']", [2**60 + 1]),
    (
        "pa.record_batch({'a': [1], 'b': pa.array([2], 'uint8')})",
        "obj.cast(pyarrow.schema([(name, 'int64') for name in obj.schema.names])), with copy=None",
        [[1, 2]],
    ),
    ("pl.DataFrame({'a': [1], 'b': [1.5]})", "obj.cast(polars.Float64), with copy=None", [[1, 1.5]]),
    ("pd.DataFrame({'a': [1], 'b': [1.5]})", "obj.astype('float64'), with copy=None", [[1, 1.5]]),
    (
        "pa.table({'a': [1, None], 'b': [2, 3]})",
        "pyarrow.table([column.fill_null(0) for column in obj.columns], obj.schema.names), with copy=None",
        [[1, 2], [0, 3]],
    ),
    ("pa.table({'a': [True, None], 'b': [True, True]})", "[column.fill_null(False) for", [[True, True], [False, True]]),
    ("pl.DataFrame({'a': [1, None], 'b': [2, 3]})", "obj.fill_null(0), with copy=None", [[1, 2], [0, 3]]),
    ("pd.DataFrame({'a': [1, None], 'b': [2, 3]}, dtype='Int64')", "obj.fillna(0), with copy=None", [[1, 2], [0, 3]]),
    ("pa.table({'a': pa.array([[1, 2]], pa.list_(pa.int8(), 2)), 'b': [7]})", "obj['b']"),
    (
        "pa.StructArray.from_arrays([[1, 9], [2, 9]], ['a', 'b'], mask=pa.array([False, True]))",
        "obj.flatten()[0].fill_null(0)",
        [1, 0],
    ),
    ("pa.array([{'a': 1}, None])", "obj.flatten()[0].fill_null(0)", [1, 0]),
    ("pa.chunked_array([[{'a': 1}, None], [{'a': 1}]])", "obj.combine_chunks().flatten()[0].fill_null(0)", [1, 0, 1]),
    ("pl.Series([{'a': 1, 'b': 2}])", "copy=None to copy them into one matrix"),
    (
        "pd.Series(pa.array([{'a': 1, 'b': 2}]), dtype=pd.ArrowDtype(STRUCTURES))",
        "copy=None to copy them into one matrix",
    ),
    ("pd.DataFrame({'a': [1], 'b': [2]})", "copy=None to copy them into one matrix", [[1, 2]]),
    (
        "pd.DataFrame({letter * 70: ['x' if letter > '\u4e01' else 1] for letter in '\u4e00\u4e01\u4e02'})",
        "obj['\u4e00",
    ),
    ("pd.DataFrame({0: [1], 1: ['x']})", "obj.iloc[:, 0]"),
    ("xarray.DataArray(np.zeros((2, 3)))", "numpy.asarray(obj)"),
    ("xarray.DataArray(np.arange(2, dtype='>f4'))", "numpy.asarray(obj), with copy=None", [0, 1]),
    ("xarray.DataArray([1j, 2])", "numpy.asarray(obj)", [1j, 2]),
    ("xarray.DataArray([1, 2], name='n', dims='x', coords={'x': [5, 6]})", "numpy.asarray(obj)", [1, 2]),
    ("pd.Series([True, None], dtype='boolean')", "obj.fillna(False), with copy=None"),
    ("pa.array([True, None])", "obj.fill_null(False), with copy=None"),
    ("booleans()", "obj.storage.fill_null(0)", [1, 0]),
    ("pa.chunked_array([booleans()])", "obj.combine_chunks().storage.fill_null(0)"),
    ("pa.table({'a': booleans()})", "obj['a'].combine_chunks().storage.fill_null(0)"),
    ("pd.Series(['a'], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))", "pyarrow.array(obj).indices"),
    ("pd.Series(pd.interval_range(0, 2))", "copy=None to copy them into one matrix", [[0, 1], [1, 2]]),
    ("pd.DataFrame({'a': [True, False], 'b': ['x', 'y']})", "obj['a']", [True, False]),
    ("pd.Series([1j, 2])", "numpy.asarray(obj)", [1j, 2]),
    ("pd.DataFrame({'a': [1j, 2], 'b': [1, 2]})", "numpy.asarray(obj)", [[1j, 1], [2, 2]]),
    ("pd.Series([1j, 2], dtype=object)", "numpy.asarray(obj).astype('complex128')", [1j, 2]),
    ("pd.Series([1.0, 0], dtype='Sparse[float64]')", "numpy.asarray(obj)", [1, 0]),
    ("pd.Series(np.ones(2, 'g'))", "numpy.asarray(obj).astype('float64')"),
    ("pd.Series([2**70])", "numpy.asarray(obj).astype('float64')", [2.0**70]),
    ("pd.Series([1, '2'])", "numpy.asarray(obj).astype('float64')", [1, 2]),
    ("pd.DataFrame([[1, 2]], columns=['a', 'a'])", "copy=None to copy them into one matrix", [[1, 2]]),
    ("pd.DataFrame([[1, 'b']], columns=['a', 'a'])", "obj.iloc[:, 0]", [1]),
    (
        "pd.Series([np.ones((2, 2)), np.zeros((2, 2))])",
        "numpy.stack(numpy.asarray(obj))",
        [[[1, 1], [1, 1]], [[0, 0], [0, 0]]],
    ),
    ("[torch.ones(2), torch.ones(3)]", "obj[0]", [1, 1]),
    ("(jax.numpy.ones(2),)", "obj[0]"),
    ("torch.ones(2).untyped_storage()", "torch.empty(0, dtype=torch.uint8, device=obj.device).set_(obj)"),
    ("torch.ones(2).storage()", "torch.empty(0, dtype=obj.dtype, device=obj.device).set_(obj)", [1, 1]),
    ("pa.scalar(7)", "pyarrow.array([obj])", [7]),
    ("pa.scalar([1, 2])", "obj.values", [1, 2]),
    ("xarray.Dataset({'name': ('x', [1, 2])})", "numpy.asarray(obj['name'])"),
    ("pd.DataFrame({'a': [1, 2, 1], 'b': [3, 4, 5]}).groupby('a')['b']", "[group for name, group in obj][0]", [3, 5]),
    ("pd.Index([1, 2])", "numpy.asarray(obj)"),
    ("pd.array([1, None], dtype='Int64')", "obj.to_numpy('float64', na_value=numpy.nan)"),
    ("pd.date_range('2020', periods=3).array", "obj.asi8"),
    ("pd.date_range('2020', periods=3, tz='UTC')", "obj.asi8"),
    ("pd.period_range('2020', periods=3, freq='D')", "obj.asi8"),
    ("pd.interval_range(0, 3)", "numpy.asarray(obj.left)"),
    ("pd.MultiIndex.from_arrays([[1, 2], [3, 4]])", "numpy.asarray(obj.get_level_values(0))"),
    ("pd.Categorical(['a', 'b'])", "obj.codes"),
    ("dask.delayed(np.zeros(2))", "obj.compute()"),
    ("pa.memory_map(__file__)", "obj.read_buffer()"),
    ("pa.BufferReader(b'abc')", "obj.read_buffer()"),
    ("written(pa.BufferOutputStream())", "obj.getvalue()"),
    ("av.VideoFrame(16, 16, 'rgb24')", "obj.to_ndarray()"),
    ("av.AudioFrame('flt', 'mono', 8)", "obj.to_ndarray()"),
    ("cv2.UMat(2, 2, cv2.CV_8U)", "obj.get()"),
    ("onnx.numpy_helper.from_array(np.zeros(2))", "onnx.numpy_helper.to_array(obj)"),
    ("tensorflow.sparse.from_dense([[1, 0], [0, 2]])", "tensorflow.sparse.to_dense(obj)"),
    ("sparse.BCOO.fromdense(jax.numpy.eye(2))", "obj.todense()"),
    ("tensorflow.IndexedSlices(tensorflow.ones([1, 2]), tensorflow.constant([0]))", "obj.values"),
    ("tensorflow.ragged.constant([[1, 2], [3]])", "obj.to_tensor()"),
    ("pl.LazyFrame({'a': [1]})", "obj.collect(), or a column of it"),
    ("torch.nn.Linear(2, 2)", "obj.state_dict()['weight']"),
    ("scipy.sparse.eye(3)", "obj.toarray()"),
    ("torch.eye(3).to_sparse()", "obj.to_dense()"),
    ("pa.SparseCOOTensor.from_dense_numpy(np.eye(2))", "obj.to_tensor()", [[1, 0], [0, 1]]),
    ("pa.SparseCSRMatrix.from_dense_numpy(np.eye(2))", "obj.to_tensor()"),
    ("pa.SparseCSCMatrix.from_dense_numpy(np.eye(2))", "obj.to_tensor()", [[1, 0], [0, 1]]),
    ("pa.SparseCSFTensor.from_dense_numpy(np.eye(2))", "obj.to_tensor()", [[1, 0], [0, 1]]),
    ("group_of_h5py()", "numpy.asarray(obj['numbers'])", [1, 2]),
    ("group_of_zarr()", "numpy.asarray(obj['numbers'])", [1, 2]),
    ("torch.eye(3).to_sparse_csr()", "obj.to_dense()"),
    ("torch.ones(2, dtype=torch.complex64).conj()", "obj.resolve_conj()"),
    ("torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)", "obj.dequantize()"),
    ("torch.ones(2, dtype=torch.uint8).view(torch.bits8)", "obj.view(torch.uint8)"),
    (
        "torch.tensor([[1, 2], [3, 4]], dtype=torch.int16).view(torch.bits16).T",
        "obj.view(torch.int16)",
        [[1, 3], [2, 4]],
    ),
    ("torch.ones(2, dtype=torch.complex64, requires_grad=True).conj()", "obj.detach().resolve_conj()"),
    ("torch.ones(2, device='meta')", "torch.empty_like(obj, device='cpu')"),
    ("torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))", "obj.get_data()"),
    ("torch.nested.nested_tensor([torch.ones(2)])", "obj.to_padded_tensor(0)"),
    ("torch.ones(2, requires_grad=True)", "obj.detach()"),
]


def test_hint_of_nulls_in_columns_of_duckdb_works_as_written():
    obj = duckdb.connect().sql("select * from (values (null, 4), (2, 5)) t(x, y)")
    with pytest.raises(BufferError) as caught:
        asdlpack(obj, copy=None)
    x = follow(str(caught.value), {**NAMES, "obj": obj})
    assert np.asarray(x).tolist() == [0, 2]


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of its newest kinds of tensors
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0])
def test_hint_of_a_librarys_object_works_as_written(row):
    made, words, *items = row
    obj = eval(made)
    with pytest.raises((BufferError, TypeError, ValueError)) as caught:
        _ = asdlpack(obj).shape
    hint = hint_of(str(caught.value))
    assert words in hint
    assert len(hint) <= 200
    instead = follow(str(caught.value), {**NAMES, "obj": eval(made)})  # a stream was read
    assert instead.size > 0
    assert not items or np.asarray(instead).tolist() == items[0]


def test_a_file_of_pyarrow_to_write_is_to_be_opened_for_reading(tmp_path):
    with (
        pa.OSFile(str(tmp_path / "file"), "wb") as obj,
        pytest.raises(TypeError, match="it is open for writing alone: open it for reading"),
    ):
        asdlpack(obj)


def test_an_empty_dataset_of_h5py_has_no_way_out():
    with h5py.File(io.BytesIO(), "w") as file:
        file["empty"] = h5py.Empty("f4")
        for obj in file["empty"], h5py.Empty("f4"):
            refused(partial(asdlpack, obj), "no-protocol", TypeError, hint="it has no items")


def test_a_tensor_inside_vmap_names_the_way_out():
    def double(x):
        with pytest.raises(BufferError, match="inside torch.func.vmap and the like: pass what these return"):
            _ = asdlpack(x).shape
        return x * 2

    assert asdlpack(torch.func.vmap(double)(torch.ones(3, 2))).shape == (3, 2)


# These crash in a process with tensorflow.
ALONE = {
    "a sparse tensor of paddle": ("import paddle; obj = paddle.eye(2).to_sparse_coo(2)", "obj.to_dense()"),
    "a sparse tensor of paddle in rows": ("import paddle; obj = paddle.eye(2).to_sparse_csr()", "obj.to_dense()"),
    "a fake tensor": (
        "import torch, torch._subclasses as t; obj = t.FakeTensorMode().from_tensor(torch.ones(2))",
        "it has no memory: pass what is made outside its FakeTensorMode",
        "torch.ones(2)",
    ),
}


# Objects that are refused, the hint, and a program that follows it.
ADVICE = {
    "a tensor inside a function of tensorflow": (
        traced,
        "it has no memory: pass what the function returns",
        lambda obj: tensorflow.function(lambda: tensorflow.ones(2))(),
    ),
    "a tensor of a model": (
        lambda: tensorflow.keras.Input((2,)),
        "it has no memory: pass what the model returns",
        lambda obj: np.asarray(tensorflow.keras.layers.Identity()(np.ones((1, 2)))),
    ),
    "a connection of duckdb": (duckdb.connect, "pass what obj.sql(query) gives", lambda obj: obj.sql("select 7 a")),
}


@pytest.mark.parametrize("what", ADVICE)
def test_hint_of_a_librarys_object_can_be_followed(what):
    make, advice, follow_advice = ADVICE[what]
    obj = make()
    with pytest.raises(TypeError) as caught:
        asdlpack(obj)
    assert hint_of(str(caught.value)) == advice
    assert asdlpack(follow_advice(obj)).size > 0


@pytest.mark.parametrize("what", ALONE)
def test_a_way_out_works_in_a_process_with_one_library(what):
    make, text, *meaning = ALONE[what]
    result = python(f"""from dlpack import asdlpack
{make}
try:
    asdlpack(obj).shape
except (BufferError, ValueError) as error:
    assert {text!r} in str(error), error
    assert asdlpack({meaning[0] if meaning else text}).size > 0
else:
    raise AssertionError("it was not refused")
""")
    assert result.returncode == 0, result.stderr
