"""Arrow device arrays of the libraries that have them, on the CPU; tests/cuda/test_cuda_arrow.py has GPUs."""

import gc
import weakref

import nanoarrow.device
import numpy as np
import pyarrow as pa
import pytest
import torch

from dlpack import asdlpack, to
from dlpack._abi import capsule_pointer
from support.arrow_c import ArrowDeviceArray, only_arrow
from support.capi import Speaks, on_device
from support.refusals import refused

NUMBERS = np.arange(1, 25, dtype="i4")


def batch(array):
    return pa.record_batch([pa.array(array)], ["a"])


def only_device(obj):
    return Speaks(__arrow_c_device_array__=obj.__arrow_c_device_array__)


PRODUCERS = {
    "pyarrow.Array": lambda array: only_device(pa.array(array)),
    "pyarrow.RecordBatch": batch,
    "pyarrow.StructArray": lambda array: only_device(pa.StructArray.from_arrays([pa.array(array)], names=["a"])),
    "nanoarrow.device.CDeviceArray": lambda array: nanoarrow.device.c_device_array(only_arrow(pa.array(array))),
}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_device_array_is_shared_until_the_last_consumer_is_gone(producer):
    array = NUMBERS.copy()
    x = asdlpack(PRODUCERS[producer](array))
    assert (x.protocol, x.pointer, x.readonly) == ("__arrow_c_device_array__", array.ctypes.data, True)
    out = torch.from_dlpack(x)
    array[7] = -1
    assert out[7] == -1
    gone = weakref.ref(array)
    del array, x
    gc.collect()
    assert gone() is not None
    del out
    gc.collect()
    assert gone() is None


def test_both_methods_give_the_same():
    """pyarrow has both; the device's is asked, and pyarrow's own __dlpack__ before it."""
    tensor = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(NUMBERS), 6)
    for obj in batch(NUMBERS)[3:9], pa.ExtensionArray.from_storage(tensor, lists)[1:], lists[2:], lists[4:]:
        x, host = asdlpack(only_device(obj)), asdlpack(only_arrow(obj))
        assert (x.pointer, x.shape, x.strides, x.dtype) == (host.pointer, host.shape, host.strides, host.dtype)
    booleans = pa.array([True, False, True] * 7)[2:]
    assert np.asarray(asdlpack(booleans, copy=None)).tolist() == booleans.to_pylist()
    assert asdlpack(pa.array(NUMBERS)).protocol == "__dlpack__"


def test_nulls_are_refused_with_the_libraries_own_words():
    refused(lambda: asdlpack(only_device(pa.array([1, None]))), "nulls")
    refused(lambda: asdlpack(pa.record_batch({"a": [1, None]})), "nulls", hint="fill_null")


# Out.


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64"])
def test_pyarrow_shares_it(dtype):
    source = np.arange(12).astype(dtype)
    for taken in pa.array(asdlpack(source)), to(source, pa.Array):
        assert taken.buffers()[1].address == source.ctypes.data
        assert taken.to_pylist() == source.tolist()
    source[3] = 99
    assert taken[3].as_py() == 99
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is not None
    del taken
    gc.collect()
    assert gone() is None


def test_pyarrow_asks_for_the_device_array():
    class Asked:
        def __init__(self, x):
            self.x = x
            self.asked = []

        def __arrow_c_device_array__(self, *args, **kwargs):
            self.asked.append((args, kwargs))
            return self.x.__arrow_c_device_array__(*args, **kwargs)

    asked = Asked(asdlpack(NUMBERS))
    assert pa.array(asked).to_pylist() == NUMBERS.tolist()
    assert len(asked.asked) == 1
    capsules = asdlpack(NUMBERS).__arrow_c_device_array__()
    array = pa.Array._import_from_c_device_capsule(*capsules)
    assert (array.buffers()[1].address, array.device_type) == (NUMBERS.ctypes.data, pa.DeviceAllocationType.CPU)
    whole = ArrowDeviceArray.from_address(capsule_pointer(capsules[1], b"arrow_device_array"))
    assert bool(whole.array.release) is False  # moved out


def test_pyarrow_makes_tensors_and_booleans():
    taken = pa.array(asdlpack(NUMBERS.reshape(4, 2, 3)))
    assert (taken.type.shape, taken.to_numpy_ndarray().tolist()) == ([2, 3], NUMBERS.reshape(4, 2, 3).tolist())
    assert pa.array(asdlpack(NUMBERS > 7)).type == pa.bool8()


def test_nanoarrow_takes_and_gives_it():
    x = asdlpack(NUMBERS)
    taken = nanoarrow.device.c_device_array(only_device(x))
    assert taken.device_type == nanoarrow.device.DeviceType.CPU
    assert taken.array.buffers[1] == NUMBERS.ctypes.data
    back = asdlpack(taken)
    assert (back.protocol, back.pointer) == ("__arrow_c_device_array__", NUMBERS.ctypes.data)


def test_pyarrow_refuses_a_gpu_and_we_say_what_to_do():
    """Its wheels have no CUDA; `to` refuses before, with the way out."""
    x = on_device((2, 0))
    refused(lambda: to(x, pa.Array), "device-differs")
    with pytest.raises((NotImplementedError, pa.ArrowException, ImportError)):
        pa.array(x)
