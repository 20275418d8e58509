"""Raw capsules of foreign producers: taken over once, whatever they hold, and their deleters called once."""

import ctypes
import gc
import pickle
from functools import partial

import numpy as np
import pytest

from dlpack import DLDeviceType, asdlpack, borrow, from_pointer
from dlpack.structs import DELETER
from support.capi import (
    IS_COPIED,
    READ_ONLY,
    SUBBYTE_TYPE_PADDED,
    USED,
    Managed,
    array_at,
    capsule_name,
    capsule_new,
    look,
)
from support.refusals import refused

LEGACY, VERSIONED = NAMES = b"dltensor", b"dltensor_versioned"
NUMBERS = np.arange(24, dtype="f4")
DATA = NUMBERS.ctypes.data


@pytest.mark.parametrize("name", NAMES)
def test_capsule_is_taken_over_and_deleted_with_its_last_holder(name):
    managed = Managed(DATA, name=name, shape=(2, 3), strides=(12, -2), byte_offset=16)
    capsule = managed.capsule()
    x = asdlpack(capsule)
    assert capsule_name(capsule) == USED[name]
    assert (x.protocol, x.shape, x.strides, x.pointer) == (name.decode(), (2, 3), (12, -2), DATA + 16)
    del capsule
    gc.collect()
    assert managed.deleted == 0
    out = np.from_dlpack(x)
    del x
    assert managed.deleted == 0
    assert out.tolist() == [[4, 2, 0], [16, 14, 12]]
    del out
    assert managed.deleted == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_second_use_is_a_value_error_that_leaves_the_first_alone(name):
    managed = Managed(DATA, name=name, shape=(3,))
    capsule = managed.capsule()
    x = asdlpack(capsule)
    refused(partial(asdlpack, capsule), "consumed-capsule", ValueError, name=USED[name].decode())
    del capsule
    assert managed.deleted == 0
    assert array_at(x).tolist() == [0, 1, 2]
    del x
    assert managed.deleted == 1


@pytest.mark.parametrize("name", [b"arrow_array", b"", b"DLTENSOR", b"dltensor ", b"\xff", b"x" * 1000, None])
def test_a_capsule_of_another_name_is_a_value_error(name):
    capsule = capsule_new(DATA, name, None)
    error = refused(lambda: asdlpack(capsule), "capsule-name", ValueError)
    if name is not None and name.isascii():
        assert f'capsule "{name.decode()[:100]}"' in str(error)
    assert len(str(error)) < 400
    assert capsule_name(capsule) == name


@pytest.mark.parametrize("name", NAMES)
def test_a_deleter_of_null_is_allowed(name):
    managed = Managed(DATA, name=name, shape=(3,), deleter=False)
    x = asdlpack(managed.capsule())
    assert np.from_dlpack(x).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_scalar_needs_no_shape_and_row_major_memory_no_strides(name):
    x = asdlpack(Managed(DATA + 4, name=name, shape=None).capsule())
    assert (x.shape, x.strides, np.from_dlpack(x).item()) == ((), (), 1)
    assert asdlpack(Managed(DATA, name=name, shape=(2, 3, 4)).capsule()).strides == (12, 4, 1)


def test_strides_that_were_divided_without_their_sign_are_negative():
    """As cupy 14 exports those of a reversed array."""
    for _ in range(3):  # the kind is known from the second on
        x = asdlpack(Managed(DATA + 12, shape=(2, 3), strides=(2**62 - 3, 1)).capsule())
        assert x.strides == (-3, 1)
        assert np.from_dlpack(x).tolist() == [[3, 4, 5], [0, 1, 2]]
    x = asdlpack(Managed(DATA + 40, shape=(3,), dtype=(2, 64, 1), strides=(2**61 - 2,)).capsule())
    assert (x.strides, x.nbytes) == ((-2,), 24)
    for stride in 2**61, 2**62 - 2**46, 2**62, 2**62 + 3, 2**63 - 1:
        capsule = Managed(DATA, shape=(2,), strides=(stride,)).capsule()
        refused(partial(asdlpack, capsule), "beyond-addresses", ValueError, dimension=0, stride=stride, items=2)
    wrap = partial(from_pointer, DATA + 12, (2, 3), "float32", strides=(2**62 - 3, 1))
    refused(wrap, "beyond-addresses", ValueError, items=2)


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        ((3, 64, 1), "opaque_handle64"),
        ((0, 32, 4), "int32x4"),
        ((17, 4, 2), "float4_e2m1fnx2"),
        ((18, 32, 1), "bcomplex32"),
    ],
)
def test_data_types_of_capsules_are_named(code, dtype):
    x = asdlpack(Managed(DATA, shape=(2,), dtype=code).capsule())
    assert (x.dtype, x.itemsize) == (dtype, code[1] * code[2] // 8)
    tensor = look(x.__dlpack__()).dl_tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == code


def test_the_first_code_without_a_name_is_refused():
    capsule = Managed(DATA, shape=(2,), dtype=(19, 32, 1)).capsule()
    refused(lambda: asdlpack(capsule), "data-type", ValueError, code=19, bits=32, lanes=1, most=18)


def test_packed_items_are_compact():
    for shape, strides in ((3, 5), (5, 1)), ((2, 6), (6, 1)), ((7,), (1,)):
        x = asdlpack(Managed(DATA, shape=shape, strides=strides, dtype=(1, 4, 1)).capsule())
        assert (x.dtype, x.shape, x.strides, x.nbytes) == ("uint4", shape, strides, (x.size + 1) // 2)
    for strides in (10, 2), (0, 0):
        capsule = Managed(DATA, shape=(3, 5), strides=strides, dtype=(1, 4, 1)).capsule()
        refused(partial(asdlpack, capsule), "packed", bits=4, size=4)


def test_padded_items_have_any_shape():
    for shape, strides in ((3, 5), (5, 1)), ((2, 6), (6, 1)), ((4, 2), (2, 1)):
        managed = Managed(DATA, shape=shape, strides=strides, dtype=(17, 4, 1), flags=SUBBYTE_TYPE_PADDED)
        x = asdlpack(managed.capsule())
        assert (x.shape, x.strides, x.itemsize) == (shape, strides, 1)


def test_items_of_whole_bytes_are_never_padded():
    """Whatever their producer says: a pickle of them can be loaded, and a DLTensor can describe them."""
    x = asdlpack(Managed(DATA, shape=(3,), flags=SUBBYTE_TYPE_PADDED).capsule())
    assert look(x.__dlpack__(max_version=(1, 0))).flags == 0
    assert bytes(pickle.loads(pickle.dumps(x))) == bytes(x)
    with borrow(x) as tensor:
        assert tensor.contents.ndim == 1


def test_padded_items_keep_their_flag_and_need_the_versioned_structure():
    x = asdlpack(Managed(DATA, shape=(3,), dtype=(17, 4, 1), flags=SUBBYTE_TYPE_PADDED).capsule())
    assert (x.dtype, x.itemsize, x.nbytes) == ("float4_e2m1fn", 1, 3)
    assert look(x.__dlpack__(max_version=(1, 0))).flags == SUBBYTE_TYPE_PADDED
    refused(x.__dlpack__, "no-legacy-capsule")


def test_the_read_only_flag_is_kept():
    x = asdlpack(Managed(DATA, shape=(3,), flags=READ_ONLY).capsule())
    assert x.readonly
    assert look(x.__dlpack__(max_version=(1, 0))).flags & READ_ONLY
    assert not np.from_dlpack(x).flags.writeable
    assert not asdlpack(Managed(DATA, shape=(3,), flags=IS_COPIED).capsule()).readonly
    managed = asdlpack(Managed(DATA, shape=(3,), device=(13, 0), flags=READ_ONLY).capsule())
    x = asdlpack(managed, device="cpu")  # shared there
    assert (x.pointer, x.device[0], x.readonly) == (DATA, 1, True)


@pytest.mark.parametrize(
    "device", [(2, 0), (2, 7), (3, 0), (8, 1), (10, 0), (7, 3), (11, 0), (13, 0), (14, 0), (15, 0)]
)
def test_memory_of_other_devices_is_passed_on_untouched(device):
    x = asdlpack(Managed(1 << 20, shape=(3,), device=device, byte_offset=64).capsule())
    assert (tuple(x.device), x.__dlpack_device__()) == (device, device)
    tensor = look(x.__dlpack__()).dl_tensor
    assert (tensor.device.device_type, tensor.device.device_id) == device
    assert tensor.data + tensor.byte_offset == (1 << 20) + 64
    has_addresses = device[0] in (2, 3, 10, 11, 13, 14)  # elsewhere data is a handle, to which nothing can be added
    assert tensor.byte_offset == (0 if has_addresses else 64)


def test_the_cpu_has_one_device_id():
    x = asdlpack(Managed(DATA, shape=(3,), device=(1, 5)).capsule())
    assert (tuple(x.device), x.__dlpack_device__()) == ((1, 0), (1, 0))
    assert look(x.__dlpack__()).dl_tensor.device.device_id == 0


@pytest.mark.parametrize("flags", [8, 2**63])
def test_flags_of_a_later_minor_version_do_not_leave_again(flags):
    """An unknown flag may promise something that an export of another version doesn't keep."""
    x = asdlpack(Managed(DATA, shape=(3,), flags=flags, version=(1, 99)).capsule())
    assert look(x.__dlpack__(max_version=(1, 3))).flags == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_misaligned_tensor_needs_a_copy(name):
    managed = Managed(DATA + 1, name=name, shape=(3,))
    capsule = managed.capsule()
    refused(lambda: asdlpack(capsule), "misaligned", hint="copy=None")
    assert (capsule_name(capsule), managed.deleted) == (name, 0)
    x = asdlpack(capsule, copy=None)
    assert managed.deleted == 1  # the copy keeps no source
    assert array_at(x).tobytes() == NUMBERS.tobytes()[1:13]


@pytest.mark.parametrize("name", NAMES)
def test_copy_of_a_capsule_consumes_it_and_deletes_at_once(name):
    managed = Managed(DATA, name=name, shape=(3,))
    capsule = managed.capsule()
    x = asdlpack(capsule, copy=True)
    assert (capsule_name(capsule), managed.deleted) == (USED[name], 1)
    assert (x.obj, array_at(x).tolist()) == (None, [0, 1, 2])
    del x, capsule
    assert managed.deleted == 1


@pytest.mark.parametrize("name", NAMES)
def test_exception_that_a_deleter_leaves_is_dropped(name):
    managed = Managed(DATA, name=name, shape=(3,))
    managed.struct.deleter = DELETER.from_buffer(ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p))
    assert array_at(asdlpack(managed.capsule(), copy=True)).tolist() == [0, 1, 2]
    assert len([asdlpack(managed.capsule())]) == 1  # nor is it raised when the object dies


# Our own capsules, and their deleters.


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_dying_capsule_keeps_the_exception_that_is_pending(max_version):
    """list() drops its half-built list, and the capsules in it, while the generator's exception is set."""
    source = Managed(DATA, shape=(3,))
    data = bytearray(3)

    def holders():
        yield asdlpack(source.capsule()).__dlpack__(max_version=max_version)
        yield asdlpack(data).__dlpack__(max_version=max_version)
        yield asdlpack(data)
        raise KeyError("kept")

    with pytest.raises(KeyError, match="kept"):
        list(holders())
    assert source.deleted == 1
    data.append(0)


def test_a_device_type_of_a_later_version_is_named_by_its_number():
    x = asdlpack(Managed(1 << 20, shape=(3,), device=(22, 2)).capsule())
    assert x.__dlpack_device__() == (22, 2)
    assert x.device == (22, 2)
    assert x.device[0].name == "device type 22"
    assert "on device type 22:2" in repr(x)
    for none in 0, -1, "kDLCPU":
        with pytest.raises(ValueError, match="is not a valid DLDeviceType"):
            DLDeviceType(none)
    refused(lambda: memoryview(x), "on-gpu", device="device type 22:2")
    assert asdlpack(x, device=(22, 2)) is x
    assert capsule_name(x.__dlpack__(dl_device=(22, 2))) == b"dltensor"
