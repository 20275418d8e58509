"""Objects whose attributes are of other types than a hint expects: they get the error that they would get without them,
and the hint that follows."""

import re
import unittest.mock
from functools import partial

import numpy
import pytest

from dlpack import asdlpack, copy_into, describe, frombuffer
from dlpack._ways_out import BY_NAME, INSTEAD
from support.arrow_c import Column, bits
from support.capi import Speaks
from support.hints import follow, hint_of
from support.refusals import refused


def fail(*arguments):
    raise RuntimeError("no such attribute today")


class Endless:
    """Has every attribute, which is such an object again."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Endless()

    def __call__(self, *arguments):
        return Endless()


# Values of a class's attribute.
ODD = {
    "an int": 5,
    "a bool": True,
    "a str": "text",
    "None": None,
    "what raises": property(fail),
    "a method that raises": fail,
    "a generator": (number for number in range(3)),
    "a mock": unittest.mock.MagicMock(),
    "a class": dict,
    "an object with every attribute": Endless(),
}
# All that hints look at.
NAMES = """
asi8 array buf buffer categories chunks chunk cat closed codes column_name columns coords data data_vars description
device dtype dtypes encoding features field fileno files getbuffer getvalue get_obj head height iloc indices inner
is_conj is_deleted is_meta is_nested is_quantized is_sparse is_valid isna item keys kind layout left levels list
names ndim null_count num_columns numpy_dtype obj pyarrow_dtype raw read readable requires_grad right schema shape
source storage storage_type struct to_numpy to_series type types untyped value_type values variables writable
__tensor_flatten__ __getitem__ __len__ __iter__ __fspath__ __index__
""".split()


def odd_class(value, module=__name__, name="Odd", **members):
    """A class whose objects have that for each of these attributes."""
    attributes = {attribute: value for attribute in NAMES if not attribute.startswith("__")}
    return type(name, (), {**attributes, **members, "__module__": module})


@pytest.mark.parametrize("what", ODD)
def test_odd_attributes_leave_the_hint_that_follows(what):
    memory = numpy.arange(3.0)
    obj = odd_class(ODD[what], __array__=lambda self, dtype=None, copy=None: memory)()
    error = refused(lambda: asdlpack(obj), "no-protocol", TypeError)
    if what != "None":  # if the shape is None, the hint is "it has no items"
        assert follow(str(error), {"numpy": numpy, "obj": obj}).pointer == memory.ctypes.data


def test_readable_as_a_bool_leaves_the_hint_that_follows():
    obj = odd_class("", readable=True, keys=lambda self: ["a"], __getitem__=lambda self, name: b"ab")()
    error = refused(lambda: asdlpack(obj), "no-protocol", TypeError)
    assert bytes(follow(str(error), {"obj": obj})) == b"ab"


CLASSES = sorted({*INSTEAD, *BY_NAME, "datasets.Column", "_duckdb.DuckDBPyConnection", "PyQt6.QImage"})
LIBRARIES = "_cffi_backend awkward duckdb jaxlib numpy pandas paddle polars pyarrow torch torch.storage xarray".split()


@pytest.mark.parametrize("what", ODD)
def test_odd_attributes_of_a_librarys_class_leave_a_type_error(what):
    for library, _, name in [each.partition(".") for each in CLASSES] + [(each, "", "Odd") for each in LIBRARIES]:
        kind = odd_class(ODD[what], f"{library}.module" if name != "Odd" else library, name)
        for special in ("__getitem__", "__len__", "__iter__"):
            setattr(kind, special, lambda self, *arguments: fail())
        with pytest.raises(TypeError, match=rf"{name} object shares no memory.*; asdlpack looked for"):
            asdlpack(kind())


def with_a_null(self, requested_schema=None):
    column = Column(items=numpy.zeros(2, "i4"), validity=bits(1, 0), array={"null_count": -1})
    return column.capsules()


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("module", [*LIBRARIES, "nanoarrow"])
def test_odd_attributes_leave_what_arrow_says(what, module):
    obj = odd_class(ODD[what], module, __arrow_c_array__=with_a_null)()
    refused(lambda: asdlpack(obj), "nulls", field="Arrow format", items=2, nulls=1, text="i")


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("module", [*LIBRARIES, "tests"])
def test_odd_attributes_leave_what_a_producer_says(what, module):
    def refuse(self, **words):
        raise BufferError("not in this state")

    obj = odd_class(ODD[what], module, __dlpack__=refuse, __dlpack_device__=lambda self: (1, 0))()
    with pytest.raises(BufferError, match=r"can't be exported: its only protocol .* not in this state"):
        asdlpack(obj).__dlpack__()
    with pytest.raises(BufferError, match=r"^target: .*not in this state"):
        copy_into(b"ab", obj)
    assert "not in this state" in describe(obj)["refused"]


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("typestr", ["<U2", "|S2", "|O8", "<M8[s]", "<f16", "|t4"])
def test_odd_attributes_leave_what_an_interface_says(what, typestr):
    described = {"version": 3, "typestr": typestr, "shape": (2,), "data": bytearray(32)}
    obj = odd_class(ODD[what], __array_interface__=described)()
    with pytest.raises(BufferError, match=rf'^typestr "{re.escape(typestr)}": '):
        asdlpack(obj)


@pytest.mark.parametrize("mock", [unittest.mock.Mock(), unittest.mock.MagicMock(), unittest.mock.NonCallableMock()])
def test_a_mock_shares_no_memory(mock):
    for use in asdlpack, describe, lambda obj: frombuffer(obj, "uint8"), lambda obj: copy_into(obj, bytearray(1)):
        refused(partial(use, mock), "no-protocol", TypeError)


@pytest.mark.parametrize("name", ["readable", "dtype", "shape"])
def test_an_attribute_that_asks_for_the_same_error_is_looked_at_a_few_times(name):
    """Were each error within a hint to try all hints, the calls would be as many as hints to the power of depth."""
    calls = []

    def again(self):
        calls.append(name)
        return asdlpack(self)

    obj = type("Again", (), {name: property(again), "__array__": lambda self, **words: numpy.zeros(2)})()
    error = refused(lambda: asdlpack(obj), "no-protocol", TypeError)
    assert hint_of(str(error)) == "pass numpy.asarray(obj)"
    assert 0 < len(calls) < 5


def test_items_with_odd_attributes_are_not_memory():
    for value in ODD.values():
        error = refused(partial(asdlpack, [odd_class(value)()]), "no-protocol", TypeError, type="list")
        assert hint_of(str(error)) == ""


class Unreadable:
    def __str__(self):
        raise LookupError("its text")

    __repr__ = __str__


@pytest.mark.parametrize("kind", [BufferError, TypeError, ValueError])
def test_an_error_whose_text_can_not_be_read_is_named(kind):
    def refuse(*arguments, **words):
        raise kind(Unreadable())

    for obj in (
        Speaks(__dlpack__=refuse),
        type("Refuses", (), {"__array_interface__": property(refuse)})(),
        Speaks(__arrow_c_array__=refuse),
        Speaks(__arrow_c_stream__=refuse),
    ):
        for use in (
            lambda obj: asdlpack(obj).shape,
            lambda obj: copy_into(obj, bytearray(1)),
            lambda obj: copy_into(b"a", obj),
            lambda obj: frombuffer(obj, "uint8"),
        ):
            with pytest.raises((BufferError, kind)):
                use(obj)
