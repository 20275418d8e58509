"""Copies of the arrays of libraries between the host and a GPU, and on one, compared with numpy's."""

import cupy
import ml_dtypes
import numpy as np
import pytest
import torch

from dlpack import asdlpack, from_pointer
from support.capi import IS_COPIED, look
from support.gpu import interface_of, streams, torch_stream, write


def down(x):
    return np.asarray(asdlpack(x, copy=None, device="cpu"))


def test_a_copy_is_taken_by_libraries():
    expected = np.arange(6 * 8 * 10, dtype="f4").reshape(6, 8, 10)[1:5, 2:6, 3:9]
    x = asdlpack(expected, copy=None, device="cuda:0")
    taken = cupy.from_dlpack(x)
    assert taken.flags.c_contiguous
    np.testing.assert_array_equal(taken.get(), expected)
    np.testing.assert_array_equal(torch.from_dlpack(x).cpu().numpy(), expected)
    capsule = asdlpack(expected).__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    assert look(capsule).flags & IS_COPIED
    np.testing.assert_array_equal(cupy.from_dlpack(capsule).get(), expected)


def test_types_that_numpy_has_not_are_copied_both_ways():
    values = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    tensor = torch.from_dlpack(asdlpack(values, copy=None, device="cuda:0"))
    assert (tensor.dtype, tensor.device.type) == (torch.bfloat16, "cuda")
    assert tensor.tolist() == values.astype("f4").tolist()
    back = torch.from_dlpack(asdlpack(tensor.T, copy=None, device="cpu"))
    assert torch.equal(back, tensor.T.cpu())
    packed = from_pointer(tensor.data_ptr(), (3, 8), "float4_e2m1fnx2", device="cuda", owner=tensor)
    assert bytes(asdlpack(packed, copy=None, device="cpu")) == values.tobytes()


@pytest.mark.parametrize("megabytes", [1, 64, 1024])
def test_large_memory_is_copied_whole(megabytes):
    rows = np.random.default_rng(0).integers(0, 2**32, (megabytes << 10, 256), "u4")
    on_gpu = cupy.asarray(rows)
    np.testing.assert_array_equal(down(asdlpack(interface_of(on_gpu))), rows)
    np.testing.assert_array_equal(down(asdlpack(interface_of(on_gpu[::2, 16:240]))), rows[::2, 16:240])
    back = cupy.from_dlpack(asdlpack(rows, copy=None, device="cuda:0"))
    assert bool((back == on_gpu).all())
    beside = cupy.from_dlpack(asdlpack(interface_of(on_gpu[:, 5:]), copy=True))
    assert bool((beside == on_gpu[:, 5:]).all())


def test_a_copy_comes_after_the_work_of_a_producer_with_dlpack():
    (stream,) = streams(1)
    for array in cupy.zeros(1024, "f4"), torch.zeros(1024, device="cuda:0"):
        address = asdlpack(array).pointer
        with stream, torch_stream(stream):
            for i in range(100):
                write(stream, address, 1024, i, cycles=2_000_000)
                assert np.from_dlpack(asdlpack(array), device="cpu").tolist() == [i] * 1024
                write(stream, address, 1024, -i, cycles=2_000_000)
                beside = asdlpack(array, copy=True)
                write(stream, address, 1024, 7)
                assert down(beside).tolist() == [-i] * 1024
