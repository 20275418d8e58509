"""dlpack.borrow: the DLTensor of any object for a C function, within a block."""

import ctypes
import sys

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import borrow
from dlpack._abi import capsule_rename
from dlpack.structs import DLManagedTensorVersioned
from support.arrow_c import Column
from support.capi import look
from support.refusals import refused


def test_memory_is_locked_within_the_block_and_the_tensor_empty_after_it():
    memory = bytearray(b"abc")
    with borrow(memory, readonly=False) as tensor:
        ctypes.memset(tensor.contents.data, ord("x"), 1)
        with pytest.raises(BufferError):
            memory.append(0)
    assert memory == b"xbc"
    memory.append(0)
    assert (tensor.contents.data, tensor.contents.ndim) == (None, 0)
    with pytest.raises(ValueError, match="NULL pointer"):
        tensor.contents.shape[0]


def test_an_exception_in_the_block_passes_and_gives_the_memory_back():
    held = [bytearray(3)]  # CPython 3.15 counts a variable's own reference in some places only
    before = sys.getrefcount(held[0])
    with pytest.raises(KeyError), borrow(held[0]):
        raise KeyError
    after = sys.getrefcount(held[0])
    assert after == before
    held[0].append(0)


BITS = Column(b"b", np.zeros(1, "u1"), array={"length": 8})
UNSEEN = "obj does not see what is written there"
REFUSED = [
    (b"abc", False, "read-only", "asdlpack(x, copy=True)"),
    (np.zeros(3, ml_dtypes.int4), None, "no-dltensor", 'dlpack.frombuffer(x, "uint8")'),
    (np.zeros(6, ml_dtypes.int4)[::2], None, "no-dltensor", 'asdlpack(x, copy=True), "uint8")'),
    (np.zeros(3, ">f4"), None, "refused", "pass asdlpack(obj, copy=None) to convert"),
    (
        np.zeros(3, ">f4"),
        False,
        "refused",
        "pass x = asdlpack(obj, copy=None) to convert, and afterwards copy_into(x, obj)",
    ),
    (
        np.broadcast_to(np.zeros((), ">f4"), 3),
        False,
        "refused",
        f"pass x = asdlpack(obj, copy=None) to convert; {UNSEEN}",
    ),
    (BITS.exporter(), False, "bit-packed", f"pass x = asdlpack(obj, copy=None) to copy; {UNSEEN}"),
]


@pytest.mark.parametrize(("obj", "readonly", "reason", "hint"), REFUSED)
def test_what_can_not_be_lent_says_why(obj, readonly, reason, hint):
    refused(borrow(obj, readonly=readonly).__enter__, reason, hint=hint)


def test_an_object_without_memory_is_not_lent():
    refused(lambda: borrow(5).__enter__(), "no-protocol", TypeError, type="int")


TAKEN_OVER = {
    "a legacy capsule": lambda: np.arange(3, dtype="u1").__dlpack__(),
    "a versioned capsule": lambda: dlpack.asdlpack(b"\0\1\2").__dlpack__(max_version=(1, 3)),
    "a pointer to a structure": lambda: pointer_to(b"\0\1\2"),
}


def pointer_to(data):
    """To a DLManagedTensorVersioned of read-only memory."""
    capsule = dlpack.asdlpack(data).__dlpack__(max_version=(1, 3))
    managed = look(capsule)
    capsule_rename(capsule, b"used_dltensor_versioned")
    return ctypes.pointer(DLManagedTensorVersioned.from_address(ctypes.addressof(managed)))


@pytest.mark.parametrize("make", TAKEN_OVER.values(), ids=TAKEN_OVER)
def test_a_refused_capsule_or_pointer_is_not_consumed(make):
    obj = make()
    refused(borrow(obj, readonly=False).__enter__, "read-only", readonly=True)
    with borrow(obj) as tensor:
        assert ctypes.string_at(tensor.contents.data, 3) == b"\0\1\2"
    refused(
        borrow(obj).__enter__, "null-pointer" if isinstance(obj, ctypes._Pointer) else "consumed-capsule", ValueError
    )


def test_the_ways_out_work():
    with borrow(dlpack.asdlpack(b"abc", copy=True), readonly=False) as tensor:
        assert ctypes.string_at(tensor.contents.data, 3) == b"abc"
    with borrow(dlpack.frombuffer(np.ones(3, ml_dtypes.int4), "uint8")) as tensor:
        assert ctypes.string_at(tensor.contents.data, 3) == b"\1\1\1"
    with borrow(dlpack.frombuffer(dlpack.asdlpack(np.ones(6, ml_dtypes.int4)[::2], copy=True), "uint8")) as tensor:
        assert ctypes.string_at(tensor.contents.data, 3) == b"\1\1\1"
    with borrow(dlpack.asdlpack(np.ones(3, ">f4"), copy=None)) as tensor:
        assert (ctypes.c_float * 3).from_address(tensor.contents.data)[:] == [1, 1, 1]
    obj = np.zeros(3, ">f4")
    x = dlpack.asdlpack(obj, copy=None)
    with borrow(x, readonly=False) as tensor:
        (ctypes.c_float * 3).from_address(tensor.contents.data)[:] = 1, 2, 3
    dlpack.copy_into(x, obj)
    assert obj.tolist() == [1, 2, 3]
