"""frombuffer: the bytes of any object, as the data type and shape that the caller names."""

import array
import ctypes
import mmap
import re
import sys
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import asdlpack, frombuffer
from support.alone import alone, run
from support.capi import READ_ONLY, SUBBYTE_TYPE_PADDED, Exporter, Managed, Speaks, capsule_name, look, on_device
from support.hints import hint_of
from support.layouts import PROTOCOLS
from support.refusals import refused
from support.small_types import PADDED, WHOLE_BYTES


def data_type(x):
    dtype = look(x.__dlpack__(max_version=(1, 0))).dl_tensor.dtype
    return dtype.code, dtype.bits, dtype.lanes


def address_of(buffer):
    return np.frombuffer(buffer, "u1").ctypes.data


def aligned(count):
    """A bytearray-like writable buffer at a multiple of 64 bytes."""
    memory = np.zeros(count + 64, "u1")
    start = -memory.ctypes.data % 64
    return memory[start : start + count]


@pytest.mark.parametrize("name", PADDED)
def test_items_below_a_byte_are_packed_where_just_their_name_is_given(name):
    code, bits = PADDED[name]
    x = frombuffer(bytes(12), name)
    assert data_type(x) == (code, bits, 1)
    assert (x.shape, x.nbytes) == ((12 * 8 // bits,), 12)
    assert look(x.__dlpack__(max_version=(1, 0))).flags & SUBBYTE_TYPE_PADDED == 0
    assert frombuffer(bytes(12), name, (2, -1)).shape == (2, 6 * 8 // bits)


def test_lanes_are_part_of_an_item():
    x = frombuffer(aligned(32), "float32x4")
    assert (data_type(x), x.shape, x.itemsize) == ((2, 32, 4), (2,), 16)
    x = frombuffer(bytes(8), "float4_e2m1fnx2", (2, -1))
    assert (data_type(x), x.shape, x.itemsize) == ((17, 4, 2), (2, 4), 1)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.dtype("float32"), "float32"),
        (np.float16, "float16"),
        (np.bool_, "bool"),
        (np.dtype("complex128"), "complex128"),
        (ml_dtypes.bfloat16, "bfloat16"),
        *[(np.dtype(getattr(ml_dtypes, name)), name) for name in WHOLE_BYTES],
        pytest.param(Speaks(name="FLOAT32"), "float32", id="of paddle"),
        (bool, "bool"),
        (float, "float64"),
        ("<f4", "float32"),
        ("|u1", "uint8"),
        ("torch.float4_e2m1fn_x2", "float4_e2m1fnx2"),
        ("float4_e2m1fn_x2", "float4_e2m1fnx2"),
    ],
    ids=repr,
)
def test_an_object_that_carries_a_data_type_names_it(dtype, name):
    assert frombuffer(aligned(48), dtype).dtype == name


def test_the_small_types_of_ml_dtypes_are_padded_as_they_are_there():
    x = frombuffer(bytes(3), np.dtype(ml_dtypes.int4))
    assert (x.dtype, x.shape) == ("int4", (3,))
    assert look(x.__dlpack__(max_version=(1, 0))).flags & SUBBYTE_TYPE_PADDED


def test_a_byte_order_is_converted_if_a_copy_is_allowed():
    memory = np.arange(3, dtype=">f4").tobytes()
    refused(lambda: frombuffer(memory, np.dtype(">f4")), "byte-order", hint="pass copy=None", field="dtype", text=">f4")
    assert np.from_dlpack(frombuffer(memory, ">f4", copy=None)).tolist() == [0, 1, 2]


MEMORY = bytes(range(24))
SOURCES = {
    "bytes": lambda: MEMORY,
    "memoryview of doubles": lambda: memoryview(bytearray(MEMORY)).cast("d"),
    "records": lambda: np.frombuffer(bytearray(MEMORY), [("a", "i2"), ("b", "u1", 6)]),
    "text": lambda: np.frombuffer(MEMORY, "S8"),
    "0-d": lambda: np.frombuffer(MEMORY[:8], "f8").reshape(()),
    "DLPackObject": lambda: asdlpack(bytearray(MEMORY)),
    "DLPackObject, read-only": lambda: asdlpack(MEMORY),
    "ml_dtypes": lambda: np.frombuffer(bytearray(MEMORY), ml_dtypes.bfloat16),
    "array interface": lambda: PROTOCOLS["__array_interface__"](np.frombuffer(bytearray(MEMORY), "f8")),
}


@pytest.mark.parametrize("source", SOURCES)
def test_any_compact_memory_is_taken_as_bytes_whatever_its_type(source):
    obj = SOURCES[source]()
    x = frombuffer(obj, "uint8")
    assert bytes(np.from_dlpack(x)) == MEMORY[: x.size]
    assert x.size == (8 if source == "0-d" else 24)
    assert x.obj is obj
    assert x.readonly == (source in ("bytes", "text", "0-d", "DLPackObject, read-only"))


def test_a_view_of_an_mmap_locks_it_until_the_last_consumer_is_gone():
    memory = mmap.mmap(-1, 4096)
    array = np.from_dlpack(frombuffer(memory, "float64", (2, -1), offset=64))
    assert array.shape == (2, 252)
    array[0, 0] = 1
    assert memory[70:72] == b"\xf0\x3f"
    with pytest.raises(BufferError):
        memory.close()
    del array
    memory.close()


def test_a_copy_of_packed_items_is_theirs_alone():
    memory = bytearray(b"\x21\x43\x65")
    x = frombuffer(memory, "uint4", (2,), offset=1, copy=True)
    memory[:] = bytes(3)
    assert (x.nbytes, ctypes.string_at(x.pointer, 1)) == (1, b"\x43")


# Go's tables, of packages dlpack and protocol, have more shapes and names.
CONTRADICTIONS = [
    ({"shape": 3, "strides": -1}, "out-of-bounds", {"span": 10, "from": -2, "to": 1}),
    ({"shape": 2, "strides": (1, 1)}, "strides-length", {"count": 2, "ndim": 1}),
    ({"shape": (1,) * 65}, "dimensions", {"ndim": 65, "most": 64}),
    ({"shape": np.ones(66, "i8")}, "dimensions", {"ndim": 65, "most": 64}),
    ({"dtype": "f16"}, "data-type", {"hint": 'of 16 bits "float16" or "<f2"', "text": "f16"}),
]


@pytest.mark.parametrize(("arguments", "reason", "details"), CONTRADICTIONS)
def test_arguments_that_contradict_the_memory_are_a_value_error(arguments, reason, details):
    exporter = Exporter(bytes(10), shape=(10,))
    refused(lambda: frombuffer(exporter, **{"dtype": "uint8"} | arguments), reason, ValueError, **details)
    assert exporter.exports == 0


# Errors of arguments have no reason. test_errors.py has all ints that don't fit.
BAD = [
    ({"dtype": "uint8", "copy": 1}, TypeError, r"copy: expected True, False or None, got 1"),
    ({"dtype": "uint8\0"}, ValueError, r"dtype: expected a name such as 'float32', got 'uint8\\x00'"),
    ({"dtype": "\ud800"}, ValueError, r"dtype: expected a name"),
    ({"dtype": None}, TypeError, r"dtype: expected a name such as 'float32', .* got None"),
    ({"dtype": np.integer}, TypeError, r"dtype: expected a name .* <class 'numpy\.integer'>"),
    ({"dtype": 3003}, TypeError, r"dtype: expected a name .* got 3003"),  # no cached int
]


@pytest.mark.parametrize(("arguments", "exception", "message"), BAD)
def test_a_bad_argument_is_named_with_what_was_expected(arguments, exception, message):
    exporter = Exporter(bytes(10), shape=(10,))
    before = sys.getrefcount(exporter), sys.getrefcount(arguments["dtype"])
    with pytest.raises(exception, match=message):
        frombuffer(exporter, **arguments)
    assert (sys.getrefcount(exporter), sys.getrefcount(arguments["dtype"])) == before
    assert exporter.exports == 0


def test_memory_of_more_than_64_dimensions_is_refused():
    """With gaps, and without."""
    for stride in 2, 1:
        obj = Exporter(bytes(8), shape=(*[1] * 64, 4), strides=(*[1] * 64, stride))
        refused(partial(frombuffer, obj, "uint8"), "dimensions", ValueError, ndim=65, most=64)


@pytest.mark.parametrize(
    "obj",
    [np.zeros((4, 4), "f4")[:, ::2], np.zeros((4, 3), "f4").T, memoryview(bytes(8))[::2]],
    ids=["columns", "transposed", "every second"],
)
def test_memory_with_gaps_is_refused_with_the_way_out(obj):
    refused(lambda: frombuffer(obj, "uint8"), "not-compact", hint="use frombuffer(asdlpack(obj, copy=True),")
    x = frombuffer(asdlpack(obj, copy=True), "uint8")
    assert x.size == asdlpack(obj).nbytes


@pytest.mark.parametrize("flags", [0, READ_ONLY])
def test_bytes_of_a_device_are_read_only_if_the_object_is(flags):
    x = asdlpack(Managed(1 << 20, shape=(8,), device=(10, 0), flags=flags).capsule())
    assert frombuffer(x, "uint8").readonly == x.readonly == bool(flags)


def test_bytes_behind_a_handle_are_refused():
    x = on_device((4, 0), dtype=(1, 8, 1), byte_offset=16)
    refused(lambda: frombuffer(x, "uint8"), "handle")


def test_a_capsule_or_a_structure_is_refused_and_left_as_it_is():
    capsule, producer = np.zeros(2).__dlpack__(), Managed(1, shape=(1,))
    pointer = ctypes.pointer(producer.struct)
    for obj in capsule, pointer:
        refused(partial(frombuffer, obj, "uint8"), "no-memory-of-its-own", TypeError, hint="pass asdlpack of it")
    assert (capsule_name(capsule), bool(pointer), producer.deleted) == (b"dltensor", True, 0)
    assert frombuffer(asdlpack(capsule), "uint8").size == 16


@pytest.mark.parametrize(
    "pointer",
    [
        ctypes.pointer(ctypes.c_int(3)),
        ctypes.c_void_p(4096),
        ctypes.c_char_p(b"abc"),
        ctypes.c_wchar_p("abc"),
        ctypes.CFUNCTYPE(None)(print),
    ],
    ids=lambda pointer: type(pointer).__name__,
)
def test_a_pointer_is_not_taken_for_bytes(pointer):
    refused(lambda: frombuffer(pointer, "uint8"), "no-memory-of-its-own", TypeError, hint="pass from_pointer")
    assert frombuffer((ctypes.c_void_p * 1)(5), "uint64").size == 1


@alone
def test_known_types_need_no_call_into_go_whatever_their_length():
    for length in range(100):
        wrapped = frombuffer(bytearray(length), "float8_e5m2fnuz")
        assert (wrapped.shape, wrapped.strides) == ((length,), (1,))
        assert frombuffer(bytearray(8 * length + 8), "complex64", offset=8).shape == (length,)
        assert frombuffer(bytearray(24 * length), "<f4", (2, -1, 3)).shape == (2, length, 3)
    assert dlpack._dlpack._core_calls() == 0
    refused(lambda: frombuffer(bytes(64), "float8_e4m3fn", 65), "out-of-bounds", ValueError, span=64)
    refused(lambda: frombuffer(bytes(7), "complex64", offset=8), "out-of-bounds", ValueError, offset=8, span=7)
    refused(lambda: frombuffer(bytes(17), "complex64", offset=8), "indivisible", ValueError)
    details = {"span": 16, "from": 8, "to": 24}
    refused(lambda: frombuffer(bytes(16), "complex64", 2, offset=8), "out-of-bounds", ValueError, **details)


@alone
def test_modules_that_another_thread_is_importing_are_not_there_yet():
    """They are known to Python before they have their names."""
    import types

    class Dtype:
        name = "float32"

    class Address:
        def __index__(self):
            return 64

    import dlpack

    for name in "numpy", "ctypes":
        sys.modules[name] = types.ModuleType(name)
    assert dlpack.frombuffer(bytes(8), Dtype()).dtype == "float32"
    assert dlpack.frombuffer(array.array("d", [1]), "uint8").shape == (8,)
    assert dlpack.from_pointer(Address(), 2, "uint8").pointer == 64


def test_bytes_as_a_dtype_are_refused_under_python_bb():
    code = "import dlpack\ntry: dlpack.frombuffer(bytes(4), b'float32')\nexcept TypeError as error: print(error)"
    result = run(sys.executable, "-bb", "-c", code)
    assert result.stderr == ""
    assert re.fullmatch(r"dtype: expected a name such as 'float32', .* got b'float32'\n", result.stdout)


def test_a_failing_dtype_object_passes_its_error_on():
    class Dtype:
        @property
        def name(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        frombuffer(b"", Dtype())
    with pytest.raises(TypeError, match="got <class 'dlpack.DLPackObject'>"):
        frombuffer(b"", dlpack.DLPackObject)


RECORDS = np.arange(4, dtype="u1").repeat(12).view([("a", "<f8"), ("b", "<i4")])["a"]


@pytest.mark.parametrize("copied", [False, None, True])
@pytest.mark.parametrize("obj", [RECORDS, memoryview(RECORDS), np.arange(4, dtype=">i4")[::2]])  # type: ignore[arg-type]
def test_bytes_with_gaps_are_refused_with_a_way_out_to_them_as_they_are(obj, copied):
    """copy=None of asdlpack would convert them."""
    with pytest.raises(BufferError) as caught:
        dlpack.frombuffer(obj, "uint8", copy=copied)
    assert hint_of(str(caught.value)).endswith("make it compact: frombuffer(numpy.ascontiguousarray(obj), ...)")
    assert bytes(dlpack.frombuffer(np.ascontiguousarray(obj), "uint8", copy=copied)) == np.asarray(obj).tobytes()


def test_the_way_out_of_a_misaligned_export_is_asdlpack():
    """numpy.ascontiguousarray would make an array of one Python object."""
    misaligned = np.frombuffer(bytes(range(17)), "u1")[1:].view("i4")
    obj = Speaks(__dlpack__=misaligned.__dlpack__, __dlpack_device__=lambda: (1, 0))
    with pytest.raises(BufferError, match=r"misaligned.* [(]pass asdlpack[(]obj, copy=None[)] to copy[)]$"):
        frombuffer(obj, "uint8")
    assert bytes(frombuffer(asdlpack(obj, copy=None), "uint8")) == bytes(range(1, 17))


@pytest.mark.parametrize("copied", [False, None, True])
def test_the_way_out_of_a_wrapped_object_names_its_source(copied):
    obj = asdlpack(np.arange(6, dtype=">i2"))
    with pytest.raises(BufferError, match=r"big-endian.*frombuffer[(]numpy.ascontiguousarray[(]obj.obj[)], ...[)][)]$"):
        frombuffer(obj, "uint8", copy=copied)
    assert bytes(frombuffer(np.ascontiguousarray(obj.obj), "uint8", copy=copied)) == obj.obj.tobytes()
