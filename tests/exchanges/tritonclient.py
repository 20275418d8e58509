"""tritonclient's shared memory: the system's, and the GPU's as SharedMemoryTensor. Exports do not keep it alive."""

import functools
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from secrets import token_hex
from typing import Any

import numpy as np
from tritonclient.utils import shared_memory
from tritonclient.utils._shared_memory_tensor import SharedMemoryTensor

import dlpack
from dlpack.tests.findings import Skip
from dlpack.tests.libraries.numpy import known
from dlpack.tests.memory import Memory

from .checks import gives

SIZE = 64
DTYPES = {"INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64"}
DTYPES |= {"UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64"}
DTYPES |= {"FP16": "float16", "FP32": "float32", "FP64": "float64"}


@functools.cache
def region() -> Any:
    """A region of the system's memory, without a name for others."""
    key = f"/dlpack-{token_hex(8)}"
    made = shared_memory.create_shared_memory_region("dlpack", key, SIZE, create_only=True)
    named = SharedMemory(key)
    named.unlink()
    named.close()
    shared_memory.set_shared_memory_region(made, [np.arange(SIZE // 4, dtype="f4")])
    return made


def part(dtype: str, offset: int) -> Any:
    """Six items of the region."""
    return shared_memory.get_contents_as_numpy(region(), np.dtype(dtype), [2, 3], offset)


def tensor(datatype: str = "FP32", offset: int = 0) -> Memory:
    """A legacy capsule can't say that its memory may be written."""
    array = part(DTYPES[datatype], offset)
    start = array.ctypes.data - offset
    tensor = SharedMemoryTensor(datatype, (2, 3), start, offset, array.nbytes, -1)
    return Memory(tensor, DTYPES[datatype], (2, 3), array.tobytes(), array.ctypes.data, readonly=None)


def on_cuda() -> Memory:
    try:
        from tritonclient.utils import cuda_shared_memory

        made = cuda_shared_memory.create_shared_memory_region("dlpack", 24, 0)
    except Exception as error:  # what is missing: Python packages, the driver, a device
        raise Skip("no CUDA device") from error
    array = np.arange(6, dtype="f4").reshape(2, 3)
    cuda_shared_memory.set_shared_memory_region(made, [array])
    tensor = cuda_shared_memory.as_shared_memory_tensor(made, "FP32", (2, 3))
    return Memory(tensor, "float32", (2, 3), array.tobytes(), made._base_addr, readonly=True, gpu=True)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "get_contents_as_numpy": lambda: known(part("float32", 0)),
    "SharedMemoryTensor": tensor,
    "SharedMemoryTensor, byte_offset": lambda: tensor(offset=16),
    "SharedMemoryTensor on CUDA": on_cuda,
}


def gives_every_data_type() -> None:
    gives(*(tensor(datatype) for datatype in DTYPES))


def describes_no_booleans_of_one_bit() -> None:
    tensor = SharedMemoryTensor("BOOL", (2, 3), part("bool", 0).ctypes.data, 0, 6, -1)
    try:
        dtype = dlpack.asdlpack(tensor).dtype
    except ValueError:
        return
    raise AssertionError(f"described as {dtype}")


CHECKS = {
    "gives every data type": gives_every_data_type,
    "describes no booleans of one bit": describes_no_booleans_of_one_bit,
}
