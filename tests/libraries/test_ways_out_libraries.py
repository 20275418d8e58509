"""The ways out that errors name for objects of other libraries: each one gives what asdlpack takes."""

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
import numpy
import onnx
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse
import tensorflow
import torch
import xarray
import zarr
from jax.experimental import sparse

import dlpack  # noqa: F401  the ways out need it
from dlpack import asdlpack
from support.alone import python
from support.hints import follow, hint_of
from support.refusals import refused

ffi = cffi.FFI()
STRUCTURES = pyarrow.struct({"a": pyarrow.int64(), "b": pyarrow.int64()})
SECONDS = pyarrow.timestamp("s")
LISTS = pyarrow.list_(pyarrow.int64(), 2)
COLUMNS = pyarrow.table({"a": [7], "b": [2]})
CODES = pyarrow.array([["a", "b"], ["b", "b"]], pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), 2))
BYTES = pyarrow.array([b"ab", b"cd", b"ef"], pyarrow.binary(2))


def tensors():
    kind = pyarrow.fixed_shape_tensor(pyarrow.int64(), [2])
    return pyarrow.ExtensionArray.from_storage(kind, pyarrow.array([[1, 2], None], LISTS))


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
    group.create_array("numbers", data=numpy.array([1, 2]))
    return group


def booleans():
    return pyarrow.ExtensionArray.from_storage(pyarrow.bool8(), pyarrow.array([1, None], "int8"))


# Objects that are refused, and a part of the hint, which is run as it is written.
REFUSED = {
    "int4 of jax": (lambda: jax.numpy.array([1, -2], "int4"), "numpy.asarray(obj)"),
    "uint4 of jax": (lambda: jax.numpy.array([1, 2], "uint4"), "numpy.asarray(obj)"),
    "a random key of jax": (lambda: jax.random.key(0), "jax.random.key_data(obj)"),
    "a pointer of cffi": (lambda: ffi.new("float[6]"), "ffi.buffer(obj)"),
    "nulls of polars": (lambda: polars.Series([1, None]), "obj.fill_null(0)"),
    "nulls of pyarrow": (lambda: pyarrow.array([1, None]), "obj.fill_null(0)"),
    "nulls of pandas": (lambda: pandas.Series([1, None], dtype="Int64"), "obj.fillna(0)"),
    "integers of 128 bits of polars": (lambda: polars.Series([1], dtype=polars.Int128), "obj.cast(polars.Float64)"),
    "a pandas index that is no range": (
        lambda: pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=[5, 6]),
        "obj['a']",
    ),
    "a NaN of pandas": (lambda: pandas.Series([1, None]), "obj.to_numpy()"),
    "nulls in lists of polars": (
        lambda: polars.Series([[1, None], [2, 3]], dtype=polars.Array(polars.Int64, 2)),
        "obj.explode().fill_null(0)",
    ),
    "lists of polars that are null": (
        lambda: polars.Series([[1, 2], None], dtype=polars.Array(polars.Int64, 2)),
        "obj.explode().fill_null(0)",
    ),
    "nulls in lists of pyarrow": (lambda: pyarrow.array([[1, None]], LISTS), "obj.flatten().fill_null(0)"),
    "lists of pyarrow that are null": (lambda: pyarrow.array([[1, 2], None], LISTS), "obj.flatten().fill_null(0)"),
    "nulls in lists of pandas": (
        lambda: pandas.Series(pyarrow.array([[1, None], [2, 3]], LISTS), dtype=pandas.ArrowDtype(LISTS)),
        "pyarrow.array(obj).flatten().fill_null(0)",
    ),
    "nulls in chunked lists of pyarrow": (
        lambda: pyarrow.chunked_array([pyarrow.array([[1, None]], LISTS)]),
        "obj.combine_chunks().flatten().fill_null(0)",
    ),
    "nulls in lists of a table": (
        lambda: polars.DataFrame({"a": polars.Series([[1, None], [2, 3]], dtype=polars.Array(polars.Int64, 2))}),
        "obj['a'].explode().fill_null(0)",
    ),
    "tensors of pyarrow that are null": (tensors, "obj.storage.flatten().fill_null(0)"),
    "tensors of pyarrow that are null, in chunks": (
        lambda: pyarrow.chunked_array([tensors(), tensors()]),
        "obj.combine_chunks().storage.flatten().fill_null(0)",
    ),
    "tensors of a table that are null": (
        lambda: pyarrow.table({"a": tensors()}),
        "obj['a'].combine_chunks().storage.flatten().fill_null(0)",
    ),
    "nulls of duckdb": (
        lambda: duckdb.connect().sql("values (1), (null)"),
        "pyarrow.table(obj)[0].combine_chunks().fill_null(0)",
    ),
    "nulls of nanoarrow": (lambda: nanoarrow.Array([1, None], nanoarrow.int64()), "pyarrow.array(obj).fill_null(0)"),
    "chunks of nanoarrow with nulls": (
        lambda: nanoarrow.Array.from_chunks([[1, None], [2]], nanoarrow.int64()),
        "pyarrow.chunked_array(obj).combine_chunks().fill_null(0)",
    ),
    "times of duckdb": (
        lambda: duckdb.connect().sql("select date '2000-01-01'"),
        "pyarrow.table(obj)[0].combine_chunks().cast('int32')",
    ),
    "nulls alone": (lambda: pyarrow.nulls(2), "obj.cast('int64').fill_null(0)"),
    "nulls alone of pandas": (lambda: pandas.Series([None, None]), "pyarrow.array(obj).cast('int64').fill_null(0)"),
    "dicts in pandas": (lambda: pandas.Series([{"a": 1, "b": 2}]), "copy=None to copy them into one matrix"),
    "an array of dates of pandas": (
        lambda: pandas.array([datetime.date(2000, 1, 1)], dtype=pandas.ArrowDtype(pyarrow.date32())),
        "pyarrow.array(obj).cast('int32')",
    ),
    "text of pyarrow": (lambda: pyarrow.array(["1"]), "obj.cast('float64')"),
    "text of polars": (lambda: polars.Series(["1"]), "obj.cast(polars.Float64)"),
    "text of pandas": (lambda: pandas.Series(["1"], dtype="str"), "pyarrow.array(obj).cast('float64')"),
    "decimals": (lambda: pyarrow.array([1], pyarrow.decimal128(5)), "obj.cast('float64')"),
    "times of pyarrow": (lambda: pyarrow.array([1], pyarrow.date32()), "obj.cast('int32')"),
    "times of pandas": (
        lambda: pandas.Series(pandas.to_datetime(["2000-01-01"])),
        "obj.array.asi8, their ticks as int64",
    ),
    "dates of Python in pandas": (
        lambda: pandas.Series([datetime.date(2000, 1, 1)]),
        "pyarrow.array(obj).cast('int32')",
    ),
    "lists of times of pyarrow": (
        lambda: pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.date32(), 2)),
        "obj.flatten().cast('int32')",
    ),
    "chunked lists of times of pyarrow": (
        lambda: pyarrow.chunked_array([pyarrow.array([[1, 2]], pyarrow.list_(SECONDS, 2))]),
        "obj.combine_chunks().flatten().cast('int64')",
    ),
    "lists of text of polars": (
        lambda: polars.Series([["1", "2"]], dtype=polars.Array(polars.String, 2)),
        "obj.explode().cast(polars.Float64)",
    ),
    "items that are bytes": (lambda: BYTES, "dlpack.frombuffer(obj, 'uint8', (-1, 2))"),
    "items that are bytes, a slice": (lambda: BYTES[1:3], "dlpack.frombuffer(obj, 'uint8', (-1, 2))"),
    "items that are bytes, with nulls": (
        lambda: pyarrow.array([b"a", None], pyarrow.binary(1)),
        "dlpack.frombuffer(obj.fill_null(bytes(1)), 'uint8', (-1, 1))",
    ),
    "items that are bytes, in chunks": (
        lambda: pyarrow.chunked_array([BYTES[2:], BYTES[:1]]),
        "dlpack.frombuffer(obj.combine_chunks(), ",
    ),
    "items that are bytes, in a table": (
        lambda: pyarrow.table({"a": BYTES}),
        "dlpack.frombuffer(obj['a'].combine_chunks(), ",
    ),
    "items that are bytes of pandas": (
        lambda: pandas.Series(BYTES[1:], dtype=pandas.ArrowDtype(BYTES.type)),
        "dlpack.frombuffer(pyarrow.array(obj), ",
    ),
    "items that are bytes of nanoarrow": (lambda: nanoarrow.Array(BYTES[1:]), "dlpack.frombuffer(pyarrow.array(obj), "),
    "UUIDs": (
        lambda: pyarrow.array([uuid.UUID(int=number) for number in range(3)], pyarrow.uuid())[2:],
        "dlpack.frombuffer(obj.storage, ",
    ),
    "codes of pyarrow": (lambda: pyarrow.array(["a"]).dictionary_encode(), "obj.indices"),
    "codes in lists of pyarrow": (lambda: CODES, "obj.flatten().indices"),
    "codes in chunked lists of pyarrow": (
        lambda: pyarrow.chunked_array([CODES[:1], CODES[1:]]),
        "obj.combine_chunks().flatten().indices",
    ),
    "codes in lists of pandas": (
        lambda: pandas.Series(CODES, dtype=pandas.ArrowDtype(CODES.type)),
        "pyarrow.array(obj).flatten().indices",
    ),
    "codes in lists of polars": (
        lambda: polars.Series([["a", "b"], ["b", "b"]], dtype=polars.Array(polars.Categorical, 2)),
        "obj.explode().to_physical()",
    ),
    "codes of chunks of pyarrow": (
        lambda: pyarrow.chunked_array([["a"], ["b"]]).dictionary_encode(),
        "obj.combine_chunks().indices",
    ),
    "codes of polars": (lambda: polars.Series(["a"], dtype=polars.Categorical), "obj.to_physical()"),
    "codes of a table of pandas": (
        lambda: pandas.DataFrame({"a": pandas.Categorical(["x", "y"])}),
        "obj['a'].cat.codes",
    ),
    "codes of a table of polars": (
        lambda: polars.DataFrame({"a": polars.Series(["x"], dtype=polars.Categorical)}),
        "obj['a'].to_physical()",
    ),
    "codes of a table of pyarrow": (
        lambda: pyarrow.table({"a": pyarrow.array(["x", "y"]).dictionary_encode()}),
        "obj['a'].combine_chunks().indices",
    ),
    "codes of a table of duckdb": (
        lambda: duckdb.connect().sql("select 'x'::enum('x', 'y') a"),
        "pyarrow.table(obj)[0].combine_chunks().indices",
    ),
    "codes of pandas": (lambda: pandas.Series(["a"], dtype="category"), "obj.cat.codes"),
    "times of Arrow in pandas": (
        lambda: pandas.Series(pyarrow.array([7], SECONDS), dtype=pandas.ArrowDtype(SECONDS)),
        "pyarrow.array(obj).cast('int64')",
    ),
    "times of Python in pandas": (
        lambda: pandas.Series([datetime.datetime(1970, 1, 2)], dtype=object),
        "pyarrow.array(obj).cast('int64')",
    ),
    "times of the day in pandas": (lambda: pandas.Series([datetime.time(0, 0, 1)]), "pyarrow.array(obj).cast('int64')"),
    "dates of polars": (lambda: polars.Series([datetime.date(1970, 1, 8)]), "obj.to_physical()"),
    "lists of any length": (lambda: pyarrow.array([[1], [2, 3]]), "obj.flatten()"),
    "lists of any length of nanoarrow": (
        lambda: nanoarrow.Array(pyarrow.array([[1], [2, 3]])),
        "pyarrow.array(obj).flatten()",
    ),
    "views of lists": (lambda: pyarrow.array([[1, 2], [3, 4]], pyarrow.list_view(pyarrow.int64())), "obj.flatten()"),
    "lists of any length of one length": (
        lambda: pyarrow.array([[1.5, 2], [3, 4]]),
        "pass obj.cast(pyarrow.list_(obj.type.value_type, 2))",
    ),
    "lists of any length in chunks": (
        lambda: pyarrow.chunked_array([[[1]], [[2, 3]]]),
        "obj.combine_chunks().flatten()",
    ),
    "lists of any length of polars": (lambda: polars.Series([[1], [2, 3]]), "obj.explode()"),
    "lists of any length of one length of polars": (
        lambda: polars.Series([[1, 2], [3, 4]]),
        "pass obj.list.to_array(2)",
    ),
    "lists of any length in pandas": (lambda: pandas.Series([[1], [2, 3]]), "pyarrow.array(obj).flatten()"),
    "lists of any length in a table": (
        lambda: polars.DataFrame({"a": [[1], [2, 3]]}),
        "obj['a'].explode().drop_nulls()",
    ),
    "objects of polars": (lambda: polars.Series([1, 2.5], dtype=polars.Object), "numpy.asarray(obj).astype('float64')"),
    "chunks of pyarrow": (lambda: pyarrow.chunked_array([[1], [2]]), "copy=None to copy them into one"),
    "chunks of polars": (
        lambda: polars.concat([polars.Series([1]), polars.Series([2])], rechunk=False),
        "copy=None to copy them into one",
    ),
    "columns of pyarrow": (lambda: pyarrow.table({"a": [1], "b": [2]}), "copy=None to copy them into one matrix"),
    "columns of polars": (lambda: polars.DataFrame({"a": [1], "b": [2]}), "copy=None to copy them into one matrix"),
    "columns of a stream that is read once": (COLUMNS.to_reader, "copy=None to copy them into one matrix"),
    "a stream that is read once": (
        lambda: pyarrow.table({"a": [1, None]}).to_reader(),
        "pyarrow.table(obj)['a'].combine_chunks().fill_null(0)",
    ),
    "columns of duckdb": (lambda: duckdb.connect().sql("select 1 a, 2 b"), "copy=None to copy them into one matrix"),
    "columns of several types of duckdb": (lambda: duckdb.connect().sql("select 1 a, 2.5::double b"), "obj['a']"),
    "columns of several types of pyarrow": (
        lambda: pyarrow.table({"a": [1], "b": [1.5]}),
        "obj.cast(pyarrow.schema([(name, 'float64') for name in obj.schema.names])), with copy=None",
    ),
    "large ints in columns of pyarrow": (lambda: pyarrow.table({"a": [2**60 + 1], "b": [1.5]}), "obj['a']"),
    "large ints of two types in columns of pyarrow": (
        lambda: pyarrow.record_batch({"a": [1], "b": pyarrow.array([2**63], "uint64")}),
        "obj['a']",
    ),
    "large ints in columns of polars": (lambda: polars.DataFrame({"a": [-(2**60) - 1], "b": [1.5]}), "obj['a']"),
    "large ints in columns of pandas": (lambda: pandas.DataFrame({"a": [2**60 + 1], "b": [1.5]}), "obj['a']"),
    "columns of several widths of pyarrow": (
        lambda: pyarrow.record_batch({"a": [1], "b": pyarrow.array([2], "uint8")}),
        "obj.cast(pyarrow.schema([(name, 'int64') for name in obj.schema.names])), with copy=None",
    ),
    "columns of several types of polars": (
        lambda: polars.DataFrame({"a": [1], "b": [1.5]}),
        "obj.cast(polars.Float64), with copy=None",
    ),
    "columns of several types of pandas": (
        lambda: pandas.DataFrame({"a": [1], "b": [1.5]}),
        "obj.astype('float64'), with copy=None",
    ),
    "nulls in columns of pyarrow": (
        lambda: pyarrow.table({"a": [1, None], "b": [2, 3]}),
        "pyarrow.table([column.fill_null(0) for column in obj.columns], obj.schema.names), with copy=None",
    ),
    "null booleans in columns of pyarrow": (
        lambda: pyarrow.table({"a": [True, None], "b": [True, True]}),
        "[column.fill_null(False) for",
    ),
    "nulls in columns of polars": (
        lambda: polars.DataFrame({"a": [1, None], "b": [2, 3]}),
        "obj.fill_null(0), with copy=None",
    ),
    "nulls in columns of pandas": (
        lambda: pandas.DataFrame({"a": [1, None], "b": [2, 3]}, dtype="Int64"),
        "obj.fillna(0), with copy=None",
    ),
    "lists in columns": (
        lambda: pyarrow.table({"a": pyarrow.array([[1, 2]], pyarrow.list_(pyarrow.int8(), 2)), "b": [7]}),
        "obj['b']",
    ),
    "structures of pyarrow": (
        lambda: pyarrow.StructArray.from_arrays([[1, 9], [2, 9]], ["a", "b"], mask=pyarrow.array([False, True])),
        "obj.flatten()[0].fill_null(0)",
    ),
    "structures of a column that are null": (lambda: pyarrow.array([{"a": 1}, None]), "obj.flatten()[0].fill_null(0)"),
    "chunks of structures": (
        lambda: pyarrow.chunked_array([[{"a": 1}, None], [{"a": 1}]]),
        "obj.combine_chunks().flatten()[0].fill_null(0)",
    ),
    "structures of polars": (lambda: polars.Series([{"a": 1, "b": 2}]), "copy=None to copy them into one matrix"),
    "structures of pandas": (
        lambda: pandas.Series(pyarrow.array([{"a": 1, "b": 2}]), dtype=pandas.ArrowDtype(STRUCTURES)),
        "copy=None to copy them into one matrix",
    ),
    "columns of pandas": (lambda: pandas.DataFrame({"a": [1], "b": [2]}), "copy=None to copy them into one matrix"),
    "columns with long names": (
        lambda: pandas.DataFrame({letter * 70: ["x" if letter > "\u4e01" else 1] for letter in "\u4e00\u4e01\u4e02"}),
        "obj['\u4e00",
    ),
    "columns of pandas with a number as a label": (lambda: pandas.DataFrame({0: [1], 1: ["x"]}), "obj.iloc[:, 0]"),
    "an array of xarray": (lambda: xarray.DataArray(numpy.zeros((2, 3))), "numpy.asarray(obj)"),
    "big-endian numbers of xarray": (
        lambda: xarray.DataArray(numpy.arange(2, dtype=">f4")),
        "numpy.asarray(obj), with copy=None",
    ),
    "complex numbers of xarray": (lambda: xarray.DataArray([1j, 2]), "numpy.asarray(obj)"),
    "an array of xarray with coordinates": (
        lambda: xarray.DataArray([1, 2], name="n", dims="x", coords={"x": [5, 6]}),
        "numpy.asarray(obj)",
    ),
    "nulls among booleans": (lambda: pandas.Series([True, None], dtype="boolean"), "obj.fillna(False), with copy=None"),
    "nulls among booleans of pyarrow": (lambda: pyarrow.array([True, None]), "obj.fill_null(False), with copy=None"),
    "nulls among booleans of a byte": (booleans, "obj.storage.fill_null(0)"),
    "nulls among booleans of a byte, in chunks": (
        lambda: pyarrow.chunked_array([booleans()]),
        "obj.combine_chunks().storage.fill_null(0)",
    ),
    "nulls among booleans of a byte in a table": (
        lambda: pyarrow.table({"a": booleans()}),
        "obj['a'].combine_chunks().storage.fill_null(0)",
    ),
    "codes of Arrow in pandas": (
        lambda: pandas.Series(["a"], dtype=pandas.ArrowDtype(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))),
        "pyarrow.array(obj).indices",
    ),
    "intervals in pandas": (
        lambda: pandas.Series(pandas.interval_range(0, 2)),
        "copy=None to copy them into one matrix",
    ),
    "booleans in a table of pandas": (lambda: pandas.DataFrame({"a": [True, False], "b": ["x", "y"]}), "obj['a']"),
    "complex numbers in pandas": (lambda: pandas.Series([1j, 2]), "numpy.asarray(obj)"),
    "complex numbers in a table of pandas": (
        lambda: pandas.DataFrame({"a": [1j, 2], "b": [1, 2]}),
        "numpy.asarray(obj)",
    ),
    "complex numbers of Python in pandas": (
        lambda: pandas.Series([1j, 2], dtype=object),
        "numpy.asarray(obj).astype('complex128')",
    ),
    "sparse items in pandas": (lambda: pandas.Series([1.0, 0], dtype="Sparse[float64]"), "numpy.asarray(obj)"),
    "long doubles in pandas": (lambda: pandas.Series(numpy.ones(2, "g")), "numpy.asarray(obj).astype('float64')"),
    "numbers of more than 64 bits in pandas": (lambda: pandas.Series([2**70]), "numpy.asarray(obj).astype('float64')"),
    "numbers and text in pandas": (lambda: pandas.Series([1, "2"]), "numpy.asarray(obj).astype('float64')"),
    "columns of pandas of one name": (
        lambda: pandas.DataFrame([[1, 2]], columns=["a", "a"]),
        "copy=None to copy them into one matrix",
    ),
    "one of the columns of pandas of one name": (
        lambda: pandas.DataFrame([[1, "b"]], columns=["a", "a"]),
        "obj.iloc[:, 0]",
    ),
    "arrays of two dimensions in pandas": (
        lambda: pandas.Series([numpy.ones((2, 2)), numpy.zeros((2, 2))]),
        "numpy.stack(numpy.asarray(obj))",
    ),
    "a list of tensors": (lambda: [torch.ones(2), torch.ones(3)], "obj[0]"),
    "a tuple of arrays of jax": (lambda: (jax.numpy.ones(2),), "obj[0]"),
    "an untyped storage of torch": (
        lambda: torch.ones(2).untyped_storage(),
        "torch.empty(0, dtype=torch.uint8, device=obj.device).set_(obj)",
    ),
    "a typed storage of torch": (
        lambda: torch.ones(2).storage(),
        "torch.empty(0, dtype=obj.dtype, device=obj.device).set_(obj)",
    ),
    "a number of pyarrow": (lambda: pyarrow.scalar(7), "pyarrow.array([obj])"),
    "a list of pyarrow": (lambda: pyarrow.scalar([1, 2]), "obj.values"),
    "a dataset of xarray": (lambda: xarray.Dataset({"name": ("x", [1, 2])}), "numpy.asarray(obj['name'])"),
    "groups of pandas": (
        lambda: pandas.DataFrame({"a": [1, 2, 1], "b": [3, 4, 5]}).groupby("a")["b"],
        "[group for name, group in obj][0]",
    ),
    "an index of pandas": (lambda: pandas.Index([1, 2]), "numpy.asarray(obj)"),
    "an array of pandas with nulls": (
        lambda: pandas.array([1, None], dtype="Int64"),
        "obj.to_numpy('float64', na_value=numpy.nan)",
    ),
    "an array of times of pandas": (lambda: pandas.date_range("2020", periods=3).array, "obj.asi8"),
    "times of pandas in a time zone": (lambda: pandas.date_range("2020", periods=3, tz="UTC"), "obj.asi8"),
    "periods of pandas": (lambda: pandas.period_range("2020", periods=3, freq="D"), "obj.asi8"),
    "intervals of pandas": (lambda: pandas.interval_range(0, 3), "numpy.asarray(obj.left)"),
    "levels of pandas": (
        lambda: pandas.MultiIndex.from_arrays([[1, 2], [3, 4]]),
        "numpy.asarray(obj.get_level_values(0))",
    ),
    "categories of pandas": (lambda: pandas.Categorical(["a", "b"]), "obj.codes"),
    "an array of dask that is not computed yet": (lambda: dask.delayed(numpy.zeros(2)), "obj.compute()"),
    "a file of pyarrow": (lambda: pyarrow.memory_map(__file__), "obj.read_buffer()"),
    "memory of pyarrow to read": (lambda: pyarrow.BufferReader(b"abc"), "obj.read_buffer()"),
    "memory of pyarrow to write": (lambda: written(pyarrow.BufferOutputStream()), "obj.getvalue()"),
    "a picture of a video": (lambda: av.VideoFrame(16, 16, "rgb24"), "obj.to_ndarray()"),
    "a sound": (lambda: av.AudioFrame("flt", "mono", 8), "obj.to_ndarray()"),
    "a UMat": (lambda: cv2.UMat(2, 2, cv2.CV_8U), "obj.get()"),
    "a tensor in a file of onnx": (
        lambda: onnx.numpy_helper.from_array(numpy.zeros(2)),
        "onnx.numpy_helper.to_array(obj)",
    ),
    "a sparse tensor of tensorflow": (
        lambda: tensorflow.sparse.from_dense([[1, 0], [0, 2]]),
        "tensorflow.sparse.to_dense(obj)",
    ),
    "a sparse array of jax": (lambda: sparse.BCOO.fromdense(jax.numpy.eye(2)), "obj.todense()"),
    "slices of tensorflow": (
        lambda: tensorflow.IndexedSlices(tensorflow.ones([1, 2]), tensorflow.constant([0])),
        "obj.values",
    ),
    "lists of any length of tensorflow": (lambda: tensorflow.ragged.constant([[1, 2], [3]]), "obj.to_tensor()"),
    "a frame of polars that is not computed yet": (
        lambda: polars.LazyFrame({"a": [1]}),
        "obj.collect(), or a column of it",
    ),
    "a module of torch": (lambda: torch.nn.Linear(2, 2), "obj.state_dict()['weight']"),
    "a sparse matrix of scipy": (lambda: scipy.sparse.eye(3), "obj.toarray()"),
    "a sparse tensor": (lambda: torch.eye(3).to_sparse(), "obj.to_dense()"),
    "a sparse tensor of pyarrow": (lambda: pyarrow.SparseCOOTensor.from_dense_numpy(numpy.eye(2)), "obj.to_tensor()"),
    "a sparse matrix of pyarrow": (lambda: pyarrow.SparseCSRMatrix.from_dense_numpy(numpy.eye(2)), "obj.to_tensor()"),
    "a sparse matrix of columns of pyarrow": (
        lambda: pyarrow.SparseCSCMatrix.from_dense_numpy(numpy.eye(2)),
        "obj.to_tensor()",
    ),
    "a sparse tensor of fibers of pyarrow": (
        lambda: pyarrow.SparseCSFTensor.from_dense_numpy(numpy.eye(2)),
        "obj.to_tensor()",
    ),
    "a group of h5py": (group_of_h5py, "numpy.asarray(obj['numbers'])"),
    "a group of zarr": (group_of_zarr, "numpy.asarray(obj['numbers'])"),
    "a sparse tensor in rows": (lambda: torch.eye(3).to_sparse_csr(), "obj.to_dense()"),
    "a conjugated tensor": (lambda: torch.ones(2, dtype=torch.complex64).conj(), "obj.resolve_conj()"),
    "a quantized tensor": (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), "obj.dequantize()"),
    "a tensor of bits": (lambda: torch.ones(2, dtype=torch.uint8).view(torch.bits8), "obj.view(torch.uint8)"),
    "a transposed tensor of bits": (
        lambda: torch.tensor([[1, 2], [3, 4]], dtype=torch.int16).view(torch.bits16).T,
        "obj.view(torch.int16)",
    ),
    "a conjugated tensor with a gradient": (
        lambda: torch.ones(2, dtype=torch.complex64, requires_grad=True).conj(),
        "obj.detach().resolve_conj()",
    ),
    "a tensor without memory": (lambda: torch.ones(2, device="meta"), "torch.empty_like(obj, device='cpu')"),
    "a masked tensor": (
        lambda: torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])),
        "obj.get_data()",
    ),
    "a nested tensor": (lambda: torch.nested.nested_tensor([torch.ones(2)]), "obj.to_padded_tensor(0)"),
    "a tensor with a gradient": (lambda: torch.ones(2, requires_grad=True), "obj.detach()"),
}

# The results of some of these ways out; similar code would give others.
VALUES = {
    "int4 of jax": [1, -2],
    "uint4 of jax": [1, 2],
    "times of Arrow in pandas": [7],
    "times of Python in pandas": [24 * 3600 * 10**6],
    "times of the day in pandas": [10**6],
    "dates of polars": [7],
    "lists of any length": [1, 2, 3],
    "lists of any length of one length": [[1.5, 2], [3, 4]],
    "lists of any length in chunks": [1, 2, 3],
    "lists of any length of nanoarrow": [1, 2, 3],
    "lists of any length of polars": [1, 2, 3],
    "lists of any length of one length of polars": [[1, 2], [3, 4]],
    "lists of any length in pandas": [1, 2, 3],
    "lists of any length in a table": [1, 2, 3],
    "items that are bytes": [[97, 98], [99, 100], [101, 102]],
    "items that are bytes, a slice": [[99, 100], [101, 102]],
    "items that are bytes, in chunks": [[101, 102], [97, 98]],
    "items that are bytes, in a table": [[97, 98], [99, 100], [101, 102]],
    "items that are bytes of pandas": [[99, 100], [101, 102]],
    "items that are bytes of nanoarrow": [[99, 100], [101, 102]],
    "UUIDs": [[0] * 15 + [2]],
    "objects of polars": [1, 2.5],
    "structures of pyarrow": [1, 0],
    "structures of a column that are null": [1, 0],
    "chunks of structures": [1, 0, 1],
    "tensors of pyarrow that are null": [1, 2],
    "tensors of pyarrow that are null, in chunks": [1, 2, 1, 2],
    "nulls among booleans of a byte": [1, 0],
    "codes of a table of pandas": [0, 1],
    "codes of a table of pyarrow": [0, 1],
    "big-endian numbers of xarray": [0, 1],
    "an array of xarray with coordinates": [1, 2],
    "intervals in pandas": [[0, 1], [1, 2]],
    "codes in lists of pyarrow": [0, 1, 1, 1],
    "codes in chunked lists of pyarrow": [0, 1, 1, 1],
    "codes in lists of pandas": [0, 1, 1, 1],
    "nulls in lists of pandas": [1, 0, 2, 3],
    "chunks of nanoarrow with nulls": [1, 0, 2],
    "complex numbers of xarray": [1j, 2],
    "booleans in a table of pandas": [True, False],
    "complex numbers in pandas": [1j, 2],
    "complex numbers in a table of pandas": [[1j, 1], [2, 2]],
    "complex numbers of Python in pandas": [1j, 2],
    "sparse items in pandas": [1, 0],
    "nulls in lists of a table": [1, 0, 2, 3],
    "numbers of more than 64 bits in pandas": [2.0**70],
    "numbers and text in pandas": [1, 2],
    "columns of a stream that is read once": [[7, 2]],
    "columns of pandas": [[1, 2]],
    "columns of several types of pyarrow": [[1, 1.5]],
    "columns of several types of polars": [[1, 1.5]],
    "columns of several types of pandas": [[1, 1.5]],
    "columns of several widths of pyarrow": [[1, 2]],
    "large ints in columns of pyarrow": [2**60 + 1],
    "large ints of two types in columns of pyarrow": [1],
    "large ints in columns of polars": [-(2**60) - 1],
    "large ints in columns of pandas": [2**60 + 1],
    "nulls in columns of pyarrow": [[1, 2], [0, 3]],
    "nulls in columns of polars": [[1, 2], [0, 3]],
    "nulls in columns of pandas": [[1, 2], [0, 3]],
    "null booleans in columns of pyarrow": [[True, True], [False, True]],
    "items that are bytes, with nulls": [[97], [0]],
    "groups of pandas": [3, 5],
    "columns of pandas of one name": [[1, 2]],
    "one of the columns of pandas of one name": [1],
    "arrays of two dimensions in pandas": [[[1, 1], [1, 1]], [[0, 0], [0, 0]]],
    "a list of tensors": [1, 1],
    "a typed storage of torch": [1, 1],
    "a transposed tensor of bits": [[1, 3], [2, 4]],
    "a sparse tensor of pyarrow": [[1, 0], [0, 1]],
    "a sparse matrix of columns of pyarrow": [[1, 0], [0, 1]],
    "a sparse tensor of fibers of pyarrow": [[1, 0], [0, 1]],
    "a group of h5py": [1, 2],
    "a group of zarr": [1, 2],
    "a number of pyarrow": [7],
    "a list of pyarrow": [1, 2],
}


def test_hint_of_nulls_in_columns_of_duckdb_works_as_written():
    obj = duckdb.connect().sql("select * from (values (null, 4), (2, 5)) t(x, y)")
    with pytest.raises(BufferError) as caught:
        asdlpack(obj, copy=None)
    x = follow(str(caught.value), {"obj": obj, "pyarrow": pyarrow})
    assert numpy.asarray(x).tolist() == [0, 2]


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of its newest kinds of tensors
@pytest.mark.parametrize("what", REFUSED)
def test_hint_of_a_librarys_object_works_as_written(what):
    make, words = REFUSED[what]
    obj = make()
    with pytest.raises((BufferError, TypeError, ValueError)) as caught:
        _ = asdlpack(obj).shape
    hint = hint_of(str(caught.value))
    assert words in hint
    assert len(hint) <= 200
    again = make()  # a stream was read
    instead = follow(str(caught.value), {**globals(), "obj": again})
    assert instead.size > 0
    if what in VALUES:
        assert numpy.asarray(instead).tolist() == VALUES[what]


def test_a_file_of_pyarrow_to_write_is_to_be_opened_for_reading(tmp_path):
    with (
        pyarrow.OSFile(str(tmp_path / "file"), "wb") as obj,
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
        lambda obj: numpy.asarray(tensorflow.keras.layers.Identity()(numpy.ones((1, 2)))),
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
