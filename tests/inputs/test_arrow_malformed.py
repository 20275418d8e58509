"""Arrow data of a producer in C: contradictions, streams that fail, and who releases what: each structure once."""

import ctypes
import errno
import itertools
import json
import mmap
import re
import resource
import signal
from functools import partial
from typing import Any

import numpy as np
import pytest

from dlpack import asdlpack
from support.alone import alone
from support.arrow_c import RELEASE, ArrowArray, ArrowArrayStream, ArrowSchema, Column, Stream, bits, metadata, pointers
from support.capi import Speaks, capsule_new
from support.libraries import library
from support.refusals import refused

NUMBERS = np.arange(12, dtype="i4")
TENSOR = b"arrow.fixed_shape_tensor"


def listed(child=None, size=2, **fields):
    """Fixed-size lists of a column, which is NUMBERS unless it is given."""
    child = child or Column(items=NUMBERS)
    array = {"length": child.array.length // size, **fields.pop("array", {})}
    return Column(b"+w:%d" % size, children=[child], array=array, **fields)


def batch(*children, **fields):
    return Column(b"+s", children=children, array={"length": 12, **fields.pop("array", {})}, **fields)


# Structures.

NOT_NULL = Column(items=NUMBERS)  # a structure whose address is as good as any
NO_RELEASE = {"release": ArrowSchema().release}


def deep(*sizes, length=0):
    """Lists of lists of these sizes."""
    column = Column(items=NUMBERS)
    for size in sizes:
        column = Column(b"+w:%d" % size, children=[column], array={"length": length})
    return column


# Go's TestColumnsThatContradictThemselvesAreRefused, of package arrow, has the others.
MALFORMED = [
    ("Column(b'q' * 5000, NUMBERS)", 'Arrow format "qqqqq', "unknown"),
    ("Column(b'+w:2', children=[NOT_NULL, NOT_NULL])", '"+w:2": malformed', "one child"),
    (
        "listed(Column(items=NUMBERS, array={'length': -1}), array={'length': 0})",
        'length of the array of format "i" is -1; expected 0 or more',
    ),
    ("deep(2**40, length=2**40)", "overflow 64 bits"),
    ("deep(2**40, 2**40)", "overflow 64 bits"),
    ("listed(array={'length': 4, 'offset': 3})", "is 12; expected 14 or"),
    ("batch(Column(items=NUMBERS), array={'offset': 1})", "is 12; expected 13 or more"),
    ("listed(schema={'children': pointers([None])})", "ArrowSchema.children is NULL"),
    ("listed(array={'children': pointers([None])})", "ArrowArray.children is NULL"),
    (
        "listed(Column(items=NUMBERS, schema=NO_RELEASE))",
        "ArrowSchema.release is NULL; expected a schema that was not released",
    ),
    (
        "listed(Column(items=NUMBERS, array={'release': ArrowArray().release}))",
        "ArrowArray.release is NULL; expected an array that was not released",
    ),
]


@pytest.mark.parametrize("row", MALFORMED, ids=lambda row: row[0])
def test_malformed_data_are_a_value_error_and_released_once(row):
    make, pattern = partial(eval, row[0], globals()), ".*".join(re.escape(text) for text in row[1:])
    column = make()
    with pytest.raises(ValueError, match=pattern):
        asdlpack(column.exporter())
    assert column.released == (1, 1)
    assert all(child.released == (0, 0) for child in column.children)  # its parent's release does that

    for copy in (False, None) if make().array.length else ():  # an empty chunk is passed over
        stream = Stream(make(), make())
        with pytest.raises(ValueError, match=pattern):
            asdlpack(stream.exporter(), copy=copy)
        assert (stream.released, stream.schema.schema_released) == (1, 1)
        assert [chunk.array_released for chunk in stream.chunks] == [1, 1]


def test_metadata_of_other_keys_and_extensions_change_nothing():
    for pairs in (
        {},
        {b"a": b"1", b"ARROW:extension": b"arrow.bool8"},
        {b"ARROW:extension:name": b"arrow.bool"},
        {b"": b""},
    ):
        held = ctypes.create_string_buffer(metadata(pairs))
        column = Column(b"c", NUMBERS.view("i1"), schema={"metadata": ctypes.addressof(held)})
        assert asdlpack(column.exporter()).dtype == "int8"
    last = metadata({b"PARQUET:field_id": b"7", b"ARROW:extension:name": b"arrow.bool8"})
    held = ctypes.create_string_buffer(last)
    column = Column(b"c", NUMBERS.view("i1"), schema={"metadata": ctypes.addressof(held)})
    assert asdlpack(column.exporter()).dtype == "bool"
    assert asdlpack(Column(b"s", NUMBERS.view("i2"), extension=(b"arrow.bool8", b"")).exporter()).dtype == "int16"
    assert asdlpack(Column(b"i", NUMBERS, extension=(TENSOR, b"{}")).exporter()).shape == (12,)


def tensor(content, size=6):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return listed(size=size, extension=(TENSOR, text))


# Go's TestMalformedTensorsAreRefused has the others, and FuzzTensor compares with encoding/json.
MALFORMED_TENSORS: dict[str, Any] = {
    "no text": (b"\xff\xfe\xfd", r'metadata is "\xff\xfe\xfd"; expected a JSON object'),
    "deep JSON": (b"[" * 100_000, 'metadata is "[[[[', '"...; expected a JSON object, nested at most 64 deep'),
    "too many dimensions": ({"shape": [1] * 63 + [6]}, 'shape is "[1, 1', "expected at most 63 dimensions"),
    "a permutation with a repetition": ({"shape": [2, 3], "permutation": [1, 1]}, 'permutation is "[1, 1]"; expected'),
}


@pytest.mark.parametrize("kind", MALFORMED_TENSORS)
def test_a_malformed_tensor_is_a_value_error(kind):
    content, *said = MALFORMED_TENSORS[kind]
    column = tensor(content)
    with pytest.raises(ValueError, match="arrow.fixed_shape_tensor: " + ".*".join(map(re.escape, said))):
        asdlpack(column.exporter())
    assert column.released == (1, 1)


def test_tensors_of_any_number_of_dimensions_are_read():
    assert asdlpack(tensor({"shape": [6], "permutation": [0], "dim_names": ["x"]}).exporter()).shape == (2, 6)
    assert asdlpack(tensor({"shape": [], "permutation": None}, size=1).exporter()).shape == (12,)
    assert asdlpack(tensor({"shape": [1] * 62 + [6]}).exporter()).ndim == 64
    empty = Column(b"+w:0", children=[NOT_NULL], array={"length": 2}, extension=(TENSOR, b'{"shape": [2, 0, 3]}'))
    assert asdlpack(empty.exporter()).shape == (2, 2, 0, 3)


@pytest.mark.parametrize("shape", [[0, 2**63], [0, 2**62, 2**62], [2**62, 2**62, 0]])
def test_empty_tensor_whose_dimensions_overflow_is_a_value_error(shape):
    column = Column(
        b"+w:0", children=[NOT_NULL], array={"length": 2}, extension=(TENSOR, json.dumps({"shape": shape}).encode())
    )
    with pytest.raises(ValueError, match=r"overflow|too large|expected a list of lengths from 0 to 2\^63 - 1"):
        asdlpack(column.exporter())


# Pointers to nowhere.

PAGES = mmap.mmap(-1, 2 * mmap.PAGESIZE)
WALL = ctypes.addressof(ctypes.c_char.from_buffer(PAGES)) + mmap.PAGESIZE  # the second page can't be read
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(WALL), mmap.PAGESIZE, 0) == 0

WILD = {
    "below the first page": 8,
    "a page that can't be read": WALL,
    "beyond what processors have": 0x7000_0000_0000_0000,
    "the last address": 2**64 - 1,
}


def poke(structure, field, value):
    """Writes a pointer, whatever ctypes takes it for."""
    offset = getattr(type(structure), field).offset
    ctypes.c_uint64.from_address(ctypes.addressof(structure) + offset).value = value


def with_wild(structure, field, make=listed):
    def column(address):
        made = make()
        poke(getattr(made, structure), field, address)
        return made

    return column


WILD_FIELDS = {
    "format": (with_wild("schema", "format"), "ArrowSchema.format"),
    "metadata of lists": (with_wild("schema", "metadata"), "ArrowSchema.metadata"),
    "metadata of bytes": (
        with_wild("schema", "metadata", lambda: Column(b"c", NUMBERS.view("i1"))),
        "ArrowSchema.metadata",
    ),
    "child schemas": (with_wild("schema", "children"), "ArrowSchema.children"),
    "child arrays": (with_wild("array", "children"), "ArrowArray.children"),
    "a child schema": (lambda address: listed(schema={"children": pointers([address])}), "ArrowSchema.children"),
    "a child array": (lambda address: listed(array={"children": pointers([address])}), "ArrowArray.children"),
    "a child's format": (
        lambda address: listed(with_wild("schema", "format", lambda: Column(items=NUMBERS))(address)),
        "ArrowSchema.format",
    ),
    "a column's name": (
        lambda address: batch(
            Column(items=NUMBERS), with_wild("schema", "name", lambda: Column(b"d:5,2", NUMBERS))(address)
        ),
        "ArrowSchema.name",
    ),
    "buffers": (with_wild("array", "buffers", lambda: Column(items=NUMBERS)), "ArrowArray.buffers"),
    "buffers of lists": (with_wild("array", "buffers"), "ArrowArray.buffers"),
    "the bitmap of nulls": (
        lambda address: Column(items=NUMBERS, array={"null_count": -1, "buffers": pointers([address, 64])}),
        "the validity bitmap in ArrowArray.buffers",
    ),
}


# These run alone: a library that takes SIGSEGV over after the core's start, as tvm-ffi does, keeps the faults from Go.


@pytest.mark.parametrize("address", WILD)
@alone
def test_a_pointer_to_nowhere_is_a_value_error_that_names_it(address):
    for make, field in WILD_FIELDS.values():
        expected = f"{field} leads to 0x{WILD[address]:x}, which can't be read; expected an address that is mapped"
        column, chunk = make(WILD[address]), make(WILD[address])
        with pytest.raises(ValueError, match=f"__arrow_c_array__: {re.escape(expected)}"):
            asdlpack(column.exporter())
        assert column.released == (1, 1)
        stream = Stream(chunk, chunk)
        with pytest.raises(ValueError, match=f"__arrow_c_stream__: {re.escape(expected)}"):
            asdlpack(stream.exporter(), copy=None)
        assert (stream.released, chunk.schema_released) == (1, 1)


@alone
def test_metadata_that_reach_beyond_their_page_are_a_value_error():
    whole = metadata({b"ARROW:extension:name": TENSOR, b"ARROW:extension:metadata": b'{"shape": [2, 3]}'})
    for cut in range(1, len(whole)):
        ctypes.memmove(WALL - cut, whole, cut)
        column = listed(size=6, schema={"metadata": WALL - cut})
        refused(partial(asdlpack, column.exporter()), "unreadable", ValueError, field="ArrowSchema.metadata")
        assert column.released == (1, 1)
    ctypes.memmove(WALL - len(whole), whole, len(whole))
    assert asdlpack(listed(size=6, schema={"metadata": WALL - len(whole)}).exporter()).shape == (2, 2, 3)


@alone
def test_items_at_a_pointer_to_nowhere_are_refused_when_copied():
    for address in WILD.values():
        if address % 4 == 0:  # others are refused for that
            with pytest.raises(BufferError, match=f"the memory at 0x{address:x} can't be read"):
                asdlpack(Column(array={"length": 3, "buffers": pointers([None, address])}).exporter(), copy=True)
            chunk = Column(array={"length": 3, "buffers": pointers([None, address])})
            with pytest.raises(BufferError, match=f"the memory at 0x{address:x} can't be read"):
                asdlpack(Stream(chunk, chunk).exporter(), copy=None)


# Capsules.


@pytest.mark.parametrize(
    "answer",
    [
        lambda column: None,
        lambda column: column.capsules()[1],
        lambda column: list(column.capsules()),
        lambda column: (),
        lambda column: column.capsules()[:1],
        lambda column: (*column.capsules(), None),
        lambda column: column.capsules()[::-1],
        lambda column: (column.capsules()[0], "arrow_array"),
        lambda column: column.capsules(names=(None, None)),
        lambda column: column.capsules(names=(b"arrow_schema", b"arrow_device_array")),
        lambda column: column.capsules(names=(b"arrow_array", b"arrow_array")),
        lambda column: column.capsules(names=(b"dltensor", b"arrow_array")),
    ],
)
def test_no_pair_of_arrow_capsules_is_a_value_error_and_left(answer):
    column = Column(items=NUMBERS)
    obj = Speaks(__arrow_c_array__=lambda: answer(column))
    refused(lambda: asdlpack(obj), "wrong-answer", ValueError, protocol="__arrow_c_array__", capsule="arrow_array")
    assert column.released == (0, 0)
    assert asdlpack(column.exporter()).shape == (12,)


def test_an_error_outlives_the_destructor_of_a_capsule_that_is_refused():
    """A destructor may run Python while the error is pending."""
    destroyed = []
    destructor = RELEASE(destroyed.append)
    foreign = ctypes.cast(destructor, ctypes.c_void_p).value
    column, stream = Column(items=NUMBERS), Stream(Column(items=NUMBERS))

    def capsule(structure):
        return capsule_new(ctypes.addressof(structure), b"foreign", foreign)

    for obj in (
        Speaks(__arrow_c_array__=lambda: (capsule(column.schema), capsule(column.array))),
        Speaks(__arrow_c_stream__=lambda: capsule(stream.stream)),
    ):
        refused(partial(asdlpack, obj), "wrong-answer", ValueError)
    assert len(destroyed) == 3


@pytest.mark.parametrize("answer", [None, 3, (), "arrow_array_stream"])
def test_an_answer_other_than_a_capsule_is_a_value_error(answer):
    obj, found = Speaks(__arrow_c_stream__=lambda: answer), repr(answer)
    refused(lambda: asdlpack(obj), "wrong-answer", ValueError, capsule="arrow_array_stream", found=found)


@pytest.mark.parametrize("name", [None, b"arrow_array", b"arrow_device_array_stream", b"dltensor"])
def test_stream_capsule_of_another_name_is_a_value_error_and_left(name):
    stream = Stream(Column(items=NUMBERS))
    obj = Speaks(__arrow_c_stream__=lambda: stream.capsule(name))
    refused(lambda: asdlpack(obj), "wrong-answer", ValueError, capsule="arrow_array_stream")
    assert stream.released == 0
    assert asdlpack(stream.exporter()).shape == (12,)


def test_released_structures_are_refused_and_not_released_again():
    said = "Arrow{0}.release is NULL; expected {1} that was not released or moved"
    column = Column(items=NUMBERS, array={"release": ArrowArray().release})
    with pytest.raises(ValueError, match=said.format("Array", "an array")):
        asdlpack(column.exporter())
    assert column.released == (1, 0)
    column = Column(items=NUMBERS, schema=NO_RELEASE)
    with pytest.raises(ValueError, match=said.format("Schema", "a schema")):
        asdlpack(column.exporter())
    assert column.released == (0, 1)
    stream = Stream(Column(items=NUMBERS), stream={"release": ArrowArrayStream().release})
    with pytest.raises(ValueError, match=said.format("ArrayStream", "a stream")):
        asdlpack(stream.exporter())
    assert stream.given == 0


def test_an_array_serves_once_since_its_consumer_owns_it():
    column = Column(items=NUMBERS)
    x = asdlpack(column.exporter())
    refused(lambda: asdlpack(column.exporter()), "released", ValueError)
    assert column.released == (0, 0)
    assert np.from_dlpack(x).tolist() == NUMBERS.tolist()
    del x
    assert column.released == (1, 1)


def test_a_stream_serves_once():
    stream = Stream(Column(items=NUMBERS))
    capsule = stream.capsule()
    obj = Speaks(__arrow_c_stream__=lambda: capsule)
    x = asdlpack(obj)
    assert stream.released == 1
    refused(lambda: asdlpack(obj), "released", ValueError, field="ArrowArrayStream.release")
    assert x.shape == (12,)


@pytest.mark.parametrize("start", [0, 1, 8, 63, 64, 65, 130])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 150])
def test_an_unknown_number_of_nulls_is_counted_in_the_range_in_use(start, count):
    """Counts by 64-bit words as far as they fit."""
    valid = np.random.default_rng(start + count).integers(0, 2, 300)
    fields = {"offset": start, "length": count, "null_count": -1}
    column = Column(items=np.arange(300, dtype="i4"), validity=bits(*valid), array=fields)
    nulls = count - valid[start : start + count].sum()
    if nulls:
        refused(lambda: asdlpack(column.exporter()), "nulls", items=count, nulls=nulls)
    else:
        assert asdlpack(column.exporter()).shape == (count,)
    valid[start : start + count] = 1
    column = Column(items=np.arange(300, dtype="i4"), validity=bits(*valid), array=fields)
    assert asdlpack(column.exporter()).shape == (count,)


def test_lists_that_are_null_count_whatever_their_items_say():
    items = Column(items=np.arange(6, dtype="i4"), validity=bits(*[1] * 6), array={"null_count": -1})
    lists = Column(b"+w:2", children=[items], validity=bits(1, 0, 1), array={"length": 3, "null_count": 1})
    refused(lambda: asdlpack(lists.exporter()), "nulls", items=6, nulls=2)


def test_a_misaligned_chunk_is_copied_too():
    odd = np.frombuffer(bytes(1) + NUMBERS.tobytes(), "u1")[1:]
    chunks = [Column(items=NUMBERS), Column(items=odd, array={"length": 12})]
    x = asdlpack(Stream(*chunks).exporter(), copy=None)
    assert np.from_dlpack(x).tolist() == [*NUMBERS, *NUMBERS]
    refused(lambda: asdlpack(Column(items=odd, array={"length": 12}).exporter()), "misaligned", hint="copy=None")


def test_the_array_comes_before_the_stream():
    column, stream = Column(items=NUMBERS), Stream(Column(items=NUMBERS[:3]))
    both = Speaks(__arrow_c_array__=column.capsules, __arrow_c_stream__=stream.capsule)
    assert asdlpack(both).protocol == "__arrow_c_array__"
    both.__arrow_c_array__ = None
    x = asdlpack(both)
    assert (x.protocol, x.shape) == ("__arrow_c_stream__", (3,))
    both.__arrow_c_stream__ = None
    refused(lambda: asdlpack(both), "no-protocol", TypeError)


@pytest.mark.parametrize("error", [KeyError("inside"), ValueError("column x is text")])
@pytest.mark.parametrize("name", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_an_error_of_the_method_passes_through_as_it_is(name, error):
    def broken(requested_schema=None):
        raise error

    with pytest.raises(type(error)) as caught:
        asdlpack(Speaks(**{name: broken}))
    assert caught.value.args == error.args


# Lifetimes.


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_data_are_released_once_when_the_last_consumer_is_gone(order):
    for make in (lambda column: column.exporter()), (lambda column: Stream(column).exporter()):
        column = Column(items=NUMBERS)
        x = asdlpack(make(column))
        users = [x, np.from_dlpack(x), x.__dlpack__()]
        del x
        for user in order:
            assert column.released == (0, 0)
            users[user] = None
        assert column.released == (1, 1)


@pytest.mark.parametrize("copy", [None, True])
def test_copied_memory_is_released_at_once(copy):
    column = Column(b"b", np.packbits([1, 0, 1], bitorder="little"), array={"length": 3})
    assert np.from_dlpack(asdlpack(column.exporter(), copy=copy)).tolist() == [True, False, True]
    assert column.released == (1, 1)

    stream = Stream(Column(items=NUMBERS[:0]), Column(items=NUMBERS), Column(items=NUMBERS))
    x = asdlpack(stream.exporter(), copy=copy)
    assert np.from_dlpack(x).tolist() == [*NUMBERS, *NUMBERS]
    assert (stream.released, stream.schema.schema_released) == (1, 1)
    assert [chunk.array_released for chunk in stream.chunks] == [1, 1, 1]


def test_a_refusal_releases_all():
    stream = Stream(Column(items=NUMBERS), Column(items=NUMBERS), Column(items=NUMBERS))
    refused(lambda: asdlpack(stream.exporter()), "chunks")
    assert stream.given == 2  # and no chunk more than is needed to tell
    assert (stream.released, stream.schema.schema_released) == (1, 1)
    assert [chunk.array_released for chunk in stream.chunks] == [1, 1, 0]


# Streams.


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL, errno.ENOMEM, -1, 9999])
@pytest.mark.parametrize("said", [None, b"", b"the disk is on fire", b"\xff\xfe", b"long " * 1000])
def test_a_stream_that_fails_is_a_buffer_error_with_what_it_said(code, said):
    failing = {
        "get_schema": Stream(schema=Column(items=NUMBERS), fails={"get_schema": code}, said=said),
        "get_next": Stream(Column(items=NUMBERS), Column(items=NUMBERS), fails={"get_next": code}, said=said),
    }
    for callback, stream in failing.items():
        ask = partial(asdlpack, stream.exporter(), copy=None)
        found = refused(ask, "callback-failed", call=callback, errno=code, protocol="__arrow_c_stream__")
        if said and said.isascii():
            assert said.decode().strip()[:200] in str(found)
        assert len(str(found)) < 500
        assert stream.released == 1
        assert [chunk.array_released for chunk in stream.chunks] == [1] * stream.given
    assert [stream.schema.schema_released for stream in failing.values()] == [0, 1]


def test_a_stream_that_can_t_tell_what_failed_is_a_buffer_error():
    stream = Stream(
        schema=Column(items=NUMBERS),
        fails={"get_next": 5},
        stream={"get_last_error": ArrowArrayStream().get_last_error},
    )
    refused(lambda: asdlpack(stream.exporter()), "callback-failed", call="get_next", errno=5)


@pytest.mark.parametrize("callback", ["get_schema", "get_next"])
def test_a_stream_without_a_callback_is_a_value_error_and_left_as_it_is(callback):
    stream = Stream(Column(items=NUMBERS), stream={callback: getattr(ArrowArrayStream(), callback)})
    with pytest.raises(ValueError, match=f"ArrowArrayStream.{callback} is NULL; expected a function"):
        asdlpack(stream.exporter())
    assert stream.released == 0


def test_a_stream_that_gives_no_schema_is_a_value_error():
    stream = Stream(Column(items=NUMBERS), schema=Column(schema=NO_RELEASE))
    refused(lambda: asdlpack(stream.exporter()), "released", ValueError, field="ArrowSchema.release")
    assert stream.released == 1
    assert stream.chunks[0].array_released == 1


@pytest.mark.parametrize("field", ["release", "get_next"])
@pytest.mark.parametrize("callback", ["get_schema", "get_next"])
def test_a_stream_whose_callback_empties_it_is_a_value_error(callback, field):
    """Each callback gets the stream; one that fails may have released it."""
    stream = Stream(Column(items=NUMBERS), Column(items=NUMBERS))
    answer = getattr(stream, f"_{callback}")

    def emptying(given, out):
        setattr(ArrowArrayStream.from_address(given), field, getattr(ArrowArrayStream(), field))
        return answer(given, out)

    setattr(stream.stream, callback, dict(ArrowArrayStream._fields_)[callback](emptying))
    with pytest.raises(ValueError, match=f"ArrowArrayStream.{field} is NULL"):
        asdlpack(stream.exporter(), copy=None)
    assert stream.released == (field != "release")
    assert [chunk.array_released for chunk in stream.chunks] == [callback == "get_next", 0]


def test_a_later_chunk_that_is_malformed_or_has_nulls_refuses_all():
    for broken, error, said in [
        (Column(items=NUMBERS, array={"n_buffers": 3}), ValueError, "n_buffers"),
        (Column(items=NUMBERS, array={"length": -5}), ValueError, "is -5; expected 0 or more"),
        (Column(items=NUMBERS, validity=bits(*[1] * 11, 0), array={"null_count": -1}), BufferError, "1 of 12 items"),
    ]:
        stream = Stream(Column(items=NUMBERS), Column(items=NUMBERS), broken)
        with pytest.raises(error, match=said):
            asdlpack(stream.exporter(), copy=None)
        assert (stream.released, stream.schema.schema_released) == (1, 1)
        assert [chunk.array_released for chunk in stream.chunks] == [1, 1, 1]


@pytest.mark.parametrize("length", [2**59, 2**45])
def test_chunks_that_no_memory_can_hold_are_refused(length):
    column = Column(b"+w:1", children=[Column(items=NUMBERS, array={"length": length})], array={"length": length})
    stream = Stream(column, column)
    refused(lambda: asdlpack(stream.exporter(), copy=None), "no-memory", (MemoryError, ValueError))
    assert stream.released == 1


def test_the_callbacks_of_a_stream_are_called_without_the_gil():
    """A producer may wait for a thread that runs Python. As the callback, PyGILState_Check fails if the GIL is held."""
    for callback in "get_schema", "get_next":
        function = dict(ArrowArrayStream._fields_)[callback]
        held = ctypes.cast(ctypes.pythonapi.PyGILState_Check, function)
        stream = Stream(schema=Column(items=NUMBERS), stream={callback: held})
        if callback == "get_schema":  # which gives none
            refused(partial(asdlpack, stream.exporter()), "released", ValueError, field="ArrowSchema.release")
        else:
            assert asdlpack(stream.exporter()).shape == (0,)


def test_output_of_a_failing_callback_is_not_released():
    class Failing(Stream):
        def _get_schema(self, stream, out):
            return super()._get_schema(stream, out) or errno.EIO

    class FailingLater(Stream):
        def _get_next(self, stream, out):
            return super()._get_next(stream, out) or errno.EIO

    for kind in Failing, FailingLater:
        stream = kind(Column(items=NUMBERS))
        refused(partial(asdlpack, stream.exporter()), "callback-failed", errno=5)
        assert stream.released == 1
        assert stream.chunks[0].released == (0 if kind is Failing else 1, 0)


@alone
def test_a_stream_without_end_can_be_interrupted():
    class Alarm(Exception):
        pass

    def ring(signum, frame):
        raise Alarm

    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # bounds the stream if the interrupt fails
    column = Column(items=NUMBERS)
    with library("stream") as path:
        callback = ctypes.cast(ctypes.CDLL(path).get_next, dict(ArrowArrayStream._fields_)["get_next"])
    fields = {"get_next": callback, "private_data": ctypes.addressof(column.array)}
    stream = Stream(schema=column, stream=fields)
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(Alarm):
        asdlpack(stream.exporter(), copy=None)
    assert stream.released == 1


def test_only_the_nulls_within_a_slice_of_lists_count():
    for start, nulls in (0, 0), (1, 1), (2, 0):
        items = Column(items=np.arange(6, dtype="i4"), validity=bits(1, 1, 1, 0, 1, 1), array={"null_count": 1})
        lists = Column(b"+w:2", children=[items], array={"length": 1, "offset": start})
        if nulls:
            refused(partial(asdlpack, lists.exporter()), "nulls", items=2, nulls=1)
        else:
            assert np.asarray(asdlpack(lists.exporter())).tolist() == [[2 * start, 2 * start + 1]]
