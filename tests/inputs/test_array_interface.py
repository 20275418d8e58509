"""The array interfaces: __array_interface__, __array_struct__ and __cuda_array_interface__, well-formed and not."""

import ctypes
import gc
import sys

import numpy as np
import pytest

from dlpack import DLDeviceType, DLPackObject, asdlpack
from support.capi import PyArrayInterface, Speaks, capsule_new
from support.cuda_driver import Driver, with_driver

NUMBERS = np.arange(12, dtype="f4").reshape(3, 4)


def interface(**changes):
    """An object whose __array_interface__ describes NUMBERS, with some keys changed; a key of ... is left out."""
    keys = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (NUMBERS.ctypes.data, False), **changes}
    return Speaks(__array_interface__={key: value for key, value in keys.items() if value is not ...})


# The dictionary.


@pytest.mark.parametrize("version", [2, 3])
def test_versions_2_and_3_are_read(version):
    x = asdlpack(interface(version=version))
    assert (x.shape, x.strides, x.pointer) == ((3, 4), (4, 1), NUMBERS.ctypes.data)


@pytest.mark.parametrize("readonly", [False, True])
def test_data_may_be_an_address_and_a_read_only_flag(readonly):
    x = asdlpack(interface(data=(NUMBERS.ctypes.data, readonly)))
    assert (x.pointer, x.readonly) == (NUMBERS.ctypes.data, readonly)


@pytest.mark.parametrize("data", [bytearray(64), memoryview(bytearray(64)), np.zeros(16, "f4"), bytes(64)])
def test_data_may_be_a_buffer_with_an_offset(data):
    start = np.frombuffer(data, "u1").ctypes.data
    x = asdlpack(interface(data=data, offset=16))
    assert (x.pointer, x.readonly) == (start + 16, isinstance(data, bytes))
    assert asdlpack(interface(data=data)).pointer == start


def test_buffers_of_several_sizes_are_measured_each_time():
    """An answer is remembered without the address and the size of the buffer."""
    for size in (48, 47, 64, 44, 48):
        obj = interface(data=bytes(size))
        if size < 48:
            with pytest.raises(ValueError, match=f"{size}"):
                asdlpack(obj)
        else:
            assert asdlpack(obj).shape == (3, 4)


def test_data_as_a_buffer_stays_locked_as_long_as_it_is_used():
    data = bytearray(48)
    out = np.from_dlpack(asdlpack(interface(data=data)))
    with pytest.raises(BufferError):
        data.append(0)
    out[2, 3] = 1
    assert data[44:] == np.float32(1).tobytes()
    del out
    data.append(0)


@pytest.mark.parametrize("data", [..., None])
def test_without_data_the_object_is_the_buffer_itself(data):
    class Buffer(bytearray):
        pass

    buffer = Buffer(64)
    buffer.__array_interface__ = interface(data=data, offset=8).__array_interface__
    x = asdlpack(buffer)
    assert x.protocol == "__array_interface__"
    np.from_dlpack(x)[0, 0] = 1
    assert buffer[8:12] == np.float32(1).tobytes()
    with pytest.raises(BufferError):
        buffer.append(0)


@pytest.mark.parametrize("data", [..., None])
def test_without_data_an_object_that_is_no_buffer_is_a_value_error(data):
    with pytest.raises(ValueError, match="data"):
        asdlpack(interface(data=data))


def test_strides_are_bytes_of_any_sign():
    x = asdlpack(interface(shape=(2, 2), strides=(-16, 8), data=(NUMBERS.ctypes.data + 32, False)))
    assert x.strides == (-4, 2)
    assert np.from_dlpack(x).tolist() == [[8, 10], [4, 6]]


@pytest.mark.parametrize("strides", [..., None])
def test_without_strides_the_memory_is_row_major(strides):
    assert asdlpack(interface(strides=strides)).strides == (4, 1)


def test_a_mask_is_a_buffer_error_and_a_mask_of_none_is_none():
    with pytest.raises(BufferError, match="mask"):
        asdlpack(interface(mask=np.zeros((3, 4), bool)))
    assert asdlpack(interface(mask=None)).shape == (3, 4)


def test_numbers_may_be_objects_with_an_index():
    x = asdlpack(interface(shape=(np.int64(3), np.uint8(4)), data=(np.uint64(NUMBERS.ctypes.data), False)))
    assert x.shape == (3, 4)
    assert x.pointer == NUMBERS.ctypes.data


def test_keys_that_say_nothing_of_the_memory_are_ignored():
    assert asdlpack(interface(descr=[("", "<f4")], color="red")).shape == (3, 4)


KINDS = {
    "|b1": "bool",
    "|i1": "int8",
    "<i2": "int16",
    "<i4": "int32",
    "<i8": "int64",
    "|u1": "uint8",
    "<u2": "uint16",
    "<u4": "uint32",
    "<u8": "uint64",
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
    "<c8": "complex64",
    "<c16": "complex128",
    "<i1": "int8",
    ">u1": "uint8",
    "=i4": "int32",
}


@pytest.mark.parametrize("typestr", KINDS)
def test_every_typestr_of_a_number_is_read(typestr):
    data = np.zeros(4, "c16")
    x = asdlpack(interface(typestr=typestr, shape=(4,), data=data))
    assert (x.dtype, x.itemsize) == (KINDS[typestr], np.dtype(KINDS[typestr]).itemsize)


CANNOT_BE_SAID = (
    "|O8 |S4 <U4 >U4 |a4 |V8 <V2 |V1 <m8 <M8 <M8[s] >m8[ns] |t1 <f16 <f12 <c32 <c24".split()
)  # objects, text, structures, times, bit fields, 80-bit floats


@pytest.mark.parametrize("typestr", CANNOT_BE_SAID)
def test_a_typestr_that_dlpack_cannot_say_is_a_buffer_error_that_names_it(typestr):
    with pytest.raises(BufferError) as caught:
        asdlpack(interface(typestr=typestr, shape=(1,)))
    assert f'typestr "{typestr}"' in str(caught.value)


@pytest.mark.parametrize("typestr", ["<m8", "<M8[s]"])
def test_the_message_for_times_names_the_way_out(typestr):
    with pytest.raises(BufferError, match="int64"):
        asdlpack(interface(typestr=typestr))


@pytest.mark.parametrize("typestr", [">f4", ">i2", ">c16", ">u8"])
def test_a_big_endian_typestr_is_a_buffer_error_that_names_copy_none(typestr):
    obj = interface(typestr=typestr, shape=(1,))
    with pytest.raises(BufferError) as caught:
        asdlpack(obj)
    assert f'typestr "{typestr}"' in str(caught.value)
    assert "copy=None" in str(caught.value)


@pytest.mark.parametrize(
    "typestr",
    ["", "<", "<f", "f4", "<f3", "<q8", "<<f4", "<f-4", "<f+4", "<f4 ", " <f4", "<f4x", "<f0", "|b2", "<u3", "<i16"]
    + ["<f99999999999999999999", "<f04294967300", "|f4", "<f4\0", "\0f4", "<\N{GREEK SMALL LETTER PHI}4", "<f\u0664"]
    + ["\ud800f4", "<f4" * 1000, "?f4", "<F4", "<V2 bfloat16", "<f1 float8_e5m2", "<f4 float32"]
    + [b"<f4", None, 4, ("<f4",), np.dtype("f4")],
)
def test_a_malformed_typestr_is_a_value_error(typestr):
    with pytest.raises(ValueError, match="typestr") as caught:
        asdlpack(interface(typestr=typestr, shape=(1,)))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("key", ["shape", "typestr"])
def test_a_missing_key_is_a_value_error_that_names_it(key):
    with pytest.raises(ValueError, match=key):
        asdlpack(interface(**{key: ...}))


@pytest.mark.parametrize("value", [5, "shape", [("shape", (3,))], (), object()])
def test_an_interface_that_is_no_dictionary_is_a_value_error(value):
    with pytest.raises(ValueError, match="__array_interface__.*dict"):
        asdlpack(Speaks(__array_interface__=value))


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "__cuda_array_interface__"])
def test_an_interface_of_none_means_that_the_object_does_not_speak_it(name):
    with pytest.raises(TypeError, match="Speaks"):
        asdlpack(Speaks(**{name: None}))


HUGE = 2**62
CONTRADICTIONS = [
    ({"version": 1}, "version.*1"),
    ({"version": 4}, "version.*4"),
    ({"version": -1}, "version"),
    ({"version": 2**70}, "version"),
    ({"version": 2**40}, "version 65535 or more; expected 2 to 3"),
    ({"version": "3"}, "version"),
    ({"shape": (3, -4)}, "shape dimension 1 is negative: -4"),
    ({"shape": (2**63,)}, "shape"),
    ({"shape": (-(2**63) - 1,)}, "shape"),
    ({"shape": (HUGE, 4)}, "shape|size|bytes"),
    ({"shape": (HUGE,)}, "shape|size|bytes"),
    ({"shape": (0, HUGE, HUGE)}, "shape|size|bytes"),
    ({"shape": (1,) * 65}, "65"),
    ({"shape": 12}, "shape"),
    ({"shape": None}, "shape"),
    ({"shape": "12"}, "shape"),
    ({"shape": (3.0, 4)}, "shape"),
    ({"shape": ("3", 4)}, "shape"),
    ({"shape": (None, 4)}, "shape"),
    ({"strides": (4,)}, "strides"),
    ({"strides": (16, 4, 1)}, "strides"),
    ({"strides": ()}, "strides"),
    ({"strides": 4}, "strides"),
    ({"strides": (16.0, 4)}, "strides"),
    ({"strides": (None, 4)}, "strides"),
    ({"strides": (2**63, 4)}, "strides"),
    ({"strides": (HUGE * 2 - 4, 4)}, "stride|extent|address"),
    ({"strides": (-HUGE, 4)}, "stride|extent|address"),
    ({"data": ("4096", False)}, "data"),
    ({"data": (4096.0, False)}, "data"),
    ({"data": (None, False)}, "data"),
    ({"data": (-1, False)}, "data"),
    ({"data": (2**64, False)}, "data"),
    ({"data": (2**64 - 4, False)}, "data|address"),
    ({"data": (0, False)}, "data|NULL"),
    ({"data": ()}, "data"),
    ({"data": (4096,)}, "data"),
    ({"data": 4096}, "data"),
    ({"data": 4096.5}, "data"),
    ({"data": "text"}, "data"),
    ({"data": bytes(40)}, "40.*48|48.*40"),
    ({"data": bytes(48), "offset": 4}, "48"),
    ({"data": bytes(48), "offset": 2**63 - 1}, "offset|48"),
    ({"data": bytes(48), "offset": -4}, "offset|-4"),
    ({"data": bytes(48), "offset": 2**64}, "offset"),
    ({"data": bytes(48), "offset": 1.5}, "offset"),
    ({"data": bytes(48), "offset": "4"}, "offset"),
    ({"data": bytes(48), "strides": (-16, 4)}, "48|stride|extent"),
    ({"data": bytes(48), "strides": (16, 8)}, "48|stride|extent"),
]


@pytest.mark.parametrize(
    ("changes", "message"), CONTRADICTIONS, ids=[str(changes)[:60] for changes, _ in CONTRADICTIONS]
)
def test_an_interface_that_contradicts_itself_is_a_value_error(changes, message):
    for copy in False, None, True:
        with pytest.raises(ValueError, match=message):
            asdlpack(interface(**changes), copy=copy)


def test_memory_of_no_items_may_be_anywhere():
    for data in (0, False), (2**64 - 1, False), (NUMBERS.ctypes.data, False):
        x = asdlpack(interface(shape=(0, 3), data=data))
        assert (x.pointer, x.size, x.strides) == (0, 0, (3, 1))


def test_an_interface_that_is_a_property_is_read_once():
    class Counts:
        reads = 0

        @property
        def __array_interface__(self):
            self.reads += 1
            return interface().__array_interface__

    counts = Counts()
    x = asdlpack(counts)
    x.__dlpack__(), x.shape
    assert counts.reads == 1


def test_a_subclass_of_dict_is_read_as_a_dict():
    class Keys(dict):
        def __getitem__(self, key):
            raise AssertionError("a dict is read with the functions of dict")

        get = __getitem__

    x = asdlpack(Speaks(__array_interface__=Keys(interface().__array_interface__)))
    assert x.shape == (3, 4)


def test_a_float8_by_typestr_alone_is_refused():
    """Only ml_dtypes' float8_e5m2 says "<f1"; without its name an "<f1" could be any float of 8 bits."""
    with pytest.raises((BufferError, ValueError), match='typestr "<f1"'):
        asdlpack(interface(typestr="<f1"))


# The structure.


C_CONTIGUOUS, ALIGNED, NOTSWAPPED, WRITEABLE = 1, 0x100, 0x200, 0x400
STRUCT_KINDS = {
    (b"b", 1): "bool",
    (b"i", 1): "int8",
    (b"i", 2): "int16",
    (b"i", 4): "int32",
    (b"i", 8): "int64",
    (b"u", 1): "uint8",
    (b"u", 2): "uint16",
    (b"u", 4): "uint32",
    (b"u", 8): "uint64",
    (b"f", 2): "float16",
    (b"f", 4): "float32",
    (b"f", 8): "float64",
    (b"c", 8): "complex64",
    (b"c", 16): "complex128",
}


class Struct:
    """An object whose __array_struct__ describes NUMBERS, with some fields changed."""

    def __init__(self, **changes):
        fields = {
            "two": 2,
            "nd": 2,
            "typekind": b"f",
            "itemsize": 4,
            "flags": ALIGNED | NOTSWAPPED | WRITEABLE,
            "shape": (3, 4),
            "strides": (16, 4),
            "data": NUMBERS.ctypes.data,
            **changes,
        }
        self.struct = PyArrayInterface()
        for name, value in fields.items():
            if isinstance(value, tuple):
                value = (ctypes.c_ssize_t * len(value))(*value)
            if value is not None:
                setattr(self.struct, name, value)

    @property
    def __array_struct__(self):
        return capsule_new(ctypes.addressof(self.struct), None, None)


@pytest.mark.parametrize("kind", STRUCT_KINDS)
def test_every_kind_of_an_array_struct_is_read(kind):
    data = np.zeros(12, "c16")
    typekind, itemsize = kind
    obj = Struct(typekind=typekind, itemsize=itemsize, strides=(4 * itemsize, itemsize), data=data.ctypes.data)
    x = asdlpack(obj)
    assert (x.dtype, x.itemsize, x.protocol) == (STRUCT_KINDS[kind], itemsize, "__array_struct__")
    assert (x.shape, x.strides, x.readonly) == ((3, 4), (4, 1), False)


def test_an_array_struct_without_the_writeable_flag_is_read_only():
    assert asdlpack(Struct(flags=ALIGNED | NOTSWAPPED)).readonly


def test_an_array_struct_without_strides_is_row_major():
    assert asdlpack(Struct(strides=None, flags=C_CONTIGUOUS | NOTSWAPPED)).strides == (4, 1)


def test_an_array_struct_without_the_notswapped_flag_needs_a_copy():
    swapped = NUMBERS.byteswap()
    obj = Struct(flags=ALIGNED, data=swapped.ctypes.data)
    with pytest.raises(BufferError, match="copy=None"):
        asdlpack(obj)
    assert np.from_dlpack(asdlpack(obj, copy=None)).tolist() == NUMBERS.tolist()


def test_a_scalar_array_struct_has_no_shape():
    x = asdlpack(Struct(nd=0, shape=None, strides=None))
    assert (x.shape, np.from_dlpack(x).item()) == ((), 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"two": 3}, "two|3"),
        ({"nd": -1}, "-1"),
        ({"nd": 65, "shape": (1,) * 65, "strides": None}, "65"),
        ({"shape": None}, "shape"),
        ({"shape": (3, -4)}, "shape dimension 1 is negative: -4"),
        ({"shape": (HUGE, 4)}, "shape|size|bytes"),
        ({"strides": (-HUGE, 4)}, "stride|extent|address"),
        ({"typekind": b"q"}, "typekind|kind"),
        ({"typekind": b"\0"}, "typekind|kind"),
        ({"typekind": b"\xff"}, "typekind|kind"),
        ({"itemsize": 3}, "3"),
        ({"itemsize": 0}, "0"),
        ({"itemsize": -4}, "-4"),
        ({"data": None}, "data|NULL"),
    ],
)
def test_an_array_struct_that_contradicts_itself_is_a_value_error(changes, message):
    obj = Struct(**changes)
    with pytest.raises(ValueError, match=message):
        asdlpack(obj)


@pytest.mark.parametrize("typekind", [b"O", b"S", b"U", b"V", b"m", b"M", b"t"])
def test_a_typekind_that_dlpack_cannot_say_is_a_buffer_error(typekind):
    with pytest.raises(BufferError):
        asdlpack(Struct(typekind=typekind, itemsize=8, strides=(32, 8), nd=1))


@pytest.mark.parametrize("dtype", ["g", "G"])
def test_an_80_bit_float_in_an_array_struct_is_a_buffer_error(dtype):
    with pytest.raises(BufferError):
        asdlpack(Speaks(__array_struct__=np.zeros(2, dtype).__array_struct__))


@pytest.mark.parametrize(
    "value", [5, b"struct", capsule_new(1 << 12, b"dltensor", None), capsule_new(1 << 12, b"other", None)]
)
def test_an_array_struct_that_is_no_unnamed_capsule_is_a_value_error(value):
    with pytest.raises(ValueError, match="__array_struct__"):
        asdlpack(Speaks(__array_struct__=value))


@pytest.mark.parametrize("dtype", ["f8", ">i4", "?", "c16"])
def test_numpys_own_array_struct_is_read(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)[:, ::-1]
    out = np.from_dlpack(asdlpack(Speaks(__array_struct__=array.__array_struct__, keep=array), copy=None))
    assert out.tolist() == array.tolist()
    assert np.shares_memory(out, array) == (dtype != ">i4")


# The CUDA array interface.


def cuda(**changes):
    keys = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (1 << 20, False), **changes}
    return Speaks(__cuda_array_interface__={key: value for key, value in keys.items() if value is not ...})


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mask": cuda()}, BufferError, "mask"),
        ({"typestr": ">f4"}, BufferError, 'typestr ">f4"'),
        ({"version": 4}, ValueError, "version.*4"),
        ({"version": -1}, ValueError, "version"),
        ({"shape": (3, -4)}, ValueError, "shape dimension 1 is negative: -4"),
        ({"strides": (4,)}, ValueError, "strides"),
        ({"data": (0, False)}, ValueError, "data|NULL"),
        ({"data": (-1, False)}, ValueError, "data"),
        ({"data": bytearray(48)}, ValueError, "data"),
        ({"data": None}, ValueError, "data"),
        ({"data": ...}, ValueError, "data"),
        ({"shape": ...}, ValueError, "shape"),
        ({"typestr": ...}, ValueError, "typestr"),
    ],
)
def test_a_cuda_array_interface_that_cannot_be_served_says_why(changes, error, message):
    with pytest.raises(error, match=message):
        asdlpack(cuda(**changes))


@with_driver
def test_the_cuda_array_interface_of_every_version_is_described():
    memory = Driver().allocate(48, device=1)
    for version in range(4):
        array = memory.array((3, 4), "<f4", strides=(4, 12), version=version, data=(memory.address, version == 2))
        x = asdlpack(array)
        assert (x.protocol, x.device) == ("__cuda_array_interface__", (DLDeviceType.kDLCUDA, 1))
        assert (x.shape, x.strides, x.dtype, x.itemsize) == ((3, 4), (1, 3), "float32", 4)
        assert (x.size, x.nbytes, x.pointer, x.readonly) == (12, 48, memory.address, version == 2)
        assert x.__dlpack_device__() == (2, 1)


def test_no_interface_leaks_a_reference_when_it_is_refused():
    data = bytearray(8)
    keys = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": data}
    obj = Speaks(__array_interface__=keys)
    before = sys.getrefcount(data), sys.getrefcount(keys), sys.getrefcount(obj)
    for _ in range(5):
        with pytest.raises(ValueError):
            asdlpack(obj)
    data.append(0)
    assert (sys.getrefcount(data), sys.getrefcount(keys), sys.getrefcount(obj)) == before


def test_an_offset_beside_an_address_is_refused_also_after_a_buffer_had_one():
    for _ in range(3):
        assert asdlpack(interface(data=bytearray(64), offset=8)).shape == (3, 4)
        with pytest.raises(ValueError, match="offset 8 beside an address"):
            asdlpack(interface(offset=8))


def test_a_layout_that_reaches_below_the_first_address_is_refused_also_where_it_is_known():
    reversed_line = {"strides": (-4,), "shape": (3,)}
    assert asdlpack(interface(**reversed_line, data=(NUMBERS.ctypes.data + 8, False))).strides == (-1,)
    with pytest.raises(ValueError, match="below"):
        asdlpack(interface(**reversed_line, data=(4, False)))


def test_nobody_sees_an_object_that_is_not_described_yet():
    known = {id(obj) for obj in gc.get_objects()}
    seen = []

    class Index:
        def __index__(self):
            seen.extend(obj for obj in gc.get_objects() if type(obj) is DLPackObject and id(obj) not in known)
            return 3

    x = asdlpack(interface(shape=(Index(), 4)))
    assert (x.shape, seen) == ((3, 4), [])
    assert any(obj is x for obj in gc.get_objects())
