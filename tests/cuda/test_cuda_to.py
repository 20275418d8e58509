"""dlpack.to and the memory of GPUs: device=None never moves it, and each library gets what it can use."""

import sys
from functools import partial
from types import ModuleType

import numpy as np
import pytest

from dlpack import asdlpack, from_pointer, to
from support.capi import Speaks
from support.cuda_driver import with_driver
from support.cuda_layouts import numbers
from support.refusals import refused


def stand_in(name, array_type):
    """Puts a module into the place of a library, and returns its array type, whose x is what from_dlpack got."""
    module = ModuleType(name)

    class Array:
        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    setattr(module, array_type, Array)
    module.from_dlpack = Array
    sys.modules[name] = module
    return Array


def reason(*arguments, **keywords):
    with pytest.raises(BufferError) as caught:
        to(*arguments, **keywords)
    return caught.value.reason


@with_driver
def test_memory_of_a_gpu_reaches_numpy_only_by_device(driver):
    values = numbers(2, 3)
    array, host = driver.put(values), np.zeros(1)
    for target in "numpy", np, host, memoryview, "bytes":
        error = refused(partial(to, array, target), "device-differs", hint='pass device="cpu"', target="cpu")
        assert error.reason == "device-differs"
    assert error.details == {"device": "kDLCUDA:0", "target": "cpu"}
    for keywords in {"device": "cpu"}, {"device": "cpu", "copy": True}, {"device": host}:
        assert to(array, np, **keywords).tolist() == values.tolist()
    assert reason(array, np, device="cpu", copy=False) == "copy-forbidden"


@with_driver
def test_memory_of_the_host_reaches_cupy_only_by_device(driver):
    cupy, values = stand_in("cupy", "ndarray"), numbers(2, 3)
    for source in values, driver.allocate(8, kind="host").array():
        assert reason(source, "cupy") == "device-differs"
    x = to(values, "cupy", device="cuda:1").x
    assert x.__dlpack_device__() == (2, 1)
    assert driver.bytes_at(x.pointer, x.nbytes).tobytes() == values.tobytes()
    assert reason(values, cupy(x)) == "device-differs"
    assert to(values, cupy(x), device=cupy(x)).x.__dlpack_device__() == (2, 1)


@with_driver
def test_memory_that_both_can_read_is_shared(driver):
    tensor = stand_in("tvm_ffi", "Tensor")
    for kind in "host", "managed":
        memory = driver.allocate(8, kind=kind)
        array = to(memory.array(), "numpy", copy=False)
        array[0] = 7
        assert memory.bytes[0] == 7
        assert to(memory.array(), np.zeros(1)).ctypes.data == array.ctypes.data
    pinned = driver.allocate(8, kind="host")
    x = to(pinned.array(), tensor, copy=False).x
    assert (x.__dlpack_device__(), x.pointer) == ((1, 0), pinned.address)


@with_driver
def test_read_only_memory_of_a_gpu_is_copied_there(driver):
    stand_in("cupy", "ndarray")
    memory = driver.allocate(8)
    memory.bytes[:] = range(8)
    source = from_pointer(memory.address, 8, "uint8", device="cuda", readonly=True, owner=memory)
    x = to(source, "cupy").x
    assert (x.__dlpack_device__(), x.readonly, x.pointer != memory.address) == ((2, 0), False, True)
    assert driver.bytes_at(x.pointer, 8).tolist() == list(range(8))
    assert reason(source, "cupy", copy=False) == "read-only"


@with_driver
def test_an_array_of_the_target_is_returned_itself_on_its_device(driver):
    cupy = stand_in("cupy", "ndarray")
    array = cupy(asdlpack(driver.put(numbers(3))))
    for keywords in {}, {"device": "cuda"}, {"device": array}, {"copy": False}:
        assert to(array, "cupy", **keywords) is array
    assert to(array, array) is array


@with_driver
def test_the_stream_of_the_library_reaches_the_producer(driver):
    stand_in("cupy", "ndarray")
    x, streams = asdlpack(driver.put(numbers(3))), []

    def export(stream=None, **keywords):
        streams.append(stream)
        return x.__dlpack__(stream=stream, **keywords)

    made = to(Speaks(__dlpack__=export, __dlpack_device__=lambda: (2, 0)), "cupy")
    streams.clear()
    stream = driver.stream()
    made.x.__dlpack__(stream=stream, max_version=(1, 0))
    assert streams == [stream]
