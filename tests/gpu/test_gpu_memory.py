"""The device of memory, as the driver says, and addresses that are not CUDA's."""

import ctypes

import cupy
import numpy as np
import pytest
import torch
from gpu import (
    CUDA,
    CUDA_HOST,
    MANAGED,
    allocated,
    another_context,
    call,
    current_context,
    inside,
    interface,
    interface_of,
    managed,
    of_a_pool,
    pinned,
    registered,
    upload,
    virtual,
)

from dlpack import asdlpack, describe, from_pointer
from support.alone import alone, python
from support.capi import look

NUMBERS = np.arange(6, dtype="f4").reshape(2, 3)
SIZE = 1 << 16

KINDS = {
    "allocated": (allocated, (CUDA, 0)),
    "of a pool": (of_a_pool, (CUDA, 0)),
    "virtual": (virtual, (CUDA, 0)),
    "managed": (managed, (MANAGED, 0)),
    "pinned": (pinned, (CUDA_HOST, 0)),
    "registered": (registered, (CUDA_HOST, 0)),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_the_driver_tells_the_device_and_the_kind_of_memory(kind):
    allocate, device = KINDS[kind]
    with allocate(SIZE) as address:
        upload(address, NUMBERS)
        x = asdlpack(interface(address))
        assert x.device == x.__dlpack_device__() == device
        assert x.pointer == address
        inner = asdlpack(interface(address + 12, shape=(3,)))  # no allocation begins there
        assert (inner.device, inner.pointer) == (device, address + 12)
        assert describe(interface(address))["device"] == f"{device[0].name}:0"
        np.testing.assert_array_equal(np.asarray(asdlpack(x, copy=None, device="cpu")), NUMBERS)


@kinds
def test_from_pointer_checks_the_device_of_the_memory(kind):
    allocate, device = KINDS[kind]
    with allocate(SIZE) as address:
        assert from_pointer(address, (2, 3), "float32", device=device).device == device
        if device[0] != CUDA:
            return
        with pytest.raises(ValueError, match=rf"{address:#x}.*kDLCUDA:0"):
            from_pointer(address, (2, 3), "float32", device="cuda:1")


def test_managed_memory_may_be_called_that_of_the_gpu():
    with managed(SIZE) as address:
        upload(address, NUMBERS)
        tensor = torch.from_dlpack(from_pointer(address, (2, 3), "float32", device="cuda:0"))
        assert tensor.data_ptr() == address
        np.testing.assert_array_equal(tensor.cpu().numpy(), NUMBERS)


@pytest.mark.parametrize("kind", ["managed", "pinned", "registered"])
def test_memory_that_the_cpu_can_read_is_shared_as_cpu_memory(kind):
    allocate, _ = KINDS[kind]
    with allocate(SIZE) as address:
        upload(address, NUMBERS)
        x = asdlpack(interface(address))
        assert memoryview(x).tolist() == NUMBERS.tolist()
        on_cpu = asdlpack(x, device="cpu")
        assert on_cpu.device[0] == 1
        by_numpy = np.asarray(x), np.from_dlpack(x, device="cpu"), np.from_dlpack(on_cpu)
        for array in (*by_numpy, torch.from_dlpack(on_cpu).numpy()):
            assert array.ctypes.data == address
            np.testing.assert_array_equal(array, NUMBERS)
        capsule = x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
        assert look(capsule).dl_tensor.device.device_type == 1


def test_cupy_takes_managed_memory_and_gives_it():
    array = cupy.ndarray((2, 3), "f4", memptr=cupy.cuda.malloc_managed(24))
    array[...] = cupy.asarray(NUMBERS)
    for x in asdlpack(array), asdlpack(interface_of(array)):
        assert x.device == (MANAGED, 0)
        taken = cupy.from_dlpack(x)
        assert taken.data.ptr == array.data.ptr
        np.testing.assert_array_equal(taken.get(), NUMBERS)


def test_cupys_pinned_memory_reaches_torch_as_memory_of_the_cpu():
    memory = cupy.cuda.alloc_pinned_memory(24)
    x = asdlpack(interface(memory.ptr, keep=memory))
    assert x.device == (CUDA_HOST, 0)
    tensor = torch.from_dlpack(asdlpack(x, device="cpu"))
    assert tensor.data_ptr() == memory.ptr
    assert tensor.is_pinned()


def test_torchs_pinned_tensor_is_read_in_place():
    tensor = torch.from_numpy(NUMBERS).pin_memory()
    array = np.asarray(asdlpack(tensor, device="cpu"))
    assert array.ctypes.data == tensor.data_ptr()
    np.testing.assert_array_equal(array, NUMBERS)


def test_memory_of_cupys_asynchronous_pool_is_on_its_device():
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        array = cupy.asarray(NUMBERS)
    x = asdlpack(interface_of(array))
    assert x.device == (CUDA, 0)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), NUMBERS)


@alone(timeout=120, environ={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
def test_torchs_expandable_segments_are_on_their_device():
    tensor = torch.arange(6.0, device="cuda:0").reshape(2, 3)
    assert any(segment["is_expandable"] for segment in torch.cuda.memory_snapshot())
    x = asdlpack(interface_of(tensor))
    assert x.device == (CUDA, 0)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), NUMBERS)
    assert torch.from_dlpack(x).data_ptr() == tensor.data_ptr()


def test_memory_of_another_context_is_copied_in_that_context():
    shared = current_context()
    with another_context() as context, inside(context), allocated(SIZE) as address:
        upload(address, NUMBERS)
        with inside(shared):
            x = asdlpack(interface(address))
            assert x.device == (CUDA, 0)
            np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), NUMBERS)
            copy = asdlpack(x, copy=True)
            np.testing.assert_array_equal(np.from_dlpack(copy, device="cpu"), NUMBERS)
            del copy


@alone(timeout=120)
def test_a_copy_is_let_go_after_its_context():
    address = ctypes.c_uint64()
    with another_context() as context:
        with inside(context):
            call("cuMemAlloc_v2", ctypes.byref(address), SIZE)  # freed with the context
        copy = asdlpack(interface(address.value), copy=True)
    del copy  # the context has freed it already


def test_a_second_gpu_is_told_apart(second_device):
    with cupy.cuda.Device(second_device):
        array = cupy.asarray(NUMBERS)
    for x in asdlpack(array), asdlpack(interface_of(array)):
        assert x.device == (CUDA, second_device)
        assert cupy.from_dlpack(x).data.ptr == array.data.ptr
    x = asdlpack(interface_of(array))
    assert torch.from_dlpack(x).device == torch.device(f"cuda:{second_device}")
    for device in "cpu", "cuda:0", f"cuda:{second_device}":
        there = asdlpack(x, copy=None, device=device)
        np.testing.assert_array_equal(np.asarray(asdlpack(there, copy=None, device="cpu")), NUMBERS)
    with pytest.raises(ValueError, match=f"kDLCUDA:{second_device}"):
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


# No memory of CUDA


def test_memory_without_items_has_no_address():
    for x in (
        asdlpack(interface(0, shape=(0,))),
        asdlpack(interface(0, shape=(3, 0))),
        from_pointer(0, (0, 4), "float32", device="cuda"),
        asdlpack(interface_of(cupy.empty((0, 2), "f4"))),
    ):
        assert (x.device, x.size, x.pointer) == ((CUDA, 0), 0, 0)
        assert torch.from_dlpack(x).shape == cupy.from_dlpack(x).shape == x.shape
        assert np.from_dlpack(x, device="cpu").shape == x.shape
        assert asdlpack(x, copy=True).shape == x.shape


def test_an_address_of_the_host_is_refused():
    array = np.zeros(6, "f4")
    with pytest.raises(ValueError, match=rf"{array.ctypes.data:#x}"):
        asdlpack(interface(array.ctypes.data))
    with pytest.raises(ValueError, match=rf"{array.ctypes.data:#x}"):
        from_pointer(array.ctypes.data, 6, "float32", device="cuda")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "of a pool"])  # which keeps what is freed
def test_an_address_that_was_freed_is_refused(kind):
    allocate, _ = KINDS[kind]
    with allocate(SIZE) as address:
        pass
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match=rf"{address:#x}"):
        asdlpack(interface(address))


@pytest.mark.parametrize("address", [8, 0xDEAD0000, 2**47, 2**63])
def test_an_address_of_nothing_is_refused(address):
    with pytest.raises(ValueError, match=rf"{address:#x}"):
        asdlpack(interface(address))


NOT_INITIALISED = """
import ctypes, dlpack, pytest
class Array:
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}
with pytest.raises(BufferError, match="CUDA_ERROR_NOT_INITIALIZED"):
    dlpack.asdlpack(Array())
assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) == 3
"""


def test_a_process_that_has_not_initialised_cuda_is_told_so_and_stays_so():
    result = python(NOT_INITIALISED)
    assert result.returncode == 0, result.stderr
