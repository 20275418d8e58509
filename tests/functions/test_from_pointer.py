"""from_pointer: memory at an address, with whatever keeps it alive."""

import ctypes
import sys
import weakref

import numpy as np
import pytest

from dlpack import DLDeviceType, asdlpack, copy_into, from_pointer, frombuffer  # noqa: F401  # that a way out calls
from support.alone import alone
from support.capi import READ_ONLY, Speaks, look
from support.refusals import refused


def floats(count=6):
    return (ctypes.c_float * count)(*range(count))


def test_memory_at_an_address_is_shared():
    memory = floats()
    x = from_pointer(ctypes.addressof(memory), (2, 3), "float32")
    array = np.from_dlpack(x)
    assert array.ctypes.data == x.pointer == ctypes.addressof(memory)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    array[1, 0] = 30
    assert memory[3] == 30
    assert (x.dtype, x.shape, x.strides, x.device) == ("float32", (2, 3), (3, 1), (DLDeviceType.kDLCPU, 0))
    assert (x.readonly, x.protocol, x.obj) == (False, "pointer", None)


@pytest.mark.parametrize(
    "pointer",
    [
        lambda memory: ctypes.cast(memory, ctypes.POINTER(ctypes.c_float)),
        lambda memory: ctypes.cast(memory, ctypes.c_void_p),
        lambda memory: ctypes.pointer(memory),
        lambda memory: ctypes.cast(memory, ctypes.c_char_p),
        lambda memory: np.uint64(ctypes.addressof(memory)),
    ],
    ids=["POINTER(c_float)", "c_void_p", "pointer()", "c_char_p", "numpy integer"],
)
def test_a_pointer_is_an_int_or_one_of_ctypes(pointer):
    memory = floats()
    assert from_pointer(pointer(memory), 6, "float32").pointer == ctypes.addressof(memory)


def test_a_ctypes_pointer_is_kept_with_what_it_leads_to():
    numbers = floats()
    pointer, memory = ctypes.pointer(numbers), weakref.ref(numbers)
    del numbers
    array = np.from_dlpack(from_pointer(pointer, (6,), "float32"))
    del pointer
    assert memory() is not None
    assert array.tolist() == [0, 1, 2, 3, 4, 5]
    del array
    assert memory() is None


def test_the_owner_lives_until_the_last_consumer_is_gone():
    memory, owner = floats(), Speaks()
    gone = weakref.ref(owner)
    x = from_pointer(ctypes.addressof(memory), (6,), "float32", owner=owner)
    assert x.obj is owner
    first, second = np.from_dlpack(x), np.from_dlpack(x)
    del x, owner, first
    assert gone() is not None
    del second
    assert gone() is None


def test_an_owner_that_is_named_is_kept_instead_of_the_ctypes_pointer():
    owner = np.zeros(3, "f4")
    assert from_pointer(ctypes.c_void_p(owner.ctypes.data), 3, "float32", owner=owner).obj is owner


def test_strides_count_elements():
    memory = floats()
    x = from_pointer(ctypes.addressof(memory) + 20, (3, 2), "float32", strides=(-2, -1))
    assert np.from_dlpack(x).tolist() == [[5, 4], [3, 2], [1, 0]]
    assert np.from_dlpack(from_pointer(ctypes.addressof(memory), 3, "float32", strides=2)).tolist() == [0, 2, 4]
    assert from_pointer(ctypes.addressof(memory), (), "float32").shape == ()


def test_read_only_is_what_the_caller_says():
    memory = floats()
    x = from_pointer(ctypes.addressof(memory), (6,), "float32", readonly=True)
    assert x.readonly
    assert not np.from_dlpack(x).flags.writeable
    assert look(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("cpu", (1, 0)),
        ("CPU", (1, 0)),
        ("rocm", (10, 0)),
        ("rocm:3", (10, 3)),
        ("kDLROCM:3", (10, 3)),
        ("metal", (8, 0)),
        ((10, 1), (10, 1)),
        ((DLDeviceType.kDLOneAPI, 0), (14, 0)),
        ((18, 0), (18, 0)),
        ("tpu", (19, 0)),
        ("kDLTPUHost:1", (20, 1)),
        ((DLDeviceType.kDLAscend, 2), (21, 2)),
    ],
    ids=str,
)
def test_a_device_is_a_name_or_a_pair(device, expected):
    x = from_pointer(4096, (2,), "float32", device=device)
    assert x.device == x.__dlpack_device__() == expected
    tensor = look(x.__dlpack__()).dl_tensor
    assert ((tensor.device.device_type, tensor.device.device_id), tensor.data) == (expected, 4096)


def test_no_elements_need_no_address():
    x = from_pointer(0, (0, 3), "float64")
    assert (x.pointer, x.shape, x.size) == (0, (0, 3), 0)
    assert np.from_dlpack(x).shape == (0, 3)
    assert from_pointer(ctypes.c_void_p(), 0, "uint8").pointer == 0


# Go's tables have more shapes, strides and addresses, test_errors.py all ints that don't fit and devices of no name.
BAD = [
    ({"readonly": "no"}, TypeError, "readonly: expected True or False, got 'no'"),
    ({"pointer": ctypes.c_void_p()}, ValueError, r"data is NULL"),
    ({"pointer": 1.5}, TypeError, r"pointer: expected an address, an int .* or a ctypes pointer, got 1\.5$"),
    ({"pointer": floats()}, TypeError, r"pointer: expected an address, .* or a ctypes pointer"),
    ({"pointer": b"abcd"}, TypeError, r"pointer: expected an address"),
    (
        {"pointer": 4097, "device": "cuda"},
        BufferError,
        r"is misaligned; expected a multiple of 4 \(copy it with the library that owns it\)",
    ),
    (
        {"pointer": 4097},
        BufferError,
        r"data 0x1001 is misaligned; expected a multiple of 4 \(copy its bytes: frombuffer\(ctypes.string_at",
    ),
    (
        {"pointer": 4097, "shape": 3, "strides": 2},
        BufferError,
        r"\(copy its bytes: frombuffer\(ctypes.string_at\(address, 20\), dtype, shape, strides=strides, copy=None\)\)",
    ),
    ({"shape": None}, TypeError, r"shape: expected an int.*None needs memory.*got None"),
    ({"device": "gpu"}, ValueError, r"device 'gpu': unknown; .*\(did you mean 'cuda'"),
    ({"device": "cuda:"}, ValueError, r"device 'cuda:': expected the id behind the colon"),
    ({"device": "cuda:x"}, ValueError, r"device 'cuda:x': expected the id"),
    ({"device": f"cuda:{2**31}"}, ValueError, r"device 'cuda:2147483648': expected the id"),
    ({"device": 2}, TypeError, r"device: expected a name such as 'cpu' .* got 2"),
    ({"device": None}, TypeError, r"device: expected a name such as 'cpu' .* got None"),
    ({"device": (1, 0, 0)}, TypeError, r"device: expected a name .* got \(1, 0, 0\)"),
    ({"dtype": ">f4"}, BufferError, r'dtype ">f4": big-endian; .* \(copy its bytes: frombuffer'),
    ({"dtype": None}, TypeError, r"dtype: expected a name .* got None"),
]


@pytest.mark.parametrize(("changes", "exception", "message"), BAD)
def test_a_bad_argument_is_named_with_what_was_expected(changes, exception, message):
    arguments = {"pointer": 4096, "shape": (2,), "dtype": "float32", **changes}
    owner = Speaks()
    before = sys.getrefcount(owner)
    with pytest.raises(exception, match=message):
        from_pointer(arguments.pop("pointer"), **arguments, owner=owner)
    assert sys.getrefcount(owner) == before


@alone  # a library that handles SIGSEGV and was imported after the core's start would take the fault
def test_a_copy_of_an_address_that_is_not_mapped_is_an_error():
    refused(lambda: asdlpack(from_pointer(4096, (2,), "float32"), copy=True), "unreadable")


def test_the_repr_says_where_the_memory_is():
    memory = floats()
    x = from_pointer(ctypes.addressof(memory), (2, 3), "float32", readonly=True)
    where = f"{x.pointer:#x}, 24 bytes on kDLCPU:0, read-only, by pointer"
    assert repr(x) == f"<dlpack.DLPackObject: float32[2, 3] at {where}>"


@pytest.mark.parametrize("strides", [None, (1, 2), (-1, 2), (-2, -6)])
def test_the_way_out_of_misaligned_memory_copies_its_bytes(strides):
    memory, shape, dtype = np.arange(120, dtype="u1"), (2, 3), "int32"
    address = memory.ctypes.data + 61
    error = refused(lambda: from_pointer(address, shape, dtype, strides=strides), "misaligned")
    way_out = str(error).partition("copy its bytes: ")[2].removesuffix(")")
    copy = eval(way_out, globals() | locals())
    steps = [4 * step for step in strides or (3, 1)]
    assert np.asarray(copy).tolist() == np.ndarray(shape, "<i4", memory, 61, steps).tolist()


@pytest.mark.parametrize(
    "read",
    [memoryview, lambda x: asdlpack(x, copy=True), lambda x: copy_into(x, bytearray(8)), lambda x: x.__dlpack__()],
)
def test_the_cpu_does_not_read_what_another_devices_stream_may_still_write(read):
    memory = np.arange(8, dtype="u1")
    assert bytes(from_pointer(memory.ctypes.data, 8, "uint8", device="rocmhost")) == bytes(range(8))
    x = from_pointer(memory.ctypes.data, 8, "uint8", device="rocmhost", stream=7)
    refused(lambda: read(x), "stream-order", hint="synchronise", stream=7)
