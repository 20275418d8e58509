"""numpy.asarray of a DLPackObject: the memory under its own data type, or an error. Never an array of one object."""

import gc
import weakref

import numpy as np
import pytest

from dlpack import asdlpack
from support.alone import python
from support.capi import on_device
from support.exchange_api import raising
from support.small_types import ALL, bits, numbers

TAKE = {
    "numpy.asarray": np.asarray,
    "numpy.asanyarray": np.asanyarray,
    "numpy.array": lambda x: np.array(x, copy=None),
    "__array__": lambda x: x.__array__(),
}


VIEWS = {
    "all": lambda array: array,
    "column-major": lambda array: array.T,
    "reversed": lambda array: array[:, ::-1],
    "every second": lambda array: array[:, ::2],
    "0-d": lambda array: array[0, 0, ...],
    "empty": lambda array: array[:0],
}


@pytest.mark.parametrize("take", TAKE)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ALL)
def test_every_type_of_ml_dtypes_in_every_layout_is_shared(name, view, take):
    array = VIEWS[view](numbers(name))
    out = TAKE[take](asdlpack(array))
    assert (out.dtype, out.shape, out.flags.writeable) == (array.dtype, array.shape, True)
    assert bits(out) == bits(array)
    if array.size:
        assert out.ctypes.data == array.ctypes.data
        out[...] = 1
        assert bits(out) == bits(array)


@pytest.mark.parametrize("name", ALL)
def test_read_only_memory_of_ml_dtypes_stays_read_only(name):
    array = numbers(name)
    array.flags.writeable = False
    out = np.asarray(asdlpack(array))
    assert (out.ctypes.data, out.flags.writeable) == (array.ctypes.data, False)


def test_the_array_keeps_the_memory_and_nothing_else_does():
    source = numbers("bfloat16")
    alive, expected = weakref.ref(source), bits(source)
    out = np.asarray(asdlpack(source))
    part = out[1:]
    del source, out
    gc.collect()
    assert (alive() is not None, bits(part)) == (True, expected[1:])
    del part
    assert alive() is None


REFUSED = {  # what can't be a numpy array: the words that name it, and those of the way out
    "lanes": ((2, 32, 2), (1, 0), "dtype float32x2: neither numpy nor ml_dtypes has such a type", "dlpack.frombuffer"),
    "128 bits": (
        (2, 128, 1),
        (1, 0),
        "dtype float128: neither numpy nor ml_dtypes has such a type",
        "dlpack.frombuffer",
    ),
    "a handle": ((3, 64, 1), (1, 0), "dtype opaque_handle64: neither numpy nor ml_dtypes has", "dlpack.frombuffer"),
    "packed": ((0, 4, 1), (1, 0), "dtype int4: items share bytes; numpy needs whole bytes", "dlpack.frombuffer"),
    "packed floats": ((17, 4, 1), (1, 0), "dtype float4_e2m1fn: items share bytes", "dlpack.frombuffer"),
    "CUDA": ((4, 16, 1), (2, 0), "device kDLCUDA:0: the CPU can't read this", "copies it to the host"),
    "CUDA, a float32": ((2, 32, 1), (2, 1), "device kDLCUDA:1: the CPU can't", "copies it to the host"),
}


@pytest.mark.parametrize("take", TAKE)
@pytest.mark.parametrize("what", REFUSED)
def test_what_numpy_cannot_hold_is_an_error_and_no_array_of_an_object(what, take):
    dtype, device, reason, way_out = REFUSED[what]
    with pytest.raises(BufferError) as caught:
        TAKE[take](on_device(device, dtype))
    assert reason in str(caught.value)
    assert way_out in str(caught.value)


def test_a_producer_that_refuses_is_an_error_and_no_array_of_an_object():
    with pytest.raises(BufferError, match="not today"):
        np.asarray(asdlpack(raising(BufferError("not today"))))


@pytest.mark.parametrize("source", [np.arange(6, dtype="f4").reshape(2, 3), numbers("bfloat16"), numbers("int4")])
@pytest.mark.parametrize("how", [np.array, lambda x, **options: x.__array__(**options)])
def test_dtype_and_copy_are_those_of_numpy(source, how):
    x = asdlpack(source)
    copied = how(x, copy=True)
    assert (copied.dtype, np.shares_memory(copied, source)) == (source.dtype, False)
    assert copied.tolist() == source.tolist()
    assert copied.flags.writeable
    assert np.shares_memory(how(x, copy=False), source)
    assert np.shares_memory(how(x, dtype=source.dtype, copy=False), source)
    for options in {"copy": None}, {"copy": True}:
        converted = how(x, dtype="f8", **options)
        assert (converted.dtype, converted.tolist()) == ("f8", source.astype("f8").tolist())
    with pytest.raises(ValueError, match="[Uu]nable to avoid copy"):
        how(x, dtype="f8", copy=False)


def test_the_arguments_of_array_are_those_that_numpy_passes():
    x = asdlpack(np.arange(3.0))
    assert x.__array__("f4").dtype == "f4"
    assert x.__array__(None, copy=None).dtype == "f8"
    for arguments in ("f4", None), (None, None, None):
        with pytest.raises(TypeError):
            x.__array__(*arguments)
    with pytest.raises(TypeError):
        x.__array__(color="red")
    with pytest.raises(TypeError):
        x.__array__("no such dtype")


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None  # as import finds what is not installed
from types import SimpleNamespace
import numpy
from dlpack import asdlpack
assert numpy.asarray(asdlpack(bytearray(3))).dtype == "uint8"
keys = {"version": 3, "typestr": "<V2", "shape": (2,), "data": bytearray(4)}
x = asdlpack(SimpleNamespace(__array_interface__=keys, dtype=SimpleNamespace(name="bfloat16")))
numpy.asarray(x)
"""


def test_without_ml_dtypes_its_types_are_an_error_that_names_it():
    assert python(WITHOUT_ML_DTYPES).stderr.splitlines()[-1] == (
        "BufferError: dtype bfloat16: numpy has no such type, but with ml_dtypes installed has some "
        '(dlpack.frombuffer(x, "uint8") shares the bytes)'
    )


@pytest.mark.parametrize(
    ("raises", "said"),
    [
        ("raise ImportError('built for another numpy')", "ImportError: built for another numpy"),
        ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_ml_dtypes_that_can_not_be_imported_is_the_cause(tmp_path, raises, said):
    broken = f"import sys; sys.modules.pop('ml_dtypes')\n{raises}"
    (tmp_path / "ml_dtypes.py").write_text(broken)
    code = WITHOUT_ML_DTYPES.replace('sys.modules["ml_dtypes"] = None', f"sys.path.insert(0, {str(tmp_path)!r})")
    assert code != WITHOUT_ML_DTYPES
    told = python(code).stderr
    assert f"{said}\n\nThe above exception was the direct cause" in told
    assert f"numpy has no such type, and ml_dtypes can't be imported: {said} (" in told


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import dlpack
x = dlpack.asdlpack(bytearray(b"abc"))
print(memoryview(x).tolist(), bytes(x), x.__array_interface__["shape"], len(x.__arrow_c_array__()))
x.__array_struct__
x.__array__()
"""


def test_without_numpy_all_else_works():
    result = python(WITHOUT_NUMPY)
    assert result.stdout == "[97, 98, 99] b'abc' (3,) 2\n"
    assert "numpy" in result.stderr.splitlines()[-1]
    assert "ModuleNotFoundError" in result.stderr
