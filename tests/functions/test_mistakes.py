"""Mistakes of new users: each error of a refusal has an id, a text of at most 200 letters (but for what another library
said), and, if there is one, a fix that works as it is written."""

import io
import pathlib
import pickle

import numpy
import pytest

import dlpack
from dlpack import asdlpack, frombuffer, memmap, to
from support.refusals import refused

FILE = pathlib.Path(__file__)
ARRAY = numpy.arange(6, dtype="float32").reshape(2, 3)
NAMES = {
    "array": ARRAY,
    "asdlpack": asdlpack,
    "dlpack": dlpack,
    "frombuffer": frombuffer,
    "memmap": memmap,
    "numpy": numpy,
    "to": to,
    "target": numpy.zeros(3),
    "x": asdlpack(ARRAY),
}

# The mistake, the object that the error calls obj, the kind and id of the error, and the fix that its text has.
MISTAKES = {
    "None": ("asdlpack(obj)", None, TypeError, "no-protocol", ""),
    "a text": ("asdlpack(obj)", "abc", TypeError, "no-protocol", "obj.encode()"),
    "a path": ("asdlpack(obj)", FILE, TypeError, "no-protocol", "dlpack.memmap(obj, 'uint8')"),
    "a list": ("asdlpack(obj)", [1, 2], TypeError, "no-protocol", "numpy.asarray(obj)"),
    "a dict": ("asdlpack(obj)", {"a": ARRAY}, TypeError, "no-protocol", "obj['a']"),
    "a range": ("asdlpack(obj)", range(3), TypeError, "no-protocol", "numpy.asarray(obj)"),
    "an address": ("asdlpack(obj)", ARRAY.ctypes.data, TypeError, "no-protocol", "dlpack.from_pointer"),
    "BytesIO": ("asdlpack(obj)", io.BytesIO(b"abc"), TypeError, "no-protocol", "obj.getbuffer()"),
    "StringIO": ("asdlpack(obj)", io.StringIO("abc"), TypeError, "no-protocol", "obj.getvalue().encode()"),
    "a type": ("asdlpack(obj)", numpy.ndarray, TypeError, "no-instance", ""),
    "a mask": ("asdlpack(obj)", numpy.ma.array([1, 2], mask=[False, True]), BufferError, "mask", "obj.filled()"),
    "objects of a file": ("asdlpack(obj)", pickle.loads(pickle.dumps(numpy.array([None]))), BufferError, "refused", ""),
    "objects": ("asdlpack(obj)", numpy.array([None, "a"], object), BufferError, "refused", ""),
    "times": ("asdlpack(obj).shape", numpy.zeros(2, "M8[s]"), BufferError, "refused", "obj.view('int64')"),
    "frombuffer's dtype": ("asdlpack(b'abcd', dtype='f4')", b"abcd", TypeError, None, "frombuffer(obj, dtype)"),
    "count": ("frombuffer(obj, 'float32', count=1)", b"abcd", TypeError, None, "shape"),
    "an offset by its place": ("frombuffer(obj, 'float32', 1, 0)", b"abcd", TypeError, None, "offset="),
    "a misspelled data type": ("frombuffer(obj, 'flaot32')", b"abcd", ValueError, "data-type", '"float32"'),
    "a data type of no size": ("frombuffer(obj, 'float')", b"abcd", ValueError, "data-type", '"float32" or "float64"'),
    "a type of safetensors": ("frombuffer(obj, 'I8')", b"abcd", ValueError, "data-type", '"int64" or "int8"'),
    "bytes left over": ("frombuffer(obj, 'float32')", b"abcde", ValueError, "indivisible", "give the length"),
    "too few bytes": ("frombuffer(obj, 'float32', 2)", b"abcd", ValueError, "out-of-bounds", ""),
    "gpu": ("asdlpack(obj, device='gpu')", b"abc", ValueError, "unknown-device", "'cuda'"),
    "mps": ("asdlpack(obj, device='mps')", b"abc", ValueError, "unknown-device", "'metal'"),
    "npu": ("asdlpack(obj, device='npu:1')", b"abc", ValueError, "unknown-device", "'ascend:1'"),
    "an id without a colon": ("asdlpack(obj, device='gpu0')", b"abc", ValueError, "unknown-device", "'cuda:0'"),
    "host": ("asdlpack(obj, device='host:0')", b"abc", ValueError, "unknown-device", "'cpu:0'"),
    "a misspelled device": ("asdlpack(obj, device='cudaa:1')", b"abc", ValueError, "unknown-device", "'cuda:1'"),
    "another id": ("asdlpack(obj, device='gpu:x')", b"abc", ValueError, "unknown-device", "'cuda'"),
    "DLPack's name": ("asdlpack(obj, device='kDLGPU')", b"abc", ValueError, "unknown-device", "'cuda'"),
    "a part of a library": ("to(obj, 'jax.numpy')", b"abc", TypeError, "unknown-target", '"jax"'),
    "an array type by its name": ("to(obj, 'torch.Tensor')", b"abc", TypeError, "unknown-target", '"torch"'),
    "a misspelled library": ("to(obj, 'nmpy')", b"abc", TypeError, "unknown-target", '"numpy"'),
    "a short name": ("to(obj, 'tf')", b"abc", TypeError, "unknown-target", '"tensorflow"'),
    "pytorch": ("to(obj, 'pytorch')", b"abc", TypeError, "unknown-target", '"torch"'),
    "another library": ("to(obj, 'pandas')", b"abc", TypeError, "unknown-target", "dlpack.asdlpack(obj)"),
    "writing to bytes": ("asdlpack(obj, readonly=False)", b"abc", BufferError, "read-only", "copy=None"),
    "numpy's order": ("dlpack.copy_into(array, obj)", b"abc", BufferError, "read-only-target", ""),
    "two shapes": ("dlpack.copy_into(numpy.ones(2), obj)", numpy.ones(3), ValueError, "shapes-differ", ""),
    "x == y": ("x == asdlpack(b'a')", None, TypeError, "no-array", "numpy.asarray(x)"),
    "x == True": ("x == True", None, TypeError, "no-array", "numpy.asarray(x)"),
    "x in a list": ("x in [asdlpack(b'a'), x]", None, TypeError, "no-array", "numpy.asarray(x)"),
    "x != 1": ("x != 1", None, TypeError, "no-array", "numpy.asarray(x)"),
    "x + 1": ("x + 1", None, TypeError, "no-array", "numpy.asarray(x)"),
    "x[0]": ("x[0]", None, TypeError, "no-array", "numpy.asarray(x)"),
    "len(x)": ("len(x)", None, NotImplementedError, "no-array", "numpy.asarray(x)"),
    "x.numpy()": ("x.numpy()", None, AttributeError, "no-array", "numpy.asarray(x)"),
    "x.release()": ("x.release()", None, AttributeError, "no-array", "del x"),
    "x.close()": ("x.close()", None, AttributeError, "no-array", "del x"),
    "with x": ("x.__enter__()", None, AttributeError, "no-array", "del x"),
    "dlpack.asarray": ("dlpack.asarray(obj)", b"abc", AttributeError, None, "dlpack.to(obj, 'numpy')"),
    "dlpack.to_dlpack": ("dlpack.to_dlpack(obj)", b"abc", AttributeError, None, "dlpack.asdlpack(obj)"),
    "dlpack.from_numpy": ("dlpack.from_numpy(obj)", b"abc", AttributeError, None, "dlpack.asdlpack(obj)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_has_an_id_and_a_fix(mistake):
    call, obj, kind, reason, fix = MISTAKES[mistake]
    with pytest.raises(kind) as caught:
        eval(call, {**NAMES, "obj": obj})
    assert type(caught.value) is kind
    assert getattr(caught.value, "reason", None) == reason
    assert fix in str(caught.value)
    if "said" not in str(caught.value):  # another library's text
        assert len(str(caught.value)) <= 200


EXPRESSIONS = [mistake for mistake, (*_, fix) in MISTAKES.items() if "obj" in fix or "(x)" in fix]


@pytest.mark.parametrize("mistake", EXPRESSIONS)
def test_the_fix_of_a_mistake_runs(mistake):
    _, obj, _, _, fix = MISTAKES[mistake]
    assert eval(fix, {**NAMES, "obj": obj, "dtype": "float32"}) is not None


@pytest.mark.parametrize("device", ["hpu", "meta:0", "mtia"])
def test_no_device_is_named_instead_of_one_that_dlpack_lacks(device):
    with pytest.raises(ValueError) as caught:
        asdlpack(b"abc", device=device)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: frombuffer(bytearray(4), "int4", (2, 2), strides=(4, 1)), "packed"),
        (lambda: asdlpack(bytearray(4), device="tpu", copy=None), "other-device"),
    ],
)
def test_memory_of_python_is_not_copied_by_its_library(call, reason):
    assert "library" not in str(refused(call, reason))


def test_with_statement_names_del():
    memory = bytearray(3)
    x = asdlpack(memory)
    with pytest.raises(AttributeError, match="del x"), x:  # type: ignore[attr-defined]
        pass
    del x
    memory.append(1)


def test_comparison_leaves_identity_and_hash():
    x, other = asdlpack(b"a"), asdlpack(b"b")
    assert x in [x, other]
    assert {x: 1, other: 2}[other] == 2
    assert (x == None, x != "a") == (False, True)  # noqa: E711
    assert (x == numpy.array([97], "u1")).tolist() == [True]


def test_completion_shows_what_works():
    x = asdlpack(ARRAY)
    names = dir(x)
    assert {"shape", "dtype", "tobytes", "__dlpack__", "__array__"} <= {*names}
    for name in names:
        assert hasattr(x, name) or name == "__cuda_array_interface__", name
