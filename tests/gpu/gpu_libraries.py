"""The libraries with arrays on a GPU: how each makes one of numpy's, takes memory, and tells what it has."""

from types import SimpleNamespace

import cupy
import jax
import numpy as np
import torch
from numba import cuda as numba_cuda

jax.config.update("jax_enable_x64", True)

LIBRARIES = {
    "torch": SimpleNamespace(
        make=lambda array: torch.from_numpy(array).to("cuda:0"),
        take=torch.from_dlpack,
        address=torch.Tensor.data_ptr,
        values=lambda tensor: tensor.cpu().numpy(),
        write=lambda tensor, array: tensor.copy_(torch.from_numpy(array)),
    ),
    "cupy": SimpleNamespace(
        make=cupy.array,
        take=cupy.from_dlpack,
        address=lambda array: array.data.ptr,
        values=cupy.asnumpy,
        write=lambda array, values: array.set(values),
    ),
    "jax": SimpleNamespace(
        make=lambda array: jax.block_until_ready(jax.device_put(array, jax.devices("cuda")[0])),
        take=jax.dlpack.from_dlpack,
        address=lambda array: array.unsafe_buffer_pointer(),
        values=lambda array: np.asarray(jax.numpy.array(array, copy=True)),  # itself would keep what it gave once
        write=None,  # jax's arrays don't change
    ),
    "numba": SimpleNamespace(  # it takes memory by __cuda_array_interface__, and gives it so
        make=numba_cuda.to_device,
        take=numba_cuda.as_cuda_array,
        address=lambda array: array.device_ctypes_pointer.value,
        values=lambda array: array.copy_to_host(),
        write=lambda array, values: array.copy_to_device(values),
    ),
}
