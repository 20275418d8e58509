"""A DLPackObject as Arrow data: the structures that a consumer written in C sees."""

import ctypes
import itertools
import json
import struct
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack
from dlpack._abi import capsule_pointer
from support.alone import alone
from support.arrow_c import ArrowArray, ArrowSchema
from support.capi import Exporter, Memory, address, on_device
from support.layouts import numbers
from support.threads import ForeignThreads

FORMATS = dict(
    zip(
        "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(),
        "c s i l C S I L e f g".split(),
        strict=True,
    )
)


class Taken:
    """A structure moved out of its capsule, or of its parent, as a consumer does: now it is this side's to release."""

    def __init__(self, kind, source):
        self.structure = kind()
        ctypes.memmove(address(self.structure), source, ctypes.sizeof(kind))
        kind.from_address(source).release = type(self.structure.release)()

    def __getattr__(self, name):
        return getattr(self.structure, name)

    @property
    def release_address(self):
        return ctypes.cast(self.structure.release, ctypes.c_void_p)

    def release(self):
        self.structure.release(address(self.structure))
        assert not self.structure.release

    def take_child(self):
        return Taken(type(self.structure), self.structure.children[0])


def take(x):
    schema, array = x.__arrow_c_array__()
    return (
        Taken(ArrowSchema, capsule_pointer(schema, b"arrow_schema")),
        Taken(ArrowArray, capsule_pointer(array, b"arrow_array")),
    )


def child_of(structure):
    return type(structure.structure).from_address(structure.children[0])


def metadata_of(schema):
    """The metadata as a dict, as the C data interface lays it out."""
    if not schema.metadata:
        return None
    at, texts = schema.metadata + 4, []
    for _ in range(2 * struct.unpack("=i", ctypes.string_at(schema.metadata, 4))[0]):
        (length,) = struct.unpack("=i", ctypes.string_at(at, 4))
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return dict(zip(texts[::2], texts[1::2], strict=True))


def buffers_of(array):
    return array.buffers[: array.n_buffers]


@pytest.mark.parametrize("dtype", FORMATS)
def test_one_dimension_is_an_array_of_numbers(dtype):
    source = numbers(dtype, (5,))
    schema, array = take(asdlpack(source))
    assert (schema.format, schema.name, schema.flags) == (FORMATS[dtype].encode(), b"", 0)
    assert (schema.n_children, bool(schema.dictionary), metadata_of(schema)) == (0, False, None)
    assert (array.length, array.null_count, array.offset, array.n_children) == (5, 0, 0, 0)
    assert (buffers_of(array), bool(array.dictionary)) == ([None, source.ctypes.data], False)
    schema.release()
    array.release()


@pytest.mark.parametrize("shape", [(2, 3), (4, 1), (2, 3, 4, 5), (1,) * 64, (3, 0), (0, 3), (0, 1 << 40, 0)])
def test_more_dimensions_are_a_tensor_of_fixed_shape_for_each_row(shape):
    source = numbers("i2", shape)
    schema, array = take(asdlpack(source))
    row = int(np.prod(shape[1:]))
    assert (schema.format, schema.name, schema.flags, schema.n_children) == (b"+w:%d" % row, b"", 0, 1)
    metadata = metadata_of(schema)
    assert metadata.keys() == {"ARROW:extension:name", "ARROW:extension:metadata"}
    assert metadata["ARROW:extension:name"] == "arrow.fixed_shape_tensor"
    assert json.loads(metadata["ARROW:extension:metadata"]) == {"shape": list(shape[1:])}
    items = child_of(schema)
    assert (items.format, items.name, items.flags, items.n_children) == (b"s", b"item", 0, 0)
    assert (array.length, array.n_children, buffers_of(array)) == (shape[0], 1, [None])
    items = child_of(array)
    assert (items.length, items.null_count, items.offset) == (source.size, 0, 0)
    assert buffers_of(items) == [None, source.ctypes.data if source.size else None]
    schema.release()
    array.release()


def test_booleans_are_bytes_under_the_extension_bool8():
    source = np.array([[True, False, True]])
    bool8 = {"ARROW:extension:name": "arrow.bool8", "ARROW:extension:metadata": ""}
    schema, array = take(asdlpack(source[0]))
    assert (schema.format, metadata_of(schema)) == (b"c", bool8)
    assert buffers_of(array) == [None, source.ctypes.data]
    tensor, rows = take(asdlpack(source))
    assert metadata_of(tensor)["ARROW:extension:name"] == "arrow.fixed_shape_tensor"
    assert metadata_of(child_of(tensor)) == bool8
    for structure in schema, array, tensor, rows:
        structure.release()


TYPES = "expected bool, an int, a uint or a float16, float32 or float64, as Arrow has them"
GAPS = "expected row-major memory without gaps (asdlpack(x, copy=True) makes it so)"
BYTES = '(dlpack.frombuffer(x, "uint8") shares the bytes)'
COPIED = '(dlpack.frombuffer(dlpack.asdlpack(x, copy=True), "uint8") has a copy of the bytes)'
REFUSED = {
    "0-d": (lambda: asdlpack(np.zeros(())), "shape (): expected one dimension or more", "numpy.asarray(x).reshape(1)"),
    "gaps": (lambda: asdlpack(np.zeros(6)[::2]), f"strides (2,) of shape (3,): {GAPS}", ""),
    "reversed": (lambda: asdlpack(np.zeros(3)[::-1]), f"strides (-1,) of shape (3,): {GAPS}", ""),
    "column-major": (lambda: asdlpack(np.zeros((2, 3)).T), f"strides (1, 3) of shape (3, 2): {GAPS}", ""),
    "complex64": (lambda: asdlpack(np.zeros(3, "c8")), f"dtype complex64: {TYPES}", BYTES),
    "complex64 in columns": (lambda: asdlpack(np.zeros((3, 2), "c8").T), f"dtype complex64: {TYPES}", COPIED),
    "bfloat16": (lambda: asdlpack(np.zeros(3, ml_dtypes.bfloat16)), f"dtype bfloat16: {TYPES}", BYTES),
    "packed": (lambda: on_device((1, 0), (0, 4, 1)), f"dtype int4: {TYPES}", BYTES),
    "lanes": (lambda: on_device((1, 0), (2, 32, 2)), f"dtype float32x2: {TYPES}", BYTES),
    "CUDA": (lambda: on_device((2, 1)), "device kDLCUDA:1: the CPU can't read this memory", "copies it to the host"),
    "long rows": (
        lambda: on_device((1, 0), (0, 8, 1), (2, 1 << 31)),
        "shape: rows of 2147483648 items; expected at most 2147483647, the longest of Arrow's fixed-size lists",
        "numpy.asarray(x).reshape(-1)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_memory_arrow_cannot_describe_is_refused_with_a_way_out(what):
    make, reason, way_out = REFUSED[what]
    x = make()
    before = sys.getrefcount(x)
    with pytest.raises(BufferError) as caught:
        x.__arrow_c_array__()
    assert reason in str(caught.value)
    assert way_out in str(caught.value)
    del caught
    assert sys.getrefcount(x) == before


def test_the_longest_rows_are_lists():
    schema, array = take(on_device((1, 0), (0, 8, 1), (3, (1 << 31) - 1)))
    assert (schema.format, child_of(array).length) == (b"+w:2147483647", 3 * ((1 << 31) - 1))
    schema.release()
    array.release()


def test_lengths_have_64_bits():
    schema, array = take(on_device((1, 0), (1, 8, 1), (1 << 40,)))
    assert array.length == 1 << 40
    schema.release()
    array.release()


# Releasing structures and their memory.


def test_capsules_that_nobody_consumes_release_what_they_hold():
    source = Exporter(bytes(8), b"h", 2, (2, 2))
    before = sys.getrefcount(source)
    x = asdlpack(source)
    alone = sys.getrefcount(x)
    pairs = [x.__arrow_c_array__() for _ in range(3)]
    assert sys.getrefcount(x) == alone + len(pairs)  # an array and its child hold the memory together, no schema does
    del x
    arrays = [array for _, array in pairs]
    schemas = [schema for schema, _ in pairs]
    del pairs
    schemas.clear()
    assert source.exports == 1
    arrays.clear()
    assert (source.exports, sys.getrefcount(source)) == (0, before)


@pytest.mark.parametrize("order", list(itertools.permutations(["schema", "array", "schema's child", "array's child"])))
def test_children_that_were_moved_out_live_on_in_any_order(order):
    source = Memory(range(6))
    alive = weakref.ref(source)
    schema, array = take(asdlpack(memoryview(source).cast("B", (2, 3))))
    structures = {
        "schema": schema,
        "array": array,
        "schema's child": schema.take_child(),
        "array's child": array.take_child(),
    }
    del source
    for name in order:
        assert (alive() is None) == (not {"array", "array's child"} & structures.keys())
        if "schema's child" in structures:
            assert (structures["schema's child"].format, structures["schema's child"].name) == (b"C", b"item")
        if "array's child" in structures:
            items = structures["array's child"]
            assert ctypes.string_at(buffers_of(items)[1], items.length) == bytes(range(6))
        structures.pop(name).release()
    assert alive() is None


def test_a_parent_releases_the_children_that_are_left_to_it():
    source = Memory(6)
    alive = weakref.ref(source)
    schema, array = take(asdlpack(memoryview(source).cast("B", (2, 3))))
    del source
    schema.release()
    assert alive() is not None
    array.release()
    assert alive() is None


def test_structures_are_released_on_threads_that_python_does_not_know():
    sources = [Memory(6) for _ in range(50)]
    alive = [weakref.ref(source) for source in sources]
    structures = [take(asdlpack(memoryview(source).cast("B", (2, 3)))) for source in sources]
    sources.clear()
    threads = ForeignThreads()
    for schema, array in structures:
        threads.start(schema.release_address, address(schema.structure))
        threads.start(array.release_address, address(array.structure))
    threads.join()
    assert not any(source() for source in alive)


@alone
def test_structures_held_at_exit_do_no_harm():
    """A static structure releases after Python is gone."""
    held = [asdlpack(bytearray(24)) for _ in range(3)]
    sys.held = held, [x.__arrow_c_array__() for x in held]
    schema, array = take(asdlpack(np.zeros((2, 3))))
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit.argtypes = (ctypes.c_void_p,) * 3
    for structure in schema, array:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(structure.structure))
        libc.__cxa_atexit(structure.release_address, address(structure.structure), None)
