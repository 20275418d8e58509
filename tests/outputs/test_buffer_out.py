"""A DLPackObject as a buffer: what PEP 3118 says of each request, and the same memory for who takes it."""

import array
import ctypes
import gc
import hashlib
import io
import socket
import struct
import sys
import weakref
import zlib
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack, frombuffer
from dlpack.tests.memory import Py_buffer, buffer_address, get_buffer, release_buffer
from support.capi import SUBBYTE_TYPE_PADDED, Exporter, Managed, Memory, address, capsule_new
from support.layouts import DTYPES, LAYOUTS, PROTOCOLS
from support.refusals import refused
from support.small_types import in_numpy

SIMPLE, WRITABLE, FORMAT, ND = 0, 0x1, 0x4, 0x8
STRIDES = 0x10 | ND
C, F, ANY, INDIRECT = 0x20 | STRIDES, 0x40 | STRIDES, 0x80 | STRIDES, 0x100 | STRIDES
SHAPES = {"SIMPLE": SIMPLE, "ND": ND, "STRIDES": STRIDES, "C": C, "F": F, "ANY": ANY, "INDIRECT": INDIRECT}
REQUESTS = {
    shape + "|FORMAT" * has_format + "|WRITABLE" * writable: flags | FORMAT * has_format | WRITABLE * writable
    for shape, flags in SHAPES.items()
    for has_format in (0, 1)
    for writable in (0, 1)
}
INTS = "l L" if ctypes.sizeof(ctypes.c_long) == 8 else "q Q"  # those of 8 bytes: on Windows a long has 4
FORMATS = dict(zip(DTYPES, "? b h i {} B H I {} e f d Zf Zd".format(*INTS.split()).split(), strict=True))


def of_type(code, bits, lanes=1, flags=0, shape=(4,), device=(1, 0)):
    """A DLPackObject of 64 bytes of memory under the data type, and the memory."""
    data = (ctypes.c_char * 64)(*range(64))
    managed = Managed(address(data), shape=shape, dtype=(code, bits, lanes), flags=flags, device=device)
    managed.data = data
    return asdlpack(managed.capsule()), data


def answer(obj, flags):
    """Returns the fields of the buffer that obj gives for these flags, or "refused" for a BufferError."""
    view = Py_buffer()
    try:
        get_buffer(obj, view, flags)
    except BufferError:
        return "refused"
    fields = {name: getattr(view, name) for name in ("buf", "len", "itemsize", "readonly", "ndim", "format")}
    for name in "shape", "strides", "suboffsets":
        values = getattr(view, name)
        fields[name] = values[: view.ndim] if values else None
    release_buffer(view)
    return fields


@pytest.mark.parametrize("wrap", [lambda array: array, PROTOCOLS["__dlpack__"]])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_in_every_layout_is_the_same_buffer(dtype, layout, wrap):
    source = LAYOUTS[layout](dtype)
    view = memoryview(asdlpack(wrap(source)))
    assert (view.format, view.itemsize, view.nbytes) == (FORMATS[dtype], source.itemsize, source.nbytes)
    assert (view.shape, view.ndim, view.readonly) == (source.shape, source.ndim, False)
    assert (view.c_contiguous, view.f_contiguous) == (source.flags.c_contiguous, source.flags.f_contiguous)
    out = np.asarray(view)
    np.testing.assert_array_equal(out, source, strict=True)
    if source.size:
        assert buffer_address(view) == source.ctypes.data
        out[...] = 1 - out
        np.testing.assert_array_equal(out, source, strict=True)


REQUESTED = {
    "compact": lambda: np.arange(6, dtype="f4"),
    "compact bytes": lambda: np.arange(6, dtype="u1").reshape(2, 3),
    "row-major": lambda: np.arange(6, dtype="f4").reshape(2, 3),
    "column-major": lambda: np.arange(6, dtype="f4").reshape(2, 3).T,
    "gaps": lambda: np.arange(12, dtype="f4").reshape(2, 6)[:, ::2],
    "reversed": lambda: np.arange(6, dtype="u1")[::-1],
}


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("flags", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("layout", REQUESTED)
def test_every_request_is_answered_as_by_pythons_own_memoryview(layout, flags, readonly):
    source = REQUESTED[layout]()
    source.flags.writeable = not readonly
    found = answer(asdlpack(source), flags)
    if flags & ND:
        assert found == answer(memoryview(source), flags)
        return
    expected = answer(memoryview(source), flags & ~FORMAT)  # bytes under their own format, it alone refuses
    if expected != "refused":
        expected |= {"itemsize": 1, "format": b"B" if flags & FORMAT else None}
    assert found == expected


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
@pytest.mark.parametrize("wrap", [lambda array: array, PROTOCOLS["__dlpack__"]])
def test_a_buffer_of_no_items_has_an_address_all_the_same(shape, wrap):
    x = asdlpack(wrap(np.zeros(shape, "f4")))
    for flags in SHAPES.values():
        found = answer(x, flags)
        assert (found["buf"] is not None, found["len"]) == (True, 0)
    assert (memoryview(x).shape, bytes(x), np.asarray(x).shape) == (shape, b"", shape)


def test_0_and_64_dimensions_are_a_buffer():
    scalar = answer(asdlpack(np.zeros((), "f4")), INDIRECT | FORMAT)
    assert (scalar["ndim"], scalar["shape"], scalar["strides"], scalar["len"]) == (0, None, None, 4)
    source = np.arange(6, dtype="i2").reshape((1,) * 30 + (2,) + (1,) * 32 + (3,))
    view = memoryview(asdlpack(source))
    assert (view.shape, view.strides) == (source.shape, (12,) * 30 + (6,) * 33 + (2,))
    np.testing.assert_array_equal(np.asarray(view), source)


ODD = {  # code, bits, lanes, flags: what no format says, and its bytes for four items
    "bfloat16": (4, 16, 1, 0, 8),
    "float8_e4m3fn": (10, 8, 1, 0, 4),
    "int4, padded": (0, 4, 1, SUBBYTE_TYPE_PADDED, 4),
    "complex32": (5, 32, 1, 0, 16),
    "bcomplex32": (18, 32, 1, 0, 16),
    "float32x2": (2, 32, 2, 0, 32),
    "float4_e2m1fnx2": (17, 4, 2, 0, 4),
    "float128": (2, 128, 1, 0, 64),
}


@pytest.mark.parametrize("name", ODD)
def test_memory_that_no_format_says_is_a_buffer_without_one(name):
    *dtype, flags, nbytes = ODD[name]
    x, data = of_type(*dtype, flags)
    for request, asked in REQUESTS.items():
        found = answer(x, asked)
        if asked & ND and asked & FORMAT:
            assert found == "refused", request
        else:
            assert (found["len"], found["buf"]) == (nbytes, address(data)), request
    assert bytes(x) == data.raw[:nbytes]
    has_array = in_numpy(x.dtype)
    for take in memoryview, bytearray, lambda x: array.array("B").frombytes(memoryview(x)):
        with pytest.raises(BufferError) as caught:
            take(x)
        assert str(caught.value) == (
            f"dtype {name.partition(',')[0]}: the buffer protocol has no format for it "
            f'({has_array}dlpack.frombuffer(x, "uint8") shares the bytes)'
        )


@pytest.mark.parametrize(("code", "bits", "nbytes"), [(0, 4, 2), (17, 4, 2), (1, 2, 1), (15, 6, 3)])
def test_items_that_share_bytes_are_bytes_and_nothing_else(code, bits, nbytes):
    x, data = of_type(code, bits)
    for asked in REQUESTS.values():
        found = answer(x, asked)
        if asked & ND:
            assert found == "refused"
        else:
            assert (found["buf"], found["len"], found["itemsize"]) == (address(data), nbytes, 1)
    assert bytes(x) == data.raw[:nbytes]
    assert np.from_dlpack(frombuffer(x, "uint8")).ctypes.data == address(data)
    refused(lambda: memoryview(x), "packed-for-buffer", hint='dlpack.frombuffer(x, "uint8")', dtype=x.dtype)


@pytest.mark.parametrize("take", [memoryview, bytes, io.BytesIO().write, hashlib.sha256])
@pytest.mark.parametrize(
    ("device", "name", "way_out"),
    [((2, 0), "kDLCUDA:0", "copies it to the host"), ((8, 3), "kDLMetal:3", "copy it with the library that owns it")],
)
def test_memory_off_the_cpu_has_no_buffer(device, name, way_out, take):
    x, data = of_type(2, 32, device=device)
    with pytest.raises(BufferError, match=rf"device {name}: the CPU can't read .*{way_out}"):
        take(x)


@pytest.mark.parametrize("device", [(3, 0), (11, 1), (13, 0)])  # pinned and managed memory
def test_memory_of_a_device_that_the_cpu_reads_is_a_buffer(device):
    x, data = of_type(2, 32, device=device)
    assert buffer_address(memoryview(x)) == address(data)


def test_read_only_memory_is_lent_to_readers_alone():
    x = asdlpack(b"abc")
    assert memoryview(x).readonly
    refused(lambda: get_buffer(x, Py_buffer(), WRITABLE), "read-only", hint="copy=True")
    for write in io.BytesIO(b"xyz").readinto, lambda x: struct.pack_into("B", x, 0, 1), (ctypes.c_char * 3).from_buffer:
        with pytest.raises(TypeError):
            write(x)
    assert x.obj == b"abc"
    copied = asdlpack(b"abc", copy=True)
    io.BytesIO(b"xyz").readinto(copied)
    assert bytes(copied) == b"xyz"


def test_refusals_of_an_order_name_shape_and_strides_and_the_way_out():
    gaps = asdlpack(np.zeros((2, 6), "f4")[:, ::2])
    for flags in SIMPLE, ND, C, ANY:
        ask = partial(get_buffer, gaps, Py_buffer(), flags)
        refused(ask, "not-row-major", hint="copy=True", shape=(2, 3), strides=(6, 2))
    for x in gaps, asdlpack(np.zeros((2, 3), "f4")):
        refused(partial(get_buffer, x, Py_buffer(), F), "not-column-major", hint="numpy.asfortranarray", shape=(2, 3))
    assert answer(asdlpack(gaps, copy=True), C)["len"] == 24
    assert answer(np.asfortranarray(gaps), F)["len"] == 24


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_are_those_of_the_items_in_row_major_order(layout):
    source = LAYOUTS[layout]("i4")
    assert bytes(asdlpack(source)) == asdlpack(source).tobytes() == source.tobytes()
    items = source.astype(ml_dtypes.bfloat16)
    assert bytes(asdlpack(items)) == asdlpack(items).tobytes() == items.tobytes()


EIGHT_BYTES = {
    "int16": np.arange(4, dtype="i2"),
    "bfloat16": np.arange(4).astype(ml_dtypes.bfloat16),
    "complex64, 0-d": np.array(1 + 2j, "c8"),
    "float8, 2-d": np.arange(8).astype(ml_dtypes.float8_e5m2).reshape(2, 4),
}


@pytest.mark.parametrize("source", EIGHT_BYTES)
def test_readers_and_writers_of_bytes_accept_every_data_type(source, tmp_path):
    expected, x = EIGHT_BYTES[source].tobytes(), asdlpack(EIGHT_BYTES[source])
    assert (
        bytes(x) == b"".join([x]) == zlib.decompress(zlib.compress(x)) == bytes(struct.unpack_from("8B", x)) == expected
    )
    assert hashlib.sha256(x).digest() == hashlib.sha256(expected).digest()
    with open(tmp_path / "out", "w+b") as file:
        file.write(x)
        file.seek(0)
        assert file.read() == expected
    numbers = bytes(range(8))
    one, other = socket.socketpair()
    with one, other:
        one.sendall(x)
        assert other.recv(100) == expected
        for write in (
            lambda x: io.BytesIO(numbers).readinto(x),
            lambda x: (one.sendall(numbers), other.recv_into(x)),
            lambda x: struct.pack_into("8B", x, 0, *numbers),
        ):
            write(copied := asdlpack(x, copy=True))
            assert bytes(copied) == numbers


@pytest.mark.parametrize("wrap", [lambda exporter: exporter, lambda exporter: asdlpack(exporter)])
def test_the_memory_is_locked_until_the_last_view_is_released(wrap):
    source = Exporter(bytes(8))
    before = sys.getrefcount(source)
    views = [memoryview(asdlpack(wrap(source))) for _ in range(3)]
    gc.collect()
    assert source.exports == 3
    views[0].release()
    part = views[1][2:4]
    del views[1:]
    assert source.exports == 1
    views.clear()
    assert part.tolist() == [0, 0]
    del part
    assert (source.exports, sys.getrefcount(source)) == (0, before)


def test_a_view_holds_the_object_and_every_refusal_lets_it_go():
    x = asdlpack(memoryview(bytes(24)).cast("f", (2, 3)))
    before = sys.getrefcount(x)
    view = memoryview(x)
    assert sys.getrefcount(x) == before + 1
    assert view.obj is x
    del view
    for flags in REQUESTS.values():
        answer(x, flags)
    assert sys.getrefcount(x) == before


def test_a_view_of_a_producers_memory_outlives_the_object_that_gave_it():
    source = np.arange(3.0)
    before = sys.getrefcount(source)
    asked = PROTOCOLS["__dlpack__"](source)
    alive = weakref.ref(asked)
    view = memoryview(asdlpack(asked))
    del asked
    gc.collect()
    assert (alive() is not None, view.tolist()) == (True, [0, 1, 2])
    del view
    assert (alive(), sys.getrefcount(source)) == (None, before)


@pytest.mark.parametrize("held", [memoryview, lambda x: memoryview(x)[1:2], lambda x: (memoryview(x), memoryview(x))])
@pytest.mark.parametrize("through", [lambda source: source, memoryview, asdlpack])
@pytest.mark.parametrize("first", ["the object", "the view"])
def test_garbage_with_views_of_the_object_is_collected(held, through, first):
    source = Memory(8)
    alive = weakref.ref(source)
    x = asdlpack(through(source))
    view = held(x)
    cycle = [x, view] if first == "the object" else [view, x]
    source.cycle = cycle
    cycle.append(source)
    del source, x, view, cycle
    gc.collect()
    assert alive() is None


def test_memory_in_garbage_stays_locked_until_its_view_is_cleared():
    """The collector clears one object after the other, this one before the view. A capsule, unknown to it, ends
    in between, and its destructor may run anything."""
    source, seen = Exporter(bytes(8)), []
    destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda capsule: seen.append(source.exports))
    x = asdlpack(source)
    garbage = []
    view = memoryview(x)
    garbage += [x, view, garbage, capsule_new(address(source.data), None, ctypes.cast(destructor, ctypes.c_void_p))]
    del x, view, garbage
    gc.collect()
    assert (seen, source.exports) == ([1], 0)
