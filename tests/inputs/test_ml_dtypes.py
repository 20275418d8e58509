"""The small floats and integers of ml_dtypes: numpy has no protocol that names them, so their dtype.name does."""

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack
from support.capi import IS_COPIED, READ_ONLY, SUBBYTE_TYPE_PADDED, Speaks, array_at, look
from support.small_types import ALL, PADDED, WHOLE_BYTES, bits, numbers


def interface_only(array):
    return Speaks(__array_interface__=array.__array_interface__, dtype=array.dtype, keep=array)


@pytest.mark.parametrize("wrap", [lambda array: array, interface_only])
@pytest.mark.parametrize("name", ALL)
def test_every_ml_dtype_that_dlpack_can_say_is_shared(name, wrap):
    array = numbers(name)
    x = asdlpack(wrap(array))
    assert (x.dtype, x.shape, x.strides) == (name, (2, 3), (3, 1))
    assert (x.itemsize, x.nbytes, x.pointer) == (array.itemsize, array.nbytes, array.ctypes.data)
    view = array_at(x, array.dtype)
    assert bits(view) == bits(array)
    view[1, 2] = 1
    assert array[1, 2] == 1


@pytest.mark.parametrize("name", ALL)
def test_every_ml_dtype_leaves_under_its_code_of_dlpack(name):
    array = numbers(name)
    capsule = asdlpack(array).__dlpack__(max_version=(1, 3))
    managed = look(capsule)
    tensor = managed.dl_tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (*ALL[name], 1)
    assert (tensor.data, tensor.byte_offset) == (array.ctypes.data, 0)
    assert managed.flags == (SUBBYTE_TYPE_PADDED if name in PADDED else 0)


@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_ml_dtypes_of_whole_bytes_leave_in_the_legacy_structure_too(name):
    tensor = look(asdlpack(numbers(name)).__dlpack__()).dl_tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (*ALL[name], 1)


@pytest.mark.parametrize("wrap", [lambda array: array, interface_only])
@pytest.mark.parametrize("name", PADDED)
def test_padded_items_cannot_be_said_by_the_legacy_structure(name, wrap):
    x = asdlpack(wrap(numbers(name)))
    with pytest.raises(BufferError, match="max_version"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="max_version"):
        x.__dlpack__(max_version=(0, 8))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "int4"])
@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[:, ::-1],
        lambda array: array.T,
        lambda array: array[1:, 1],
        lambda array: array[0, 0, ...],
        lambda array: array[:0],
    ],
)
def test_layouts_of_ml_dtypes_are_kept(name, view):
    array = view(numbers(name))
    x = asdlpack(array)
    assert x.shape == array.shape
    assert bits(array_at(x, array.dtype)) == bits(array)
    if array.size:
        assert x.pointer == array.ctypes.data


@pytest.mark.parametrize("name", ALL)
def test_read_only_ml_dtypes_arrays_are_exported(name):
    array = numbers(name)
    array.flags.writeable = False
    x = asdlpack(array)
    assert x.readonly
    assert look(x.__dlpack__(max_version=(1, 0))).flags & READ_ONLY


@pytest.mark.parametrize("name", ALL)
def test_ml_dtypes_are_copied_compactly(name):
    array = numbers(name, (4, 3))[::-2]
    x = asdlpack(array, copy=True)
    assert (x.dtype, x.shape, x.strides, x.obj) == (name, (2, 3), (3, 1), None)
    assert bits(array_at(x, array.dtype)) == bits(array)
    padded = SUBBYTE_TYPE_PADDED if name in PADDED else 0
    assert look(x.__dlpack__(max_version=(1, 0))).flags == IS_COPIED | padded


def test_bfloat16_values_survive_the_whole_way():
    array = np.array([1.5, -2, 3.25, float("inf")], ml_dtypes.bfloat16)
    assert array_at(asdlpack(array), ml_dtypes.bfloat16).tolist() == [1.5, -2, 3.25, float("inf")]


@pytest.mark.skipif(not hasattr(ml_dtypes, "bcomplex32"), reason="ml_dtypes before 0.6")
@pytest.mark.parametrize("wrap", [lambda array: array, interface_only])
def test_a_complex_of_bfloat16_that_dlpack_cannot_say_is_a_buffer_error(wrap):
    with pytest.raises(BufferError, match='typestr "<W4'):
        asdlpack(wrap(np.zeros(2, ml_dtypes.bcomplex32))).__dlpack__()


def test_a_scalar_of_ml_dtypes_is_shared_read_only():
    """Its __array_interface__ is that of an array which is gone when the dict is there."""
    scalar = ml_dtypes.bfloat16(1.5)
    x = asdlpack(scalar)
    others = [np.zeros((), ml_dtypes.bfloat16) for _ in range(1000)]  # would take the place of what is gone
    assert (x.dtype, x.shape, x.readonly, array_at(x, ml_dtypes.bfloat16).item()) == ("bfloat16", (), True, 1.5)
    del others


@pytest.mark.parametrize(
    ("typestr", "dtype"),
    [
        ("<V2", "bfloat17"),
        ("<V2", ""),
        ("<V2", None),
        ("<V2", 16),
        ("<V2", "void16"),
        ("<V2", "x" * 1000),
        ("|V8", "void64"),
    ],
)
def test_a_void_with_another_name_is_a_buffer_error(typestr, dtype):
    keys = {"version": 3, "shape": (2,), "typestr": typestr, "data": bytearray(64)}
    obj = Speaks(__array_interface__=keys, dtype=Speaks(name=dtype))
    with pytest.raises(BufferError, match="typestr") as caught:
        asdlpack(obj)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("typestr", "name"), [("<V4", "bfloat16"), ("<V2", "int4"), ("<V2", "float8_e5m2")])
def test_a_name_of_another_size_than_the_typestr_is_refused(typestr, name):
    keys = {"version": 3, "shape": (2,), "typestr": typestr, "data": bytearray(64)}
    with pytest.raises((ValueError, BufferError), match=name):
        asdlpack(Speaks(__array_interface__=keys, dtype=Speaks(name=name)))


def test_a_dtype_whose_name_raises_is_not_silenced():
    class Raises:
        @property
        def name(self):
            raise ZeroDivisionError("the name")

    keys = {"version": 3, "shape": (2,), "typestr": "<V2", "data": bytearray(4)}
    with pytest.raises(ZeroDivisionError, match="the name"):
        asdlpack(Speaks(__array_interface__=keys, dtype=Raises()))


def test_a_plain_typestr_never_asks_for_the_name():
    class Raises:
        @property
        def name(self):
            raise AssertionError

    keys = {"version": 3, "shape": (2,), "typestr": "<f4", "data": bytearray(8)}
    assert asdlpack(Speaks(__array_interface__=keys, dtype=Raises())).dtype == "float32"


def test_structured_arrays_are_refused_with_the_way_out():
    array = np.zeros(2, "i4,f4")
    with pytest.raises(BufferError, match="field"):
        asdlpack(array).__dlpack__()
    out = np.from_dlpack(asdlpack(array["f1"]))
    assert np.shares_memory(out, array)
