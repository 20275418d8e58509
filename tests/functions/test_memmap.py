"""memmap: a file as the data type and shape that the caller names, by modes that do what numpy.memmap's do."""

import mmap
import os
import tempfile
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import frombuffer, memmap
from support.refusals import refused

PAGE = mmap.ALLOCATIONGRANULARITY
CONTENT = bytes(range(256)) * (2 * PAGE // 256) + b"12345678"
MODES = ["r", "c", "r+", "w+", "readonly", "copyonwrite", "readwrite", "write"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def ours(path, mode, **arguments):
    return np.asarray(memmap(path, "int32", mode=mode, **arguments))


def numpys(path, mode, **arguments):
    return np.memmap(path, "int32", mode, **arguments)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("offset", [0, 8, PAGE, PAGE + 12, len(CONTENT) - 24])
def test_modes_do_what_those_of_numpy_do(tmp_path, mode, offset):
    seen = []
    for function in ours, numpys:
        path = tmp_path / function.__name__
        path.write_bytes(CONTENT)
        array = function(path, mode, shape=(2, 3), offset=offset)
        seen.append([array.tolist(), array.flags.writeable, path.stat().st_size])
        with path.open("r+b") as file:
            file.seek(offset + 4)
            file.write(b"from outside")  # before the page is written here: then a private page is a copy
        seen[-1].append(array.tolist())
        if array.flags.writeable:
            array[0, 0] = 7
        seen[-1] += [array.tolist(), path.read_bytes()]
    assert seen[0] == seen[1]


def test_the_default_is_copy_on_write(path):
    array = np.from_dlpack(memmap(path, "uint8"))
    array[:] = 0
    assert not array.any()
    assert path.read_bytes() == CONTENT == bytes(np.from_dlpack(memmap(path, "uint8")))


def test_a_writable_mapping_can_be_flushed(path):
    x = memmap(path, "uint8", offset=PAGE, mode="r+")
    np.from_dlpack(x)[0] = 7
    x.obj.flush()
    assert path.read_bytes()[PAGE] == 7


def test_two_mappings_of_a_writable_file_see_each_other(path):
    first, second = [np.from_dlpack(memmap(path, "int32", offset=PAGE, mode="r+")) for _ in range(2)]
    first[1] = 7
    second[2] = 8
    assert first[:3].tolist() == second[:3].tolist() == [np.frombuffer(CONTENT, "i4")[0], 7, 8]


@pytest.mark.parametrize("make", [str, os.fsencode, lambda path: path], ids=["str", "bytes", "os.PathLike"])
def test_a_path_is_a_str_or_bytes_or_pathlike(path, make):
    assert bytes(memmap(make(path), "uint8")) == CONTENT


@pytest.mark.parametrize("offset", [1, 2, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE + 7])
def test_any_offset_is_mapped_from_the_page_below(path, offset):
    x = memmap(path, "uint8", 1, offset=offset)
    assert bytes(x) == CONTENT[offset : offset + 1]
    assert x.pointer % PAGE == offset % PAGE
    assert (type(x.obj), len(x.obj)) == (mmap.mmap, offset % PAGE + 1)  # no more than is needed
    assert x.device == (1, 0)


OF_ANY_FILE = [
    (("float8_e5m2", [3, 5]), (3, 5), 15),
    (("float32", np.array([3, 5])), (3, 5), 60),
    ((np.dtype("complex64"), ()), (), 8),
    (("int4", 3), (3,), 2),
    (("float6_e2m3fn", (2, 3)), (2, 3), 5),
    (("float4_e2m1fnx2", 3), (3,), 3),
    ((ml_dtypes.int4, (2, 3)), (2, 3), 6),
    ((float, np.int64(3)), (3,), 24),
]
OF_THIS_FILE = [
    (("bfloat16",), (len(CONTENT) // 2,), len(CONTENT)),
    (("bfloat16", (2, -1)), (2, len(CONTENT) // 4), len(CONTENT)),
    (("int4",), (len(CONTENT) * 2,), len(CONTENT)),
]
CASES = [(*each, "c") for each in OF_THIS_FILE + OF_ANY_FILE] + [(*each, "w+") for each in OF_ANY_FILE]


@pytest.mark.parametrize(("arguments", "shape", "nbytes", "mode"), CASES, ids=repr)
def test_items_are_those_that_frombuffer_finds(path, arguments, shape, nbytes, mode):
    x = memmap(path, *arguments, mode=mode)
    assert (x.shape, x.nbytes) == (shape, nbytes)
    y = frombuffer(bytearray(path.read_bytes()), *arguments)
    assert (x.dtype, x.shape, x.strides, x._flags) == (y.dtype, y.shape, y.strides, y._flags)
    assert bytes(x) == bytes(y)
    if mode == "w+":
        assert path.read_bytes() == bytes(nbytes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [0, (3, 0)], ids=repr)
@pytest.mark.parametrize("offset", [0, 4, len(CONTENT)])
def test_no_items_need_no_mapping(path, mode, shape, offset):
    x = memmap(path, "float32", shape, mode=mode, offset=offset)
    assert (x.size, x.readonly) == (0, mode in ("r", "readonly"))
    assert path.read_bytes() == (CONTENT if mode not in ("w+", "write") else bytes(offset))


@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_an_empty_file_is_an_empty_array(tmp_path, mode):
    (tmp_path / "empty").touch()
    x = memmap(tmp_path / "empty", "bfloat16", mode=mode)
    assert (x.shape, x.readonly) == ((0,), mode == "r")
    assert memmap(tmp_path / "empty", "bfloat16", (2, 0), mode=mode).shape == (2, 0)
    call = partial(memmap, tmp_path / "empty", "bfloat16", 3, mode=mode)
    assert refused(call, "out-of-bounds", ValueError).details == {"span": 0, "from": 0, "to": 6}


# Refusals.


@pytest.mark.parametrize("mode", ["r", "c", "r+", "readwrite"])
@pytest.mark.parametrize(
    ("arguments", "details"),
    [
        (("float32", len(CONTENT)), {"from": 0, "to": 4 * len(CONTENT)}),
        (("float32", (2, 3), len(CONTENT) - 20), {"from": len(CONTENT) - 20, "to": len(CONTENT) + 4}),
        (("uint8", None, len(CONTENT) + 1), {"offset": len(CONTENT) + 1}),
        (("uint8", 0, 2**63 - 1), {"offset": 2**63 - 1}),
    ],
    ids=repr,
)
def test_a_file_that_is_too_short_says_its_size(path, mode, arguments, details):
    dtype, shape, offset = (*arguments, 0)[:3]
    call = partial(memmap, path, dtype, shape, offset=offset, mode=mode)
    error = refused(call, "out-of-bounds", ValueError)
    assert error.details == {"span": len(CONTENT), **details}
    assert str(error).startswith(f"{str(path)!r} has {len(CONTENT)} bytes; ") or len(str(path)) > 40
    assert path.read_bytes() == CONTENT


def test_remainder_is_refused_as_by_frombuffer(path):
    for arguments, offset in (("float32",), 1), (("int64", (3, -1)), 0):
        by_bytes = refused(partial(frombuffer, CONTENT, *arguments, offset=offset), "indivisible", ValueError)
        error = refused(partial(memmap, path, *arguments, offset=offset), "indivisible", ValueError)
        assert error.details == by_bytes.details


BAD: dict[str, list[object]] = {
    "path": [3, None, bytearray(b"file"), [b"file"]],
    "dtype": [3, None, "nope", b"float32"],
    "shape": ["3", 2.5, (-2,), (1, "2"), (-1, -1), 2**63, b"r+"],
    "offset": [-1, "8", 2.5, None, 2**63],
    "mode": ["a", "R", "rb", "w", "", b"r", 0, None, ["r"], True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]], ids=repr)
@pytest.mark.parametrize("mode", ["c", "w+"])
def test_bad_argument_is_named_and_no_file_is_touched(path, name, value, mode):
    arguments = {"path": path, "dtype": "float32", "shape": 3, "offset": 0, "mode": mode, name: value}
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        memmap(**arguments)
    assert path.read_bytes() == CONTENT
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("shape", [None, -1, (2, -1), (2**40, 2**40)], ids=repr)
def test_a_new_file_needs_a_shape(path, shape):
    with pytest.raises(ValueError, match="shape"):
        memmap(path, "float32", shape, mode="w+")
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_in_the_place_of_the_shape_names_the_argument(path, mode):
    with pytest.raises(TypeError, match=r"mode=") as raised:
        memmap(path, "float32", mode)
    fix = str(raised.value).partition("(pass ")[2].rstrip(")")
    x = eval(f"memmap(path, 'float32', 3, {fix})", {"memmap": memmap, "path": path})
    assert x.readonly == (mode in ("r", "readonly"))


def test_an_open_file_names_its_path(path):
    with path.open("rb") as file, pytest.raises(TypeError) as raised:
        memmap(file, "uint8")
    assert str(raised.value).endswith("(pass path.name)")
    assert bytes(memmap(file.name, "uint8")) == CONTENT
    with tempfile.TemporaryFile() as file, pytest.raises(TypeError) as raised:
        memmap(file, "uint8")
    assert "path.name" not in str(raised.value)


@pytest.mark.parametrize("mode", ["r", "c", "r+", "w+"])
@pytest.mark.parametrize(("dtype", "offset", "reason"), [(">f4", 0, "byte-order"), ("float32", 2, "misaligned")])
def test_items_that_need_a_copy_name_the_call_that_makes_it(path, mode, dtype, offset, reason):
    array = np.frombuffer(CONTENT, dtype, 3, offset)
    error = refused(lambda: memmap(path, dtype, 3, offset=offset, mode=mode), reason)
    assert "address" not in error.details
    assert path.read_bytes() == CONTENT
    text = str(error).removesuffix(")")
    if mode in ("r", "c"):
        names = {**vars(dlpack), "path": path, "dtype": dtype, "shape": 3, "offset": offset}
        assert np.from_dlpack(eval(text.partition("(copy it: ")[2], names)).tolist() == array.tolist()
    else:
        assert "(use numpy.memmap" in text
        assert np.memmap(path, dtype, mode, offset, 3).flags.writeable
