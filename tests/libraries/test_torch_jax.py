"""Cases of torch, tensorflow and numba that python -m dlpack.tests doesn't try."""

import numba.cuda
import numpy as np
import tensorflow
import torch

from dlpack import asdlpack, frombuffer
from support.capi import Managed, Speaks


def test_a_data_type_of_tensorflow_names_it():
    assert frombuffer(bytearray(48), tensorflow.bfloat16).dtype == "bfloat16"


def test_numba_takes_the_cuda_interface_for_what_it_is():
    x = asdlpack(Managed(4096, shape=(2, 3), dtype=(2, 64, 1), device=(2, 0)).capsule())
    interface = x.__cuda_array_interface__
    assert np.dtype(interface["typestr"]) == np.float64
    for obj in x, Speaks(__cuda_array_interface__=interface):
        assert numba.cuda.is_cuda_array(obj)


def test_numba_takes_memory_of_the_cpu_for_none_of_cuda():
    array = np.zeros(3)
    for obj in array, bytes(3), Speaks(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__):
        assert not numba.cuda.is_cuda_array(asdlpack(obj))


def test_torch_shares_the_memory_by_whatever_way_it_takes():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    x = asdlpack(array)
    shared = torch.as_tensor(x)
    assert (shared.data_ptr(), shared.shape, shared.dtype) == (array.ctypes.data, (2, 3), torch.float32)
    copied = torch.tensor(x)
    assert (copied.data_ptr() != array.ctypes.data, copied.tolist()) == (True, array.tolist())
