"""The small floats and integers of ml_dtypes: numpy has no protocol that names them, so their dtype.name does."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack, frombuffer
from support.capi import SUBBYTE_TYPE_PADDED, Speaks, array_at, look
from support.refusals import refused
from support.small_types import ALL, COMPLEX, PADDED, bits, numbers


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


@pytest.mark.parametrize("wrap", [lambda array: array, interface_only])
@pytest.mark.parametrize("name", ALL)
def test_every_ml_dtype_leaves_under_its_code_of_dlpack(name, wrap):
    """The legacy structure can't express padding."""
    x = asdlpack(wrap(numbers(name)))
    managed = look(x.__dlpack__(max_version=(1, 3)))
    assert managed.flags == (SUBBYTE_TYPE_PADDED if name in PADDED else 0)
    tensors = [managed.dl_tensor]
    for max_version in None, (0, 8):
        if name in PADDED:
            refused(partial(x.__dlpack__, max_version=max_version), "no-legacy-capsule")
        else:
            tensors.append(look(x.__dlpack__(max_version=max_version)).dl_tensor)
    for tensor in tensors:
        assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (*ALL[name], 1)
        assert (tensor.data, tensor.byte_offset) == (x.pointer, 0)


@pytest.mark.parametrize("name", ALL)
def test_ml_dtypes_are_copied_compactly(name):
    array = numbers(name, (4, 3))[::-2]
    x = asdlpack(array, copy=True)
    assert (x.dtype, x.shape, x.strides, x.obj) == (name, (2, 3), (3, 1), None)
    assert bits(array_at(x, array.dtype)) == bits(array)
    padded = SUBBYTE_TYPE_PADDED if name in PADDED else 0
    assert look(x.__dlpack__(max_version=(1, 0))).flags == padded


uses_complex32 = pytest.mark.skipif(not hasattr(ml_dtypes, "complex32"), reason="ml_dtypes before 0.6 has no complex32")


@uses_complex32
@pytest.mark.parametrize("name", COMPLEX)
def test_big_endian_complex32_is_refused_with_a_way_out(name):
    """ml_dtypes also swaps the real and the imaginary part."""
    native = np.array([1, 2 + 5j]).astype(getattr(ml_dtypes, name))
    obj = native.astype(native.dtype.newbyteorder(">"))
    with pytest.raises(BufferError, match=r"pass obj\.astype\(obj\.dtype\.newbyteorder\('='\)\)"):
        asdlpack(obj, copy=True)
    assert bytes(asdlpack(obj.astype(obj.dtype.newbyteorder("=")))) == native.tobytes()


def test_a_scalar_of_ml_dtypes_is_shared_read_only():
    """Its __array_interface__ is that of an array which is gone when the dict is there."""
    scalar = ml_dtypes.bfloat16(1.5)
    x = asdlpack(scalar)
    others = [np.zeros((), ml_dtypes.bfloat16) for _ in range(1000)]  # would take the place of what is gone
    assert (x.dtype, x.shape, x.readonly, array_at(x, ml_dtypes.bfloat16).item()) == ("bfloat16", (), True, 1.5)
    del others


@pytest.mark.parametrize("dtype", ["bfloat17", "", None, 16, "int4", "x" * 1000])
def test_a_void_with_another_name_is_refused(dtype):
    keys = {"version": 3, "shape": (2,), "typestr": "<V2", "data": bytearray(64)}
    with pytest.raises(ValueError if dtype == "int4" else BufferError, match='typestr "<V2') as caught:
        asdlpack(Speaks(__array_interface__=keys, dtype=Speaks(name=dtype)))
    assert len(str(caught.value)) < 400


def test_only_a_void_asks_for_a_name_whose_error_is_not_silenced():
    class Raises:
        @property
        def name(self):
            raise ZeroDivisionError("the name")

    keys = {"version": 3, "shape": (2,), "data": bytearray(8)}
    with pytest.raises(ZeroDivisionError, match="the name"):
        asdlpack(Speaks(__array_interface__={**keys, "typestr": "<V2"}, dtype=Raises()))
    assert asdlpack(Speaks(__array_interface__={**keys, "typestr": "<f4"}, dtype=Raises())).dtype == "float32"


def test_a_structure_is_not_a_number_by_its_class_name():
    structure = np.dtype((type("float", (np.void,), {}), [("x", "i4")]))
    assert structure.name == "float32"
    for use in lambda: asdlpack(np.zeros(3, structure), copy=True), lambda: frombuffer(bytes(12), structure):
        with pytest.raises((BufferError, ValueError), match='"void" is a structure'):
            use()
