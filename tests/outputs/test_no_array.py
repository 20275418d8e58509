"""Array features that a DLPackObject lacks: the error says what to use, and that works."""

import operator
import re
from functools import partial

import numpy
import pytest
import rich

import dlpack
from dlpack import asdlpack
from dlpack._object import INSTEAD
from support.producers import refusing
from support.refusals import refused

NO_ITEMS = {
    "an item": (lambda x: x[0], "is not subscriptable"),
    "items": (lambda x: x[0, 1:2], "is not subscriptable"),
    "setting an item": (lambda x: x.__setitem__(0, 1), "does not support item assignment"),
    "removing an item": (lambda x: x.__delitem__(0), "does not support item deletion"),
    "iteration": (iter, "is not iterable"),
    "unpacking": (lambda x: [*x], "is not iterable"),
    "a sum": (lambda x: x + 1, "has no arithmetic"),
    "a sum with a number before": (lambda x: 1.5 + x, "has no arithmetic"),
    "a difference": (lambda x: x - x, "has no arithmetic"),
    "a product": (lambda x: x * 2j, "has no arithmetic"),
    "a quotient": (lambda x: x / 2, "has no arithmetic"),
    "a matrix product": (lambda x: x @ x, "has no arithmetic"),
}


@pytest.mark.parametrize("what", NO_ITEMS)
def test_array_operations_are_refused_naming_numpy_asarray(what):
    use, text = NO_ITEMS[what]
    x = asdlpack(numpy.arange(6.0).reshape(2, 3))
    with pytest.raises(TypeError, match=re.escape(f"'dlpack.DLPackObject' object {text}: it isn't an array")) as caught:
        use(x)
    assert "numpy.asarray(x)" in str(caught.value)


def test_length_is_refused_and_does_not_say_scalar():
    """polars takes what raises TypeError here for one item, and makes a column of one object."""
    x = asdlpack(numpy.arange(6.0))
    for use in len, operator.length_hint:
        with pytest.raises(NotImplementedError, match=re.escape("has no len(): it isn't an array (numpy.asarray(x)")):
            use(x)


ATTRIBUTES = {
    "clone": "asdlpack(x, copy=True)",
    "copy": "asdlpack(x, copy=True)",
    "cpu": 'asdlpack(x, device="cpu", copy=None)',
    "cuda": 'asdlpack(x, device="cuda", copy=None)',
    "data_ptr": "x.pointer",
    "numpy": "numpy.asarray(x)",
    "to": "dlpack.to(x, library, device=device)",
    **{name: f"numpy.asarray(x).{name}" for name in "T astype flags item max mean min reshape sum tolist view".split()},
}
RELEASE = {"__enter__", "__exit__", "close", "release"}  # of test_mistakes.py


def test_each_name_that_the_package_refuses_is_tested():
    assert INSTEAD.keys() - RELEASE == ATTRIBUTES.keys()


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_that_only_arrays_have_names_what_has_it(name):
    x = asdlpack(numpy.arange(6.0).reshape(2, 3))
    assert not hasattr(x, name)
    error = refused(lambda: getattr(x, name), "no-array", AttributeError, attribute=name)
    instead = str(error).partition("; use ")[2]
    assert instead == ATTRIBUTES[name]
    names = {"x": x, "numpy": numpy, "asdlpack": asdlpack, "device": "cpu", "dlpack": dlpack, "library": "numpy"}
    try:
        assert eval(instead, names) is not None
    except BufferError as error:  # without a driver
        assert (name, error.reason) == ("cuda", "no-driver")  # type: ignore[attr-defined]


def test_another_attribute_is_reported_as_python_does():
    with pytest.raises(AttributeError, match=r"^'dlpack.DLPackObject' object has no attribute 'nonsense'$"):
        asdlpack(b"abc").nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_arrays_compute_with_what_they_make_of_it():
    array = numpy.arange(6.0)
    x = asdlpack(array)
    assert (x + array).tolist() == (array + x).tolist() == (array + array).tolist()
    assert (array @ x) == (array @ array)
    assert (x * numpy.float64(2)).tolist() == (array * 2).tolist()


def test_it_is_true_also_without_items():
    assert asdlpack(b"")
    assert asdlpack(numpy.zeros(3))
    assert asdlpack(numpy.zeros(3, "M8[s]"))  # which is refused


@pytest.mark.parametrize("item", [numpy.array(False), numpy.array(2.5)])
def test_without_dimensions_it_has_no_truth_value(item):
    """numpy would take that for an item."""
    for x in asdlpack(item), asdlpack(item, copy=True):
        refused(partial(bool, x), "no-array", TypeError)
        with pytest.raises(TypeError):
            numpy.zeros(1, bool)[0] = x
        assert numpy.asarray(x) == item


def test_a_refused_use_keeps_nothing():
    array = numpy.zeros(3)
    x = asdlpack(array)
    for use, _ in NO_ITEMS.values():
        with pytest.raises(TypeError):
            use(x)
    for name in ATTRIBUTES:
        assert not hasattr(x, name)
    del x
    array.resize(4)  # raises if something still refers to it


FROM_PYDLPACK = {
    "Buffer": "dlpack.asdlpack(obj)",
    "Capsule": "dlpack.describe(capsule)",
    "DLDataType": "dlpack.structs.DLDataType",
    "DLTensor": "dlpack.structs.DLTensor",
    "asdlpack_buffer": "dlpack.asdlpack(obj)",
    "from_dlpack": "numpy.from_dlpack(dlpack.asdlpack(obj))",
    "todict": "dlpack.describe(obj)",
}


@pytest.mark.parametrize("name", FROM_PYDLPACK)
def test_a_name_of_pydlpack_says_what_to_use(name):
    assert not hasattr(dlpack, name)
    with pytest.raises(AttributeError, match=f"module 'dlpack' has no attribute '{name}' ") as caught:
        getattr(dlpack, name)
    instead = FROM_PYDLPACK[name]
    assert instead in str(caught.value)
    obj = numpy.zeros(3)
    assert eval(instead, {"dlpack": dlpack, "numpy": numpy, "obj": obj, "capsule": obj.__dlpack__()}) is not None


def test_an_unknown_name_is_reported_as_python_does():
    with pytest.raises(AttributeError, match=r"^module 'dlpack' has no attribute 'nonsense'$"):
        dlpack.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_a_notebook_shows_what_it_is_where_and_from_what():
    html = asdlpack(numpy.zeros((2, 3), "float32"))._repr_html_()
    for entry in "numpy.ndarray", "__dlpack__", "kDLCPU:0", "float32", "(2, 3)":
        assert f"<td>{entry}</td>" in html


def test_a_notebook_shows_an_error_as_text():
    bad = refusing(BufferError("<b>no & no</b>"))
    assert "&lt;b&gt;no &amp; no&lt;/b&gt;" in asdlpack(bad)._repr_html_()


def test_rich_prints_what_describe_tells(capsys):
    rich.print(asdlpack(numpy.zeros((2, 3), "float32")))
    shown = capsys.readouterr().out
    assert shown.startswith("DLPackObject(")
    assert "dtype='float32'" in shown
    assert "shape=(2, 3)" in shown
