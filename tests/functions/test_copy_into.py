"""copy_into(source, target): what numpy.copyto does, of any memory, and without broadcasting or conversion."""

import array
import ctypes
import functools
import gc
import inspect
import itertools
import mmap
import sys
import threading
import weakref
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import dlpack
from dlpack import asdlpack, borrow, copy_into, from_pointer, frombuffer
from support.alone import WINDOWS, alone
from support.capi import READ_ONLY, Managed, Speaks, capsule_name
from support.hints import expression_of, hint_of
from support.layouts import DTYPES, LAYOUTS, LEGACY, PROTOCOLS
from support.producers import Producer
from support.refusals import refused
from support.threads import in_threads
from support.views import same, views


def numbers(*shape, dtype="f4"):
    return np.arange(np.prod(shape)).astype(dtype).reshape(shape)


def refuse(*words):
    def dlpack(**_):
        raise BufferError(*words)

    return dlpack


def every(step: int, array: np.ndarray) -> np.ndarray:
    """Returns every step-th item in each dimension."""
    index: tuple[Any, ...] = (..., *[slice(None, None, step)] * array.ndim)
    return array[index]


# Makes room for items of a dtype and shape; as the target, each is another layout.
ROOMS = {
    "compact": np.zeros,
    "column-major": lambda shape, dtype: np.zeros(shape[::-1], dtype).T,
    "reversed": lambda shape, dtype: every(-1, np.zeros(shape, dtype)),
    "every second": lambda shape, dtype: every(2, np.zeros([2 * n for n in shape], dtype)),
    "big-endian": lambda shape, dtype: np.zeros(shape, np.dtype(dtype).newbyteorder(">")),
    "misaligned": lambda shape, dtype: misaligned(shape, dtype),
}


def misaligned(shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.zeros(size + 1, "u1")[1:].view(dtype).reshape(shape)


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_layout_goes_into_every_layout(dtype, layout, room):
    source = LAYOUTS[layout](dtype)
    for given_source in source, source.astype(source.dtype.newbyteorder(">")), source[()].copy()[..., None][..., 0]:
        target = ROOMS[room](source.shape, dtype)
        for _ in range(2):  # the second time, the kinds are known
            target[...] = 0
            assert copy_into(given_source, target) is None
            assert target.tolist() == source.tolist()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_protocol_is_a_source(protocol, layout):
    source = LAYOUTS[layout]("int32")
    target = np.zeros(source.shape, "int32")
    copy_into(PROTOCOLS[protocol](source), target)
    assert same(target, source)


@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if each != LEGACY])
@pytest.mark.parametrize("layout", ["0-d", "4-d", "column-major", "every second", "reversed", "empty 3-d"])
def test_every_protocol_is_a_target(protocol, layout):
    target = LAYOUTS[layout]("int32")
    source = numbers(*target.shape, dtype="int32") + 7
    copy_into(source, PROTOCOLS[protocol](target))
    assert same(target, source)


@pytest.mark.parametrize("make", [bytearray, lambda n: array.array("B", bytes(n)), lambda n: (ctypes.c_ubyte * n)()])
def test_bytes_go_into_what_has_a_buffer(make):
    target = make(9)
    copy_into(b"nine byte", target)
    assert bytes(target) == b"nine byte"


# Overlap.


@st.composite
def shapes(draw):
    return tuple(draw(st.lists(st.integers(1, 4), max_size=4)))


@st.composite
def rooms(draw, shape, dtype):
    """A writable view of this shape and any strides; no two items share bytes."""
    dtype = np.dtype(dtype)
    order = draw(st.permutations(range(len(shape))))
    strides, following = [0] * len(shape), 1
    for k in order:
        strides[k] = following = following + draw(st.integers(0, 2))
        following *= shape[k]
    memory = np.zeros(following + 4, dtype)
    view = as_strided(memory, shape, [s * dtype.itemsize for s in strides])
    return view[(..., *[slice(None, None, draw(st.sampled_from([1, -1]))) for _ in shape])]


@settings(max_examples=300)
@given(views(), st.data(), st.booleans(), st.booleans())
def test_any_view_goes_into_any_layout_as_numpy_has_it(source, data, swaps, swaps_target):
    target = data.draw(rooms(source.shape, source.dtype.newbyteorder(">") if swaps_target else source.dtype))
    source = source.astype(source.dtype.newbyteorder(">")) if swaps else source
    expected = target.copy()
    np.copyto(expected, source)
    copy_into(source, target)
    assert target.tobytes() == expected.tobytes()


@settings(max_examples=300)
@given(st.data())
def test_overlapping_views_of_one_buffer_are_as_numpy_has_them(data):
    """Two views of one buffer, of any strides; the target's items share no bytes."""
    dtype = np.dtype(data.draw(st.sampled_from(["u1", "<i2", ">i2", "f4", "c8", "c16"])))
    shape = data.draw(shapes())
    room = data.draw(rooms(shape, dtype))
    reach = sum((n - 1) * abs(s) for n, s in zip(shape, room.strides, strict=True)) + dtype.itemsize
    memory = np.arange(2 * reach + 64, dtype="u1")

    def view(strides):
        low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
        high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0) + dtype.itemsize
        first = data.draw(st.integers(-low, max(-low, memory.size - high)))
        return as_strided(memory[first:].view("u1")[: dtype.itemsize].view(dtype)[0:1], shape, strides)

    target = view(room.strides)
    others = st.lists(st.integers(-8, 8), min_size=len(shape), max_size=len(shape))
    chosen = data.draw(st.one_of(st.just(room.strides), st.permutations(room.strides), others))
    reach_of = sum((n - 1) * abs(s) for n, s in zip(shape, chosen, strict=True)) + dtype.itemsize
    source = view(room.strides if reach_of > memory.size else chosen)
    before = memory.copy()
    np.copyto(target, source.copy())  # without the copy, numpy overlooks overlaps of strides that are 0
    expected = memory.copy()
    memory[...] = before
    copy_into(source, target)
    assert memory.tolist() == expected.tolist()


@pytest.mark.parametrize("size", [3, 10, 1000])
@pytest.mark.parametrize("dtype", ["u1", "i4"])
def test_a_reversed_view_of_the_memory_behind_the_target_overlaps_it(size, dtype):
    """Slices of what numpy allocated, which C copies."""
    memory = np.arange(size).astype(dtype)
    for target, source in (
        (slice(None, -1), slice(None, 0, -1)),  # the source's first item follows the target's last
        (slice(1, None), slice(-2, None, -1)),
        (slice(None, None, 2), slice(None, None, -2)),
        (slice(None, 0, -1), slice(None, -1)),
    ):
        found, expected = memory.copy(), memory.copy()
        expected[target] = memory[source]
        copy_into(found[source], found[target])
        assert found.tolist() == expected.tolist(), (target, source)


LARGE = {
    "shifted": lambda x: (x[:-1], x[1:]),
    "shifted back": lambda x: (x[1:], x[:-1]),
    "reversed": lambda x: (x[::-1], x),
    "transposed": lambda x: (x[: 1 << 22].reshape(2048, 2048).T, x[: 1 << 22].reshape(2048, 2048)),
    "swapped in place": lambda x: (x.view(">f4"), x),
    "itself": lambda x: (x, x),
    "two columns of one": lambda x: (x[::2], x[1::2]),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_large_overlapping_copy_is_as_numpy_has_it(case):
    memory, expected = numbers(5 << 20), numbers(5 << 20)
    source, target = LARGE[case](expected)
    np.copyto(target, source.copy())
    copy_into(*LARGE[case](memory))
    assert same(memory.view("u4"), expected.view("u4"))


@pytest.mark.parametrize("source", ["u1", "f4", ">f4", "c16"])
@pytest.mark.parametrize("target_order", ["", "T", "every second", "swapped"])
def test_a_large_copy_is_complete(source, target_order):
    array = np.random.default_rng(0).integers(0, 255, (1501, 1511)).astype(source)
    native = array.dtype.newbyteorder("=")
    target = {
        "": np.zeros(array.shape, native),
        "T": np.zeros(array.shape[::-1], native).T,
        "every second": np.zeros((1501, 3022), native)[:, ::-2],
        "swapped": np.zeros(array.shape, native.newbyteorder(">")),
    }[target_order]
    copy_into(array, target)
    assert np.array_equal(target, array)


# Types.


def managed(memory, dtype, shape=(4,), **fields):
    return asdlpack(Managed(memory.ctypes.data, dtype=dtype, shape=shape, **fields).capsule())


@pytest.mark.parametrize(
    ("name", "shape"), [("int4", 5), ("float4_e2m1fn", (3, 3)), ("float4_e2m1fnx2", 4), ("bool", 4), ("complex64", 3)]
)
def test_packed_lanes_bool_and_complex_items_are_copied(name, shape):
    source, target = frombuffer(bytes(range(1, 65)), "uint8"), bytearray(64)
    nbytes = frombuffer(bytearray(64), name, shape).nbytes
    given_source = frombuffer(memoryview(bytes(range(1, 65)))[:nbytes], name, shape)
    copy_into(given_source, frombuffer(memoryview(target)[:nbytes], name, shape))
    assert target == bytes(source)[:nbytes] + bytes(64 - nbytes)


@pytest.mark.parametrize(
    ("name", "items", "packed"),
    [
        ("int4", [1, 14, 3, 4, 5], [0xE1, 0x43, 0x05]),
        ("uint2", [1, 2, 0, 3, 1], [0b11_00_10_01, 0b01]),
        ("float6_e2m3fn", [1, 2, 3, 4, 5], [0b10_000001, 0b0011_0000, 0b000100_00, 0b101]),
    ],
)
def test_padded_items_are_packed_and_packed_ones_padded(name, items, packed):
    padded = np.array(items, "u1").view(getattr(ml_dtypes, name))
    memory = bytearray(len(packed) + 1)
    target = frombuffer(memoryview(memory)[:-1], name, 5)
    for layout in padded, every(2, padded.repeat(2)):
        memory[:] = bytes(len(packed)) + b"\xff"
        copy_into(layout, target)
        assert list(memory) == [*packed, 0xFF]
    room = np.zeros(10, padded.dtype)
    copy_into(target, every(-2, room))
    assert every(-2, room).view("u1").tolist() == items
    assert not room[::2].view("u1").any()


@pytest.mark.parametrize("source", [frombuffer(bytes(4), "int4", 7), np.zeros(7, ml_dtypes.int4)])
def test_bits_behind_the_last_packed_item_stay(source):
    memory = bytearray(b"\xff" * 4)
    target = frombuffer(memory, "int4", 7)
    copy_into(source, target)
    assert memory.hex() == "000000f0"
    copy_into(frombuffer(memory, "int4", 7), target)  # into itself
    assert memory.hex() == "000000f0"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_items_of_ml_dtypes_are_copied(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    source = np.arange(6).astype(dtype).reshape(2, 3)
    for _ in range(2):
        target = np.zeros((3, 2), dtype).T
        copy_into(source, target)
        assert target.astype("f4").tolist() == source.astype("f4").tolist()


def test_lanes_are_part_of_the_type():
    memory = np.arange(8, dtype="f4")
    source, target = managed(memory, (2, 32, 2)), managed(np.zeros(8, "f4"), (2, 32, 4), shape=(2,))
    details = {"source_dtype": "float32x2", "source_shape": "(4,)", "target_dtype": "float32x4", "target_shape": "(2,)"}
    refused(lambda: copy_into(source, target), "types-differ", ValueError, **details)


# Refusals.


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("source", "target", "hint"),
    [
        (numbers(3, 4), numbers(4, 3), "pass source.reshape((4, 3))"),
        (numbers(4), numbers(3, 4), "pass numpy.broadcast_to("),
        (numbers(1), numbers(2), "pass numpy.broadcast_to("),
        (numbers(1), np.zeros((), "f4"), "pass source.reshape(())"),
        (numbers(0), numbers(0, 1), "pass source.reshape((0, 1))"),
        (numbers(0), numbers(0, 0), "pass source.reshape((0, 0))"),
        (np.zeros((), "f4"), numbers(0), "pass numpy.broadcast_to("),
        (numbers(3), numbers(3, dtype="f8"), "pass source.astype('float64')"),
        (numbers(3), numbers(3, dtype=">i4"), "pass source.astype('int32')"),
        (numbers(3, dtype="?"), numbers(3, dtype="u1"), "pass dlpack.frombuffer(source, 'uint8', (3,))"),
        (numbers(3, dtype="i4"), numbers(3, dtype="u4"), "pass source.astype('uint32')"),
        (b"four", bytearray(5), "pass the first items: dlpack.frombuffer(target, 'uint8', (4,))"),
    ],
)
def test_another_shape_or_dtype_is_a_value_error_naming_both(source, target, hint, known):
    if known:
        copy_into(source, source.copy() if isinstance(source, np.ndarray) else bytearray(source))
    before, (x, y) = bytes(target), (asdlpack(side, copy=None) for side in (source, target))
    sides = {"source_shape": f"{x.shape}", "target_shape": f"{y.shape}"}
    reason = "shapes-differ" if x.dtype == y.dtype else "types-differ"
    refused(
        lambda: copy_into(source, target),
        reason,
        ValueError,
        hint=hint,
        source_dtype=x.dtype,
        target_dtype=y.dtype,
        **sides,
    )
    assert bytes(target) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"1234",
        lambda: memoryview(b"1234"),
        lambda: np.frombuffer(b"1234", "u1"),
        lambda: np.broadcast_to(np.uint8(1), 4),
        lambda: asdlpack(b"1234"),
        lambda: numbers(4, dtype="u1").__dlpack__(),
        lambda: Managed(numbers(4).ctypes.data, shape=(4,), dtype=(1, 8, 1), flags=READ_ONLY).capsule(),
        lambda: memoryview(bytearray(4)).toreadonly(),
    ],
)
def test_a_read_only_target_is_a_buffer_error(make):
    source = numbers(4, dtype="u1")
    refused(lambda: copy_into(source, make()), "read-only-target", hint="pass a new array or bytearray", side="target")


def test_a_target_whose_items_overlap_is_refused():
    room = np.zeros(4, "f4")
    for shape, strides in ((3, 4), (0, 4)), ((3,), (0,)):
        target = as_strided(room, shape, strides)
        refused(partial(copy_into, np.ones(shape, "f4"), target), "overlap", dimension=0, items=3, side="target")
    for shape, strides in ((3, 2), (4, 4)), ((2, 3), (4, -4)), ((2, 2, 2), (4, 8, 12)), ((2,), (2,)):
        target = as_strided(room[2:], shape, strides)
        refused(partial(copy_into, np.ones(shape, "f4"), target), "overlap", side="target")
    assert room.tolist() == [0, 0, 0, 0]
    copy_into(np.ones((1, 4), "f4"), as_strided(room, (1, 4), (0, 4)))
    assert room.tolist() == [1, 1, 1, 1]
    copy_into(numbers(2, 2), as_strided(room, (2, 2), (4, 8)))
    assert room.tolist() == [0, 2, 1, 3]


def test_a_target_that_would_be_copied_is_refused_with_another_way_out():
    swapped = numbers(4, dtype=">f4")
    obj = Speaks(__array_interface__=swapped.__array_interface__, keep=swapped)
    refused(lambda: copy_into(numbers(4), obj), "byte-order", hint="copy into a new array, and from", side="target")
    target = numbers(4) + 1
    copy_into(obj, target)
    assert target.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("words", "said"), [(["locked (unlock it)"], "locked (unlock it)"), (["no", "(2, 3)"], "('no', '(2, 3)')")]
)
def test_an_error_keeps_what_a_target_said_in_brackets(words, said):
    """test_error_data.py has the hints for targets."""
    with pytest.raises(BufferError, match=r"^target: ") as caught:
        copy_into(numbers(1), Speaks(__dlpack__=refuse(*words)))
    assert f"which said BufferError: {said}" in str(caught.value)


def test_a_file_as_target_is_mapped_once_it_is_open_for_both(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(4))
    for mode, way_out in ("ab", "copy into a new array, and from there "), ("rb", "open it in mode 'r+b', and pass "):
        with path.open(mode) as obj, pytest.raises(TypeError, match=r"^target: .* \(") as caught:
            copy_into(numbers(1), obj)
        assert way_out in str(caught.value)
        assert "it is empty" not in str(caught.value)
    with path.open("r+b") as obj:
        copy_into(b"abcd", eval(expression_of(hint_of(str(caught.value)))))
    assert path.read_bytes() == b"abcd"


@pytest.mark.parametrize(
    ("source", "target", "way_out"),
    [
        (numbers(2, 3).tobytes(), np.zeros((2, 3), "f4"), "dlpack.frombuffer(source, 'float32', (2, 3))"),
        (numbers(2, 3), bytearray(24), "dlpack.frombuffer(source, 'uint8', (24,))"),
        (memoryview(bytearray(9))[1:], numbers(2), "dlpack.frombuffer(source, 'float32', (2,), copy=None)"),
        ((ctypes.c_uint64 * 2)(1, 2), (ctypes.c_void_p * 2)(), "memoryview(obj).cast('B').cast('Q')"),
        (numbers(2), memoryview(bytearray(9))[1:], "dlpack.frombuffer(source, 'uint8', (8,))"),
        (numbers(2), np.zeros(16, "u1")[::2], "dlpack.frombuffer(source, 'uint8', (8,))"),
        (numbers(4, dtype="i1"), bytearray(4), "source.astype('uint8')"),
        (np.arange(4).astype(ml_dtypes.int4), bytearray(4), "source.astype('uint8')"),
        (np.array([-8, -2], ml_dtypes.int4), np.zeros(2, "i1"), "source.astype('int8')"),
        (np.ones(4, ml_dtypes.float8_e4m3fn), np.zeros(4, "i1"), "source.astype('int8')"),
        (np.full(4, 2, "u1"), np.zeros(4, bool), "source.astype('bool')"),
        (np.ones(4, bool), np.zeros(4, "u1"), "dlpack.frombuffer(source, 'uint8', (4,))"),
        (b"\1\2\3\4", np.zeros(4, ml_dtypes.int4), "dlpack.frombuffer(source, '|V1 int4', (4,))"),
        (
            memoryview(bytes(range(16)))[::2],
            np.zeros(2, "f4"),
            "dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'float32', (2,))",
        ),
        (
            memoryview(bytes(range(16)))[::2],
            np.zeros((2, 4), "u1"),
            "dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'uint8', (2, 4))",
        ),
        (
            b"abc",
            np.zeros((2, 3), "u1"),
            "numpy.broadcast_to(numpy.asarray(dlpack.asdlpack(source, copy=None)), (2, 3))",
        ),
        (bytes(range(8)), np.zeros(2, ">f4"), "dlpack.frombuffer(source, '>f4', (2,), copy=None)"),
        (numbers(4, dtype=">u2")[::2], bytearray(4), "dlpack.frombuffer(memoryview(source).tobytes(), 'uint8', (4,))"),
        (
            PROTOCOLS["__array_interface__"](numbers(2, dtype=">u2")),
            bytearray(4),
            "dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'uint8', (4,))",
        ),
        (numbers(6), np.zeros((1, 1, 1, 1, 1, 2, 3), "f4"), "source.reshape(target.shape)"),
        (
            memoryview(bytes(range(8))),
            np.zeros((1, 1, 1, 1, 1, 2, 4), "u1"),
            "dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'uint8', target.shape)",
        ),
        (numbers(6), np.zeros((2, 3), "f4"), "source.reshape((2, 3))"),
        (numbers(6), np.zeros(4, "f4"), "dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'float32', (4,))"),
        (
            (ctypes.c_int32.__ctype_be__ * 4)(1, 2, 3, 4),
            numbers(2, 2, dtype="i4"),
            "dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'int32', (2, 2))",
        ),
        (numbers(3, dtype="u1"), np.zeros(3, "f4"), "source.astype('float32')"),
        (b"abc", np.zeros(3, "f4"), "numpy.asarray(dlpack.asdlpack(source, copy=None)).astype('float32')"),
        (np.array(["1", "2"]), np.zeros(2, "f8"), "obj.astype('float64')"),
        (np.array([b"1", b"2"]), np.zeros(2, "f8"), "obj.astype('float64')"),
        (np.array([b"ab", b"cd"]), np.zeros((2, 2), "u1"), "obj[..., None].view('uint8')"),
        (np.ones((2, 2), "u1"), np.array([b"ab", b"cd"]), "obj[..., None].view('uint8')"),
        (np.ones((1, 1), "u4"), np.array(["a"]), "obj[..., None].view('uint32')"),
        (numbers(2), np.array([(1, 2.0), (3, 4.0)], [("a", "f4"), ("b", "f8")]), "obj['a']"),
        (np.zeros((2, 2), "u1") + 7, np.array([b"ab"] * 4)[::2], "obj[..., None].view('uint8')"),
        (b"ab", np.array(b"ab"), "obj[..., None].view('uint8')"),
        (b"1234"[: ctypes.sizeof(ctypes.c_wchar)], (ctypes.c_wchar * 1)(), "memoryview(obj).cast('B')"),
    ],
)
def test_bytes_text_and_numbers_name_a_way_out_that_works(source, target, way_out):
    with pytest.raises((BufferError, ValueError)) as caught:
        copy_into(source, target)
    assert way_out in str(caught.value)
    is_target = str(caught.value).startswith("target: ")
    names = {"dlpack": dlpack, "numpy": np, "source": source, "target": target, "dtype": "f4"}
    instead = eval(way_out, {**names, "obj": target if is_target else source})
    source, target = (source, instead) if is_target else (instead, target)
    copy_into(source, target)
    values, expected = (np.asarray(asdlpack(side, copy=None)) for side in (target, source))
    assert values.tobytes() == expected.tobytes()


def test_a_longer_target_gets_the_items_by_the_hint():
    target = np.zeros(6, "f4")
    error = refused(lambda: copy_into(numbers(4), target), "shapes-differ", ValueError, hint="pass the first items:")
    copy_into(numbers(4), eval(str(error).partition("items: ")[2][:-1]))
    assert target.tolist() == [0, 1, 2, 3, 0, 0]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (dlpack.frombuffer(bytes(2), "float4_e2m1fnx2"), np.zeros(2, "f4")),
        (numbers(2, 3), np.zeros((3, 3), "f4")),
        (numbers(4), np.zeros(12, "f4")[::2]),
    ],
)
def test_no_hint_is_given_to_convert_what_nobody_converts(source, target):
    with pytest.raises(ValueError) as caught:
        copy_into(source, target)
    assert hint_of(str(caught.value)) == ""


def test_the_error_says_that_a_capsule_is_used_up():
    array = numbers(6)
    managed = Managed(array.ctypes.data, shape=(6,))
    capsule, pointer = array.__dlpack__(), ctypes.pointer(managed.struct)
    for source in capsule, pointer:
        with pytest.raises(
            ValueError, match="one shape, .*; before that make the source anew, which can be read once$"
        ):
            copy_into(source, numbers(2, 3))
    hint = "pass dlpack.frombuffer(dlpack.asdlpack(source), 'uint8', (24,))"
    refused(lambda: copy_into(array.__dlpack__(), bytearray(24)), "types-differ", ValueError, hint=hint)
    with pytest.raises(ValueError, match="make the source and the target anew, which can be read once$"):
        copy_into(numbers(6).__dlpack__(), numbers(2, 3).__dlpack__(max_version=(1, 0)))
    assert (capsule_name(capsule), bool(pointer), managed.deleted) == (b"used_dltensor", False, 1)
    refused(lambda: copy_into(capsule, numbers(2, 3)), "consumed-capsule", ValueError)


def test_packed_items_of_another_shape_name_a_way_out_that_works():
    source, target = frombuffer(bytes(range(4)), "int4", 8), np.zeros((2, 4), ml_dtypes.int4)
    error = refused(lambda: copy_into(source, target), "shapes-differ", ValueError)
    copy_into(eval(expression_of(hint_of(str(error)))), target)
    assert target.tolist() == [[0, 0, 1, 0], [2, 0, 3, 0]]


def test_a_misaligned_target_of_ml_dtypes_is_refused():
    """Its buffer raises a ValueError of numpy's, which isn't the cause."""
    target = np.ndarray((3,), ml_dtypes.bfloat16, bytearray(64), 1)
    for _ in range(2):
        with pytest.raises(BufferError, match=r"^target: .*misaligned.* \(copy into a new array, and from there "):
            copy_into(np.ones(3, ml_dtypes.bfloat16), target)


@pytest.mark.parametrize("shape", [(1 << 40, 0), (0, 1 << 40), (1 << 20, 0, 1 << 20), (0,)])
def test_no_items_take_no_time(shape):
    source = np.zeros(0, "u1").reshape(0)
    source, target = (as_strided(source, shape, (0,) * len(shape)) for _ in range(2))
    for _ in range(2):
        copy_into(source, target)


@pytest.mark.parametrize(
    ("obj", "error", "reason", "details"),
    [
        (5, TypeError, "no-protocol", {"type": "int"}),
        ([1], TypeError, "no-protocol", {"type": "list"}),
        (bytes, TypeError, "no-instance", {}),
        (np.array(["text"]), BufferError, "text", {"field": "format", "text": "4w"}),
        (np.array([None]), BufferError, "objects", {"text": "O"}),
        (np.zeros(3, np.longdouble), BufferError, "long-double", {"text": "g"}),
        (Speaks(__array_interface__={"shape": (1,)}), ValueError, "array-interface", {"field": "typestr"}),
        (Speaks(__dlpack__=lambda **_: 7), ValueError, "wrong-answer", {"method": "__dlpack__"}),
    ],
)
def test_an_error_names_the_side_of_an_unreadable_object(obj, error, reason, details):
    refused(lambda: copy_into(obj, numbers(3)), reason, error, side="source", **details)
    refused(lambda: copy_into(numbers(3), obj), reason, error, side="target", **details)


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {}, "missing 2 required positional arguments: 'source' and 'target'"),
        ((b"",), {}, "missing 1 required positional argument: 'target'"),
        ((b"", b"", b""), {}, "takes 2 positional arguments but 3 were given"),
        ((b"",), {"source": b""}, "multiple values for argument 'source'"),
        ((), {"dst": b"", "src": b""}, "unexpected keyword argument 'dst'"),
    ],
)
def test_copy_into_with_other_arguments_is_a_type_error(arguments, named, message):
    with pytest.raises(TypeError, match=rf"copy_into\(\).* {message}"):
        copy_into(*arguments, **named)


def test_copy_into_takes_its_sides_by_name():
    """numpy.copyto has them the other way round."""
    source, target = np.arange(3), np.zeros(3, int)
    copy_into(target=target, source=source)
    assert target.tolist() == source.tolist() == [0, 1, 2]
    copy_into(source[::-1], target=target)
    assert target.tolist() == [2, 1, 0]
    assert inspect.signature(copy_into) == inspect.signature(lambda source, target: None)


class Fault(Exception):
    pass


@pytest.mark.parametrize("kind", [Fault, KeyboardInterrupt])
def test_an_error_of_a_producer_is_the_callers(kind):
    def fail(**_):
        raise kind("mine")

    obj = Speaks(__dlpack__=fail, __dlpack_device__=lambda: (1, 0))
    with pytest.raises(kind, match="^mine$"):
        copy_into(numbers(3), obj)
    with pytest.raises(kind, match="^mine$"):
        copy_into(obj, numbers(3))


def test_an_error_that_names_the_side_keeps_its_cause():
    class Broken:
        @property
        def __array_interface__(self):
            raise ValueError("no more") from Fault("it was closed")

    for side, sides in ("source", (Broken(), numbers(3))), ("target", (numbers(3), Broken())):
        with pytest.raises(ValueError, match=f"^{side}: no more$") as caught:
            copy_into(*sides)
        assert isinstance(caught.value.__cause__, Fault)


def test_a_target_whose_dlpack_refuses_is_written_by_its_buffer():
    class Refuses(np.ndarray):
        def __dlpack__(self, **_):
            raise BufferError("not so")

    target = numbers(4).view(Refuses)
    copy_into(numbers(4) + 1, target)
    assert target.tolist() == [1, 2, 3, 4]
    swapped = numbers(4, dtype=">f4").view(Refuses)
    copy_into(target, swapped)
    assert swapped.tolist() == [1, 2, 3, 4]


def test_released_and_closed_memory_is_refused():
    view = memoryview(bytearray(4))
    view.release()
    mapped = mmap.mmap(-1, 4096)
    mapped.close()
    for obj in view, mapped:
        for side, arguments in ("source", (obj, bytearray(4))), ("target", (b"1234", obj)):
            with pytest.raises(ValueError, match=f"^{side}: .*(released|closed)"):
                copy_into(*arguments)


def test_a_capsule_is_consumed_unless_the_target_is_refused():
    capsule = numbers(4).__dlpack__()
    with pytest.raises(TypeError):
        copy_into(capsule, 7)
    assert capsule_name(capsule) == b"dltensor"
    copy_into(capsule, np.zeros(4, "f4"))
    assert capsule_name(capsule) == b"used_dltensor"
    refused(lambda: copy_into(capsule, np.zeros(4, "f4")), "consumed-capsule", ValueError, side="source")


# Faults. These tests run alone: libraries that other tests import take SIGSEGV over.


@pytest.mark.skipif(WINDOWS, reason="Windows has no mprotect")
@pytest.mark.parametrize("nbytes", [64, 8 << 20])
@alone
def test_memory_that_can_not_be_read_is_refused(nbytes):
    """Nobody vouches for an address that a caller names."""
    there, room = np.ones(nbytes, "u1"), mmap.mmap(-1, nbytes)
    address = np.frombuffer(room, "u1").ctypes.data
    unreadable = from_pointer(address, nbytes, "uint8")
    protect = functools.partial(ctypes.CDLL(None).mprotect, ctypes.c_void_p(address), ctypes.c_size_t(nbytes))
    assert protect(0) == 0
    try:
        refused(lambda: copy_into(unreadable, there), "unreadable", side="source")
        refused(lambda: copy_into(there, unreadable), "unwritable", side="target")
    finally:
        assert protect(mmap.PROT_READ | mmap.PROT_WRITE) == 0
    assert there.all()


@pytest.mark.skipif(WINDOWS, reason="the error of such a fault was not tried on Windows")
@alone
def test_an_address_that_no_memory_can_have_is_refused_by_the_side_it_is_on():
    """The processor reports no address for such a fault."""
    there = from_pointer(1 << 55, 64, "uint8")
    refused(lambda: copy_into(there, bytearray(64)), "unreadable", address=36028797018963968, side="source")
    refused(lambda: copy_into(bytes(64), there), "unwritable", address=36028797018963968, side="target")


@alone
def test_a_target_that_only_says_it_is_writable_is_refused():
    page = mmap.mmap(-1, 4096, access=mmap.ACCESS_READ)
    address = np.frombuffer(page, "u1").ctypes.data
    target = from_pointer(address, 4096, "uint8", owner=page)
    refused(lambda: copy_into(bytes(4096), target), "unwritable", side="target")


class Interface:
    """Its data is an object with a buffer, or an address: of its own memory, or of a copy that is made anew each time,
    as blosc2's."""

    def __init__(self, copies, address=False):
        self.memory = np.zeros(3, "u1")
        self.copies = copies
        self.address = address
        self.given = []

    @property
    def __array_interface__(self):
        data = self.memory.copy() if self.copies else self.memory
        self.given.append(data)
        if self.address:
            data = (data.ctypes.data, False)
        return {"version": 3, "data": data, "shape": (3,), "typestr": "|u1"}


class Struct:
    @property
    def __array_struct__(self):
        return np.zeros(3, "u1").__array_struct__


def copying():
    return Producer(lambda **words: np.zeros(3, "u1").__dlpack__(**words | {"copy": True}))


LOST = {
    "an interface": (lambda: Interface(copies=True), "test_copy_into.Interface", "__array_interface__"),
    "an address": (lambda: Interface(copies=True, address=True), "test_copy_into.Interface", "__array_interface__"),
    "a struct": (Struct, "test_copy_into.Struct", "__array_struct__"),
    "a producer": (copying, "support.producers.Producer", "__dlpack__"),
    "a wrapped producer": (lambda: asdlpack(copying()), "support.producers.Producer", "__dlpack__"),
    "a capsule": (
        lambda: np.zeros(3, "u1").__dlpack__(copy=True, max_version=(1, 0)),
        "PyCapsule",
        "dltensor_versioned",
    ),
}


@pytest.mark.parametrize("target", LOST)
def test_a_target_that_gives_copies_is_refused(target):
    make, kind, protocol = LOST[target]
    obj = make()
    refused(lambda: copy_into(b"abc", obj), "writes-lost", hint="write into a new array", type=kind, protocol=protocol)


@pytest.mark.parametrize("obj", [Interface(copies=True), Struct(), copying(), asdlpack(copying())])
def test_a_copy_is_not_borrowed_to_be_written(obj):
    refused(borrow(obj, readonly=False).__enter__, "writes-lost", hint="write into a new array")
    with borrow(obj) as tensor:
        assert tensor.contents.shape[0] == 3


def test_a_target_that_gives_its_own_memory_by_another_object_is_written():
    for target in Interface(copies=False), Interface(copies=False, address=True):
        copy_into(b"abc", target)
        assert target.memory.tobytes() == b"abc"


# Ownership.


def test_nothing_is_kept_of_either_side():
    source, target = Producer(np.zeros(64, "u1")), Producer(np.zeros(64, "u1"))
    alive = weakref.ref(source), weakref.ref(target)
    copy_into(source, target)
    del source, target
    assert [x() for x in alive] == [None, None]
    memory = bytearray(8)
    copy_into(b"12345678", memory)
    memory.extend(b"9")  # not locked any more
    for arguments in (b"123", memory), (b"123", memory[:0]), (memory, b"123"), (np.zeros(3), memory):
        with pytest.raises((ValueError, BufferError)):
            copy_into(*arguments)
        memory.extend(b"9")


def test_references_are_as_they_were():
    arrays = [numbers(4, 6), numbers(6, 4).T, numbers(4, 6, dtype=">f4"), numbers(4, 6, dtype="f8"), numbers(3)]
    objects = [*arrays, asdlpack(numbers(4, 6)), bytearray(4), b"1234", None, np.zeros((4, 6), "f4").view(np.matrix)]
    pairs = [*itertools.product(objects, repeat=2)]

    def attempt():
        for source, target in pairs:
            try:
                copy_into(source, target)
            except (TypeError, ValueError, BufferError):
                pass

    attempt()
    gc.collect()  # of what other tests left, some holds the same bytes
    before = [sys.getrefcount(obj) for obj in objects[:-2]], sys.getallocatedblocks()
    for _ in range(20):
        attempt()
    gc.collect()
    assert [sys.getrefcount(obj) for obj in objects[:-2]] == before[0]
    assert sys.getallocatedblocks() - before[1] < 20


def test_the_target_is_locked_while_its_source_is_read():
    target, refused = bytearray(64), []

    def meddle(**arguments):
        with pytest.raises(BufferError, match="re-sized"):
            target.extend(b"more")
        refused.append(True)
        return np.ones(64, "u1").__dlpack__(**arguments)

    copy_into(Producer(meddle), target)
    assert refused == [True]
    assert target == b"\1" * 64


def test_threads_copy_into_parts_of_one_target():
    parts, rows = 8, 64
    target, source = np.zeros((parts * rows, 999), "f4"), numbers(parts * rows, 999)

    def work(number):
        mine = slice(number * rows, (number + 1) * rows)
        for _ in range(50):
            copy_into(source[mine], target[mine])
            copy_into(source[mine, ::-1], target[mine, ::-1])

    in_threads(work, parts)
    assert same(target, source)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.ones((2048, 2048), "f4").T, np.zeros((2048, 2048), "f4")),
        (np.ones(3 << 20, "u1"), np.zeros(3 << 20, "u1")),
        (np.ones(64 << 20, "u1"), np.zeros(64 << 20, "u1")),
        (np.ones((1024, 1024), "f4")[::-1], np.zeros((1024, 1024), "f4")),
    ],
    ids=["transposed", "compact", "large", "rows"],
)
def test_other_threads_run_during_a_large_copy(source, target):
    held, ran = threading.Lock(), []
    held.acquire()
    copy_into(source, target)  # from here on, C knows both

    def wait():
        held.acquire()
        ran.append(True)

    thread = threading.Thread(target=wait)
    before = sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000)  # from here on, the other thread runs only if this one releases the GIL
        held.release()
        copy_into(source, target)
        while not ran:
            copy_into(source, target)
    finally:
        sys.setswitchinterval(before)
        thread.join()
    assert target.all()
