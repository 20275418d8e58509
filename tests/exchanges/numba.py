"""numba's arrays on the GPU; without one those of its CUDA simulator, which are numpy's inside."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import dlpack
from dlpack.tests.findings import Skip
from dlpack.tests.memory import Memory, references_of


def has_cuda() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


SIMULATED = not has_cuda()
if SIMULATED:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read at the import

from numba import cuda  # noqa: E402


def matrix() -> Any:
    return cuda.to_device(np.arange(6, dtype="f4").reshape(2, 3))


def known(array: Any, address: int) -> Memory:
    values = array.copy_to_host().tobytes()
    return Memory(array, array.dtype.name, array.shape, values, address, references=references_of(array))


def device_array() -> Memory:
    if SIMULATED:
        raise Skip("no CUDA device")
    array = matrix()
    memory = known(array, array.device_ctypes_pointer.value)
    memory.gpu = True
    return memory


def simulated() -> Memory:
    if not SIMULATED:
        raise Skip("there is a CUDA device: nothing is simulated")
    array = matrix()
    memory = known(array, array.ctypes.data)
    memory.references = references_of(array._ary)  # the export is numpy's
    return memory


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "DeviceNDArray on CUDA": device_array,
    "FakeCUDAArray of the simulator": simulated,
}


def a_kernel_writes_what_a_consumer_sees() -> None:
    @cuda.jit  # type: ignore[untyped-decorator]
    def double(array: Any) -> None:
        array[cuda.threadIdx.x] *= 2

    array = cuda.to_device(np.arange(6, dtype="f4"))
    taken = dlpack.asdlpack(dlpack.asdlpack(array).__dlpack__())
    double[1, 6](array)
    cuda.synchronize()  # numba's default stream is none of the interface's
    assert bytes(dlpack.asdlpack(taken, device="cpu", copy=None)) == np.arange(0, 12, 2, dtype="f4").tobytes()


CHECKS = {"a kernel writes what a consumer sees": a_kernel_writes_what_a_consumer_sees}
