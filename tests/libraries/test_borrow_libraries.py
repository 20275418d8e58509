"""dlpack.borrow of what libraries make, for a C function, by ctypes and cffi."""

import ctypes
import subprocess

import cffi
import numpy as np
import pytest
import torch

import dlpack
from dlpack import borrow

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
