"""The buffer protocol: every format of PEP 3118 that DLPack can say, from exporters that really use it."""

import ctypes
import struct
from array import array

import numpy as np
import pytest

from dlpack import asdlpack, frombuffer
from support.alone import alone
from support.capi import Exporter, Speaks, array_at

NATIVE = {
    "?": "bool",
    "c": "uint8",
    "b": "int8",
    "B": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "l": "int64",
    "L": "uint64",
    "q": "int64",
    "Q": "uint64",
    "n": "int64",
    "N": "uint64",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "Zf": "complex64",
    "Zd": "complex128",
}
STANDARD_SIZE = {"l": "int32", "L": "uint32"}  # where the size is not the native one
NUMBERS = [0, 1, 1, 0]


def exporter(format, dtype, shape=(4,)):
    data = np.array(NUMBERS, np.dtype(dtype))
    return Exporter(data.tobytes(), format.encode(), data.itemsize, shape)


@pytest.mark.parametrize("prefix", ["", "@"])
@pytest.mark.parametrize("format", NATIVE)
def test_every_native_format_is_read(format, prefix):
    x = asdlpack(exporter(prefix + format, NATIVE[format]))
    assert (x.dtype, x.shape, x.protocol) == (NATIVE[format], (4,), "buffer")
    assert array_at(x).tolist() == NUMBERS


@pytest.mark.parametrize("prefix", ["=", "<"])
@pytest.mark.parametrize("format", [format for format in NATIVE if format not in "nN"])
def test_every_standard_format_of_native_byte_order_is_read(format, prefix):
    dtype = STANDARD_SIZE.get(format, NATIVE[format])
    x = asdlpack(exporter(prefix + format, dtype))
    assert x.dtype == dtype
    assert array_at(x).tolist() == NUMBERS


@pytest.mark.parametrize("prefix", [">", "!"])
@pytest.mark.parametrize("format", [format for format in NATIVE if format not in "nN"])
def test_big_endian_formats_need_a_copy_where_items_have_several_bytes(format, prefix):
    dtype = np.dtype(STANDARD_SIZE.get(format, NATIVE[format]))
    swapped = exporter(prefix + format, dtype.newbyteorder(">"))
    if dtype.itemsize == 1:
        assert asdlpack(swapped).pointer == swapped.view.buf
    else:
        with pytest.raises(BufferError, match=f'format "{prefix}{format}".*copy=None'):
            asdlpack(swapped)
        x = asdlpack(swapped, copy=None)
        assert x.dtype == dtype
        assert array_at(x).tolist() == NUMBERS
    assert asdlpack(swapped, copy=True).dtype == dtype


@pytest.mark.parametrize("format", "?cbBhHiIlLqQnNfd")
def test_memoryview_cast_of_every_format_is_shared(format):
    data = bytearray(struct.pack(f"4{format}", *([b"\0", b"\1", b"\2", b"\3"] if format == "c" else NUMBERS)))
    view = memoryview(data).cast(format)
    x = asdlpack(view)
    assert (x.dtype, x.shape, x.readonly) == (NATIVE[format], (4,), False)
    array_at(x)[3] = 1
    assert view[3] == (b"\1" if format == "c" else 1)


@pytest.mark.parametrize("format", "bBhHiIlLqQfd")
def test_array_array_of_every_typecode_is_shared(format):
    numbers = array(format, [1, 2, 3])
    x = asdlpack(numbers)
    assert (x.dtype, x.shape) == (NATIVE[format], (3,))
    array_at(x)[2] = 9
    assert numbers.tolist() == [1, 2, 9]


CTYPES = {
    "c_bool": "bool",
    "c_char": "uint8",
    "c_byte": "int8",
    "c_ubyte": "uint8",
    "c_short": "int16",
    "c_ushort": "uint16",
    "c_int": "int32",
    "c_uint": "uint32",
    "c_long": "int64",  # whose format is "<l": 8 bytes, though "<l" says 4
    "c_ulong": "uint64",
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


def test_a_big_endian_ctypes_array_converts_under_copy_none():
    numbers = (ctypes.c_uint32.__ctype_be__ * 2)(1, 0x01020304)
    with pytest.raises(BufferError, match='format ">[IL]".*copy=None'):
        asdlpack(numbers)
    assert array_at(asdlpack(numbers, copy=None)).tolist() == [1, 0x01020304]


@pytest.mark.parametrize("dtype", sorted(set(NATIVE.values())))
def test_numpy_buffers_of_every_dtype_are_shared(dtype):
    numbers = np.array(NUMBERS, dtype).reshape(2, 2)[:, ::-1]
    x = asdlpack(memoryview(numbers))
    assert (x.dtype, x.shape, x.strides) == (dtype, (2, 2), (2, -1))
    array_at(x)[0, 0] = 0
    assert numbers[0, 0] == 0


SUB_ARRAYS = {
    "(2,3)d": ("float64", 48, (2, 3)),
    "(2)(3)d": ("float64", 48, (2, 3)),
    "3B": ("uint8", 3, (3,)),
    "(4)h": ("int16", 8, (4,)),
    "(2, 2)Zf": ("complex64", 32, (2, 2)),
    "@(2,1)i": ("int32", 8, (2, 1)),
    "(" + ",".join("1" * 30) + ")i": ("int32", 4, (1,) * 30),
}


@pytest.mark.parametrize("format", SUB_ARRAYS)
def test_a_sub_array_becomes_trailing_dimensions(format):
    dtype, itemsize, trailing = SUB_ARRAYS[format]
    numbers = np.arange(3 * itemsize // np.dtype(dtype).itemsize).astype(dtype).reshape((3, *trailing))
    buffer = Exporter(numbers.tobytes(), format.encode(), itemsize, (3,))
    x = asdlpack(buffer)
    assert (x.dtype, x.shape, x.itemsize) == (dtype, (3, *trailing), np.dtype(dtype).itemsize)
    assert np.from_dlpack(x).tolist() == numbers.tolist()


def test_a_sub_array_keeps_the_strides_of_its_outer_dimensions():
    numbers = np.arange(12, dtype="i2").reshape(4, 3)
    buffer = Exporter(numbers.tobytes(), b"(3)h", 6, (2,), strides=(12,))
    x = asdlpack(buffer)
    assert (x.shape, x.strides) == ((2, 3), (6, 1))
    assert np.from_dlpack(x).tolist() == [[0, 1, 2], [6, 7, 8]]


def test_a_sub_array_beyond_64_dimensions_is_a_buffer_error():
    buffer = Exporter(bytes(4), b"(" + b",".join([b"1"] * 64) + b")i", 4, (1,))
    with pytest.raises(BufferError, match="64"):
        asdlpack(buffer)


REFUSED = {
    "80-bit float": ("g", 16),
    "80-bit complex": ("Zg", 32),
    "text": ("4s", 4),
    "Pascal string": ("4p", 4),
    "wide characters": ("w", 4),
    "UCS-2": ("u", 2),
    "Python object": ("O", 8),
    "void pointer": ("P", 8),
    "pointer": ("&i", 8),
    "structure": ("T{i:a:i:b:}", 8),
    "several items": ("ii", 8),
    "padding": ("ix", 5),
    "function pointer": ("X{}", 8),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_dlpack_cannot_say_is_a_buffer_error_that_names_the_format(kind):
    format, itemsize = REFUSED[kind]
    with pytest.raises(BufferError) as caught:
        asdlpack(Exporter(bytes(itemsize), format.encode(), itemsize, (1,)))
    assert f'format "{format}"' in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: (ctypes.c_longdouble * 2)(),
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


@pytest.mark.parametrize("dtype", ["g", "G", "i4,f4", "S3", "U3", "O", "V3"])
def test_numpy_buffers_of_other_dtypes_are_refused_with_the_format(dtype):
    view = memoryview(np.zeros(2, dtype))
    with pytest.raises(BufferError) as caught:
        asdlpack(view)
    assert f'format "{view.format}"' in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "said"), [("union", "structure"), ("char pointer", "pointers"), ("wide pointer", "pointers")]
)
def test_what_ctypes_says_of_unions_and_pointers_is_refused_as_what_it_is(kind, said):
    class Union(ctypes.Union):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    obj = {"union": Union, "char pointer": ctypes.c_char_p * 2, "wide pointer": ctypes.c_wchar_p * 2}[kind]()
    with pytest.raises(BufferError, match=said):
        asdlpack(obj)


@pytest.mark.parametrize(
    "format",
    ["", "(2", "(2,", "(2,)d", "()", "(2)", "5", "@@i", "@", "(-1)i", "i)", "Zi", "Z?", "(2,3", "((2))i"]
    + ["(99999999999999999999)i", "99999999999999999999i", "\x01", "\xff", "i" * 1000 + "?!"],
)
def test_a_malformed_format_is_a_value_error(format):
    with pytest.raises(ValueError, match="format"):
        asdlpack(Exporter(bytes(8), format.encode("latin-1"), 4, (2,)))


def test_a_long_malformed_format_is_shortened_in_the_message():
    with pytest.raises((ValueError, BufferError)) as caught:
        asdlpack(Exporter(bytes(8), b"(" * 5000, 4, (2,)))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("format", "itemsize"), [("i", 8), ("d", 4), ("(2,3)d", 8), ("Zf", 4), ("?", 0)])
def test_a_format_of_another_size_than_the_items_is_a_value_error(format, itemsize):
    with pytest.raises(ValueError, match=f"{itemsize}"):
        asdlpack(Exporter(bytes(64), format.encode(), itemsize, (2,)))


def test_a_buffer_without_format_holds_bytes():
    x = asdlpack(Exporter(bytes(range(4)), None, 1, (4,)))
    assert (x.dtype, np.from_dlpack(x).tolist()) == ("uint8", [0, 1, 2, 3])


def test_a_buffer_without_strides_is_row_major():
    x = asdlpack(Exporter(bytes(range(24)), b"h", 2, (3, 4)))
    assert x.strides == (4, 1)


def test_a_scalar_buffer_needs_neither_shape_nor_strides():
    x = asdlpack(Exporter(struct.pack("d", 2.5), b"d", 8, None))
    assert (x.shape, x.strides, np.from_dlpack(x).item()) == ((), (), 2.5)


def test_an_indirect_buffer_is_a_buffer_error():
    with pytest.raises(BufferError, match="suboffset"):
        asdlpack(Exporter(bytes(16), b"B", 1, (2, 8), strides=(8, 1), suboffsets=(0, -1)))


def test_suboffsets_that_are_all_negative_mean_a_direct_buffer():
    assert asdlpack(Exporter(bytes(16), b"B", 1, (2, 8), strides=(8, 1), suboffsets=(-1, -1))).shape == (2, 8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": (-1,)}, "shape dimension 0 is negative: -1"),
        ({"shape": (2, -3)}, "shape dimension 1 is negative: -3"),
        ({"shape": (2**62, 4)}, "shape|size"),
        ({"shape": (3,), "strides": (2**63 - 1,)}, "stride|extent|address"),
        ({"shape": (8,), "strides": (-(2**62),)}, "stride|extent|address"),
        ({"shape": (9,)}, "len is 8; expected 9 bytes, as itemsize and shape say"),
        ({"shape": (2, 2**40)}, "len is 8; expected 2199023255552 bytes"),
        ({"shape": None, "ndim": 1}, "shape"),
        ({"shape": (1,) * 65}, "65"),
        ({"shape": (1,), "ndim": -1}, "-1"),
        ({"suboffsets": (-1,), "ndim": 2_000_000_000}, "ndim is 2000000000; expected 0 to 64"),
    ],
)
def test_a_buffer_that_contradicts_itself_is_a_value_error(fields, message):
    buffer = Exporter(bytes(8), b"B", 1, **fields)
    with pytest.raises(ValueError, match=message):
        asdlpack(buffer)
    assert buffer.exports == 0


@pytest.mark.parametrize("ndim", [65, 2**31 - 1, -1, -(2**31)])
@pytest.mark.parametrize("field", ["shape", "strides", "suboffsets"])
@alone
def test_of_a_buffer_of_an_impossible_number_of_dimensions_none_is_read(ndim, field):
    buffer = Exporter(bytes(8), b"B", 1, ndim=ndim)
    nowhere = ctypes.cast(8, ctypes.POINTER(ctypes.c_ssize_t))
    setattr(buffer.view, field, nowhere)
    with pytest.raises(ValueError, match=f"ndim is {ndim}; expected 0 to 64"):
        asdlpack(buffer)
    assert buffer.exports == 0


@pytest.mark.parametrize("wrap", [lambda buffer: buffer, memoryview])
def test_a_buffer_of_a_negative_length_is_a_value_error(wrap):
    """As the data of an interface too, where the length is what bounds the memory."""
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
        with pytest.raises(ValueError, match="buffer: len is negative: -8"):
            use(obj)
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
