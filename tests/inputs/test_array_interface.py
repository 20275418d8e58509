"""The array interfaces: __array_interface__, __array_struct__ and __cuda_array_interface__, well-formed and not."""

import ctypes
import gc

import numpy as np
import pytest

from dlpack import DLPackObject, asdlpack
from support.capi import PyArrayInterface, Speaks, capsule_new

NUMBERS = np.arange(12, dtype="f4").reshape(3, 4)


def interface(**changes):
    """An object whose __array_interface__ describes NUMBERS, with some keys changed; a key of ... is left out."""
    keys = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (NUMBERS.ctypes.data, False), **changes}
    return Speaks(__array_interface__={key: value for key, value in keys.items() if value is not ...})


# The dictionary.


@pytest.mark.parametrize("readonly", [False, True, 0, 1, np.False_, np.True_])
def test_data_may_be_an_address_and_a_read_only_flag(readonly):
    for version in 2, 3:
        x = asdlpack(interface(data=(NUMBERS.ctypes.data, readonly), strides=None, version=version))
        assert (x.pointer, x.readonly) == (NUMBERS.ctypes.data, readonly)
        assert (x.shape, x.strides) == ((3, 4), (4, 1))


@pytest.mark.parametrize("data", [bytearray(64), memoryview(bytearray(64)), np.zeros(16, "f4"), bytes(64)])
def test_data_may_be_a_buffer_with_an_offset(data):
    start = np.frombuffer(data, "u1").ctypes.data
    x = asdlpack(interface(data=data, offset=16))
    assert (x.pointer, x.readonly) == (start + 16, isinstance(data, bytes))
    assert asdlpack(interface(data=data)).pointer == start


def test_buffers_of_several_sizes_are_measured_each_time():
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


def test_strides_are_bytes_of_any_sign():
    x = asdlpack(interface(shape=(2, 2), strides=(-16, 8), data=(NUMBERS.ctypes.data + 32, False)))
    assert x.strides == (-4, 2)
    assert np.from_dlpack(x).tolist() == [[8, 10], [4, 6]]


def test_a_mask_is_a_buffer_error_and_a_mask_of_none_is_none():
    with pytest.raises(BufferError, match="mask"):
        asdlpack(interface(mask=np.zeros((3, 4), bool)))
    assert asdlpack(interface(mask=None)).shape == (3, 4)


def test_numbers_may_be_objects_with_an_index():
    x = asdlpack(interface(shape=(np.int64(3), np.uint8(4)), data=(np.uint64(NUMBERS.ctypes.data), False)))
    assert x.shape == (3, 4)
    assert x.pointer == NUMBERS.ctypes.data


def test_keys_that_say_nothing_of_the_memory_are_ignored():
    assert asdlpack(interface(descr=[("", "<f4")], color="red", stream=5)).shape == (3, 4)


@pytest.mark.parametrize(
    "typestr",
    ["<f4\0\n\x1b[31m", "<f\u0664", "\ud800f4", "<f4" * 1000, "<V2 bfloat16", "<f4 float32"]
    + [b"<f4", None, 4, ("<f4",), np.dtype("f4")],
)
def test_a_malformed_typestr_is_a_value_error(typestr):
    """Go's TestAMalformedTypestrIsRefused has those that are plain texts."""
    with pytest.raises(ValueError, match="typestr") as caught:
        asdlpack(interface(typestr=typestr, shape=(1,)))
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("key", ["shape", "typestr"])
def test_a_missing_key_is_a_value_error_that_names_it(key):
    with pytest.raises(ValueError, match=key):
        asdlpack(interface(**{key: ...}))


@pytest.mark.parametrize("value", [5, "shape", [("shape", (3,))], (), object()])
def test_an_interface_that_is_no_dictionary_is_a_value_error(value):
    with pytest.raises(ValueError, match="__array_interface__.*dict"):
        asdlpack(Speaks(__array_interface__=value))


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "__cuda_array_interface__"])
def test_interface_of_none_is_absent(name):
    with pytest.raises(TypeError, match="Speaks"):
        asdlpack(Speaks(**{name: None}))


CONTRADICTIONS = [
    ({"version": 1}, "version.*1"),
    ({"version": 4}, "version.*4"),
    ({"version": -1}, "version"),
    ({"version": 2**70}, "version"),
    ({"version": 2**40}, "version 65535 or more; expected 2 to 3"),
    ({"version": "3"}, "version"),
    ({"shape": (3, -4)}, "shape dimension 1 is negative: -4"),
    ({"shape": (2**63,)}, "shape"),
    ({"shape": 12}, "shape"),
    ({"shape": None}, "shape"),
    ({"shape": "12"}, "shape"),
    ({"shape": (3.0, 4)}, "shape"),
    ({"shape": (None, 4)}, "shape"),
    ({"strides": (4,)}, "strides"),
    ({"strides": ()}, "strides"),
    ({"strides": 4}, "strides"),
    ({"strides": (16.0, 4)}, "strides"),
    ({"strides": (2**63, 4)}, "strides"),
    ({"data": (4096.0, False)}, "data"),
    ({"data": (None, False)}, "data"),
    ({"data": (-1, False)}, "data"),
    ({"data": (2**64, False)}, "data"),
    ({"data": (0, False)}, "data|NULL"),
    ({"data": ()}, "data"),
    ({"data": None}, "data"),
    ({"data": ...}, "data"),
    ({"data": 4096}, "data"),
    ({"data": 4096.5}, "data"),
    ({"data": "text"}, "data"),
    ({"data": bytes(40)}, "40.*48|48.*40"),
    ({"data": bytes(48), "offset": 4}, "48"),
    ({"data": bytes(48), "offset": 2**63 - 1}, "offset|48"),
    ({"data": bytes(48), "offset": -4}, "offset|-4"),
    ({"data": bytes(48), "offset": 2**64}, "offset"),
    ({"data": bytes(48), "offset": 1.5}, "offset"),
]


@pytest.mark.parametrize(
    ("changes", "message"), CONTRADICTIONS, ids=[str(changes)[:60] for changes, _ in CONTRADICTIONS]
)
def test_an_interface_that_contradicts_itself_is_a_value_error(changes, message):
    for copy in False, None, True:
        with pytest.raises(ValueError, match=message):
            asdlpack(interface(**changes), copy=copy)


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


# The structure.


C_CONTIGUOUS, F_CONTIGUOUS, ALIGNED, NOTSWAPPED, WRITEABLE = 1, 2, 0x100, 0x200, 0x400


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


def test_array_struct_without_flags_strides_or_shape_is_read():
    assert asdlpack(Struct(flags=ALIGNED | NOTSWAPPED)).readonly
    assert asdlpack(Struct(strides=None, flags=C_CONTIGUOUS | NOTSWAPPED)).strides == (4, 1)
    x = asdlpack(Struct(nd=0, shape=None, strides=None))
    assert (x.shape, np.from_dlpack(x).item()) == ((), 0)


@pytest.mark.parametrize("flags", [0, C_CONTIGUOUS, F_CONTIGUOUS, C_CONTIGUOUS | F_CONTIGUOUS])
def test_an_array_struct_without_strides_lies_in_the_order_of_its_flags(flags):
    obj = Struct(strides=None, flags=flags | ALIGNED | NOTSWAPPED)
    assert np.from_dlpack(asdlpack(obj)).tolist() == np.asarray(obj).tolist()


def test_an_array_struct_without_the_notswapped_flag_needs_a_copy():
    swapped = NUMBERS.byteswap()
    obj = Struct(flags=ALIGNED, data=swapped.ctypes.data)
    with pytest.raises(BufferError, match="copy=None"):
        asdlpack(obj)
    assert np.from_dlpack(asdlpack(obj, copy=None)).tolist() == NUMBERS.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"two": 3}, "two|3"),
        ({"nd": -1}, "-1"),
        ({"nd": 65, "shape": (1,) * 65, "strides": None}, "65"),
        ({"shape": None}, "shape"),
        ({"shape": (3, -4)}, "shape dimension 1 is negative: -4"),
        ({"strides": (-(2**62), 4)}, "shape and strides reach from 9223372036854775808 bytes below"),
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


@pytest.mark.parametrize(
    "value", [5, b"struct", capsule_new(1 << 12, b"dltensor", None), capsule_new(1 << 12, b"other", None)]
)
def test_an_array_struct_that_is_no_unnamed_capsule_is_a_value_error(value):
    with pytest.raises(ValueError, match="__array_struct__"):
        asdlpack(Speaks(__array_struct__=value))


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
        ({"data": (0, False)}, ValueError, "data is NULL"),
        ({"data": bytearray(48)}, ValueError, "data"),
        ({"data": None}, ValueError, "data"),
        ({"data": ...}, ValueError, "data"),
    ],
)
def test_a_cuda_array_interface_that_cannot_be_served_says_why(changes, error, message):
    with pytest.raises(error, match=message):
        asdlpack(cuda(**changes))


def test_offset_beside_an_address_is_refused_after_a_buffer_had_one():
    for _ in range(3):
        assert asdlpack(interface(data=bytearray(64), offset=8)).shape == (3, 4)
        with pytest.raises(ValueError, match="offset 8 beside an address"):
            asdlpack(interface(offset=8))


def test_layout_below_the_first_address_is_refused_where_it_is_known():
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


def test_data_that_is_a_buffer_with_gaps_is_refused_and_its_address_taken():
    gaps = NUMBERS.repeat(2)[::2]
    with pytest.raises(BufferError, match="^data: its buffer is not C-contiguous; .* \\(address, readonly\\) as data"):
        asdlpack(interface(shape=(12,), strides=(8,), data=gaps))
    x = asdlpack(interface(shape=(12,), strides=(8,), data=(gaps.ctypes.data, False)))
    assert np.from_dlpack(x).tolist() == list(range(12))
