"""The array interfaces: __array_interface__, __array_struct__ and __cuda_array_interface__, well-formed and not."""

import ctypes
import gc
from functools import partial

import numpy as np
import pytest

from dlpack import DLPackObject, asdlpack
from support.capi import PyArrayInterface, Speaks, capsule_new
from support.refusals import refused

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
            refused(partial(asdlpack, obj), "out-of-bounds", ValueError, span=size)
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
    refused(lambda: asdlpack(interface(mask=np.zeros((3, 4), bool))), "mask")
    assert asdlpack(interface(mask=None)).shape == (3, 4)


def test_numbers_may_be_objects_with_an_index():
    x = asdlpack(interface(shape=(np.int64(3), np.uint8(4)), data=(np.uint64(NUMBERS.ctypes.data), False)))
    assert x.shape == (3, 4)
    assert x.pointer == NUMBERS.ctypes.data


def test_keys_that_say_nothing_of_the_memory_are_ignored():
    assert asdlpack(interface(descr=[("", "<f4")], color="red", stream=5)).shape == (3, 4)


@pytest.mark.parametrize("typestr", ["<f\u0664", "<f4" * 1000])
def test_a_malformed_typestr_is_quoted_short_and_printable(typestr):
    """Go's TestATypestrThatIsNoNumberIsRefused has those that are plain texts."""
    obj = interface(typestr=typestr, shape=(1,))
    text = str(refused(lambda: asdlpack(obj), "data-type", ValueError, field="typestr"))
    assert len(text) < 300
    assert text.isprintable()


@pytest.mark.parametrize("value", [5, "shape", [("shape", (3,))], (), object()])
def test_an_interface_that_is_not_a_dictionary_is_a_value_error(value):
    refused(lambda: asdlpack(Speaks(__array_interface__=value)), "array-interface", ValueError, field=None)


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "__cuda_array_interface__"])
def test_interface_of_none_is_absent(name):
    refused(lambda: asdlpack(Speaks(**{name: None})), "no-protocol", TypeError)


WRONG = {
    "version": [-1, 2**70, "3"],
    "shape": [(2**63,), 12, None, "12", (3.0, 4), (None, 4), ...],
    "strides": [4, (16.0, 4), (2**63, 4)],
    "typestr": [
        ...,
        "<f4\0\n\x1b[31m",
        "<V2 bfloat16",
        "<f4 float32",
        b"<f4",
        None,
        4,
        ("<f4",),
        np.dtype("f4"),
        "\ud800f4",
    ],
    "data": [(4096.0, False), (None, False), (-1, False), (2**64, False), (), None, ..., 4096, 4096.5, "text"],
    "offset": [-4, 2**64, 1.5],
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_another_kind_is_a_value_error_that_names_it(field):
    for value in WRONG[field]:
        obj = interface(**{"data": bytes(48), field: value})
        for copy in False, None, True:
            refused(partial(asdlpack, obj, copy=copy), "array-interface", ValueError, field=field)


@pytest.mark.parametrize(
    ("changes", "reason", "details"),
    [
        ({"version": 1}, "interface-version", {"version": 1, "oldest": 2, "newest": 3}),
        ({"version": 4}, "interface-version", {"version": 4}),
        ({"version": 2**40}, "interface-version", {"version": 65535}),
        ({"shape": (3, -4)}, "negative-shape", {"dimension": 1, "length": -4}),
        ({"strides": (4,)}, "strides-length", {"count": 1, "ndim": 2}),
        ({"strides": ()}, "strides-length", {"count": 0, "ndim": 2}),
        ({"data": (0, False)}, "data-is-null", {}),
        ({"data": bytes(40)}, "out-of-bounds", {"span": 40, "from": 0, "to": 48}),
        ({"data": bytes(48), "offset": 4}, "out-of-bounds", {"span": 48, "from": 4, "to": 52}),
        ({"data": bytes(48), "offset": 2**63 - 1}, "out-of-bounds", {"span": 48, "from": 2**63 - 1}),
    ],
)
def test_an_interface_that_contradicts_itself_is_a_value_error(changes, reason, details):
    for copy in False, None, True:
        refused(partial(asdlpack, interface(**changes), copy=copy), reason, ValueError, **details)


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
    refused(lambda: asdlpack(obj), "byte-order", hint="copy=None")
    assert np.from_dlpack(asdlpack(obj, copy=None)).tolist() == NUMBERS.tolist()


@pytest.mark.parametrize(
    ("changes", "reason", "details"),
    [
        ({"two": 3}, "array-interface", {"value": 3}),
        ({"nd": -1}, "dimensions", {"ndim": -1, "most": 64}),
        ({"nd": 65, "shape": (1,) * 65, "strides": None}, "dimensions", {"ndim": 65}),
        ({"shape": None}, "null-pointer", {"ndim": 2}),
        ({"shape": (3, -4)}, "negative-shape", {"dimension": 1, "length": -4}),
        ({"strides": (-(2**62), 4)}, "beyond-addresses", {"below": 2**63}),
        ({"typekind": b"q"}, "data-type", {"field": "typestr", "text": "<q4"}),
        ({"typekind": b"\0"}, "data-type", {"field": "typestr", "text": "<"}),
        ({"typekind": b"\xff"}, "data-type", {"field": "typestr", "text": r"<\xff4"}),
        ({"itemsize": 3}, "data-type", {"text": "<f3", "expected": ("2", "4", "8")}),
        ({"itemsize": 0}, "data-type", {"text": "<f0"}),
        ({"itemsize": -4}, "data-type", {"text": "<f-4"}),
        ({"data": None}, "data-is-null", {}),
    ],
)
def test_an_array_struct_that_contradicts_itself_is_a_value_error(changes, reason, details):
    refused(lambda: asdlpack(Struct(**changes)), reason, ValueError, **details)


@pytest.mark.parametrize(
    "value", [5, b"struct", capsule_new(1 << 12, b"dltensor", None), capsule_new(1 << 12, b"other", None)]
)
def test_an_array_struct_must_be_an_unnamed_capsule(value):
    refused(lambda: asdlpack(Speaks(__array_struct__=value)), "wrong-answer", ValueError, protocol="__array_struct__")


# The CUDA array interface.


def cuda(**changes):
    keys = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (1 << 20, False), **changes}
    return Speaks(__cuda_array_interface__={key: value for key, value in keys.items() if value is not ...})


@pytest.mark.parametrize(
    ("changes", "reason", "error", "details"),
    [
        ({"mask": cuda()}, "mask", BufferError, {}),
        ({"typestr": ">f4"}, "byte-order", BufferError, {"field": "typestr", "text": ">f4"}),
        ({"version": 4}, "interface-version", ValueError, {"version": 4, "newest": 3}),
        ({"data": (0, False)}, "data-is-null", ValueError, {}),
        ({"data": bytearray(48)}, "array-interface", ValueError, {"field": "data"}),
        ({"data": None}, "array-interface", ValueError, {"field": "data"}),
        ({"data": ...}, "array-interface", ValueError, {"field": "data"}),
    ],
)
def test_a_cuda_array_interface_that_cannot_be_served_says_why(changes, reason, error, details):
    refused(lambda: asdlpack(cuda(**changes)), reason, error, protocol="__cuda_array_interface__", **details)


def test_offset_from_an_address_is_refused_after_one_in_a_buffer():
    for _ in range(3):
        assert asdlpack(interface(data=bytearray(64), offset=8)).shape == (3, 4)
        refused(lambda: asdlpack(interface(offset=8)), "offset-from-address", ValueError, offset=8)


def test_layout_that_reaches_below_address_0_is_refused():
    reversed_line = {"strides": (-4,), "shape": (3,)}
    assert asdlpack(interface(**reversed_line, data=(NUMBERS.ctypes.data + 8, False))).strides == (-1,)
    refused(lambda: asdlpack(interface(**reversed_line, data=(4, False))), "beyond-addresses", ValueError)


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
    obj = interface(shape=(12,), strides=(8,), data=gaps)
    refused(lambda: asdlpack(obj), "not-row-major", hint="(address, readonly) as data")
    x = asdlpack(interface(shape=(12,), strides=(8,), data=(gaps.ctypes.data, False)))
    assert np.from_dlpack(x).tolist() == list(range(12))
