"""x.dtype is equal to the types of torch, jax and ml_dtypes that mean the same. Libraries that take x for an array use
it, or their error names numpy.asarray(x)."""

import io

import jax
import jax.numpy
import ml_dtypes
import numpy as np
import onnx.numpy_helper
import pandas
import polars
import pytest
import safetensors.numpy
import scipy.io.wavfile
import tensorflow
import torch
import zarr

from dlpack import asdlpack, frombuffer
from support.refusals import refused

# DLPack's name: the names of the type in torch, jax.numpy and ml_dtypes; None if the library doesn't have it.
TYPES = {
    "bool": ("bool", "bool_", None),
    "int8": ("int8", "int8", None),
    "int16": ("short", "int16", None),
    "int32": ("int", "int32", None),
    "int64": ("long", "int64", None),
    "uint8": ("uint8", "uint8", None),
    "uint16": ("uint16", "uint16", None),
    "uint32": ("uint32", "uint32", None),
    "uint64": ("uint64", "uint64", None),
    "float16": ("half", "float16", None),
    "float32": ("float", "float32", None),
    "float64": ("double", "float64", None),
    "complex32": ("chalf", None, "complex32"),
    "complex64": ("cfloat", "complex64", None),
    "complex128": ("cdouble", "complex128", None),
    "bfloat16": ("bfloat16", "bfloat16", "bfloat16"),
    "float8_e3m4": (None, "float8_e3m4", "float8_e3m4"),
    "float8_e4m3": (None, "float8_e4m3", "float8_e4m3"),
    "float8_e4m3b11fnuz": (None, "float8_e4m3b11fnuz", "float8_e4m3b11fnuz"),
    "float8_e4m3fn": ("float8_e4m3fn", "float8_e4m3fn", "float8_e4m3fn"),
    "float8_e4m3fnuz": ("float8_e4m3fnuz", "float8_e4m3fnuz", "float8_e4m3fnuz"),
    "float8_e5m2": ("float8_e5m2", "float8_e5m2", "float8_e5m2"),
    "float8_e5m2fnuz": ("float8_e5m2fnuz", "float8_e5m2fnuz", "float8_e5m2fnuz"),
    "float8_e8m0fnu": ("float8_e8m0fnu", "float8_e8m0fnu", "float8_e8m0fnu"),
    "float6_e2m3fn": (None, "float6_e2m3fn", "float6_e2m3fn"),
    "float6_e3m2fn": (None, "float6_e3m2fn", "float6_e3m2fn"),
    "float4_e2m1fn": (None, "float4_e2m1fn", "float4_e2m1fn"),
    "float4_e2m1fnx2": ("float4_e2m1fn_x2", None, None),
    "int1": ("int1", "int1", "int1"),
    "int2": ("int2", "int2", "int2"),
    "int4": ("int4", "int4", "int4"),
    "uint1": ("uint1", "uint1", "uint1"),
    "uint2": ("uint2", "uint2", "uint2"),
    "uint4": ("uint4", "uint4", "uint4"),
}
ALL = [
    (name, getattr(library, its))
    for name, names in TYPES.items()
    for library, its in zip((torch, jax.numpy, ml_dtypes), names, strict=True)
    if its is not None
]
ALL += [(name, np.dtype(kind)) for name, kind in ALL if not isinstance(kind, torch.dtype)]


@pytest.mark.parametrize("name", TYPES)
def test_dtype_is_equal_to_the_types_of_one_meaning(name):
    x = frombuffer(b"", name, 0).dtype
    for other, kind in ALL:
        assert (x == kind) is (kind == x) is (name == other), kind
        assert (x != kind) is (kind != x) is (name != other), kind


@pytest.mark.parametrize("kind", [torch.qint8, torch.bits8, torch.int7, torch.quint4x2], ids=str)
def test_type_that_dlpack_lacks_is_equal_to_none(kind):
    assert [name for name in TYPES if frombuffer(b"", name, 0).dtype == kind] == []


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "bool"])
def test_tensorflow_compares_the_name(name):
    x = frombuffer(b"", name, 0).dtype
    kinds = [getattr(tensorflow, other) for other in ("float32", "bfloat16", "int8", "bool")]
    assert [kind.name for kind in kinds if x == kind] == [kind.name for kind in kinds if not x != kind] == [name]


def test_dtype_of_a_librarys_memory_is_its_own():
    for tensor in torch.ones(2), torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.float8_e5m2):
        assert asdlpack(tensor).dtype == tensor.dtype
    for array in jax.numpy.ones(2), jax.numpy.ones(2, "bfloat16"), jax.numpy.ones(2, "uint8"):
        assert asdlpack(array).dtype == array.dtype


def test_no_tensor_or_series_is_a_type():
    x = asdlpack(np.zeros(2, "f4")).dtype
    assert x != torch.zeros(2) and x != jax.numpy.zeros(2)
    assert (x == polars.Series(["float32", "a"])).to_list() == [True, False]
    assert (x == pandas.Series(["float32", "a"])).to_list() == [True, False]


MEMORY = {
    **{
        name: np.array([[0, 1, 1], [1, 0, 1]]).astype(name)
        for name in "bool int8 uint16 int32 float16 complex64".split()
    },
    "bfloat16": np.arange(6).astype(ml_dtypes.bfloat16),
    "float8_e5m2": np.arange(6).astype(ml_dtypes.float8_e5m2),
    "int4": np.arange(6).astype(ml_dtypes.int4),
    "with gaps": np.arange(6, dtype="f4")[::-2],
    "0-d": np.array(2.5, "f4"),
    "empty": np.zeros((2, 0), "f4"),
}


@pytest.mark.parametrize("what", MEMORY)
def test_jax_numpy_asarray_copies(what):
    array = MEMORY[what]
    taken = jax.numpy.asarray(asdlpack(array))
    np.testing.assert_array_equal(np.asarray(taken), array, strict=True)


@pytest.mark.parametrize("what", MEMORY)
def test_numpy_computes_with_the_type(what):
    x = asdlpack(MEMORY[what])
    assert np.result_type(x) == np.dtype(x) == x.dtype == MEMORY[what].dtype
    assert np.can_cast(x, "complex128") == np.can_cast(MEMORY[what].dtype, "complex128")


@pytest.mark.parametrize("what", ["int8", "int32", "float32"])
def test_polars_from_numpy_takes_one_dimension(what):
    array = np.arange(6).astype(what)
    assert polars.from_numpy(asdlpack(array)).equals(polars.from_numpy(array))


def test_zarr_takes_another_type():
    """Into an array of its own type zarr writes x by its items, which x doesn't have."""
    array = np.arange(6, dtype="f4").reshape(2, 3)
    stored = zarr.create_array({}, shape=(2, 3), dtype="f8")
    stored[:] = asdlpack(array)
    np.testing.assert_array_equal(stored[:], array)


def write_zarr(x):
    stored = zarr.create_array({}, shape=x.shape, dtype=x.dtype)
    stored[:] = x
    return stored[:].tolist()


USES = {
    "zarr": write_zarr,
    "zarr.create_array": lambda x: zarr.create_array({}, data=x)[:].tolist(),
    "scipy.io.wavfile.write": lambda x: scipy.io.wavfile.write(io.BytesIO(), 8000, x),
    "polars.from_numpy": lambda x: polars.from_numpy(x),
    "polars.from_numpy with a schema": lambda x: polars.from_numpy(x, schema=["a", "b"]),
    "polars.DataFrame": lambda x: polars.DataFrame({"a": x}),
    "safetensors.numpy.save": lambda x: safetensors.numpy.save({"a": x}),
}


@pytest.mark.parametrize("use", USES)
def test_library_that_needs_an_array_names_numpy_asarray(use):
    x = asdlpack(np.arange(4, dtype="f4").reshape(2, 2))
    error = refused(lambda: USES[use](x), "no-array", (AttributeError, TypeError, NotImplementedError))
    assert error.reason == "no-array"
    USES[use](np.asarray(x))


def test_onnx_knows_types_by_hash():
    """docs/libraries.md says to pass numpy.asarray(x): the hash of x.dtype is a str's, and onnx has a dict of types."""
    x = asdlpack(np.arange(4, dtype="f4"))
    with pytest.raises(ValueError, match="Unable to convert type 'float32'"):
        onnx.numpy_helper.from_array(x)
    assert onnx.numpy_helper.to_array(onnx.numpy_helper.from_array(np.asarray(x))).tolist() == [0, 1, 2, 3]
