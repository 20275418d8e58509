"""The libraries with arrays on a GPU: how each makes one of numpy's, takes memory, and tells what it has."""

import cupy
import jax
import numpy as np
import torch
from numba import cuda as numba_cuda

jax.config.update("jax_enable_x64", True)


class Torch:
    @staticmethod
    def make(array):
        return torch.from_numpy(array).to("cuda:0")

    take = staticmethod(torch.from_dlpack)

    @staticmethod
    def address(tensor):
        return tensor.data_ptr()

    @staticmethod
    def values(tensor):
        return tensor.cpu().numpy()

    @staticmethod
    def write(tensor, array):
        tensor.copy_(torch.from_numpy(array))


class Cupy:
    make = staticmethod(cupy.array)
    take = staticmethod(cupy.from_dlpack)

    @staticmethod
    def address(array):
        return array.data.ptr

    @staticmethod
    def values(array):
        return array.get()

    @staticmethod
    def write(array, values):
        array.set(values)


class Jax:
    @staticmethod
    def make(array):
        return jax.block_until_ready(jax.device_put(array, jax.devices("cuda")[0]))

    take = staticmethod(jax.dlpack.from_dlpack)

    @staticmethod
    def address(array):
        return array.unsafe_buffer_pointer()

    @staticmethod
    def values(array):
        return np.asarray(jax.numpy.array(array, copy=True))  # the array itself would keep what it gave once

    write = None  # jax's arrays don't change


class Numba:
    """It takes memory by __cuda_array_interface__, and gives it so."""

    make = staticmethod(numba_cuda.to_device)
    take = staticmethod(numba_cuda.as_cuda_array)

    @staticmethod
    def address(array):
        return array.device_ctypes_pointer.value

    @staticmethod
    def values(array):
        return array.copy_to_host()

    @staticmethod
    def write(array, values):
        array.copy_to_device(values)


LIBRARIES = {"torch": Torch, "cupy": Cupy, "jax": Jax, "numba": Numba}
