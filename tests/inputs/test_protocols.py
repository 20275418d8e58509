"""Every dtype, through every protocol, in every layout: the same memory comes out, described truthfully."""

import numpy as np
import pytest

from dlpack import DLDeviceType, asdlpack
from support.capi import array_at
from support.layouts import DTYPES, LAYOUTS, LEGACY, PROTOCOLS, true_strides
from support.refusals import refused


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_shares_every_dtype_in_every_layout(protocol, dtype, layout):
    array = LAYOUTS[layout](dtype)
    obj = PROTOCOLS[protocol](array)
    x = asdlpack(obj)

    assert (x.protocol, x.obj) == (protocol, obj)
    assert (x.shape, x.ndim, x.size) == (array.shape, array.ndim, array.size)
    assert (x.dtype, x.itemsize, x.nbytes) == (dtype, array.itemsize, array.nbytes)
    assert x.strides == true_strides(array)
    assert x.pointer == (array.ctypes.data if array.size else 0)
    assert (x.device, x.readonly) == ((DLDeviceType.kDLCPU, 0), protocol == LEGACY)

    out = np.from_dlpack(x)
    assert out.dtype == array.dtype
    np.testing.assert_array_equal(out, array, strict=True)
    if array.size:
        assert out.ctypes.data == array.ctypes.data
        one = array if x.readonly else out
        one[...] = 1 - one  # a bool and an unsigned integer too change
        np.testing.assert_array_equal(out, array, strict=True)


def test_legacy_capsule_that_cannot_say_so_may_not_be_written():
    x = asdlpack(np.zeros(3).__dlpack__())
    assert (x.protocol, x.readonly) == (LEGACY, True)
    assert not np.from_dlpack(x).flags.writeable


@pytest.mark.parametrize("protocol", [protocol for protocol in PROTOCOLS if protocol != LEGACY])
def test_read_only_memory_stays_read_only(protocol):
    array = np.arange(6.0)
    array.flags.writeable = False
    x = asdlpack(PROTOCOLS[protocol](array))
    assert x.readonly
    out = np.from_dlpack(x)
    assert out.ctypes.data == array.ctypes.data
    assert not out.flags.writeable


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_64_dimensions_are_described(protocol):
    array = np.arange(6, dtype="i2").reshape((1,) * 30 + (2,) + (1,) * 32 + (3,))
    assert array.ndim == 64
    x = asdlpack(PROTOCOLS[protocol](array))
    assert x.shape == array.shape
    assert x.strides == (6,) * 30 + (3,) * 33 + (1,)
    assert np.from_dlpack(x).tolist() == array.tolist()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("length", [1, 2, 1000, 3, 1])
def test_memory_of_any_length_is_measured(protocol, length):
    array = np.arange(length, dtype="u2")
    x = asdlpack(PROTOCOLS[protocol](array))
    assert (x.shape, x.size, x.nbytes, x.strides) == ((length,), length, 2 * length, (1,))
    assert array_at(x).tolist() == array.tolist()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("lengths", [(3, 0, 3, 0), (0, 3, 0), (1, 0, 2, 1 << 16, 0)])
def test_memory_of_no_items_is_never_taken_for_memory_of_some(protocol, lengths):
    for length in lengths:
        for array in (
            np.zeros(length, "f4"),
            np.zeros((length, 2), "f4"),
            np.zeros(1 + length, "f4")[1:],
            np.zeros(2 * length, "f4")[::2],
        ):
            x = asdlpack(PROTOCOLS[protocol](array))
            assert (x.shape, x.size, x.nbytes) == (array.shape, array.size, array.nbytes)
            assert x.pointer == (array.ctypes.data if length else 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_alike_requests_of_other_memory_get_their_own_memory(protocol):
    arrays = [np.full((3, 4), number, "f4") for number in range(20)]
    wrapped = [asdlpack(PROTOCOLS[protocol](array)) for array in arrays]
    assert [x.pointer for x in wrapped] == [array.ctypes.data for array in arrays]
    assert [np.from_dlpack(x)[2, 3] for x in wrapped] == list(range(20))


@pytest.mark.parametrize("scalar", [np.float64(2.5), np.int8(3), np.complex128(1 + 2j), np.bool_(True)])
def test_numpy_scalars_are_shared_read_only(scalar):
    """Their __array_interface__ is that of an array which is gone when the dict is there."""
    start = np.frombuffer(scalar, "u1").ctypes.data
    x = asdlpack(scalar)
    assert (x.pointer, x.shape, x.dtype, x.readonly) == (start, (), scalar.dtype.name, True)
    others = [np.zeros((), scalar.dtype) for _ in range(1000)]  # would take the place of what is gone
    assert np.from_dlpack(x) == scalar
    del others


@pytest.mark.parametrize("readonly", [False, True])
def test_a_scalar_interfaces_address_wins_over_a_buffer(readonly):
    array = np.array(2.5)

    class Scalar(bytearray):
        __array_interface__ = {"version": 3, "typestr": "<f8", "shape": (), "data": (array.ctypes.data, readonly)}

    x = asdlpack(Scalar(8))
    assert (x.pointer, x.shape, x.readonly) == (array.ctypes.data, (), readonly)


def test_protocols_are_tried_in_the_order_of_the_design():
    class Everything(bytearray):
        pass

    array = np.zeros(3, "i4")
    everything = Everything(12)
    everything.__cuda_array_interface__ = {"shape": (3,), "typestr": "<i4", "data": (4096, False), "version": 3}
    refused(lambda: asdlpack(everything), "no-driver")
    everything.__cuda_array_interface__ = None
    assert asdlpack(everything).protocol == "buffer"
    for name in "__array_struct__", "__array_interface__", "__dlpack__":
        setattr(everything, name, getattr(array, name))
        assert asdlpack(everything).protocol == name


def test_a_dlpack_object_gives_itself_back():
    x = asdlpack(bytearray(3))
    assert asdlpack(x) is x
    assert asdlpack(x, copy=None) is x
    assert asdlpack(x, copy=True) is not x
