"""copy_into between the three ways to store items smaller than a byte: packed, in pairs (lanes), padded to a byte."""

import itertools
from functools import partial

import ml_dtypes
import numpy
import numpy as np
import pytest

import dlpack
from dlpack import asdlpack, copy_into, frombuffer
from support.capi import READ_ONLY, SUBBYTE_TYPE_PADDED, Managed
from support.hints import expression_of, hint_of
from support.refusals import refused as call_refused

# name: bits, and the lanes that fill bytes
SMALL = {
    "int4": (4, 2),
    "uint4": (4, 2),
    "float4_e2m1fn": (4, 2),
    "int2": (2, 4),
    "uint2": (2, 4),
    "float6_e2m3fn": (6, 4),
    "float6_e3m2fn": (6, 4),
}
SHAPES = [(8,), (3, 8), (2, 1, 4), (0, 4), (3, 0)]


def padded(name, shape):
    """Items 0, 1, 2, ..., as ml_dtypes has them."""
    bits, _ = SMALL[name]
    return (np.arange(np.prod(shape), dtype="u1") % (1 << bits)).reshape(shape).view(getattr(ml_dtypes, name))


def codes(array):
    return np.ascontiguousarray(array).view("u1").tolist()


def in_bytes(name, items):
    """The bytes of packed items: the lowest bits come first."""
    bits, _ = SMALL[name]
    number = sum(code << (bits * i) for i, code in enumerate(np.ravel(codes(items)).tolist()))
    return number.to_bytes(-(-items.size * bits // 8), "little")


def pairs(name, shape, order="C"):
    """Room for items in lanes, and its bytes; "F" is column-major."""
    bits, lanes = SMALL[name]
    shape = (*shape[:-1], shape[-1] // lanes)
    memory = bytearray(int(np.prod(shape)) * lanes * bits // 8)
    strides = np.zeros(shape, "u1", order=order).strides
    return frombuffer(memory, f"{name}x{lanes}", shape, strides=None if order == "C" else strides), memory


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_every_small_type_is_packed_and_padded_by_lanes(name, shape):
    """In lanes the bytes are those of packed items, of which more than one fill a byte."""
    items = padded(name, shape)
    laned, memory = pairs(name, shape)
    copy_into(items, laned)
    assert memory == in_bytes(name, items)
    packed = frombuffer(bytearray(len(memory)), name, shape)
    copy_into(laned, packed)
    assert bytes(packed) == bytes(memory)
    again, second = pairs(name, shape)
    copy_into(packed, again)
    assert second == memory
    for source in laned, packed:
        room = np.zeros(shape, items.dtype)
        copy_into(source, room)
        assert codes(room) == codes(items)


LAYOUTS = {
    "compact": lambda shape, dtype: np.zeros(shape, dtype),
    "column-major": lambda shape, dtype: np.zeros(shape[::-1], dtype).T,
    "reversed": lambda shape, dtype: np.zeros(shape, dtype)[::-1, ::-1],
    "every second": lambda shape, dtype: np.zeros([2 * n for n in shape], dtype)[::2, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", "CF")
def test_padded_items_of_any_layout_are_paired_and_unpaired(layout, order):
    items = LAYOUTS[layout]((4, 6), ml_dtypes.int4)
    items[...] = (np.arange(24).reshape(4, 6) % 16 - 8).astype(ml_dtypes.int4)
    laned, memory = pairs("int4", (4, 6), order)
    copy_into(items, laned)
    assert bytes(laned) == in_bytes("int4", items)
    room = LAYOUTS[layout]((4, 6), ml_dtypes.int4)
    copy_into(laned, room)
    assert room.tolist() == items.tolist()


def of_pairs(memory, shape, strides, **fields):
    managed = Managed(memory.ctypes.data, shape=shape, strides=strides, dtype=(17, 4, 2), **fields)
    return asdlpack(managed.capsule())


@pytest.mark.parametrize("packs", [False, True])
def test_pairs_with_gaps_leave_the_gaps_alone(packs):
    items, memory = padded("float4_e2m1fn", (2, 4)), np.full(8, 0xFF, "u1")
    source = items
    if packs:
        source = frombuffer(bytearray(4), "float4_e2m1fn", (2, 4))
        copy_into(items, source)
    copy_into(source, of_pairs(memory, (2, 2), (4, 2)))
    assert memory.tolist() == [0x10, 0xFF, 0x32, 0xFF, 0x54, 0xFF, 0x76, 0xFF]


def test_pairs_come_from_reversed_memory():
    memory = np.array([0x10, 0x32, 0x54, 0x76], "u1")
    source = of_pairs(memory[3:], (4,), (-1,))
    packed, room = frombuffer(bytearray(4), "float4_e2m1fn", 8), np.zeros(8, ml_dtypes.float4_e2m1fn)
    copy_into(source, packed)
    copy_into(source, room)
    assert (bytes(packed).hex(), codes(room)) == ("76543210", [6, 7, 4, 5, 2, 3, 0, 1])


def test_pairs_over_their_own_packed_memory_are_read_first():
    memory = np.array([0x10, 0x32, 0x54, 0x76], "u1")
    copy_into(of_pairs(memory[3:], (4,), (-1,)), frombuffer(memory, "float4_e2m1fn", 8))
    assert memory.tobytes().hex() == "76543210"
    copy_into(frombuffer(memory, "float4_e2m1fn", 8), frombuffer(memory, "float4_e2m1fnx2", 4))
    assert memory.tobytes().hex() == "76543210"


def test_padded_items_over_their_own_pairs_are_read_first():
    memory = np.arange(8, dtype="u1")
    copy_into(memory.view(ml_dtypes.uint4), frombuffer(memory[:4], "uint4x2", 4))
    assert memory.tobytes().hex() == "1032547604050607"
    copy_into(frombuffer(memory[:4], "uint4x2", 4), memory.view(ml_dtypes.uint4))
    assert memory.tolist() == [*range(8)]


def test_bits_of_an_item_beyond_its_own_are_dropped():
    """ml_dtypes sign-extends int4; whoever else fills a byte may leave anything in it."""
    items = np.array([0xF1, 0xE2], "u1").view(ml_dtypes.int4)
    laned, memory = pairs("int4", (2,))
    copy_into(items, laned)
    assert memory == b"\x21"


@pytest.mark.parametrize("flags", [0, SUBBYTE_TYPE_PADDED])
def test_a_read_only_target_of_small_items_is_refused(flags):
    memory = np.zeros(4, "u1")
    target = Managed(memory.ctypes.data, shape=(4,), dtype=(17, 4, 1), flags=READ_ONLY | flags).capsule()
    call_refused(lambda: copy_into(frombuffer(bytes(2), "float4_e2m1fnx2"), target), "read-only-target")


# Refusals.


def refused(source, target):
    before = bytes(asdlpack(target))
    with pytest.raises(ValueError) as caught:
        copy_into(source, target)
    assert bytes(asdlpack(target)) == before
    return caught.value


@pytest.mark.parametrize(
    ("single", "laned", "expected"),
    [
        ((5,), (2,), "(4,)"),
        ((5,), (3,), "(6,)"),
        ((), (1,), "(2,)"),
        ((4,), (2, 1), "(2, 2)"),
        ((2, 2), (2,), "(4,)"),
        ((4, 2), (2, 2), "(2, 4)"),
        ((1, 0), (0,), "(0,)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_another_shape_or_an_odd_length_names_the_one_expected(single, laned, expected, is_packed):
    items = np.zeros(single, ml_dtypes.int4)
    if is_packed:
        items = frombuffer(bytearray((int(np.prod(single)) + 1) // 2), "int4", single)
    pair = frombuffer(bytearray(int(np.prod(laned))), "int4x2", laned)
    for side, sides in ("source", (items, pair)), ("target", (pair, items)):
        error = refused(*sides)
        assert (error.reason, error.details["expected"], error.details["single"]) == ("shapes-differ", expected, side)


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_hint_for_as_many_items_of_another_shape_works(is_packed):
    items = padded("int4", (4, 2))
    target, memory = pairs("int4", (2, 4))
    source = items
    if is_packed:
        source = frombuffer(bytearray(4), "int4", (4, 2))
        copy_into(items, source)
    copy_into(eval(expression_of(hint_of(str(refused(source, target))))), target)
    assert memory == in_bytes("int4", items)
    source, room = target, np.zeros((4, 2), ml_dtypes.int4)  # noqa: F841  # that the hint calls
    copy_into(eval(expression_of(hint_of(str(refused(source, room))))), room)
    assert room.tolist() == items.tolist()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("int4", "uint4"), ("int4x2", "uint4x2"), ("int4", "float4_e2m1fn"), ("int4x2", "int4x4"), ("int2", "int4")],
)
def test_other_pairs_of_small_types_say_what_can_be_packed(given, wanted):
    error = refused(frombuffer(bytes(4), given), frombuffer(bytearray(4), wanted))
    assert error.reason == "types-differ"
    assert "packed, padded or in lanes" in str(error)


AS_NUMBERS = {
    "packed": lambda: frombuffer(b"\x21\xf3", "int4", 4),
    "padded": lambda: asdlpack(np.array([1, 2, 3, -1], ml_dtypes.int4)),
    "bfloat16": lambda: frombuffer(np.array([1, 2, 3, -1], ml_dtypes.bfloat16), "bfloat16"),
}


@pytest.mark.parametrize("case", AS_NUMBERS)
def test_the_hint_for_items_of_ml_dtypes_as_numbers_works(case):
    source, target = AS_NUMBERS[case](), np.zeros(4, "f4")
    copy_into(eval(expression_of(hint_of(str(refused(source, target))))), target)
    assert target.tolist() == [1, 2, 3, -1]


def test_the_hints_for_bytes_of_packed_items_work():
    source = np.array([[0x21, 0xF3]], "u1")
    target = np.zeros((1, 4), ml_dtypes.int4)
    copy_into(eval(expression_of(hint_of(str(refused(source, target))))), target)
    assert target.tolist() == [[1, 2, 3, -1]]
    source, target = target, bytearray(2)
    copy_into(source, eval(expression_of(hint_of(str(refused(source, target))))))
    assert target == b"\x21\xf3"


@pytest.mark.parametrize("shape", [(4,), (3, 2), (0, 2)], ids=str)
def test_the_way_from_pairs_to_numpy_works(shape):
    x = frombuffer(bytearray(range(int(np.prod(shape)))), "float4_e2m1fnx2", shape)
    for ask in numpy.asarray, lambda x: dlpack.to(x, "numpy"):
        error = call_refused(partial(ask, x), "not-in-numpy")
        names = {"numpy": numpy, "ml_dtypes": ml_dtypes, "dlpack": dlpack, "x": x}
        exec("; ".join(hint_of(str(error)).split("; ")[:2]).removesuffix(" unpacks it"), names)
        assert codes(names["a"].reshape(-1)) == [*itertools.chain(*((b & 15, b >> 4) for b in bytes(x)))]


def test_the_way_from_packed_items_to_numpy_works():
    x = frombuffer(b"\x21\xf3", "int4", (2, 2))
    error = call_refused(lambda: numpy.asarray(x), "packed-for-numpy")
    made = eval(hint_of(str(error)).partition(" unpacks")[0])
    assert (made.dtype, made.tolist()) == (ml_dtypes.int4, [[1, 2], [3, -1]])


@pytest.mark.parametrize("carrier", [lambda x: x, lambda x: x.dtype], ids=["object", "dtype"])
@pytest.mark.parametrize("name", SMALL)
def test_the_dtype_of_an_object_says_if_items_are_padded(name, carrier):
    """As an argument, it means what the object has; its text alone means packed items."""
    array = padded(name, (8,))
    x, packed = asdlpack(array), frombuffer(in_bytes(name, array), name)
    assert x.dtype == packed.dtype == name
    for again in frombuffer(x, carrier(x), x.shape), dlpack.from_pointer(x.pointer, x.shape, carrier(x)):
        assert codes(dlpack.to(again, "numpy", copy=False)) == codes(array)
    again = frombuffer(packed, carrier(packed))
    assert (again.shape, again.nbytes) == (packed.shape, packed.nbytes)
