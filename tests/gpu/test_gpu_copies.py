"""Copies between the host and a GPU, and on one, compared with numpy's."""

import mmap

import cupy
import ml_dtypes
import numpy as np
import pytest
import torch
from gpu import CUDA, Gate, interface, interface_of, streams, torch_stream, write
from gpu_layouts import COMPACTED, GATHERED, SPARSE, WHOLE, layouts

from dlpack import asdlpack, from_pointer
from support.capi import IS_COPIED, look


def down(x):
    return np.asarray(asdlpack(x, copy=None, device="cpu"))


@layouts(COMPACTED, GATHERED)
def test_a_gpus_memory_is_copied_to_the_host(layout):
    view, expected = layout(cupy.asarray(WHOLE)), layout(WHOLE)
    for x in asdlpack(interface_of(view)), asdlpack(view):
        for array in down(x), np.from_dlpack(x, device="cpu"):
            assert array.flags.c_contiguous or x.protocol == "__dlpack__"  # cupy's own copy is in its order
            np.testing.assert_array_equal(array, expected)
            array[...] = 0  # it is a copy
    np.testing.assert_array_equal(view.get(), expected)


@layouts(COMPACTED, GATHERED, SPARSE)
def test_the_hosts_memory_is_copied_to_a_gpu(layout):
    expected = layout(WHOLE)
    x = asdlpack(expected, copy=None, device="cuda:0")
    assert x.device == (CUDA, 0)
    taken = cupy.from_dlpack(x)
    assert taken.flags.c_contiguous
    np.testing.assert_array_equal(taken.get(), expected)
    capsule = asdlpack(expected).__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    assert look(capsule).flags & IS_COPIED
    np.testing.assert_array_equal(cupy.from_dlpack(capsule).get(), expected)
    np.testing.assert_array_equal(torch.from_dlpack(x).cpu().numpy(), expected)


@layouts(COMPACTED)
def test_a_copy_on_the_gpu_is_compact(layout):
    view, expected = layout(cupy.asarray(WHOLE)), layout(WHOLE)
    x = asdlpack(interface_of(view), copy=True)
    assert x.device == (CUDA, 0)
    taken = cupy.from_dlpack(x)
    assert taken.flags.c_contiguous
    assert expected.size == 0 or (x.pointer != view.data.ptr and x.pointer % 256 == 0)
    view[...] = 0
    torch.cuda.synchronize()
    np.testing.assert_array_equal(taken.get(), expected)


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


def test_more_than_the_gpu_has_is_a_memory_error():
    _, total = torch.cuda.mem_get_info()
    reserved = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, "prot": mmap.PROT_READ}  # takes no memory of the host
    with mmap.mmap(-1, total + (1 << 30), **reserved) as memory:
        with pytest.raises(MemoryError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            asdlpack(memory, copy=None, device="cuda:0")


def test_a_copy_comes_after_the_work_on_the_producers_stream():
    (producer,) = streams(1)
    memory = cupy.zeros(1024, "f4")
    x = asdlpack(interface(memory.data.ptr, (1024,), keep=memory, stream=producer.ptr))
    for i in range(100):
        write(producer, memory.data.ptr, 1024, i, cycles=2_000_000)
        assert np.from_dlpack(x, device="cpu").tolist() == [i] * 1024
        write(producer, memory.data.ptr, 1024, -i, cycles=2_000_000)
        beside = asdlpack(x, copy=True)
        write(producer, memory.data.ptr, 1024, 7)  # not before the copy is there
        assert down(beside).tolist() == [-i] * 1024
        producer.synchronize()


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


def test_a_copy_waits_for_no_other_stream():
    producer, other = streams()
    memory, elsewhere = cupy.zeros(1024, "f4"), cupy.zeros(1024, "f4")
    x = asdlpack(interface(memory.data.ptr, (1024,), keep=memory, stream=producer.ptr))
    np.from_dlpack(x, device="cpu")
    with Gate() as gate:
        gate.write(other, elsewhere.data.ptr, 1024, 1)
        np.from_dlpack(x, device="cpu")
        assert not other.done
        gate.open()
