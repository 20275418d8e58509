"""Whatever numpy can show, every protocol shows again; whatever an interface says, it is understood or refused."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlpack import asdlpack, frombuffer
from support.capi import Speaks, array_at
from support.layouts import DTYPES, PROTOCOLS
from support.refusals import refused
from support.views import same, views


def from_legacy(x):
    return np.from_dlpack(Speaks(__dlpack__=lambda **_: x.__dlpack__(), __dlpack_device__=x.__dlpack_device__))


WAYS_OUT = {
    "dltensor": from_legacy,
    "dltensor_versioned": np.from_dlpack,
    "buffer": lambda x: np.asarray(memoryview(x)),
    "__array_interface__": lambda x: np.asarray(Speaks(__array_interface__=x.__array_interface__, keep=x)),
    "__array_struct__": lambda x: np.asarray(Speaks(__array_struct__=x.__array_struct__, keep=x)),
    "__array__": lambda x: x.__array__(),
}


@settings(max_examples=1000)
@given(views(), st.sampled_from(list(PROTOCOLS)), st.sampled_from(list(WAYS_OUT)), st.booleans())
def test_every_view_goes_from_every_protocol_out_by_every_way(array, protocol, way, copy):
    x = asdlpack(PROTOCOLS[protocol](array), copy=copy)
    out = WAYS_OUT[way](x)
    assert same(out, array)
    assert same(array_at(x, array.dtype), array)
    assert (x.size, x.nbytes) == (array.size, array.nbytes)
    assert out.flags.c_contiguous or not copy
    if array.size:
        assert out.ctypes.data == x.pointer
        assert (out.ctypes.data == array.ctypes.data) == (not copy)


MEMORY = np.arange(256, dtype="u1")
INTERESTING = [0, 1, -1, 4, 8, 63, 64, 65, 255, 256, 2**31, 2**60, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64]
numbers = st.one_of(st.integers(-3, 9), st.sampled_from(INTERESTING), st.integers())
junk = st.one_of(
    st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.binary(max_size=5), st.just([1]), numbers
)
tuples = st.lists(st.one_of(st.integers(0, 5), numbers), max_size=5).map(tuple)
typestrs = st.one_of(
    st.sampled_from(["<f4", "|u1", "|b1", "<i2", ">i4", "<c8", "<f8", "<V2", "|O8", "<M8[s]"]),
    st.from_regex(r"[<>|=]?[a-zA-Z?]?-?[0-9]{0,3}(\[[a-z]+\])?", fullmatch=True),
    st.text(max_size=8),
)


MISSING = object()


def either(one, other):
    """As often the one as the other: one_of looks into what it is given, and counts all that it finds there."""
    return st.booleans().flatmap(lambda first: one if first else other)


@st.composite
def nearly(draw, valid, changes):
    """A valid dictionary, of which up to two fields are changed, or left out."""
    names = draw(either(st.just([]), st.lists(st.sampled_from(sorted(changes)), max_size=2, unique=True)))
    fields = {**draw(valid), **{name: draw(changes[name]) for name in names}}
    return {name: value for name, value in fields.items() if value is not MISSING}


outcomes: list[bool] = []  # of the test that runs: whether each example was accepted


@pytest.fixture(autouse=True)
def a_tenth_is_accepted():
    """Fails a test that accepts a tenth of its examples or fewer: it would hardly test more than refusals."""
    outcomes.clear()
    yield
    assert not outcomes or sum(outcomes) > len(outcomes) / 10


def understood(obj, keys, copy):
    """Returns asdlpack(obj), and asserts that its values are those that the interface describes."""
    x = asdlpack(obj, copy=copy)
    item = np.dtype(keys["typestr"])
    strides = keys.get("strides")
    if strides is None:
        strides = [item.itemsize * math.prod(keys["shape"][i + 1 :]) for i in range(len(keys["shape"]))]
    start = keys.get("offset", 0)
    values = []
    if 0 < x.size <= 4096:
        for index in np.ndindex(*keys["shape"]):
            at = start + sum(i * int(stride) for i, stride in zip(index, strides, strict=True))
            assert 0 <= at <= MEMORY.size - item.itemsize
            values.append(MEMORY[at : at + item.itemsize].view(item))
        native = item.newbyteorder("=")
        expected = np.array(values, item).astype(native).tobytes()
        assert array_at(x, native).tobytes() == expected
    assert x.shape == tuple(keys["shape"])
    return x


@settings(max_examples=1000)
@given(
    nearly(
        st.fixed_dictionaries(
            {
                "version": st.sampled_from([2, 3]),
                "typestr": st.sampled_from(["<f4", "|u1", "|b1", "<i2", ">i4", "<c8"]),
                "shape": st.lists(st.integers(0, 3), max_size=3).map(tuple),
            },
            optional={"strides": st.none(), "offset": st.sampled_from([0, 8, 40])},
        ),
        {
            "typestr": typestrs,
            "shape": tuples,
            "strides": st.one_of(st.none(), tuples, st.lists(st.integers(-3, 9), max_size=3).map(tuple)),
            "offset": st.one_of(st.integers(0, 64), numbers),
        },
    ),
    st.sampled_from([False, None, True]),
)
@example({"version": 3, "typestr": "<f4", "shape": (4, 4), "strides": (-16, 4), "offset": 48}, False)
@example({"version": 3, "typestr": "<f4", "shape": (65, 1)}, False)
@example({"version": 3, "typestr": ">i4", "shape": (3,), "strides": (7,), "offset": 3}, None)
def test_a_random_interface_of_a_buffer_gives_its_values_or_is_refused(keys, copy):
    if math.prod(size for size in keys["shape"] if size > 0) > 1 << 20:
        copy = False  # strides of 0 make a few bytes look like more than the machine has
    try:
        x = understood(Speaks(__array_interface__={**keys, "data": MEMORY}), keys, copy)
    except (ValueError, BufferError, MemoryError) as error:
        outcomes.append(False)
        assert str(error)
    else:
        outcomes.append(True)
        if copy is False and x.size:
            assert MEMORY.ctypes.data <= x.pointer < MEMORY.ctypes.data + MEMORY.size


anything = st.one_of(junk, tuples, typestrs, st.tuples(junk, junk), st.just(MISSING))
FIELDS = ["version", "shape", "typestr", "data", "strides", "offset", "mask", "descr"]
dictionaries = nearly(
    st.fixed_dictionaries(
        {
            "version": st.sampled_from([2, 3]),
            "shape": st.lists(st.integers(0, 3), max_size=3).map(tuple),
            "typestr": st.sampled_from(["<f4", "|u1", "|b1", "<i2", "<c8"]),
            "data": st.tuples(st.integers(0, 15).map(lambda item: MEMORY.ctypes.data + 8 * item), st.booleans()),
        },
        optional={"strides": st.none()},
    ),
    dict.fromkeys(FIELDS, anything),
)


@settings(max_examples=600)
@given(
    either(dictionaries, st.dictionaries(st.sampled_from(FIELDS), anything)),
    st.sampled_from(["__array_interface__", "__cuda_array_interface__"]),
)
def test_a_random_dictionary_is_described_or_refused(keys, name):
    try:
        x = asdlpack(Speaks(**{name: keys}))
        assert (repr(x), len(x.shape)) and x.ndim == len(x.strides)
    except (ValueError, BufferError) as error:
        outcomes.append(False)
        assert str(error)
    else:
        outcomes.append(True)


def bytes_as(dtype, shape, offset, strides):
    """The items that the arguments of frombuffer mean in MEMORY, each read by itself, or ValueError."""
    size = dtype.itemsize
    if -1 in shape:
        others = math.prod(length for length in shape if length != -1)
        if shape.count(-1) > 1 or strides is not None or others <= 0 or (MEMORY.size - offset) % (others * size):
            raise ValueError
        shape = [(MEMORY.size - offset) // (others * size) if length == -1 else length for length in shape]
    if strides is None:
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    if min(shape, default=0) < 0 or len(strides) != len(shape) or not 0 <= offset <= MEMORY.size:
        raise ValueError
    items = []
    for index in np.ndindex(*shape):
        at = offset + size * sum(i * stride for i, stride in zip(index, strides, strict=True))
        if not 0 <= at <= MEMORY.size - size:
            raise ValueError
        items.append(MEMORY[at : at + size].view(dtype))
    return np.array(items, dtype).reshape(shape)


@settings(max_examples=1000)
@given(
    st.sampled_from(DTYPES).map(np.dtype),
    st.lists(st.integers(-1, 9), max_size=4),
    st.one_of(st.just(0), st.integers(0, 260)),
    st.one_of(st.none(), st.lists(st.integers(-9, 9), max_size=4)),
    st.sampled_from([False, None, True]),
)
@example(np.dtype("f4"), [-1, 8], 0, None, False)
@example(np.dtype("f4"), [3, 2], 248, [-2, -9], False)
@example(np.dtype("i2"), [3], 1, None, None)
@example(np.dtype("i2"), [0], 260, None, False)
def test_frombuffer_gives_the_items_that_are_there_or_refuses(dtype, shape, offset, strides, copy):
    try:
        expected = bytes_as(dtype, shape, offset, strides)
    except ValueError:
        with pytest.raises(ValueError):
            frombuffer(MEMORY, dtype.name, shape, offset=offset, strides=strides, copy=copy)
        return
    alignment = np.dtype(dtype.type(0).real).itemsize if dtype.kind == "c" else dtype.itemsize
    misaligned = expected.size and (MEMORY.ctypes.data + offset) % alignment
    if misaligned and copy is False:
        refused(lambda: frombuffer(MEMORY, dtype.name, shape, offset=offset, strides=strides), "misaligned")
        return
    x = frombuffer(MEMORY, dtype.name, shape, offset=offset, strides=strides, copy=copy)
    assert same(array_at(x, dtype), expected)
    if expected.size:
        assert (x.pointer == MEMORY.ctypes.data + offset) == (not misaligned and not copy)
