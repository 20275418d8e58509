"""dlpack.borrow: the DLTensor of any object for a C function, by ctypes and cffi, within a block."""

import ctypes
import subprocess
import sys

import cffi
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import torch

import dlpack
from dlpack import borrow
from dlpack._abi import capsule_rename
from dlpack.structs import DLManagedTensorVersioned
from support.capi import look

SOURCE = """
#include <dlpack/dlpack.h>

int64_t total(const DLTensor *tensor)
{
    const int32_t *items = (const int32_t *)((const char *)tensor->data + tensor->byte_offset);
    int64_t sum = 0;
    if (tensor->ndim != 2 || tensor->dtype.code != kDLInt || tensor->dtype.bits != 32 ||
        tensor->device.device_type != kDLCPU)
        return -1;
    for (int64_t i = 0; i < tensor->shape[0]; i++)
        for (int64_t j = 0; j < tensor->shape[1]; j++)
            sum += items[i * tensor->strides[0] + j * tensor->strides[1]] * (10 * i + j);
    return sum;
}
"""
ITEMS = np.arange(12, dtype="i4").reshape(3, 4)
MATRICES = {
    "numpy": ITEMS,
    "transposed": ITEMS.T,
    "reversed": ITEMS[::-1, ::2],
    "torch": torch.from_numpy(ITEMS.copy()),
    "memoryview": memoryview(ITEMS),  # type: ignore[arg-type]
    "DLPackObject": dlpack.asdlpack(ITEMS),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("borrow")
    (folder / "total.c").write_text(SOURCE)
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{dlpack.get_include()}", "total.c"]
    subprocess.run([*command, "-o", "total.so"], cwd=folder, check=True)
    return folder / "total.so"


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_a_function_of_ctypes_and_of_cffi_reads_it(matrix, library):
    array = np.asarray(matrix)
    expected = sum(int(array[i, j]) * (10 * i + j) for i in range(array.shape[0]) for j in range(array.shape[1]))
    total = ctypes.CDLL(str(library)).total
    total.restype = ctypes.c_int64
    ffi = cffi.FFI()
    ffi.cdef("int64_t total(const void *tensor);")
    with borrow(matrix) as tensor:
        assert tensor.contents.data == dlpack.asdlpack(matrix).pointer
        assert total(tensor) == expected
        address = ctypes.addressof(tensor.contents)
        assert ffi.dlopen(str(library)).total(ffi.cast("void *", address)) == expected


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
    memory = bytearray(3)
    references = sys.getrefcount(memory)
    with pytest.raises(KeyError), borrow(memory):
        raise KeyError
    assert sys.getrefcount(memory) == references
    memory.append(0)


REFUSED = {
    "read-only": (b"abc", {"readonly": False}, BufferError, r"readonly True: .*asdlpack\(x, copy=True\)"),
    "padded": (np.zeros(3, ml_dtypes.int4), {}, BufferError, r'dtype int4: .*dlpack.frombuffer\(x, "uint8"\)'),
    "padded, with gaps": (np.zeros(6, ml_dtypes.int4)[::2], {}, BufferError, r'asdlpack\(x, copy=True\), "uint8"\)'),
    "big-endian": (np.zeros(3, ">f4"), {}, BufferError, r"\(pass asdlpack\(obj, copy=None\) to convert\)"),
    "big-endian, to be written": (
        np.zeros(3, ">f4"),
        {"readonly": False},
        BufferError,
        r"\(pass x = asdlpack\(obj, copy=None\) to convert, and afterwards copy_into\(x, obj\)\)",
    ),
    "big-endian and read-only, to be written": (
        np.broadcast_to(np.zeros((), ">f4"), 3),
        {"readonly": False},
        BufferError,
        r"\(pass x = asdlpack\(obj, copy=None\) to convert; obj does not see what is written there\)",
    ),
    "of Arrow, to be written": (
        pa.array([True]),
        {"readonly": False},
        BufferError,
        r"\(pass x = asdlpack\(obj, copy=None\) to copy; obj does not see what is written there\)",
    ),
    "no memory": (5, {}, TypeError, "int object shares no memory"),
}


@pytest.mark.parametrize(("obj", "words", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_lent_says_why(obj, words, error, text):
    with pytest.raises(error, match=text), borrow(obj, **words):
        pytest.fail("it was lent")


def test_what_was_written_to_a_copy_is_copied_back():
    obj = np.zeros(3, ">f4")
    with borrow(x := dlpack.asdlpack(obj, copy=None), readonly=False) as tensor:
        ctypes.cast(tensor.contents.data, ctypes.POINTER(ctypes.c_float))[1] = 7
    dlpack.copy_into(x, obj)
    assert obj.tolist() == [0, 7, 0]


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
def test_what_would_be_taken_over_is_not_where_it_is_refused(make):
    obj = make()
    with pytest.raises(BufferError, match="readonly True"), borrow(obj, readonly=False):
        pytest.fail("it was lent")
    with borrow(obj) as tensor:
        assert ctypes.string_at(tensor.contents.data, 3) == b"\0\1\2"
    with pytest.raises(ValueError, match="already consumed|is NULL"), borrow(obj):
        pytest.fail("it was lent twice")


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
