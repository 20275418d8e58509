"""Every pair of libraries through asdlpack: the memory of the one is the memory of the other."""

import gc
import pickle
import sys
import weakref

import cupy
import numpy as np
import pytest
import torch
from gpu_libraries import LIBRARIES
from numba import cuda as numba_cuda

from dlpack import asdlpack, from_pointer
from support.capi import Speaks
from support.cuda_driver import cuda
from support.gpu import interface_of


def numbers(start=0):
    return np.arange(start, start + 6, dtype="f4").reshape(2, 3)


def wrap(library, array, way):
    if way == "__cuda_array_interface__":
        return asdlpack(interface_of(array))
    if way == "pointer":
        return from_pointer(library.address(array), (2, 3), "float32", device="cuda", owner=array)
    return asdlpack(array)


WAYS = ["itself", "__cuda_array_interface__", "pointer"]
pairs = pytest.mark.parametrize("consumer", LIBRARIES)


@pairs
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("producer", LIBRARIES)
def test_the_memory_of_one_library_is_that_of_another(producer, consumer, way):
    """And lives as long as its consumer, and no longer."""
    producer, consumer = LIBRARIES[producer], LIBRARIES[consumer]
    array = producer.make(numbers())
    consumer.values(consumer.take(wrap(producer, array, way)))  # what a first call sets up and keeps
    gc.collect()
    before = sys.getrefcount(array)
    x = wrap(producer, array, way)
    assert (x.device, x.dtype, x.shape, x.strides) == (cuda(0), "float32", (2, 3), (3, 1))
    wrapped = weakref.ref(x)
    taken = consumer.take(x)
    assert producer.address(array) == x.pointer == consumer.address(taken)
    torch.cuda.synchronize()
    del x
    np.testing.assert_array_equal(consumer.values(taken), numbers())
    if producer.write:
        producer.write(array, numbers(10))
        torch.cuda.synchronize()
        np.testing.assert_array_equal(consumer.values(taken), numbers(10))
    if consumer.write:
        consumer.write(taken, numbers(20))
        torch.cuda.synchronize()
        np.testing.assert_array_equal(producer.values(array), numbers(20))
    del taken
    gc.collect()
    assert wrapped() is None
    assert sys.getrefcount(array) == before


@pairs
def test_memory_outlives_the_last_name_of_its_owner(consumer):
    consumer = LIBRARIES[consumer]
    array = cupy.asarray(numbers())
    owner = interface_of(array)
    alive = weakref.ref(owner)
    taken = consumer.take(asdlpack(owner))
    del owner, array
    gc.collect()
    assert alive() is not None
    cupy.full(1 << 10, 7, "f4")  # would take the memory, were it free
    np.testing.assert_array_equal(consumer.values(taken), numbers())
    del taken
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("take", [cupy.asarray, torch.as_tensor, numba_cuda.as_cuda_array])
def test_the_cuda_array_interface_gives_what_came_by_dlpack(take):
    tensor = torch.arange(6.0, device="cuda:0").reshape(2, 3).T
    x = asdlpack(tensor)
    described = x.__cuda_array_interface__
    assert described["data"] == (tensor.data_ptr(), False)
    assert (described["typestr"], described["shape"], described["strides"]) == ("<f4", (3, 2), (4, 12))
    taken = take(x)
    assert taken.__cuda_array_interface__["data"][0] == tensor.data_ptr()
    np.testing.assert_array_equal(cupy.asnumpy(cupy.asarray(taken)), tensor.cpu().numpy())


def test_a_kernel_of_numba_writes_into_what_speaks_only_dlpack():
    tensor = torch.arange(6.0, device="cuda:0")

    @numba_cuda.jit
    def double(array):
        array[numba_cuda.threadIdx.x] *= 2

    double[1, 6](numba_cuda.as_cuda_array(asdlpack(tensor)))
    torch.cuda.synchronize()
    assert tensor.tolist() == [0, 2, 4, 6, 8, 10]


def test_a_capsule_of_a_gpu_serves_as_the_tensor_itself():
    tensor = torch.arange(6.0, device="cuda:0")
    for version in None, (1, 3):
        x = asdlpack(asdlpack(tensor).__dlpack__(max_version=version))
        assert (x.device, x.pointer) == (cuda(0), tensor.data_ptr())
        assert torch.from_dlpack(x).data_ptr() == cupy.from_dlpack(x).data.ptr == tensor.data_ptr()


LAYOUTS = {
    "transposed": lambda array: array.T,
    "every second row": lambda array: array[::2],
    "columns": lambda array: array[:, 1:3],
    "one column": lambda array: array[:, 2],
    "a single item": lambda array: array[1, 2, ...],
    "no items": lambda array: array[:0],
}


@pytest.mark.parametrize("producer", ["torch", "cupy"])
@pytest.mark.parametrize("consumer", ["torch", "cupy"])
@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_is_shared_as_it_lies(producer, consumer, way, layout):
    producer, consumer = LIBRARIES[producer], LIBRARIES[consumer]
    whole = np.arange(24, dtype="f4").reshape(4, 6)
    view = LAYOUTS[layout](producer.make(whole))
    expected = LAYOUTS[layout](whole)
    taken = consumer.take(wrap(producer, view, way))
    assert taken.shape == expected.shape
    assert expected.size == 0 or consumer.address(taken) == producer.address(view)
    np.testing.assert_array_equal(consumer.values(taken), expected)


def test_a_reversed_view_is_shared_with_who_has_negative_strides():
    array = cupy.arange(6, dtype="f4")
    for way in WAYS[:2]:
        taken = cupy.from_dlpack(wrap(LIBRARIES["cupy"], array[::-1], way))
        assert taken.data.ptr == array.data.ptr + 20
        assert taken.tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("view", [lambda a: a[::-1], lambda a: a[:, ::-1]], ids=["rows", "columns"])
def test_a_reversed_matrix_of_cupy_has_negative_strides(view):
    """cupy 14 exports others: it divides negative ones as if they had no sign."""
    array = view(cupy.asarray(numbers()))
    for x in asdlpack(array), asdlpack(interface_of(array)):
        assert x.strides == tuple(stride // 4 for stride in array.strides)
        assert x.pointer == array.data.ptr
        np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), array.get())
        np.testing.assert_array_equal(cupy.from_dlpack(x).get(), array.get())


def test_memory_of_a_gpu_is_pickled_by_way_of_the_host():
    tensor = torch.arange(6.0, device="cuda:0")
    with pytest.raises(TypeError, match=r"can.t be pickled.*asdlpack\(x, device=.cpu., copy=None\)"):
        pickle.dumps(asdlpack(tensor))
    loaded = pickle.loads(pickle.dumps(asdlpack(tensor, device="cpu", copy=None)))
    assert torch.from_dlpack(loaded).tolist() == [0, 1, 2, 3, 4, 5]


DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("consumer", ["torch", "cupy", "jax"])
def test_every_data_type_arrives(consumer, dtype):
    array = np.array([[0, 1, 2], [3, 4, 1]]).astype(dtype)
    on_gpu = cupy.asarray(array)
    taken = LIBRARIES[consumer].take(asdlpack(interface_of(on_gpu)))
    values = LIBRARIES[consumer].values(taken)
    assert values.dtype == array.dtype
    assert LIBRARIES[consumer].address(taken) == on_gpu.data.ptr
    np.testing.assert_array_equal(values, array)


@pytest.mark.parametrize("consumer", ["torch", "jax"])
def test_a_bfloat16_tensor_arrives_by_its_interface(consumer):
    tensor = torch.arange(4, dtype=torch.bfloat16, device="cuda:0")
    described = interface_of(tensor)
    described.dtype = Speaks(name="bfloat16")
    x = asdlpack(described)
    assert x.dtype == "bfloat16"
    taken = LIBRARIES[consumer].take(x)
    assert LIBRARIES[consumer].address(taken) == tensor.data_ptr()
    assert str(taken.dtype).endswith("bfloat16")
