"""Errors as data: error.reason and error.details, kept by pickle and by functions that change the text."""

# ruff: noqa: F401  # the texts of a table name them
import copy
import ctypes
import io
import mmap
import multiprocessing
import pickle
import re
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import asdlpack, borrow, copy_into, from_pointer, frombuffer
from dlpack._refusals import ELSEWHERE, Cure, of_asdlpack, parts_of, pass_copy, refusal, reworded
from support.alone import uses_dev_shm
from support.capi import Exporter, Managed, Speaks
from support.hints import expression_of, hint_of
from support.refusals import refused

INTERFACE = {"version": 3, "shape": (2,), "typestr": "<f4"}
PACKED = frombuffer(bytearray(8), "int4")
SWAPPED = np.zeros(3, ">f4")


def consumed():
    array = np.zeros(2)
    capsule = array.__dlpack__()
    np.from_dlpack(Speaks(__dlpack__=lambda **words: capsule, __dlpack_device__=lambda: (1, 0)))
    return capsule


def refuse(*_, **__):
    raise BufferError("locked (unlock it)")


def misaligned():
    memory = np.zeros(65, "u1")
    return memory[1 - memory.ctypes.data % 2 :][:64]


# Calls that raise an error of this kind, its id, and some of its details.
REFUSALS: dict[type[Exception], list[tuple]] = {
    TypeError: [
        ("asdlpack(5)", "no-protocol", {"type": "int"}),
        ("asdlpack(bytes)", "no-instance"),
        ("from_pointer(np.zeros(2), 2, 'uint8')", "pointer"),
        ("copy_into(5, bytearray(1))", "no-protocol", {"side": "source", "type": "int"}),
        ("frombuffer(np.zeros(1).__dlpack__(), 'u1')", "no-memory-of-its-own"),
        ("iter(asdlpack(b'ab'))", "no-array"),
        ("pickle.dumps(from_pointer(4096, 2, 'uint8', device='vulkan'))", "on-gpu", {"device": "kDLVulkan:0"}),
    ],
    BufferError: [
        ("asdlpack(np.ma.zeros(2)).shape", "mask", {"type": "MaskedArray"}),
        ("asdlpack(b'ab', readonly=False)", "read-only", {"readonly": True}),
        ("asdlpack(misaligned(), align=64)", "alignment", {"align": 64}),
        ("asdlpack(Speaks(__dlpack__=refuse)).shape", "refused", {"type": "support.capi.Speaks", "protocol": None}),
        ("asdlpack(SWAPPED).shape", "refused", {"type": "numpy.ndarray", "protocol": "__array_interface__"}),
        ("copy_into(b'ab', b'cd')", "read-only-target", {"side": "target", "type": "bytes"}),
        ("borrow(b'ab', readonly=False).__enter__()", "read-only", {"readonly": True}),
        ("borrow(SWAPPED, readonly=False).__enter__()", "refused", {"protocol": "__array_interface__"}),
        ("borrow(np.zeros(2, ml_dtypes.int4)).__enter__()", "no-dltensor", {"dtype": "int4"}),
        ("memoryview(PACKED)", "packed-for-buffer", {"dtype": "int4"}),
        ("PACKED.__array__()", "packed-for-numpy", {"dtype": "int4"}),
        ("PACKED.__arrow_c_array__()", "no-arrow-type", {"dtype": "int4"}),
        ("frombuffer(asdlpack(np.zeros(8, 'u1')[::2]), 'u1')", "not-compact", {"shape": (4,), "strides": (2,)}),
        (
            "asdlpack(np.zeros((2, 2, 2)).T).__arrow_c_array__()",
            "not-row-major",
            {"shape": (2, 2, 2), "strides": (1, 2, 4)},
        ),
        ("asdlpack(Managed(1, version=(2, 7)).capsule())", "dlpack-version", {"major": 2, "minor": 7, "expected": 1}),
        (
            "asdlpack(Speaks(__array_interface__={**INTERFACE, 'typestr': '>f4', 'data': bytes(8)}))",
            "byte-order",
            {"field": "typestr", "text": ">f4"},
        ),
        ("frombuffer(b'1234', '|O')", "objects", {"field": "dtype", "text": "|O"}),
        ("frombuffer(np.zeros(2), 'int32', 1, offset=1)", "misaligned", {"alignment": 4}),
        (
            "asdlpack(bytearray(4), device=(2, 0), copy=False)",
            "copy-forbidden",
            {"target": "kDLCUDA:0", "device": "kDLCPU:0"},
        ),
        (
            "copy_into(np.zeros(3), np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)))",
            "overlap",
            {"side": "target", "dimension": 0, "items": 3},
        ),
    ],
    ValueError: [
        ("asdlpack(consumed())", "consumed-capsule", {"name": "used_dltensor"}),
        ("asdlpack(b'ab', device='gpu')", "unknown-device", {"device": "'gpu'"}),
        (
            "asdlpack(Speaks(__array_interface__={**INTERFACE, 'data': 'no'})).shape",
            "array-interface",
            {"protocol": "__array_interface__", "field": "data"},
        ),
        (
            "asdlpack(Speaks(__arrow_c_array__=lambda *_: 'no pair'))",
            "wrong-answer",
            {"protocol": "__arrow_c_array__", "found": "'no pair'"},
        ),
        ("frombuffer(b'1234', 'flaot32')", "data-type", {"field": "dtype", "text": "flaot32"}),
        ("frombuffer(b'1234', 'uint8', (2, -3))", "negative-shape", {"dimension": 1, "length": -3}),
        ("frombuffer(b'1234', 'uint8', 5)", "out-of-bounds", {"span": 4, "from": 0, "to": 5}),
        ("frombuffer(b'1234', 'uint8', (-1, -1))", "open-shape", {"dimension": 1}),
        (
            "frombuffer(b'12345', 'uint16')",
            "indivisible",
            {"shape": "(-1,)", "bytes": 5, "offset": 0, "group": 1, "size": 2, "unit": "bytes"},
        ),
        ("from_pointer(0, 3, 'uint8')", "data-is-null", {"shape": "(3,)"}),
        ("from_pointer(4096, 3, 'uint8', device=(99, 0))", "unknown-device", {"device_type": 99}),
        (
            "copy_into(np.zeros(3), np.zeros(4))",
            "shapes-differ",
            {"source_dtype": "float64", "source_shape": "(3,)", "target_dtype": "float64", "target_shape": "(4,)"},
        ),
        ("from_pointer(4096, 3, 'uint8', stream=7)", "stream", {"stream": 7}),
    ],
    AttributeError: [
        ("PACKED.__array_interface__", "no-typestr", {"dtype": "int4"}),
        ("asdlpack(b'ab').__cuda_array_interface__", "not-on-cuda", {"device": "kDLCPU:0"}),
    ],
}
ROWS = [(kind, *row) for kind, rows in REFUSALS.items() for row in rows]


def error_of(call):
    """The error of a function, or of the text of an expression."""
    with pytest.raises((AttributeError, BufferError, TypeError, ValueError)) as caught:
        eval(call) if isinstance(call, str) else call()
    return caught.value


def test_an_error_about_both_sides_has_no_side():
    for target in np.zeros(4), np.zeros(3, "int32"):
        assert "side" not in error_of(lambda target=target: copy_into(np.zeros(3), target)).details


class OfBuiltins(pickle.Unpickler):
    """Reads pickles as if this package were absent."""

    def find_class(self, module, name):
        assert module.partition(".")[0] != "dlpack"
        return super().find_class(module, name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_an_error_tells_its_reason_and_details_as_data(row):
    kind, call, reason, *details = row
    error = refused(lambda: eval(call), reason, kind, **(details or [{}])[0])
    assert type(error) is kind
    said, cure = parts_of(error)
    assert str(error).startswith(f"{said} ({cure})" if cure else said)
    assert not {"numpy", "dlpack"} & {type(value).__module__.partition(".")[0] for value in error.details.values()}


def test_texts_are_those_of_texts_txt():
    """No other test has whole texts. Those that quote another library are its own."""
    texts = {call: re.sub("0x[0-9a-f]+", "0x", str(error_of(call))) for _, call, *_ in ROWS}
    lines = [f"{call}: {text}" for call, text in texts.items() if " said " not in text]
    assert lines == Path(__file__).with_name("texts.txt").read_text().splitlines()


@pytest.mark.parametrize("call", [call for _, call, *_ in ROWS])
def test_reason_and_details_survive_pickle_and_copy(call):
    error = error_of(call)
    copies = [copy.copy(error), copy.deepcopy(error)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copies.append(OfBuiltins(io.BytesIO(pickle.dumps(error, protocol))).load())
    for each in copies:
        assert type(each) is type(error)
        assert (str(each), each.reason, each.details) == (str(error), error.reason, error.details)


def test_a_refusal_survives_with_all_of_its_parts():
    error = refusal(ValueError, "id", "a", Cure("pass b"), number=1)
    error = reworded(error, note="; c", side="target")
    assert str(error) == "a (pass b); c"
    for each in copy.copy(error), *(pickle.loads(pickle.dumps(error, i)) for i in range(pickle.HIGHEST_PROTOCOL + 1)):
        again = reworded(each, cure="pass d")
        assert str(again) == "a (pass d); c"
        assert type(again) is ValueError
        assert (again.reason, again.details) == ("id", {"number": 1, "side": "target"})


def test_a_cure_by_copy_is_worded_anew_for_other_functions():
    error = of_asdlpack(refusal(ValueError, "id", "a", pass_copy(" to b")), "f(obj)", "; c")
    assert type(error) is BufferError
    assert str(error) == "a (pass f(obj) to b; c)"


def test_an_error_of_another_class_keeps_its_own_reason_to_itself():
    class Foreign(ValueError):
        reason = "theirs"

        def __getattr__(self, name):
            raise KeyError(name)

    error = reworded(Foreign("text (cure)"), "other", kind=ValueError)
    assert error.reason == ""
    assert str(reworded(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "text", kind=ValueError)) == "text"


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_short)]


def file_of(path):
    path.write_bytes(bytes(8))
    return path


def shared_memory(path):
    memory = SharedMemory(create=True, size=8)
    memory.unlink()
    return memory


# Targets that are refused with a hint which leads to their own memory, and their bytes.
OWN = {
    "a BytesIO": (lambda path: io.BytesIO(bytes(8)), io.BytesIO.getvalue),
    "text": (lambda path: np.array(["a"]), np.ndarray.tobytes),
    "bytes": (lambda path: np.array([b"ab", b"cd"]), np.ndarray.tobytes),
    "times": (lambda path: np.zeros(2, "M8[s]"), np.ndarray.tobytes),
    "fields": (lambda path: np.zeros(2, [("a", "i4"), ("b", "f8")]), np.ndarray.tobytes),
    "a masked array": (lambda path: np.ma.array([0, 0], mask=[False, True]), lambda obj: obj.data.tobytes()),
    "a masked array without masked items": (lambda path: np.ma.zeros(2), lambda obj: obj.data.tobytes()),
    "structures of ctypes": (lambda path: (Pair * 2)(), bytes),
    "pointers of ctypes": (lambda path: (ctypes.c_void_p * 2)(), bytes),
    "a list of arrays": (lambda path: [np.zeros(2), np.zeros(3)], lambda obj: obj[0].tobytes()),
    "a dict of arrays": (lambda path: {"a": np.zeros(2)}, lambda obj: obj["a"].tobytes()),
    "an Array of multiprocessing": (
        lambda path: multiprocessing.Array("i", 3),
        lambda obj: bytes(memoryview(obj.get_obj())),
    ),
    "a SharedMemory": (shared_memory, lambda obj: bytes(obj.buf)),
    "a path": (file_of, lambda obj: obj.read_bytes()),
    "a name": (lambda path: str(file_of(path)), lambda obj: open(obj, "rb").read()),
    "a file": (lambda path: open(file_of(path), "r+b"), lambda obj: open(obj.name, "rb").read()),
}

OF_DEV_SHM = "an Array of multiprocessing", "a SharedMemory"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("what", [pytest.param(it, marks=uses_dev_shm if it in OF_DEV_SHM else ()) for it in OWN])
def test_hint_for_a_target_leads_to_its_own_memory(what, tmp_path):
    make, bytes_of = OWN[what]
    obj = make(tmp_path / "file")
    before, error = bytes_of(obj), error_of(lambda: copy_into(b"\1", obj))
    assert error.details["side"] == "target"
    names = {"dlpack": dlpack, "mmap": mmap, "numpy": np, "obj": obj}
    instead = eval(expression_of(hint_of(str(error))), names)
    memory = np.asarray(asdlpack(instead, copy=None))
    copy_into(np.ones(memory.shape, memory.dtype), instead)
    assert bytes_of(obj) != before


# Targets that are refused with a hint for a source, which leads to a copy.
COPIES = {
    "a list": lambda: [1, 2],
    "a set": lambda: {1, 2},
    "a range": lambda: range(3),
    "a generator": lambda: (number for number in range(3)),
    "text of numbers": lambda: np.array(["1", "2"]),
    "objects": lambda: np.array([1, 2], object),
    "long doubles": lambda: np.zeros(2, "g"),
    "a chararray of numbers": lambda: np.char.array([b"1", b"2"]),
    "big-endian numbers by an interface": lambda: Speaks(__array_interface__=SWAPPED.__array_interface__, keep=SWAPPED),
    "big-endian times": lambda: np.array([1], ">M8[s]"),
    "strided pointers": lambda: memoryview((ctypes.c_void_p * 4)())[::2],
    "an indirect buffer": lambda: Exporter(strides=(1,), suboffsets=(0,), readonly=False),
    "text in memory": lambda: io.StringIO("text"),
    "a reader": lambda: io.BufferedReader(io.BytesIO(b"ab")),
    "an array without __dlpack__": lambda: Speaks(__array__=np.zeros(2).__array__),
}


@pytest.mark.parametrize("what", COPIES)
def test_hint_for_a_target_leads_to_no_copy(what):
    if what == "long doubles" and np.dtype("g").itemsize == 8:
        pytest.skip("on Windows they are doubles")
    obj = COPIES[what]()
    error = error_of(lambda: copy_into(b"\1", obj))
    assert error.details["side"] == "target"
    assert hint_of(str(error)) == ELSEWHERE
    if not isinstance(obj, Exporter):
        assert hint_of(str(error_of(lambda: asdlpack(COPIES[what]()).shape))) != ELSEWHERE


def test_every_hint_of_a_class_has_one_for_a_target():
    """A plain str leads to a copy. A Cure never names a function that makes one."""
    from dlpack._ways_out import INSTEAD

    assert [hint for hint in INSTEAD.values() if type(hint) is Cure]
    for name, hint in INSTEAD.items():
        copies = [each for each in ("to_", "todense", "toarray", "asarray", "encode", "compute") if each in hint]
        assert not copies or type(hint) is str, name
