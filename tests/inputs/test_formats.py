"""The buffer protocol: formats of PEP 3118, from exporters that really use them, and from one that lies."""

import ctypes
import struct
from array import array
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack, frombuffer
from support.alone import alone
from support.capi import Exporter, Speaks, array_at
from support.refusals import refused

# Go's FuzzFormat has all of them.
NATIVE = {"B": "u1", ">B": "u1", "=l": "i4", "<l": "i8"}  # the last as ctypes says
BIG_ENDIAN = {">i": ">i4", "!Zd": ">c16", ">l": ">i8", ">L": ">u4"}


@pytest.mark.parametrize("format", [*NATIVE, *BIG_ENDIAN])
def test_big_endian_format_needs_a_copy_and_others_none(format):
    numbers = np.array([0, 1, 2], (NATIVE | BIG_ENDIAN)[format])
    buffer = Exporter(numbers.tobytes(), format.encode(), numbers.itemsize, (3,))
    if format in NATIVE:
        assert asdlpack(buffer).pointer == asdlpack(buffer, copy=None).pointer == buffer.view.buf
    else:
        refused(lambda: asdlpack(buffer), "byte-order", hint="copy=None", field="format", text=format)
    for copy in None, True:
        x = asdlpack(buffer, copy=copy)
        assert (x.dtype, x.protocol, array_at(x).tolist()) == (numbers.dtype.name, "buffer", [0, 1, 2])


@pytest.mark.parametrize(("format", "order"), [("Ze", "<"), (">Ze", ">")])
def test_the_half_precision_complex_number_of_nanobind_is_complex32(format, order):
    buffer = Exporter(struct.pack(order + "4e", 1, 2, 3, 4), format.encode(), 4, (2,))
    x = asdlpack(buffer, copy=None)
    assert (x.dtype, x.shape, bytes(x)) == ("complex32", (2,), struct.pack("<4e", 1, 2, 3, 4))
    assert (x.pointer == buffer.view.buf) == (order == "<")


def test_a_format_of_any_length_is_read_to_its_end():
    for length in range(1, 50):
        for code, name in (b"d", "float64"), (b"q", "int64"), (b"d", "float64"):
            assert asdlpack(Exporter(bytes(8), code.rjust(length), 8, (1,))).dtype == name


needs_long_doubles = pytest.mark.skipif(np.dtype("g").itemsize == 8, reason="on Windows they are doubles")
LONG = 8 * ctypes.sizeof(ctypes.c_long)
CTYPES = {
    "c_bool": "bool",
    "c_char": "uint8",
    "c_byte": "int8",
    "c_ubyte": "uint8",
    "c_short": "int16",
    "c_ushort": "uint16",
    "c_int": "int32",
    "c_uint": "uint32",
    "c_long": f"int{LONG}",  # whose format is "<l": mostly 8 bytes, though "<l" says 4
    "c_ulong": f"uint{LONG}",
    "c_longlong": "int64",
    "c_ulonglong": "uint64",
    "c_size_t": "uint64",
    "c_float": "float32",
    "c_double": "float64",
}


@pytest.mark.parametrize("name", CTYPES)
def test_ctypes_arrays_of_every_number_are_shared(name):
    numbers = (getattr(ctypes, name) * 3 * 2)()
    x = asdlpack(numbers)
    assert (x.dtype, x.shape, x.strides) == (CTYPES[name], (2, 3), (3, 1))
    assert x.pointer == ctypes.addressof(numbers)
    array_at(x)[1, 2] = 1
    assert numbers[1][2] in (1, b"\1")


def test_a_sub_array_keeps_the_strides_of_its_outer_dimensions():
    numbers = np.arange(12, dtype="i2").reshape(4, 3)
    buffer = Exporter(numbers.tobytes(), b"(3)h", 6, (2,), strides=(12,))
    x = asdlpack(buffer)
    assert (x.shape, x.strides) == ((2, 3), (6, 1))
    assert np.from_dlpack(x).tolist() == [[0, 1, 2], [6, 7, 8]]


def test_a_sub_array_beyond_64_dimensions_is_a_buffer_error():
    buffer = Exporter(bytes(4), b"(" + b",".join([b"1"] * 64) + b")i", 4, (1,))
    refused(lambda: asdlpack(buffer), "dimensions", most=64, own=64)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(2, "G").data,
        lambda: np.zeros(2, "i4,f4").data,
        pytest.param(lambda: (ctypes.c_longdouble * 2)(), marks=needs_long_doubles),
        lambda: (ctypes.c_wchar * 2)(),
        lambda: (ctypes.py_object * 2)(),
        lambda: (ctypes.POINTER(ctypes.c_int) * 2)(),
        lambda: type("Pair", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int), ("b", ctypes.c_int)]})(),
        lambda: array("u", "text"),
    ],
)
def test_objects_of_other_types_are_refused_with_the_format(make):
    obj = make()
    with pytest.raises(BufferError) as caught:
        asdlpack(obj)
    assert f'format "{memoryview(obj).format}"' in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "reason"), [("union", "structure"), ("char pointer", "pointers"), ("wide pointer", "pointers")]
)
def test_ctypes_unions_and_pointers_are_refused_by_their_kind(kind, reason):
    class Union(ctypes.Union):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    obj = {"union": Union, "char pointer": ctypes.c_char_p * 2, "wide pointer": ctypes.c_wchar_p * 2}[kind]()
    refused(lambda: asdlpack(obj), reason)


@pytest.mark.parametrize("format", [b"", b"(2", b"\x01", b"\xff", b"(" * 5000])
def test_a_malformed_format_is_a_value_error(format):
    """Go's TestAFormatThatIsNoNumberIsRefused has all of them."""
    error = refused(lambda: asdlpack(Exporter(bytes(8), format, 4, (2,))), "data-type", ValueError, field="format")
    assert len(str(error)) < 300


def test_a_buffer_without_format_holds_bytes():
    x = asdlpack(Exporter(bytes(range(4)), None, 1, (4,)))
    assert (x.dtype, np.from_dlpack(x).tolist()) == ("uint8", [0, 1, 2, 3])


def test_a_buffer_without_strides_is_row_major():
    x = asdlpack(Exporter(bytes(range(24)), b"h", 2, (3, 4)))
    assert x.strides == (4, 1)


def test_a_scalar_buffer_needs_neither_shape_nor_strides():
    x = asdlpack(Exporter(struct.pack("d", 2.5), b"d", 8, None))
    assert (x.shape, x.strides, np.from_dlpack(x).item()) == ((), (), 2.5)


def test_a_format_of_several_items_gives_its_dimensions_each_time():
    for rows in 1, 5, 9, 2:
        asdlpack(Exporter(bytes(40), b"B", 1, (2, 2, 2, 5, 1, 1)))
        for format, shape in (b"(2,3)d", (rows, 2, 3)), (b"(3,2)d", (rows, 3, 2)):
            x = asdlpack(Exporter(bytes(rows * 48), format, 48, (rows,)))
            assert (x.shape, x.strides) == (shape, (6, shape[2], 1))


def test_suboffset_of_0_or_more_is_a_buffer_error():
    refused(lambda: asdlpack(Exporter(bytes(16), b"B", 1, (2, 8), strides=(8, 1), suboffsets=(0, -1))), "indirect")
    assert asdlpack(Exporter(bytes(16), b"B", 1, (2, 8), strides=(8, 1), suboffsets=(-1, -1))).shape == (2, 8)


@pytest.mark.parametrize(
    ("fields", "reason", "details"),
    [
        ({"format": b"i", "itemsize": 8, "shape": (1,)}, "itemsize", {"text": "i", "size": 4, "itemsize": 8}),
        ({"format": b"?", "itemsize": 0}, "itemsize", {"size": 1, "itemsize": 0}),
        ({"shape": (2, -3)}, "negative-shape", {"dimension": 1, "length": -3}),
        ({"shape": (2**62, 4)}, "too-large", {}),
        ({"shape": (3,), "strides": (2**63 - 1,)}, "beyond-addresses", {"below": 0, "above": 2**64 - 1}),
        ({"shape": (8,), "strides": (-(2**62),)}, "beyond-addresses", {"dimension": 0}),
        ({"shape": (9,)}, "buffer-length", {"length": 8, "least": 9}),
        ({"shape": (2, 2**40)}, "buffer-length", {"length": 8, "least": 2**41}),
        ({"shape": None, "ndim": 1}, "null-pointer", {"ndim": 1}),
    ],
)
def test_a_buffer_that_contradicts_itself_is_a_value_error(fields, reason, details):
    buffer = Exporter(bytes(8), **fields)
    refused(lambda: asdlpack(buffer), reason, ValueError, **details)
    assert buffer.exports == 0


@pytest.mark.parametrize("ndim", [65, 2**31 - 1, -1, -(2**31)])
@pytest.mark.parametrize("field", ["shape", "strides", "suboffsets"])
@alone
def test_dimensions_of_a_buffer_of_impossibly_many_are_not_read(ndim, field):
    buffer = Exporter(bytes(8), b"B", 1, ndim=ndim)
    nowhere = ctypes.cast(8, ctypes.POINTER(ctypes.c_ssize_t))
    setattr(buffer.view, field, nowhere)
    refused(lambda: asdlpack(buffer), "dimensions", ValueError, most=64, ndim=ndim)
    assert buffer.exports == 0


@pytest.mark.parametrize("wrap", [lambda buffer: buffer, memoryview])
def test_a_buffer_of_a_negative_length_is_a_value_error(wrap):
    """Also as the data of an interface, whose memory its length bounds."""
    buffer = Exporter()
    buffer.view.len = -8
    obj = wrap(buffer)
    before = buffer.exports
    keys = {"version": 3, "typestr": "|u1", "shape": (100,)}
    for use in (
        asdlpack,
        lambda obj: frombuffer(obj, "uint8", 100),
        lambda obj: asdlpack(Speaks(__array_interface__={**keys, "data": obj})),
    ):
        refused(partial(use, obj), "buffer-length", ValueError, length=-8)
        assert buffer.exports == before


def test_a_released_memoryview_says_so_itself():
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError, match="released"):
        asdlpack(view)


def test_a_refused_buffer_is_released():
    buffer = Exporter(bytes(16), b"g", 16, (1,))
    for _ in range(3):
        with pytest.raises(BufferError):
            asdlpack(buffer)
    assert buffer.exports == 0
