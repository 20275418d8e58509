"""The ways out that errors name: each one, as it is typed in the text, gives what asdlpack takes."""

# ruff: noqa: F401  # the texts of tables name them
import bz2
import collections
import ctypes
import datetime
import gzip
import io
import mmap
import multiprocessing
import os
import pathlib
import re
import tarfile
import tempfile
import zipfile
from multiprocessing.shared_memory import SharedMemory
from urllib.request import urlopen

import ml_dtypes
import numpy
import pytest

import dlpack
from dlpack import asdlpack
from support.alone import uses_dev_shm
from support.capi import Speaks
from support.hints import follow, hint_of
from support.refusals import refused
from support.small_types import ALL, COMPLEX


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_short)]


class Bits(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int, 3), ("b", ctypes.c_int, 5)]


class Either(ctypes.Union):
    _fields_ = [("a", ctypes.c_int)]


def shared_memory():
    memory = SharedMemory(create=True, size=8)
    memory.unlink()
    return memory


def with_bytes(file):
    file.write(b"bytes")
    return file


def at_its_beginning(file):
    file.seek(0)
    return file


def pipe():
    reader, writer = os.pipe()
    os.write(writer, b"bytes")
    os.close(writer)
    return open(reader, "rb")


def saved(array):
    """What numpy.load makes of it: the file knows nothing of ml_dtypes."""
    file = io.BytesIO()
    numpy.save(file, array)
    file.seek(0)
    return numpy.load(file)


def arrays_in_a_file():
    file = io.BytesIO()
    numpy.savez(file, a=numpy.zeros(2))
    file.seek(0)
    return numpy.load(file)


class Refusing:
    """An object whose memory goes by __array__ alone."""

    def __init__(self, dtype):
        self.array = numpy.zeros(2, dtype)

    def __dlpack__(self, **words):
        raise BufferError("not in this state")

    def __dlpack_device__(self):
        return (1, 0)

    def __array__(self, dtype=None, copy=None):
        return self.array


TIMES = numpy.zeros(2, "M8[s]")
PAIRS = numpy.zeros(4, [("a", "i4"), ("b", "f4")])
FILE = pathlib.Path(__file__)
BUFFER = "memoryview(obj).cast('B')"
FLOATS = "numpy.asarray(obj).astype('float64')"
INTEGERS = "memoryview(memoryview(obj).tobytes()).cast('Q')"
LONG_DOUBLES = "numpy.frombuffer(memoryview(obj).tobytes(), 'g').astype('float64')"
AS_UINT8 = 'dlpack.frombuffer(x, "uint8")'

# Objects that are refused, and a part of the hint, which is run as it is written.
REFUSED = [
    ("numpy.str_('abc')", "numpy.asarray(obj)[..., None].view('uint32')"),
    ("numpy.array(['ab', 'c', 'd'])[::2]", "obj[..., None].view('uint32')"),
    ("numpy.array([b'1', b'2'])", "obj.astype('float64')"),
    ("numpy.char.array([b'1', b'2'])", FLOATS),
    ("numpy.array(['a'], '>U1')", "obj[..., None].view('>u4'), with copy=None"),
    ("numpy.array('abc')", "obj[..., None].view('uint32')"),
    ("numpy.array(['1', '2'], numpy.dtypes.StringDType())", "obj.astype(object).astype('float64')"),
    ("numpy.array(['1', None], numpy.dtypes.StringDType(na_object=None))", "obj.astype(object).astype('float64')"),
    ("numpy.bytes_(b'abc')", "numpy.asarray(obj)[..., None].view('uint8')"),
    ("numpy.array([b'ab', b'c', b'd'])[::2]", "obj[..., None].view('uint8')"),
    ("PAIRS", "obj['a'], with copy=None, one field"),
    ("PAIRS[::2]", "obj['a'], with copy=None, one field"),
    ("PAIRS[0]", "numpy.asarray(obj)['a'], with copy=None, one field"),
    ("numpy.zeros((2, 3), 'V3').T", "obj[..., None].view('uint8')"),
    ("numpy.zeros(2, [('object', 'O'), ('number', 'i4')])", "obj['number']"),
    ("(Bits * 2)()", BUFFER),
    ("Pair()", BUFFER),
    ("(Pair * 2)()", BUFFER),
    ("Either()", BUFFER),
    ("(ctypes.c_wchar * 2)()", BUFFER),
    ("memoryview((ctypes.c_wchar * 4)())[::2]", "memoryview(obj).tobytes()"),
    ("(ctypes.c_void_p * 2)()", "memoryview(obj).cast('B').cast('Q'), the addresses"),
    ("memoryview((ctypes.c_void_p * 4)())[::2]", INTEGERS),
    ("numpy.zeros(4, 'M8[s]')[::2]", "obj.view('int64')"),
    ("numpy.array([1], '>M8[s]')", "obj.astype('int64')"),
    ("numpy.datetime64('2000-01-01')", "numpy.asarray(obj).view('int64'), their ticks"),
    ("numpy.array([1, 2], object)", "obj.astype('float64')"),
    ("numpy.array([1j, 2], object)", "obj.astype('complex128')"),
    ("numpy.array([datetime.date(2000, 1, 1)], object)", "obj.astype('datetime64[us]').view('int64')"),
    ("numpy.array([numpy.zeros(2), numpy.zeros(2), None], object)[:2]", "numpy.stack(obj)"),
    ("numpy.zeros(2, 'g')", "obj.astype('float64')"),
    ("numpy.longdouble(1)", FLOATS),
    ("numpy.zeros(2, 'G')", "obj.astype('complex128')"),
    ("memoryview(numpy.zeros(2, 'g').data)", FLOATS),
    ("ctypes.c_longdouble()", LONG_DOUBLES),
    ("(ctypes.c_longdouble * 2 * 3)()", LONG_DOUBLES),
    ("memoryview((ctypes.c_longdouble * 4)())[::2]", LONG_DOUBLES),
    ("numpy.zeros(2, '>f4')", "copy=None to convert"),
    ("[1, 2]", "numpy.asarray(obj)"),
    ("[[1, 2], [3, 4]]", "numpy.asarray(obj)"),
    ("[[1], [2, 3]]", "numpy.asarray(obj[0]), and so on: its items one by one"),
    ("(1, [2, 3])", "numpy.asarray(obj[0])"),
    ("[numpy.zeros(2), numpy.zeros(3)]", "obj[0]"),
    ("[b'ab', b'c']", "obj[0]"),
    ("[numpy.float32(1), numpy.float32(2)]", "numpy.asarray(obj)"),
    ("collections.UserDict(a=numpy.zeros(2))", "obj['a'], and so on: its values one by one"),
    ("range(3)", "numpy.asarray(obj)"),
    ("collections.deque([1, 2])", "numpy.asarray(list(obj))"),
    (
        "saved(numpy.array([1, 2], ml_dtypes.bfloat16))",
        "if it was saved as bfloat16, pass dlpack.frombuffer(obj, 'bfloat16', obj.shape)",
    ),
    ("saved(numpy.array([1, 2], ml_dtypes.float8_e4m3fn))", "obj[..., None].view('uint8')"),
    ("PAIRS.view(numpy.recarray)", "numpy.asarray(obj)['a']"),
    ("numpy.zeros(2, [('a', 'U2'), ('b', 'i4')])", "obj['b']"),
    ("numpy.zeros(2, [('a', 'S2')])", "obj[..., None].view('uint8')"),
    ("numpy.array([1, 2], object).data", "numpy.asarray(obj).astype('float64')"),
    ("numpy.zeros(2, 'G').data", "astype('complex128')"),
    ("Speaks(__array_interface__=TIMES.__array_interface__)", "numpy.asarray(obj).view('int64')"),
    ("arrays_in_a_file()", "obj['a']"),
    ("{'a': 1}.values()", "numpy.asarray(list(obj))"),
    ("{'a': b'ab'}.values()", "list(obj)[0]"),
    ("frozenset([1])", "numpy.asarray(list(obj))"),
    ("map(float, [1])", "numpy.asarray(list(obj))"),
    ("filter(None, [1])", "numpy.asarray(list(obj))"),
    ("Refusing('f4')", "numpy.asarray(obj)"),
    ("Speaks(__array__=TIMES.view('i8').__array__)", "numpy.asarray(obj)"),
    ("(number for number in range(3))", "numpy.asarray(list(obj))"),
    ("{1, 2}", "numpy.asarray(list(obj))"),
    ("io.BytesIO(b'ab')", "obj.getbuffer()"),
    ("multiprocessing.Array('i', 3)", "obj.get_obj()"),
    ("shared_memory()", "dlpack.frombuffer(obj, 'uint8')"),
    ("str(FILE)", "dlpack.memmap(obj, 'uint8')"),
    ("io.StringIO('text')", "obj.getvalue().encode()"),
    ("FILE", "dlpack.memmap(obj, 'uint8'), which maps the file"),
    (
        "with_bytes(tempfile.TemporaryFile())",
        "after obj.flush() pass mmap.mmap(obj.fileno(), 0, access=mmap.ACCESS_COPY), which maps the file; if it is ",
    ),
    ("at_its_beginning(with_bytes(tempfile.SpooledTemporaryFile()))", "obj.read()"),
    ("pipe()", "obj.read()"),
    ("FILE.open('rb')", "mmap.mmap(obj.fileno(), 0, access=mmap.ACCESS_COPY)"),
]


def x_of(name):
    return asdlpack(numpy.zeros(4, getattr(ml_dtypes, name)))


def marks_of(made):
    if made in ("multiprocessing.Array('i', 3)", "shared_memory()"):
        return uses_dev_shm
    if numpy.dtype("g").itemsize == 8 and re.search("longdouble|'[gG]'", made):
        return pytest.mark.skip("on Windows they are doubles")
    return ()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # as it is typed, nobody closes the file
@pytest.mark.parametrize(("made", "words"), [pytest.param(*row, marks=marks_of(row[0]), id=row[0]) for row in REFUSED])
def test_a_way_out_works_as_the_error_has_it(made, words):
    obj = eval(made)
    with pytest.raises((BufferError, TypeError)) as caught:
        _ = asdlpack(obj).shape
    hint = hint_of(str(caught.value))
    assert words in hint
    assert len(hint) <= 200
    assert follow(str(caught.value), {**globals(), "obj": obj}).size > 0


CONTENT = b"one\ntwo"
MAPPED = "mmap.mmap(obj.fileno(), 0, access=mmap.ACCESS_COPY)"


def archive(path, kind, add):
    (path.parent / "item").write_bytes(CONTENT)
    with kind(path, "w") as file:
        getattr(file, add)(path.parent / "item", "name")
    return kind(path)


def compressed(path, module, mode):
    path.write_bytes(module.compress(CONTENT))
    return module.open(path, mode)


def plain(path, content, mode, **options):
    path.write_bytes(content)
    return open(path, mode, **options)


# Readable objects, the way out of their error, and the bytes that it gives.
READABLE = {
    "gzip": (lambda path: compressed(path, gzip, "rb"), "obj.read()"),
    "bz2": (lambda path: compressed(path, bz2, "rb"), "obj.read()"),
    "text in gzip": (lambda path: compressed(path, gzip, "rt"), "obj.read().encode()"),
    "a member of a zip file": (lambda path: archive(path, zipfile.ZipFile, "write").open("name"), "obj.read()"),
    "a member of a tar file": (lambda path: archive(path, tarfile.TarFile, "add").extractfile("name"), "obj.read()"),
    "a response": (lambda path: plain(path, CONTENT, "rb") and urlopen(path.as_uri()), MAPPED),
    "a reader of a BytesIO": (lambda path: io.BufferedReader(io.BytesIO(CONTENT)), "obj.read()"),
    "text of a BytesIO": (lambda path: io.TextIOWrapper(io.BytesIO(CONTENT)), "obj.read().encode()"),
    "a file": (lambda path: plain(path, CONTENT, "rb"), MAPPED),
    "a file without a buffer": (lambda path: plain(path, CONTENT, "rb", buffering=0), MAPPED),
    "a file of text": (lambda path: plain(path, CONTENT, "r"), MAPPED),
    "an empty file": (lambda path: plain(path, b"", "rb"), "(pass obj.read())", "obj.read()", b""),
    "an empty file to write": (
        lambda path: plain(path, b"", "r+b"),
        "; if it is empty pass obj.read())",
        "obj.read()",
        b"",
    ),
    "a device": (lambda path: open(os.devnull, "rb"), "(pass obj.read())", "obj.read()", b""),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("what", READABLE)
def test_a_way_out_of_a_file_gives_its_bytes(what, tmp_path):
    make, text, *meaning = READABLE[what]
    instead, content = meaning or (text, CONTENT)
    obj = make(tmp_path / "file")
    with pytest.raises(TypeError) as caught:
        asdlpack(obj)
    assert text in str(caught.value)
    assert bytes(asdlpack(eval(instead, {**globals(), "obj": obj}))) == content


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda path: open(path, "wb"),
        lambda path: open(path, "w"),
        lambda path: gzip.open(path, "wb"),
        lambda path: tempfile.NamedTemporaryFile("w"),
        lambda path: io.BufferedWriter(io.BytesIO()),
    ],
)
def test_a_file_that_is_open_for_writing_alone_is_to_be_opened_for_reading(make, tmp_path):
    obj, hint = make(tmp_path / "file"), "it is open for writing alone: open it for reading"
    refused(lambda: asdlpack(obj), "no-protocol", TypeError, hint=hint)


NOT_IN_NUMPY = ["float32x2", "int128", "opaque_handle64", "bfloat16x2", "int4", "float4_e2m1fn"]


@pytest.mark.parametrize("dtype", NOT_IN_NUMPY)
@pytest.mark.parametrize("ask", [memoryview, lambda x: x.__array_interface__, numpy.asarray])
def test_numpy_is_not_a_way_out_if_it_has_no_such_type(dtype, ask):
    x = dlpack.frombuffer(bytearray(64), dtype)
    with pytest.raises((AttributeError, BufferError)) as caught:
        ask(x)
    assert "numpy.asarray" not in str(caught.value)
    assert AS_UINT8 in str(caught.value)
    assert eval(AS_UINT8, {"dlpack": dlpack, "x": x}).nbytes == 64


def test_the_way_out_of_items_with_gaps_is_a_copy_of_their_bytes():
    x = dlpack.frombuffer(bytearray(64), "bfloat16x2", (4, 2), strides=(4, 1))
    with pytest.raises(BufferError) as caught:
        numpy.asarray(x)
    assert eval(str(caught.value).partition("(")[2].partition(" has")[0], {"dlpack": dlpack, "x": x}).nbytes == 32


def test_numpy_has_the_types_that_errors_say_it_has():
    from dlpack._foreign import INSTALLED

    assert set(INSTALLED) == {*ALL, *COMPLEX}
    for name in ALL:
        assert numpy.asarray(x_of(name)).dtype == getattr(ml_dtypes, name)


@pytest.mark.parametrize("kind", [ctypes.c_size_t, ctypes.c_int64])
def test_an_address_in_a_ctypes_int_is_passed_by_its_value(kind):
    memory = ctypes.create_string_buffer(b"abc")
    obj = kind(ctypes.addressof(memory))
    refused(lambda: dlpack.from_pointer(obj, 3, "uint8"), "pointer", TypeError, hint="pass obj.value")
    assert bytes(dlpack.from_pointer(obj.value, 3, "uint8")) == b"abc"


def test_hint_of_another_librarys_pointer_is_its_int():
    class Pointer:
        def __int__(self):
            return ctypes.addressof(memory)

    memory, obj = ctypes.create_string_buffer(b"abc"), Pointer()
    refused(lambda: dlpack.from_pointer(obj, 3, "uint8"), "pointer", TypeError, hint="pass int(obj)")
    assert bytes(dlpack.from_pointer(int(obj), 3, "uint8")) == b"abc"


@pytest.mark.parametrize("obj", [b"abc", (ctypes.c_int * 2)(), numpy.zeros(2)], ids=["bytes", "ctypes", "numpy"])
def test_hint_of_memory_in_a_pointers_place_is_asdlpack(obj):
    refused(lambda: dlpack.from_pointer(obj, 2, "uint8"), "pointer", TypeError, hint="use dlpack.asdlpack(obj)")
    assert asdlpack(obj).size > 0


def test_hint_of_a_file_leads_to_memory_that_may_be_written():
    with FILE.open("rb") as file:
        for obj in FILE, file:
            with pytest.raises(TypeError) as caught:
                asdlpack(obj)  # type: ignore[arg-type]
            numpy.from_dlpack(follow(str(caught.value), {**globals(), "obj": obj}))[0] = 0
    assert FILE.read_bytes()[0] != 0


def test_hint_of_a_str_says_what_to_do_with_text():
    with pytest.raises(TypeError) as caught:
        asdlpack("text")  # type: ignore[arg-type]
    assert hint_of(str(caught.value)).endswith("; of text pass obj.encode()")
    assert bytes(asdlpack(eval("obj.encode()", {"obj": "text"}))) == b"text"


# Objects without a hint, or without one that surely works.
WITHOUT_HINT = {
    "an object": object,
    "a bool": lambda: True,
    "a float": lambda: 2.5,
    "None": lambda: None,
    "a list of text": lambda: ["a", "b"],
    "a list of objects": lambda: [object()],
    "a list of an int that is too large": lambda: [2**64],
    "a list of lists of text": lambda: [["a"], ["b"]],
    "a dict of numbers": lambda: {"a": 1},
    "a set of text": lambda: {"a"},
    "a zip": lambda: zip([1], [2], strict=True),
    "a module": lambda: io,
    "a function": lambda: len,
    "an iterable": lambda: type("Iterable", (), {"__iter__": lambda self: iter([1])})(),
    "an array of objects": lambda: numpy.array([object()], object),
    "an array of text as objects": lambda: numpy.array(["a"], object),
    "an array of arrays of several lengths": lambda: numpy.array([numpy.zeros(2), numpy.zeros(3)], object),
    "an array of text of any length": lambda: numpy.array(["a"], numpy.dtypes.StringDType()),
    "structures of objects": lambda: numpy.zeros(2, [("a", "O")]),
}


@pytest.mark.parametrize("what", WITHOUT_HINT)
def test_no_hint_is_given_that_might_not_work(what):
    with pytest.raises((BufferError, TypeError)) as caught:
        _ = asdlpack(WITHOUT_HINT[what]()).shape
    assert hint_of(str(caught.value)) == ""


def test_hint_of_an_address_can_be_followed():
    memory = ctypes.create_string_buffer(b"abc")
    with pytest.raises(TypeError) as caught:
        asdlpack(ctypes.addressof(memory))  # type: ignore[arg-type]
    assert hint_of(str(caught.value)) == "for an address use dlpack.from_pointer"
    assert bytes(dlpack.from_pointer(ctypes.addressof(memory), 3, "uint8")) == b"abc"


def test_hint_of_byref_can_be_followed():
    memory = (ctypes.c_int * 2)(1, 2)
    with pytest.raises(TypeError) as caught:
        asdlpack(ctypes.byref(memory))  # type: ignore[arg-type]
    assert hint_of(str(caught.value)) == "pass ctypes.pointer(...) instead of ctypes.byref(...)"
    assert dlpack.from_pointer(ctypes.pointer(memory), 2, "int32").shape == (2,)


def test_a_long_list_is_looked_at_in_part():
    with pytest.raises(TypeError) as caught:
        asdlpack([0] * 1_000_000)  # type: ignore[arg-type]
    assert hint_of(str(caught.value)) == "pass numpy.asarray(obj)"
    itself: list[object] = []
    itself += [itself, itself]
    refused(lambda: asdlpack(itself), "no-protocol", TypeError)


@pytest.mark.parametrize("make", [lambda: io.BytesIO(b"ab"), lambda: io.StringIO("ab"), FILE.open])
def test_a_file_that_was_closed_says_so(make):
    obj = make()
    obj.close()
    refused(lambda: asdlpack(obj), "no-protocol", TypeError, hint="it is closed: pass an open one")


@pytest.mark.parametrize("wrap", [asdlpack, lambda obj: dlpack.frombuffer(obj, "uint8")])
def test_a_mapping_that_was_closed_names_the_way_out(wrap):
    mapped = mmap.mmap(-1, 8)
    mapped.close()
    refused(lambda: wrap(mapped), "closed", ValueError, hint="map the file again, and keep it open")


def test_another_error_of_an_exporter_is_passed_on_as_it_is():
    with pytest.raises(ValueError, match="^cannot include dtype 'M' in a buffer$"):
        dlpack.frombuffer(numpy.zeros(3, "M8[s]").data, "uint8")


def test_a_mapping_can_not_be_closed_once_it_is_wrapped():
    mapped = mmap.mmap(-1, 8)
    x = asdlpack(mapped)
    with pytest.raises(BufferError, match="exported pointers exist"):
        mapped.close()
    del x
    mapped.close()
