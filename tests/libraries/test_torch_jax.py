"""Cases of torch, jax, tensorflow, pyarrow and numba that python -m dlpack.tests doesn't try."""

import jax.numpy as jnp
import numba.cuda
import numpy as np
import pyarrow
import pytest
import tensorflow
import torch

from dlpack import asdlpack, describe, frombuffer
from support.capi import Managed, Speaks


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bfloat16, "bfloat16"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
        (torch.float4_e2m1fn_x2, "float4_e2m1fnx2"),
        (torch.half, "float16"),
        (torch.bool, "bool"),
        (jnp.bfloat16, "bfloat16"),
        (jnp.int16, "int16"),
        (tensorflow.bfloat16, "bfloat16"),
    ],
    ids=repr,
)
def test_a_data_type_of_a_library_names_it(dtype, name):
    assert frombuffer(bytearray(48), dtype).dtype == name


def test_a_stream_of_pyarrow_is_described_and_not_read():
    reader = pyarrow.table({"a": [1, 2]}).to_reader()
    assert describe(reader)["protocol"] == "__arrow_c_stream__"
    assert reader.read_all().num_rows == 2


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
