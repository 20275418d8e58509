"""x.dtype: a name to read and to print, and equal to the types of numpy that mean the same."""

import copy
import json
import pickle
from functools import partial

import numpy as np
import pytest

import dlpack
from dlpack import asdlpack, from_pointer, frombuffer
from support.alone import python
from support.refusals import refused

NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
NOT_IN_NUMPY = "bfloat16 float8_e5m2 complex32 int4 float4_e2m1fnx2 int8x3".split()


def dtype(name):
    return frombuffer(b"", name, 0).dtype


@pytest.mark.parametrize("name", NUMBERS + NOT_IN_NUMPY)
def test_dtype_reads_as_a_str(name):
    x = dtype(name)
    assert isinstance(x, str)
    assert (str(x), repr(x), f"{x}", f"{x:>20}", "%s" % x) == (name, repr(name), name, f"{name:>20}", name)  # noqa: UP031
    assert json.dumps({"dtype": x, x: 1}) == json.dumps({"dtype": name, name: 1})
    assert x == name and name == x and not x != name and not name != x  # noqa: SIM202
    assert x != "int7" and "int7" != x and x != name.encode() and x < x + "x"
    assert (hash(x), {name: 1}[x], {x: 1}[name], x in {name}, x in [name]) == (hash(name), 1, 1, True, True)
    match x:
        case "int7":
            pytest.fail("another type")
        case str():
            pass


@pytest.mark.parametrize("name", NUMBERS)
def test_properties_are_those_of_numpy(name):
    x, of_numpy = dtype(name), np.dtype(name)
    assert (x.name, x.itemsize, x.kind, x.str, x.names) == (name, of_numpy.itemsize, of_numpy.kind, of_numpy.str, None)
    assert {type(x.name), type(x.kind), type(x.str)} == {str}


@pytest.mark.parametrize("name", NOT_IN_NUMPY)
def test_type_that_numpy_lacks_is_of_kind_v(name):
    x = frombuffer(b"", name, 0)
    assert (x.dtype.name, x.dtype.itemsize, x.dtype.kind) == (name, x.itemsize, "V")
    assert np.dtype(x.dtype.str) == np.dtype(f"V{x.itemsize}")
    assert np.dtype(x.dtype.str) != x.dtype and x.dtype != np.dtype(x.dtype.str)


def test_dtype_is_equal_to_an_object_with_its_numbers():
    class Float32:
        def __dlpack_data_type__(self):
            return 2, 32, 1

    assert dtype("float32") == Float32() and dtype("int8") != Float32()


@pytest.mark.parametrize("name", NUMBERS)
def test_dtype_is_equal_to_one_type_of_numpy(name):
    x = asdlpack(np.zeros(2, name)).dtype
    for other in NUMBERS:
        for type_of_numpy in np.dtype(other), np.dtype(other).type, type(np.dtype(other))():
            assert (x == type_of_numpy) is (type_of_numpy == x) is (name == other), type_of_numpy
            assert (x != type_of_numpy) is (type_of_numpy != x) is (name != other), type_of_numpy
    assert x in (np.dtype(name), None) and x in [np.dtype(name).type]


def test_c_types_are_equal_by_what_they_are():
    for kind in np.intc, np.long, np.longlong, np.byte, np.ushort, np.double, np.csingle, np.intp:
        assert dtype(np.dtype(kind).name) == kind and dtype("float16") != kind


def test_python_numbers_are_types_as_in_numpy():
    for kind, name in {bool: "bool", int: "int64", float: "float64", complex: "complex128"}.items():
        assert dtype(name) == kind and kind == dtype(name) and dtype("int8") != kind


class Carries:
    dtype = np.dtype("float32")
    name = "float32"

    def __str__(self):
        return "float32"


OTHERS = {
    "None": None,
    "a number": 4,
    "bytes": b"float32",
    "object": object,
    "str": str,
    "a class": Carries,
    "an object": Carries(),
    "another byte order": np.dtype(">f4"),
    "a structure": np.dtype([("a", "f4")]),
    "a structure by that name": np.dtype([("float32", "f4")]),
    "a subarray": np.dtype(("f4", (1,))),
    "raw bytes": np.dtype("V4"),
    "text": np.dtype("U1"),
    "times": np.dtype("M8[s]"),
    "numpy.object_": np.object_,
    "numpy.str_": np.str_,
    "numpy.floating": np.floating,
    "numpy.generic": np.generic,
    "numpy.longdouble": np.longdouble,
    "a DLPackObject": asdlpack(np.zeros(1, "f4")),
}


@pytest.mark.parametrize("other", OTHERS)
def test_dtype_differs_from_other_things(other):
    x, other = dtype("float32"), OTHERS[other]
    assert (x == other) is (other == x) is False
    assert (x != other) is (other != x) is True


def test_arrays_compare_dtype_with_each_item():
    assert (dtype("int8") == np.array(["int8", "int16"])).tolist() == [True, False]
    assert (dtype("int8") != np.array([np.dtype("int8"), "int8", 1], object)).tolist() == [False, False, True]


def test_hash_is_of_the_name():
    assert dtype("int8") not in {np.int8, np.dtype("int8")}
    assert dtype("int8") in dict.fromkeys(["int8", np.int8])


def test_comparisons_with_known_types_ask_no_go():
    calls, x = dlpack._dlpack._core_calls(), dtype("float32")
    equal = [x == other for other in (np.float32, np.dtype("int8"), float, object, np.object_, None, "float32", "none")]
    assert equal == [True, False, False, False, False, False, True, False]
    assert dlpack._dlpack._core_calls() == calls


def test_dtype_is_read_and_compared_without_numpy():
    code = """
import sys, dlpack
x = dlpack.asdlpack(bytes(4))
assert x.dtype != object and x.dtype != None
assert "numpy" not in sys.modules
print(x.dtype == "uint8", x.dtype == bool, x.dtype.itemsize, x.dtype.str, hasattr(x, "__numpy_dtype__"))
sys.modules["numpy"] = None
print(hasattr(x, "__numpy_dtype__"))
"""
    assert python(code).stdout.split() == ["True", "False", "1", "|u1", "True", "False"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_hold_a_plain_str(protocol):
    x = asdlpack(np.zeros(2, "f4"))
    pickled = pickle.dumps(x.dtype, protocol)
    assert type(pickle.loads(pickled)) is str and pickle.loads(pickled) == "float32"
    assert b"dlpack" not in pickled
    assert pickle.loads(pickle.dumps(x, protocol)).dtype == "float32"
    assert b"DType" not in pickle.dumps(x, protocol)


def test_copies_are_a_plain_str():
    x = dtype("bfloat16")
    for copied in copy.copy(x), copy.deepcopy(x), x[:], x.lower(), str(x), x.name:
        assert type(copied) is str and copied == "bfloat16"


@pytest.mark.parametrize("name", ["uint16", "bfloat16", "int8x2"])
def test_dtype_is_a_dtype_argument(name):
    memory = np.arange(4, dtype="u2")
    x = frombuffer(memory, name)
    for again in frombuffer(memory, x.dtype), from_pointer(x.pointer, 4, x.dtype, owner=x), frombuffer(x, x.dtype):
        assert (again.dtype, again.pointer, again.shape) == (name, memory.ctypes.data, (4,))
    assert dlpack.describe(x)["dtype"] == name


def test_dtype_is_an_argument_of_numpy():
    x = asdlpack(np.arange(3, dtype="i2"))
    assert np.zeros(1, x.dtype).dtype == np.dtype(x.dtype) == getattr(np, x.dtype) == np.dtype(x.dtype.str) == "int16"
    assert np.issubdtype(x.dtype, np.integer)


@pytest.mark.parametrize("name", ["byteorder", "isnative", "newbyteorder", "fields", "char"])
def test_another_attribute_of_numpys_names_numpy(name):
    x = asdlpack(np.zeros(2, "f4"))
    assert not hasattr(x.dtype, name)
    error = refused(lambda: getattr(x.dtype, name), "no-array", AttributeError, hint="numpy.asarray(x)")
    assert error.details == {"attribute": name}
    assert hasattr(np.asarray(x).dtype, name)


@pytest.mark.parametrize("name", NUMBERS)
def test_numpy_dtype_is_that_of_the_memory(name):
    x = asdlpack(np.zeros(2, name))
    assert x.__numpy_dtype__ is np.dtype(name)
    assert x.__numpy_dtype__ == np.asarray(x).dtype


def test_numpy_dtype_is_absent_where_numpy_has_no_such_type():
    x = frombuffer(b"abc", "float4_e2m1fnx2")
    refused(lambda: x.__numpy_dtype__, "not-in-numpy", AttributeError, dtype="float4_e2m1fnx2")


def test_tobytes_of_items_that_share_bytes_are_their_bytes():
    assert frombuffer(b"abc", "int4", 6).tobytes() == b"abc"


def test_tobytes_of_gpu_memory_are_refused_as_bytes_are():
    x = from_pointer(0x1000, 4, "uint8", device="metal")
    for use in bytes, lambda x: x.tobytes():
        refused(partial(use, x), "on-gpu")
