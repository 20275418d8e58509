"""asdlpack(copy=...): False never copies, None only if it must, True always."""

import ctypes
import functools
import gc
import sys
import weakref

import numpy as np
import pytest

import dlpack
from dlpack import DLDeviceType, asdlpack
from support.alone import alone
from support.capi import Managed, Speaks, array_at, look
from support.layouts import DTYPES, LAYOUTS, PROTOCOLS
from support.refusals import refused

interface = PROTOCOLS["__array_interface__"]
BYTES_OF_NUMPY = functools.partial(np.frombuffer, dtype="u1")


def check_copy(x, array):
    """The copy is compact, row-major, aligned, writable, equal, and keeps no source."""
    native = array.astype(array.dtype.newbyteorder("="))
    assert x.obj is None
    assert x.pointer % 64 == 0
    assert not np.shares_memory(array_at(x, native.dtype), array)
    assert (x.shape, x.dtype, x.readonly) == (array.shape, native.dtype.name, False)
    strides = np.empty([max(size, 1) for size in array.shape], "i1").strides
    assert x.strides == strides
    out = np.from_dlpack(x)
    assert out.tobytes() == native.tobytes()
    assert out.flags.writeable


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_true_copies_every_dtype_in_every_layout(protocol, dtype, layout):
    array = LAYOUTS[layout](dtype)
    check_copy(asdlpack(PROTOCOLS[protocol](array), copy=True), array)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if np.dtype(dtype).itemsize > 1])
def test_none_swaps_the_bytes_of_every_dtype_in_every_layout(dtype, layout):
    array = LAYOUTS[layout](dtype)
    swapped = array.astype(array.dtype.newbyteorder(">"))
    refused(lambda: asdlpack(interface(swapped)), "byte-order", hint="copy=None")
    check_copy(asdlpack(interface(swapped), copy=None), array)
    check_copy(asdlpack(interface(swapped[..., None].T), copy=None), array[..., None].T)
    check_copy(asdlpack(swapped, copy=True), array)


@pytest.mark.parametrize("strides", [(16,), (-16,), (24,)])
@pytest.mark.parametrize("name", ["int128", "uint128", "float128"])
def test_none_swaps_the_bytes_of_types_that_numpy_lacks(name, strides):
    memory = np.arange(64, dtype="u1")
    start = 48 if strides[0] < 0 else 0
    keys = {"version": 3, "typestr": ">V16", "shape": (3,), "strides": strides, "data": memory, "offset": start}
    x = asdlpack(Speaks(__array_interface__=keys, dtype=Speaks(name=name)), copy=None)
    items = [memory[start + i * strides[0] :][:16] for i in range(3)]
    assert (x.dtype, bytes(x)) == (name, b"".join(item[::-1].tobytes() for item in items))


def every_third_byte(dtype):
    return np.lib.stride_tricks.as_strided(np.arange(96, dtype="u1").view(dtype), (5,), (3,))


def misaligned(dtype):
    return np.arange(97, dtype="u1")[1:97].view(dtype)


def field(dtype):
    table = np.zeros(4, [("tag", "u1"), ("number", dtype)])
    table["number"] = [1, 2, 3, 4]
    return table["number"]


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8", "c8", "c16", ">i4", ">c16"])
@pytest.mark.parametrize("make", [every_third_byte, misaligned, field])
def test_none_copies_odd_strides_and_misaligned_items(make, dtype):
    array = make(dtype)
    with pytest.raises(BufferError, match="copy=None"):
        asdlpack(interface(array))
    with pytest.raises(BufferError, match="copy=None"):
        asdlpack(interface(array), copy=False)
    check_copy(asdlpack(interface(array), copy=None), array)
    check_copy(asdlpack(interface(array), copy=True), array)


def test_none_keeps_nothing_of_a_producer_whose_capsule_is_handed_on():
    array = np.zeros(3)
    x = asdlpack(array, copy=None)
    before = sys.getrefcount(array)
    assert np.from_dlpack(x).ctypes.data == array.ctypes.data
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("copy", [False, True])
def test_a_consumers_copy_is_its_own_whoever_made_a_copy_before(copy):
    class Older:
        """Hands on what it holds, and can't copy."""

        def __init__(self, x):
            self.x = x

        def __dlpack__(self, *, stream=None, max_version=None):
            return self.x.__dlpack__(max_version=max_version)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    x = asdlpack(bytearray(3), copy=copy)
    for given in x, Older(x), asdlpack(Older(x), copy=None), asdlpack(x.__dlpack__(max_version=(1, 0), copy=copy)):
        out = np.from_dlpack(asdlpack(given), copy=True)
        out[:] = 7
        assert bytes(given if given is x else np.from_dlpack(asdlpack(given))) == bytes(3)


def test_a_consumers_copy_is_not_the_one_that_none_keeps():
    array = misaligned("f4")

    def dlpack(*, stream=None, max_version=None):  # it can't copy
        return array.__dlpack__(max_version=max_version)

    x = asdlpack(Speaks(__dlpack__=dlpack, __dlpack_device__=lambda: (1, 0)), copy=None)
    assert np.from_dlpack(x, copy=True).ctypes.data != x.pointer == np.from_dlpack(x).ctypes.data


def test_a_repeated_call_copies_or_shares_as_the_first_did():
    swapped, native = np.arange(4, dtype=">i2"), np.arange(4, dtype="i2")
    for _ in range(3):
        check_copy(asdlpack(interface(swapped), copy=None), native)
        check_copy(asdlpack(interface(native), copy=True), native)
        assert asdlpack(interface(native), copy=None).pointer == native.ctypes.data
        assert asdlpack(interface(native)).pointer == native.ctypes.data
        refused(lambda: asdlpack(interface(swapped)), "byte-order", hint="copy=None")


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if "empty" not in layout])
def test_none_shares_if_no_copy_is_needed(layout):
    array = LAYOUTS[layout]("float32")
    for obj in (memoryview(array), interface(array), array):
        x = asdlpack(obj, copy=None)
        assert (x.obj, x.pointer) == (obj, array.ctypes.data)
        assert look(x.__dlpack__(max_version=(1, 0))).flags == 0


@pytest.mark.parametrize("copy", [None, True])
def test_a_copy_lets_go_of_its_source(copy):
    class Source(bytearray):
        pass

    data = Source(np.arange(4, dtype=">i4").tobytes())
    died = weakref.ref(data)
    keys = {"version": 3, "shape": (4,), "typestr": ">i4"}
    data.__array_interface__ = keys
    x = asdlpack(data, copy=copy)
    data.append(0)  # no buffer is held
    del data
    gc.collect()
    assert died() is None
    assert array_at(x).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("nbytes", [1, 64, 4096, 64 << 10, (64 << 10) + 1, 1 << 20])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, BYTES_OF_NUMPY])
def test_copies_of_any_length_have_the_bytes_and_are_their_own(kind, nbytes):
    memory = bytes(range(256)) * (nbytes // 256 + 1)
    source = kind(memory[:nbytes])
    copies = [asdlpack(source, copy=True) for _ in range(3)]
    assert len({x.pointer for x in copies}) == 3
    for x in copies:
        assert (x.obj, x.shape, x.dtype, x.readonly) == (None, (nbytes,), "uint8", False)
        assert x.pointer % 64 == 0
        assert bytes(x) == memory[:nbytes]
        np.asarray(x)[:] = 0
    assert bytes(source) == memory[:nbytes]


@alone
def test_small_copies_of_known_types_need_no_call_into_go():
    images = [np.arange(12 * n, dtype="int16").reshape(3, 4, n) for n in range(1, 100)]
    for image in images:
        assert np.array_equal(np.from_dlpack(asdlpack(image, copy=True)), image)
        assert bytes(asdlpack(image.tobytes(), copy=True)) == image.tobytes()
    assert dlpack._dlpack._core_calls() == 0


@alone
def test_strided_and_swapped_copies_are_one_call_into_go_each():
    image = np.arange(4096, dtype="u4").reshape(16, 16, 16)
    several = [image[::2], image.T, image[::-1, :, 3], image[:, None, 0], np.broadcast_to(image[0, 0], (3, 16))]
    sources = [array.astype(dtype, "K") for array in several for dtype in ("u1", "i2", "f4", "c8", "c16")]
    sources += [array[..., 1::2] for array in sources]
    sources = [source for source in sources if not source.flags.c_contiguous and source.nbytes <= 8 << 10]
    for nbytes in range(1, 40):  # that lie side by side
        pixels = np.arange(3 * 8 * nbytes, dtype="i8").view("u1").reshape(3, 8, 8, nbytes)
        sources += [pixels[:, ::2, ::2], pixels[::-1, :, 1::3], pixels[..., ::-2, :]]
    lines = np.arange(2 << 20, dtype="i4").reshape(8, -1, 1024)
    sources += [lines[:, ::-1], lines[::-1, 1:, :-1], lines[::2, ::-1, None, 512:], lines.transpose(1, 0, 2)]
    for source in sources:
        check_copy(dlpack.asdlpack(source, copy=True), source)
    for swapped in (sources[0].astype(">f4"), np.arange(3, dtype=">c16")[::-1]):
        assert np.array_equal(np.from_dlpack(asdlpack(swapped, copy=True)), swapped)
        sources.append(swapped)
    assert len(sources) > 20
    assert dlpack._dlpack._core_calls() == len(sources)


@alone
def test_copies_of_no_bytes_need_no_call_into_go():
    for empty in (np.empty((2, 0, 3)), np.empty((4, 0), ">f4"), np.empty((3, 4, 0))[::2].T):
        copied = asdlpack(empty, copy=True)
        assert (copied.shape, copied.pointer, copied.nbytes) == (empty.shape, 0, 0)
        assert np.from_dlpack(copied).shape == empty.shape
        dlpack.copy_into(empty, np.empty_like(empty))
    assert dlpack._dlpack._core_calls() == 0


def test_true_copies_a_dlpack_object_and_leaves_it_alone():
    data = bytearray(b"abc")
    x = asdlpack(data)
    copied = asdlpack(x, copy=True)
    check_copy(copied, np.frombuffer(b"abc", "u1"))
    assert x.obj is data
    again = asdlpack(copied, copy=True)
    assert again.pointer != copied.pointer
    del x, copied
    data.append(0)
    assert bytes(memoryview(np.from_dlpack(again))) == b"abc"


@pytest.mark.parametrize("code", [(0, 32, 4), (2, 64, 2), (1, 8, 3), (3, 64, 1)])
def test_items_of_several_lanes_are_copied_whole(code):
    numbers = np.arange(200, dtype="u1")
    _, bits, lanes = code
    itemsize = bits * lanes // 8
    managed = Managed(numbers.ctypes.data, shape=(3,), strides=(2,), dtype=code)
    x = asdlpack(managed.capsule(), copy=True)
    expected = b"".join(numbers.tobytes()[2 * i * itemsize :][:itemsize] for i in range(3))
    assert ctypes.string_at(x.pointer, x.nbytes) == expected


@pytest.mark.parametrize("device_type", [DLDeviceType.kDLCUDAHost, DLDeviceType.kDLCUDAManaged])
def test_a_copy_of_memory_that_the_cpu_reaches_is_plain_memory_of_the_cpu(device_type):
    data = np.arange(3, dtype="f4")
    x = asdlpack(Managed(data.ctypes.data, shape=(3,), device=(device_type, 1)).capsule(), copy=True)
    assert x.device == (DLDeviceType.kDLCPU, 0)
    assert np.from_dlpack(x).tolist() == [0, 1, 2]
