"""The device of the memory of libraries, as the driver says."""

import ctypes

import cupy
import numpy as np
import pytest
import torch

from dlpack import DLDeviceType, asdlpack, from_pointer
from support.alone import alone
from support.cuda_driver import cuda, cuda_array, gpus
from support.gpu import another_context, call, inside, interface_of

NUMBERS = np.arange(6, dtype="f4").reshape(2, 3)

HOST, MANAGED = (DLDeviceType.kDLCUDAHost, 0), (DLDeviceType.kDLCUDAManaged, 0)


def test_cupy_takes_managed_memory_and_gives_it():
    array = cupy.ndarray((2, 3), "f4", memptr=cupy.cuda.malloc_managed(24))
    array[...] = cupy.asarray(NUMBERS)
    for x in asdlpack(array), asdlpack(interface_of(array)):
        assert x.device == MANAGED
        taken = cupy.from_dlpack(x)
        assert taken.data.ptr == array.data.ptr
        np.testing.assert_array_equal(taken.get(), NUMBERS)
    tensor = torch.from_dlpack(from_pointer(array.data.ptr, (2, 3), "float32", device="cuda:0", owner=array))
    assert tensor.data_ptr() == array.data.ptr
    np.testing.assert_array_equal(tensor.cpu().numpy(), NUMBERS)


def test_cupys_pinned_memory_reaches_torch_as_memory_of_the_cpu():
    memory = cupy.cuda.alloc_pinned_memory(24)
    x = asdlpack(cuda_array(memory.ptr, (2, 3), "<f4", keep=memory))
    assert x.device == HOST
    tensor = torch.from_dlpack(asdlpack(x, device="cpu"))
    assert tensor.data_ptr() == memory.ptr
    assert tensor.is_pinned()


def test_torchs_pinned_tensor_is_read_in_place():
    tensor = torch.from_numpy(NUMBERS).pin_memory()
    array = np.asarray(asdlpack(tensor, device="cpu"))
    assert array.ctypes.data == tensor.data_ptr()
    np.testing.assert_array_equal(array, NUMBERS)


@alone(timeout=120)
def test_a_copy_is_let_go_after_its_context():
    address = ctypes.c_uint64()
    with another_context() as context:
        with inside(context):
            call("cuMemAlloc_v2", ctypes.byref(address), 24)  # freed with the context
        copy = asdlpack(cuda_array(address.value, (2, 3), "<f4"), copy=True)
    del copy  # the context has freed it already


@pytest.mark.skipif(gpus() < 2, reason="one GPU")
def test_a_second_gpu_is_told_apart():
    with cupy.cuda.Device(1):
        array = cupy.asarray(NUMBERS)
    for x in asdlpack(array), asdlpack(interface_of(array)):
        assert x.device == cuda(1)
        assert cupy.from_dlpack(x).data.ptr == array.data.ptr
    x = asdlpack(interface_of(array))
    assert torch.from_dlpack(x).device == torch.device("cuda:1")
    for device in "cpu", "cuda:0", "cuda:1":
        there = asdlpack(x, copy=None, device=device)
        np.testing.assert_array_equal(np.asarray(asdlpack(there, copy=None, device="cpu")), NUMBERS)
    with pytest.raises(ValueError, match="kDLCUDA:1"):
        from_pointer(array.data.ptr, (2, 3), "float32", device="cuda:0")


def test_devices_and_streams_of_libraries_are_arguments():
    array = cupy.asarray(NUMBERS)
    for device, stream in (
        (cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True)),
        (torch.device("cuda"), torch.cuda.Stream()),
    ):
        x = from_pointer(array.data.ptr, (2, 3), "float32", device=device, owner=array, stream=stream)
        assert x.__cuda_array_interface__["stream"] == stream.__cuda_stream__()[1]
        assert torch.from_dlpack(asdlpack(NUMBERS, device=device, copy=None)).tolist() == NUMBERS.tolist()
