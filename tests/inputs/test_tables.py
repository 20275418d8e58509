"""Tables as matrices, and Arrow items of a fixed number of bytes, of a producer in C: values, refusals, releases."""

import ctypes
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, frombuffer
from support.alone import alone
from support.arrow_c import ArrowArray, ArrowSchema, Column, Stream, bits, pointers
from support.refusals import refused

FORMATS = {"i1": b"c", "u1": b"C", "i2": b"s", "f2": b"e", "i4": b"i", "u4": b"I", "f4": b"f", "i8": b"l", "f8": b"g"}
NUMBERS = np.arange(12, dtype="i4")


def table(*columns, length=None, **fields):
    array = {"length": columns[0].array.length if length is None else length, **fields.pop("array", {})}
    return Column(b"+s", children=columns, array=array, **fields)


def numbers(dtype, *shape):
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


def columns_of(array, spare=0):
    """The columns of a matrix, each with `spare` more items before it, and that offset."""
    made = []
    for column in array.T:
        items = np.concatenate([np.full(spare, 7, array.dtype), column])
        fields = {"length": len(column), "offset": spare}
        made.append(Column(FORMATS[array.dtype.str[1:]], items, array=fields))
    return made


def named(column, name):
    column.schema.name = name
    return column


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(1, 2), (7, 3), (1000, 8), (33, 70)])
@pytest.mark.parametrize("copy", [None, True])
def test_table_becomes_a_row_major_matrix(dtype, shape, copy):
    array = numbers(dtype, *shape)
    made = table(*columns_of(array, spare=shape[0] % 5))
    x = asdlpack(made.exporter(), copy=copy)
    assert made.released == (1, 1)
    assert (x.shape, x.strides, x.dtype) == (shape, (shape[1], 1), asdlpack(array).dtype)
    assert (x.readonly, x.obj) == (False, None)
    assert x.pointer % 64 == 0
    result = np.from_dlpack(x)
    assert np.array_equal(result, array)
    result[0, 0] += 1  # the memory is the object's own
    assert np.array_equal(np.from_dlpack(x), result)


def test_chunks_of_a_table_follow_each_other():
    arrays = [numbers("f8", rows, 3) for rows in (4, 0, 1, 9)]
    stream = Stream(*[table(*columns_of(array, spare=i)) for i, array in enumerate(arrays)])
    x = asdlpack(stream.exporter(), copy=None)
    assert np.array_equal(np.from_dlpack(x), np.concatenate(arrays))
    assert (stream.released, stream.schema.schema_released) == (1, 1)
    assert [chunk.array_released for chunk in stream.chunks] == [1] * 4


def test_offset_of_a_table_applies_to_its_columns():
    array = numbers("i4", 9, 2)
    made = table(*columns_of(array, spare=2), length=4, array={"offset": 3})
    assert np.array_equal(np.from_dlpack(asdlpack(made.exporter(), copy=None)), array[3:7])


def test_columns_longer_than_their_table_are_cut():
    array = numbers("i4", 9, 2)
    made = table(*columns_of(array), length=4)
    assert np.array_equal(np.from_dlpack(asdlpack(made.exporter(), copy=None)), array[:4])


@pytest.mark.parametrize("chunks", [0, 1])
def test_table_without_rows_is_an_empty_matrix(chunks):
    made, other = [table(*columns_of(np.empty((0, 3), "f4"))) for _ in range(2)]
    stream = Stream(*[other] * chunks, schema=other)
    for exporter in made.exporter(), stream.exporter():
        x = asdlpack(exporter, copy=None)
        assert (x.shape, x.dtype, x.pointer) == ((0, 3), "float32", 0)


def test_bit_packed_columns_become_bytes():
    array = np.random.default_rng(0).integers(0, 2, (50, 5)).astype(bool)
    made = []
    for i, column in enumerate(array.T):
        packed = np.packbits(np.concatenate([np.ones(i, bool), column]), bitorder="little")
        made.append(Column(b"b", packed, array={"length": 50, "offset": i}))
    made.append(Column(b"c", array[:, 0].copy().view("i1"), extension=(b"arrow.bool8", b"")))
    x = asdlpack(table(*made).exporter(), copy=None)
    assert x.dtype == "bool"
    assert np.array_equal(np.from_dlpack(x), np.column_stack([array, array[:, 0]]))


def test_columns_of_lance_bfloat16_become_a_matrix():
    array = np.array([[0x3F80, 0x4000], [0x4040, 0x4080]], "u2")
    made = [Column(b"w:2", column.copy(), extension=(b"lance.bfloat16", b"")) for column in array.T]
    x = asdlpack(table(*made).exporter(), copy=None)
    assert (x.dtype, x.shape) == ("bfloat16", (2, 2))
    assert np.array_equal(np.asarray(frombuffer(x, "uint16", (2, 2))), array)


def test_table_is_copied_into_memory():
    array, target = numbers("f4", 5, 3), np.zeros((5, 3), "f4")
    copy_into(table(*columns_of(array)).exporter(), target)
    assert np.array_equal(target, array)


def test_device_cpu_keeps_the_matrix():
    array = numbers("f4", 5, 3)
    x = asdlpack(table(*columns_of(array)).exporter(), copy=None, device="cpu")
    assert np.array_equal(np.from_dlpack(x), array)


# Refusals.


def two(second, first=None, **fields):
    return table(named(first or Column(items=NUMBERS), b"a"), named(second, b"b"), **fields)


def nulled(first, count=1):
    """Items of which the first `count` are null."""
    return Column(items=NUMBERS, validity=bits(*[0] * count, *[1] * (12 - count)), array={"null_count": first})


REFUSED = [
    ("two(Column(items=NUMBERS))", "columns", None),
    ("two(Column(b'f', NUMBERS.view('f4')))", "column-types", "b"),
    ("two(nulled(-1))", "nulls", "b"),
    ("two(Column(items=NUMBERS), nulled(1))", "nulls", "a"),
    ("two(Column(items=NUMBERS), validity=bits(*[0, 1] * 6), array={'null_count': -1})", "nulls", None),
    ("two(Column(b'u', NUMBERS))", "text", "b"),
    ("two(Column(items=NUMBERS), Column(b'u', NUMBERS))", "text", "a"),
    ("two(Column(b'd:5,2', NUMBERS))", "decimals", "b"),
    ("two(Column(b'ttm', NUMBERS))", "times", "b"),
    ("two(Column(b'w:4', NUMBERS))", "bytes", "b"),
    ("two(Column(b'+w:1', children=[Column(items=NUMBERS)], array={'length': 12}))", "lists", "b"),
    ("two(Column(b'+l', children=[Column(items=NUMBERS)], array={'length': 12}))", "lists", "b"),
    ("two(table(Column(items=NUMBERS), Column(items=NUMBERS)))", "structure", "b"),
    ("two(table(Column(items=NUMBERS)))", "structure", "b"),
    ("two(Column(items=NUMBERS, schema={'dictionary': NUMBERS.ctypes.data}))", "dictionary", "b"),
]


@pytest.mark.parametrize(("made", "reason", "column"), REFUSED)
def test_refused_table_names_the_column_and_is_released(made, reason, column):
    make = partial(eval, made, globals())
    for copy in (False,) if reason == "columns" else (False, None, True):
        made, chunks = make(), [make(), make()]
        stream = Stream(*chunks)
        for obj in made.exporter(), stream.exporter():
            assert refused(partial(asdlpack, obj, copy=copy), reason).details.get("column") == column
        assert made.released == (1, 1)
        assert (stream.released, stream.schema.schema_released) == (1, 1)
        assert [chunk.array_released for chunk in chunks] == [1, 1]


def test_table_is_refused_without_copy_and_the_way_out_works():
    made = two(Column(items=NUMBERS))
    hint = "pass copy=None to copy them into one matrix"
    refused(lambda: asdlpack(made.exporter()), "columns", hint=hint, columns=2, names='"a", "b"')
    obj, hint = two(Column(items=NUMBERS)).exporter(), "pass asdlpack(obj, copy=None) to copy them into one matrix"
    refused(lambda: frombuffer(obj, "uint8"), "columns", hint=hint)
    x = asdlpack(two(Column(items=NUMBERS)).exporter(), copy=None)
    assert len(bytes(frombuffer(x, "uint8"))) == 96


def test_table_without_columns_is_refused():
    for copy in False, None, True:
        refused(partial(asdlpack, Column(b"+s", array={"length": 3, "n_buffers": 1}).exporter(), copy=copy), "columns")


def test_table_of_one_column_is_that_column():
    for copy in False, None:
        assert asdlpack(table(Column(items=NUMBERS)).exporter(), copy=copy).shape == (12,)


# Hostile producers.


def without(kind, column=None):
    """A column whose schema or array was released."""
    column = column or Column(items=NUMBERS)
    getattr(column, kind).release = (ArrowSchema if kind == "schema" else ArrowArray)().release
    return column


NULL = ctypes.POINTER(ctypes.c_void_p)()
MALFORMED = [
    ("two(Column(items=NUMBERS), schema={'n_children': 3})", "n_children"),
    ("two(Column(items=NUMBERS), array={'n_children': 3})", "n_children"),
    (
        "two(Column(items=NUMBERS), schema={'n_children': 2**62}, array={'n_children': 2**62})",
        "NULL|can't be read|released|too large|overflow",
    ),
    ("two(Column(items=NUMBERS), array={'n_children': 1})", "n_children"),
    ("two(Column(items=NUMBERS), schema={'children': pointers([None, None])})", "ArrowSchema.children is NULL"),
    ("two(Column(items=NUMBERS), array={'children': pointers([None, None])})", "ArrowArray.children is NULL"),
    ("two(Column(items=NUMBERS), schema={'children': NULL})", "ArrowSchema.children is NULL"),
    ("two(Column(items=NUMBERS), array={'children': NULL})", "ArrowArray.children is NULL"),
    ("two(Column(items=NUMBERS[:11]), length=12)", "is 11; expected 12 or more"),
    ("two(Column(items=NUMBERS), length=12, array={'offset': 1})", "expected 13"),
    ("two(Column(items=NUMBERS, array={'length': -1}))", "length of the array"),
    ("two(Column(items=NUMBERS, array={'offset': -1}))", "offset of the array"),
    ("two(without('schema'))", "schema that was not released"),
    ("two(without('array'))", "array that was not released"),
    ("two(Column(items=NUMBERS, array={'n_buffers': 1}))", "n_buffers"),
    ("two(Column(items=NUMBERS, array={'buffers': pointers([None, None])}))", "data is NULL"),
    ("two(Column(items=NUMBERS), length=2**62)", "expected 4611686018427387904|overflow 64 bits"),
]


@pytest.mark.parametrize(("made", "said"), MALFORMED)
def test_malformed_table_is_a_value_error_and_released_once(made, said):
    make = partial(eval, made, globals())
    for copy in False, None, True:
        made, chunks = make(), [make(), make()]
        stream = Stream(*chunks)
        for obj in made.exporter(), stream.exporter():
            with pytest.raises(ValueError, match=said):
                asdlpack(obj, copy=copy)
        assert made.released == (1, 1)
        assert all(child.schema_released + child.array_released == 0 for child in made.children)
        assert (stream.released, stream.schema.schema_released) == (1, 1)
        assert [chunk.array_released for chunk in chunks] == [1, 1]


def test_malformed_column_of_a_later_chunk_refuses_all():
    good, bad = two(Column(items=NUMBERS)), two(Column(items=NUMBERS, array={"n_buffers": 3}))
    stream = Stream(good, bad)
    refused(lambda: asdlpack(stream.exporter(), copy=None), "arrow-structure", ValueError)
    assert (stream.released, good.array_released, bad.array_released) == (1, 1, 1)


def test_nulls_of_a_later_chunk_name_their_column():
    stream = Stream(two(Column(items=NUMBERS)), two(nulled(-1, count=3)))
    refused(lambda: asdlpack(stream.exporter(), copy=None), "nulls", column="b", items=12, nulls=3)


def test_table_that_no_memory_can_hold_is_refused():
    """The lengths are lies, and no item is read before the memory is there."""
    column = Column(items=NUMBERS, array={"length": 2**59})
    refused(lambda: asdlpack(table(column, column).exporter(), copy=None), "no-memory", MemoryError, bytes=2**62)


# Items of a fixed number of bytes.


class Exporter:
    """Exports a column anew at each call, as libraries do."""

    def __init__(self, *args, **fields):
        self.make = lambda: Column(*args, **fields)
        self.made = []

    def __arrow_c_array__(self):
        self.made.append(self.make())
        return self.made[-1].capsules()


class StreamExporter:
    """Exports a stream of new chunks at each call."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.made = []

    def __arrow_c_stream__(self):
        self.made.append(Stream(*[make() for make in self.chunks]))
        return self.made[-1].capsule()

    def __len__(self):
        return 1


def test_refused_shape_of_a_stream_says_that_it_has_been_read():
    stream = Stream(Column(items=NUMBERS))
    error = refused(partial(frombuffer, stream.exporter(), "int8", (7, 7)), "out-of-bounds", ValueError)
    assert str(error).endswith("make this stream anew, if it can be read only once: it has been read")


@pytest.mark.parametrize("width", [1, 2, 3, 16])
@pytest.mark.parametrize("offset", [0, 2])
def test_fixed_size_binary_is_shared_as_bytes(width, offset):
    items = numbers("u1", 6, width)
    obj = Exporter(b"w:%d" % width, items, array={"length": 6 - offset, "offset": offset})
    x = frombuffer(obj, "uint8", (-1, width))
    column = obj.made[-1]
    assert (x.shape, x.pointer) == ((6 - offset, width), items.ctypes.data + offset * width)
    assert (x.readonly, x.protocol) == (True, "__arrow_c_array__")
    assert column.released == (0, 0)
    items[offset, 0] += 1
    assert np.array_equal(np.from_dlpack(x), items[offset:])
    del x
    assert [each.released for each in obj.made] == [(1, 1)] * len(obj.made)


def test_fixed_size_binary_is_read_as_any_type():
    obj = Exporter(b"w:4", np.arange(6, dtype="u4"))
    x = frombuffer(obj, "bfloat16", (-1, 2))
    assert (x.shape, x.dtype) == ((6, 2), "bfloat16")
    assert np.array_equal(np.asarray(frombuffer(obj, "u4", offset=8)), np.arange(2, 6))


def test_lists_of_fixed_size_binary_are_shared_as_bytes():
    items = numbers("u1", 4, 3)
    lists = Exporter(b"+w:2", children=[Column(b"w:3", items)], array={"length": 1, "offset": 1})
    x = frombuffer(lists, "uint8", (-1, 2, 3))
    assert np.array_equal(np.from_dlpack(x), items[None, 2:])


def test_chunks_of_fixed_size_binary_need_a_copy():
    items = numbers("u1", 6, 3)
    obj = StreamExporter(lambda: Column(b"w:3", items[:2]), lambda: Column(b"w:3", items[2:]))
    error = refused(lambda: frombuffer(obj, "uint8"), "chunks")
    assert "pass copy=None" in str(error)
    x = frombuffer(obj, "uint8", (-1, 3), copy=None)
    assert np.array_equal(np.from_dlpack(x), items)
    for stream in obj.made:
        assert (stream.released, stream.schema.schema_released) == (1, 1)
        assert [chunk.array_released for chunk in stream.chunks[: stream.given]] == [1] * stream.given


def test_fixed_size_binary_with_nulls_is_refused():
    obj = Exporter(b"w:2", numbers("u1", 6, 2), validity=bits(1, 1, 0, 1, 1, 1), array={"null_count": 1})
    refused(lambda: frombuffer(obj, "uint8"), "nulls", nulls=1, items=6)
    assert [each.released for each in obj.made] == [(1, 1)] * len(obj.made)


def test_fixed_size_binary_whose_method_is_lost_meanwhile_is_refused():
    class Loses:
        left = 2  # looks at the method

        def __getattr__(self, name):
            if name != "__arrow_c_array__" or self.left == 0:
                raise AttributeError(name)
            self.left -= 1
            return Column(b"w:2", numbers("u1", 6, 2)).capsules

    refused(lambda: frombuffer(Loses(), "uint8"), "no-protocol", TypeError)


def test_fixed_size_binary_is_not_numbers_for_asdlpack():
    refused(lambda: asdlpack(Column(b"w:2", numbers("u1", 6, 2)).exporter(), copy=None), "bytes")


@pytest.mark.parametrize("format", [b"w:9223372036854775807", b"w:9223372036854775808", b"w:-1", b"w:"])
def test_malformed_fixed_size_binary_is_refused(format):
    reason = "too-large" if format.endswith(b"807") else "data-type"
    refused(lambda: frombuffer(Exporter(format, numbers("u1", 6, 2)), "uint8"), reason, ValueError)


def test_lance_bfloat16_is_shared():
    items = np.array([0x3F80, 0x4000, 0x4040], "u2")
    column = Column(b"w:2", items, extension=(b"lance.bfloat16", b""), array={"length": 2, "offset": 1})
    x = asdlpack(column.exporter())
    assert (x.dtype, x.shape, x.pointer, x.readonly) == ("bfloat16", (2,), items.ctypes.data + 2, True)
    assert np.array_equal(np.asarray(frombuffer(x, "u2")), items[1:])


def test_bytes_of_another_extension_are_not_bfloat16():
    for format, name in (b"w:2", b"lance.bfloat17"), (b"w:4", b"lance.bfloat16"):
        obj = Column(format, numbers("u4", 6), extension=(name, b"")).exporter()
        refused(partial(asdlpack, obj), "bytes")


@alone  # a library that handles SIGSEGV and was imported after the core's start would take the fault
def test_unreadable_column_is_named_by_its_own_address():
    wild = Column(b"i", NUMBERS, array={"buffers": pointers([None, 0x8000])})
    made = table(*columns_of(NUMBERS[:, None]), wild, *columns_of(NUMBERS[:, None]))
    refused(lambda: asdlpack(made.exporter(), copy=None), "unreadable", address=0x8000)
    assert made.released == (1, 1)
