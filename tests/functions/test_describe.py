"""describe: what is known of an object's memory, and nothing is consumed."""

import ctypes
import gc
import re
import sys

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import asdlpack, describe
from support.arrow_c import Column, Stream
from support.capi import IS_COPIED, READ_ONLY, SUBBYTE_TYPE_PADDED, Exporter, Managed, Speaks, address, capsule_name

KEYS = (
    "owner protocol version flags device dtype shape strides byte_strides "
    "size itemsize nbytes pointer alignment contiguous readonly"
).split()


def test_bytes_are_described():
    memory = b"0123456789abcdef"
    pointer = asdlpack(memory).pointer
    assert type(describe(memory)["dtype"]) is str  # which writers of YAML need
    assert describe(memory) == {
        "owner": "bytes",
        "protocol": "buffer",
        "version": None,
        "flags": None,
        "device": "kDLCPU:0",
        "dtype": "uint8",
        "shape": (16,),
        "strides": (1,),
        "byte_strides": (1,),
        "size": 16,
        "itemsize": 1,
        "nbytes": 16,
        "pointer": pointer,
        "alignment": pointer & -pointer,
        "contiguous": "C and Fortran",
        "readonly": True,
    }


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (
            np.zeros((2, 3), "f4"),
            {"owner": "numpy.ndarray", "protocol": "__dlpack__", "contiguous": "C", "readonly": False},
        ),
        (
            np.zeros((2, 3), "f4").T,
            {"shape": (3, 2), "strides": (1, 3), "byte_strides": (4, 12), "contiguous": "Fortran"},
        ),
        (
            np.zeros((4, 4), "i2")[:, ::2],
            {"strides": (4, 2), "byte_strides": (8, 4), "contiguous": "neither", "nbytes": 16},
        ),
        (np.zeros((3, 1), "i2")[:, ::-1], {"contiguous": "C and Fortran"}),
        (np.zeros((0, 3)), {"size": 0, "nbytes": 0, "pointer": 0, "alignment": 0, "contiguous": "C and Fortran"}),
        (np.float32(1), {"owner": "numpy.float32", "shape": (), "strides": (), "readonly": True}),
        (np.zeros(2, ml_dtypes.bfloat16), {"protocol": "__array_interface__", "dtype": "bfloat16"}),
        (np.zeros(2, ml_dtypes.int4), {"dtype": "int4", "flags": None, "byte_strides": (1,)}),
        (asdlpack(b"ab", copy=True), {"owner": None, "readonly": False}),
        (dlpack.frombuffer(b"ab", "float4_e2m1fn"), {"shape": (4,), "nbytes": 2, "byte_strides": None}),
        (dlpack.frombuffer(b"a", "int4", 1), {"nbytes": 1, "byte_strides": None}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_each_kind_of_input_is_described(obj, expected):
    about = describe(obj)
    assert {name: about[name] for name in expected} == expected
    assert list(about) == KEYS


@pytest.mark.parametrize("name", ["dltensor", "dltensor_versioned"])
def test_a_capsule_is_described_and_not_consumed(name):
    memory = (ctypes.c_float * 6)()
    producer = Managed(address(memory), name=name.encode(), shape=(2, 3), version=(1, 1), flags=READ_ONLY | IS_COPIED)
    capsule = producer.capsule()
    before = sys.getrefcount(capsule)
    about = describe(capsule)
    assert capsule_name(capsule) == name.encode()
    assert (about["capsule"], about["protocol"], about["shape"], about["pointer"]) == (
        name,
        name,
        (2, 3),
        address(memory),
    )
    assert about["version"] == (None if name == "dltensor" else (1, 1))
    assert about["flags"] == (None if name == "dltensor" else ["READ_ONLY", "IS_COPIED"])
    assert about["readonly"]
    assert (producer.deleted, sys.getrefcount(capsule)) == (0, before)
    asdlpack(capsule)
    assert producer.deleted == 1


@pytest.mark.parametrize("name", ["used_dltensor", "used_dltensor_versioned", "another"])
def test_used_and_foreign_capsules_are_named_not_read(name):
    producer = Managed(1, ndim=-1)
    assert describe(producer.capsule(name.encode())) == {"owner": "PyCapsule", "capsule": name}


def test_a_capsule_of_padded_items_says_so():
    producer = Managed(address((ctypes.c_uint8 * 4)()), shape=(4,), dtype=(0, 4, 1), flags=SUBBYTE_TYPE_PADDED)
    assert describe(producer.capsule())["flags"] == ["SUBBYTE_TYPE_PADDED"]


def test_a_pointer_to_a_structure_is_described_and_not_taken_over():
    memory = (ctypes.c_float * 2)()
    producer = Managed(address(memory), shape=(2,))
    pointer = ctypes.pointer(producer.struct)
    about = describe(pointer)
    assert (about["protocol"], about["version"], about["pointer"]) == (
        "DLManagedTensorVersioned",
        (1, 3),
        address(memory),
    )
    assert (bool(pointer), producer.deleted) == (True, 0)
    assert describe(ctypes.pointer(producer.struct.dl_tensor))["protocol"] == "DLTensor"


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (np.zeros(2, ">f4"), r'typestr ">f4": big-endian'),
        (np.zeros(2, "O"), "Python objects"),
        (Speaks(__array_interface__={"version": 3}), r"ValueError: __array_interface__: no 'typestr'"),
        (Managed(1, ndim=-1).capsule(), "ValueError: ndim is -1"),
        (Managed(1, version=(2, 0)).capsule(), r"BufferError: DLPack version 2\.0: expected 1\.x"),
        (Exporter(format=b"w"), "BufferError: format"),
        (ctypes.POINTER(dlpack.structs.DLTensor)(), "ValueError: pointer to a DLTensor is NULL"),
    ],
    ids=["byte order", "objects", "interface", "ndim", "version", "format", "NULL"],
)
def test_a_refusal_is_described_with_its_reason(obj, reason):
    about = describe(obj)
    assert list(about) == ["owner", "refused"]
    assert re.search(reason, about["refused"])


def test_an_arrow_array_that_gives_a_stream_too_is_read():
    obj = Speaks(__arrow_c_array__=asdlpack(np.arange(3)).__arrow_c_array__, __arrow_c_stream__=None)
    about = describe(obj)
    assert (about["protocol"], about["shape"], about["dtype"]) == ("__arrow_c_array__", (3,), "int64")


@pytest.mark.parametrize("error", [BufferError, RuntimeError, ValueError])
def test_why_an_object_can_not_be_read_now_is_told(error):
    class Closed:
        @property
        def __array_interface__(self):
            raise error("it is closed")

    assert describe(Closed())["refused"] == f"{error.__name__}: it is closed"


@pytest.mark.parametrize("obj", [3, None, [1], object(), int])
def test_an_object_without_memory_is_a_type_error(obj):
    with pytest.raises(TypeError, match="asdlpack"):
        describe(obj)


def test_an_error_of_the_object_itself_passes_through():
    class Hostile:
        @property
        def __dlpack__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        describe(Hostile())


def test_nothing_is_held_afterwards():
    memory = bytearray(4)
    about = describe(memory)
    memory.append(0)
    exporter = Exporter()
    describe(exporter)
    gc.collect()
    assert (exporter.exports, about["nbytes"]) == (0, 4)


def test_it_prints_one_entry_a_line():
    assert str(describe(np.zeros(2, "O"))).startswith("owner    numpy.ndarray\nrefused  BufferError: ")
    text = str(describe(np.zeros((2, 3), "f4")))
    lines = dict(line.split(None, 1) for line in text.splitlines())
    assert list(lines) == KEYS
    assert (lines["owner"], lines["shape"], lines["flags"]) == ("numpy.ndarray", "(2, 3)", "none")
    assert lines["pointer"].startswith("0x")
    assert lines["version"].startswith("1.")


def test_a_stream_that_can_be_read_only_once_is_not_read():
    stream = Stream(Column(items=np.arange(2, dtype="i4")))
    reader = stream.exporter()
    assert describe(reader)["protocol"] == "__arrow_c_stream__"
    assert (stream.given, stream.released) == (0, 0)
    assert asdlpack(reader).shape == (2,)


def test_object_that_lies_about_its_class_is_described_as_what_it_is():
    class Liar(bytearray):
        __class__ = dlpack.DLPackObject

    assert describe(Liar(3))["shape"] == (3,)


def test_description_prints_foreign_texts_on_one_line_each():
    class Refuses:
        def __dlpack__(self, **_):
            raise BufferError("red: \x1b[31m\nshape  (9,)")

        def __dlpack_device__(self):
            return 1, 0

    Refuses.__qualname__ = "Odd\u202e"
    owner, refused = str(describe(Refuses())).split("\n")
    assert owner == r"owner    test_describe.Odd\u202e"
    assert refused.startswith("refused  BufferError: ") and refused.endswith(r"red: \x1b[31m\nshape  (9,)")
    assert refused.isprintable()
    odd = type("Odd\x1b", (bytearray,), {"__module__": "library"})(2)
    assert r"<td>library.Odd\x1b</td>" in asdlpack(odd)._repr_html_()
