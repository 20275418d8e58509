"""__dlpack_c_exchange_api__ of the libraries that have or use it."""

import ctypes
import gc

import numpy as np
import pytest
import torch
import tvm_ffi

from dlpack import DLPackObject, asdlpack
from dlpack.structs import DLTensor
from support.alone import alone
from support.capi import Managed, array_at
from support.exchange_api import (
    ARRAYS,
    NUMBERS,
    ExchangeAPI,
    allocate,
    api_of,
    borrow,
    delete,
    facts,
    facts_of,
    from_object,
    objects,
    raising,
    stream_of,
    to_object,
)
from support.producers import Producer


def test_tvm_ffi_takes_the_api_and_not_the_capsule():
    api, given = api_of(), []
    give = ExchangeAPI.from_buffer_copy(api).managed_tensor_from_py_object_no_sync

    def note(obj, out):
        result = give(obj, out)
        given.append(ctypes.addressof(out[0].contents))
        return result

    data = bytearray(8)
    x = asdlpack(data)
    api.managed_tensor_from_py_object_no_sync = type(give)(note)
    try:
        tensor = tvm_ffi.from_dlpack(x)
    finally:
        api.managed_tensor_from_py_object_no_sync = give
    assert len(given) == 1
    del x
    data[2] = 9
    assert np.from_dlpack(tensor).tolist() == [0, 0, 9, 0, 0, 0, 0, 0]
    with pytest.raises(BufferError):
        data.append(0)
    del tensor
    data.append(0)


def test_tvm_ffi_asks_a_producer_by_the_api():
    producer = Producer(NUMBERS)
    assert tvm_ffi.from_dlpack(asdlpack(producer)).shape == (120,)
    assert producer.asked == [{"max_version": (1, 3)}]


def test_a_function_of_tvm_ffi_gives_the_objects_that_it_takes():
    data = bytearray(8)
    out = tvm_ffi.get_global_func("testing.echo")(asdlpack(data))
    assert (type(out), out.protocol) == (DLPackObject, "__dlpack_c_exchange_api__")
    np.from_dlpack(out)[1] = 5
    assert data[1] == 5
    del out
    data.append(0)


def test_a_callback_of_tvm_ffi_gets_the_objects():
    seen = []
    function = tvm_ffi.convert_func(seen.append, tensor_cls=DLPackObject)
    data = bytearray(4)
    function(tvm_ffi.from_dlpack(asdlpack(data)))
    [x] = seen
    array_at(x)[0] = 3
    assert (type(x), data[0]) == (DLPackObject, 3)
    del x
    seen.clear()
    gc.collect()
    data.append(0)


def test_tvm_ffi_raises_what_the_api_raises():
    with pytest.raises(ZeroDivisionError, match="no"):
        tvm_ffi.from_dlpack(asdlpack(raising(ZeroDivisionError("no"))))
    with pytest.raises(ZeroDivisionError, match="no"):
        tvm_ffi.get_global_func("testing.echo")(asdlpack(raising(ZeroDivisionError("no"))))


def test_tvm_ffi_keeps_a_tensor_that_is_refused_and_frees_it():
    """It calls the deleter then, so that the tensor must have stayed its own."""
    odd = Managed(NUMBERS.ctypes.data + 1, shape=(3,))
    wrapper = tvm_ffi.core.DLTensorTestWrapper(tvm_ffi.from_dlpack(odd.capsule()))
    function = tvm_ffi.convert_func(lambda *args: None, tensor_cls=DLPackObject)
    with pytest.raises(RuntimeError, match="misaligned"):
        function(wrapper)
    del wrapper
    gc.collect()
    assert odd.deleted == 1


def test_tvm_ffi_allocates_by_the_api():
    library = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    allocator = ctypes.cast(api_of().managed_tensor_allocator, ctypes.c_void_p)
    before, handle, shape = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_int64 * 2)(3, 5)
    count = objects()
    assert library.TVMFFIEnvSetDLPackManagedTensorAllocator(allocator, 0, ctypes.byref(before)) == 0
    try:
        prototype = DLTensor(device=(1, 0), dtype=(2, 32, 1), ndim=2, shape=shape)
        assert library.TVMFFIEnvTensorAlloc(ctypes.byref(prototype), ctypes.byref(handle)) == 0
        assert objects() == count + 1
        assert library.TVMFFIObjectDecRef(handle) == 0
        assert objects() == count
        shape[1] = -1
        assert library.TVMFFIEnvTensorAlloc(ctypes.byref(prototype), ctypes.byref(handle)) != 0
    finally:
        library.TVMFFIEnvSetDLPackManagedTensorAllocator(before, 0, None)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_torch_exports_the_same_tensors_and_takes_each_others(array):
    api = api_of(torch.Tensor)
    if min(array.strides, default=0) < 0:
        pytest.raises(ValueError, torch.from_numpy, array)
        return
    theirs, ours = from_object(torch.from_numpy(array), api), from_object(asdlpack(memoryview(array)))
    assert facts(theirs.dl_tensor) == facts(ours.dl_tensor) == facts_of(array)
    assert (theirs.flags, theirs.version.major) == (ours.flags, ours.version.major)
    tensor, x = to_object(ours, api), to_object(theirs)
    assert (type(tensor), type(x)) == (torch.Tensor, DLPackObject)
    assert (tensor.data_ptr(), x.pointer) == (array.ctypes.data,) * 2


def test_torch_borrows_allocates_and_names_its_stream_likewise():
    api = api_of(torch.Tensor)
    tensor = torch.zeros(2, 3)
    x = asdlpack(tensor)
    assert facts(borrow(tensor, api)) == facts(borrow(x))
    theirs, ours = allocate((2, 3), api=api), allocate((2, 3))
    assert facts(theirs.dl_tensor)[1:] == facts(ours.dl_tensor)[1:]
    delete(theirs)
    delete(ours)
    assert stream_of(1, 0, api=api) is stream_of(1) is None


@alone
def test_paddle_exports_the_same_tensors_and_takes_each_others():
    import paddle

    array = NUMBERS.reshape(12, 10)
    tensor = paddle.to_tensor(array)
    api = api_of(type(tensor))
    theirs, ours = from_object(tensor, api), from_object(asdlpack(memoryview(array)))
    assert facts(theirs.dl_tensor)[1:] == facts(ours.dl_tensor)[1:]
    back, x = to_object(ours, api), to_object(theirs)
    assert (back.data_ptr(), x.pointer) == (array.ctypes.data, tensor.data_ptr())
    assert (x.shape, back.shape) == ((12, 10), [12, 10])
