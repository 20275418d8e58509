"""The device of CUDA memory: the driver is asked, by the address, and by nothing else that could err."""

import itertools
from ctypes.util import find_library

import numpy as np
import pytest

from dlpack import DLDeviceType, asdlpack, describe, from_pointer
from support.alone import python
from support.capi import Managed, look
from support.cuda_driver import Driver, cuda_array, with_driver, with_each_driver
from support.process import in_thread

DEVICE_OF = {
    "plain": lambda device: (DLDeviceType.kDLCUDA, device),
    "pool": lambda device: (DLDeviceType.kDLCUDA, device),
    "virtual": lambda device: (DLDeviceType.kDLCUDA, device),
    "managed": lambda device: (DLDeviceType.kDLCUDAManaged, 0),
    "host": lambda device: (DLDeviceType.kDLCUDAHost, 0),
    "registered": lambda device: (DLDeviceType.kDLCUDAHost, 0),
}


def named(device):
    return f"{device[0].name}:{device[1]}"


def mapped():
    with open("/proc/self/maps") as lines:
        return any("libcuda" in line for line in lines)


@with_each_driver
def test_memory_of_each_kind_is_on_its_device(driver):
    for kind, device in itertools.product(driver.kinds, driver.devices):
        memory = driver.allocate(48, device, kind)
        memory.write(np.arange(12, dtype="f4"))
        expected = DEVICE_OF[kind](device)
        for version, offset in (0, 0), (1, 0), (2, 0), (3, 0), (3, 24):
            x = asdlpack(memory.array((2, 3), "<f4", offset, version=version))
            assert x.device == expected, x
            assert (x.pointer, x.shape, x.dtype) == (memory.address + offset, (2, 3), "float32")
            assert x.__dlpack_device__() == tuple(map(int, expected))
            assert describe(x)["device"] == named(expected)
            tensor = look(x.__dlpack__(max_version=(1, 0))).dl_tensor
            assert (tensor.device.device_type, tensor.device.device_id) == tuple(map(int, expected))
            assert (tensor.data, tensor.byte_offset) == (memory.address + offset, 0)
            assert np.ravel(np.asarray(asdlpack(x, copy=None, device="cpu"))).tolist() == [
                *range(offset // 4, offset // 4 + 6)
            ]
        for said in expected, named(expected).removeprefix("kDL").lower():
            x = from_pointer(memory.address, 12, "float32", device=said)
            assert (x.device, x.pointer) == (expected, memory.address)
        if expected[0] == DLDeviceType.kDLCUDA:
            with pytest.raises(ValueError, match=rf"{memory.address:#x}.*{named(expected)}"):
                from_pointer(memory.address, 12, "float32", device=f"cuda:{device + 1}")


@with_driver
def test_a_context_is_neither_made_nor_left_for_a_question(driver):
    memory = driver.allocate(8, 1)
    live = driver.live()
    driver.clear()
    asdlpack(memory.array())
    assert driver.live() == live
    assert in_thread(lambda: (asdlpack(memory.array()), driver.live()["pushed"])[1]) == 0
    changing = ("cuInit", "cuDevicePrimaryCtxRetain", "cuCtxCreate_v2", "cuCtxSetCurrent")
    assert driver.log(*changing) == []


@with_each_driver
def test_memory_without_items_is_on_the_current_device(driver):
    memory = driver.allocate(8, driver.devices[-1])
    for shape, address in itertools.product([(0,), (3, 0)], [0, memory.address]):
        array = cuda_array(address, shape)
        for device in driver.devices:
            with driver.current(device):
                x = asdlpack(array)
                assert (x.device, x.size, x.pointer) == ((DLDeviceType.kDLCUDA, device), 0, 0)
                assert look(x.__dlpack__(stream=1)).dl_tensor.data is None
                assert np.from_dlpack(x, device="cpu").shape == asdlpack(x, copy=True).shape == shape
        assert in_thread(lambda array=array: asdlpack(array).device) == (DLDeviceType.kDLCUDA, 0)


@with_each_driver
def test_an_address_unknown_to_the_driver_is_a_value_error(driver):
    freed = []
    for kind in driver.freed_kinds:
        memory = driver.allocate(64, kind=kind)
        assert asdlpack(memory.array()).device == DEVICE_OF[kind](0)
        memory.free()
        freed.append(memory.address)
    host = np.zeros(16, "f4")
    for address in *freed, host.ctypes.data, 8, 1 << 20, 0xDEAD0000, 1 << 47, 1 << 63:
        obj = cuda_array(address, (16,), "<f4", stream=1)
        for arguments in {}, {"copy": None}, {"copy": True}, {"device": "cpu", "copy": None}:
            with pytest.raises(ValueError, match=hex(address)):
                asdlpack(obj, **arguments)
        if address < 1 << 63:
            with pytest.raises(ValueError, match=hex(address)):
                from_pointer(address, 16, "float32", device="cuda:0")


@with_driver
def test_a_pointer_on_another_device_is_a_value_error(driver):
    cuda, managed, host = DLDeviceType.kDLCUDA, DLDeviceType.kDLCUDAManaged, DLDeviceType.kDLCUDAHost
    for kind, said in [
        ("plain", (cuda, 0)),
        ("plain", (cuda, 2)),
        ("plain", (managed, 0)),
        ("plain", (host, 0)),
        ("pool", (cuda, 0)),
        ("host", (cuda, 1)),
        ("host", (managed, 0)),
        ("registered", (cuda, 1)),
        ("managed", (host, 0)),
    ]:
        memory = driver.allocate(64, 1, kind)
        text = f"{named(said)}: the memory at {memory.address:#x} is on {named(DEVICE_OF[kind](1))} .*pass that device"
        with pytest.raises(ValueError, match=text):
            from_pointer(memory.address, 16, "float32", device=said)


@with_each_driver
def test_managed_memory_may_be_called_memory_of_a_device(driver):
    memory = driver.allocate(64, driver.devices[-1], "managed")
    for device in driver.devices:
        x = from_pointer(memory.address, 16, "float32", device=f"cuda:{device}")
        assert x.device == (DLDeviceType.kDLCUDA, device)


@with_driver
def test_the_device_in_a_capsule_is_trusted_without_the_driver(driver):
    memory = driver.allocate(64, 1)
    driver.clear()
    x = asdlpack(Managed(memory.address, shape=(16,), device=(2, 2)).capsule())
    assert x.device == (DLDeviceType.kDLCUDA, 2)
    look(x.__dlpack__())
    assert driver.log() == []


@with_driver
def test_the_driver_is_loaded_when_needed_not_initialised():
    memory = bytearray(8)
    np.from_dlpack(asdlpack(memory))
    asdlpack(memory, copy=True)
    look(asdlpack(Managed(1 << 20, shape=(2,), device=(2, 1)).capsule()).__dlpack__())
    assert not mapped()
    for arguments in {}, {"device": "cpu", "copy": None}, {"copy": True}:
        with pytest.raises(BufferError, match="CUDA_ERROR_NOT_INITIALIZED"):
            asdlpack(cuda_array(1 << 20, (2,), "<f4"), **arguments)
    assert mapped()
    driver = Driver(initialise=False)
    assert driver.log("cuInit") == []
    with pytest.raises(BufferError, match="CUDA_ERROR_NOT_INITIALIZED"):
        from_pointer(1 << 20, 2, "float32", device="cuda:0")
    driver.initialise()
    assert asdlpack(driver.allocate(8, 1).array()).device == (DLDeviceType.kDLCUDA, 1)


WITHOUT_DRIVER = """
import dlpack, numpy

class Array:
    __cuda_array_interface__ = {"version": 3, "shape": (2,), "typestr": "<f4", "data": (1 << 20, False)}

def refused(function):
    try:
        function()
    except BufferError as error:
        assert "libcuda.so.1" in str(error), error
        return
    raise AssertionError("not refused")

refused(lambda: dlpack.asdlpack(Array()))
refused(lambda: dlpack.asdlpack(Array(), device="cpu", copy=None))
refused(lambda: dlpack.from_pointer(1 << 20, 2, "float32", device="cuda:0"))
refused(lambda: dlpack.asdlpack(bytearray(8), device="cuda:0", copy=None))
refused(lambda: dlpack.asdlpack(bytearray(8)).__dlpack__(dl_device=(2, 0)))
assert numpy.from_dlpack(dlpack.asdlpack(bytearray(8))).shape == (8,)
assert numpy.from_dlpack(dlpack.asdlpack(bytearray(8), device="cpu")).shape == (8,)
"""


@pytest.mark.parametrize("installed", [False, True])
def test_without_a_driver_an_object_of_cuda_is_a_buffer_error(installed, tmp_path):
    """Or with a file that is none, and the first that is found."""
    if installed:
        (tmp_path / "libcuda.so.1").write_text("not a library")
    elif find_library("cuda"):
        pytest.skip("this machine has a CUDA driver")
    result = python(WITHOUT_DRIVER, environ={"LD_LIBRARY_PATH": str(tmp_path)})
    assert result.returncode == 0, result.stderr


@with_driver
def test_keys_that_the_cuda_array_interface_has_not_are_ignored(driver):
    memory = driver.allocate(8)
    assert asdlpack(cuda_array(memory.address, keep=memory, offset=4, color="red")).pointer == memory.address


@with_driver
def test_read_only_memory_stays_read_only_and_masks_are_refused(driver):
    memory = driver.allocate(64, 1)
    x = asdlpack(memory.array((2, 3), "<f4", data=(memory.address, True), strides=(4, 8)))
    assert (x.readonly, x.strides, x.nbytes) == (True, (1, 2), 24)
    assert look(x.__dlpack__(max_version=(1, 0))).flags == 1
    with pytest.raises(BufferError, match="mask"):
        asdlpack(memory.array(mask=memory.array()))
