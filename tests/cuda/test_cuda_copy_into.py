"""copy_into between the host and devices of CUDA: into memory that is there, in the order of both sides' streams."""

import itertools
import mmap
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack, copy_into, from_pointer, frombuffer
from support.capi import Managed
from support.cuda_driver import LEGACY, PER_THREAD, with_driver, with_each_driver
from support.cuda_layouts import COMPACTED, GATHERED, numbers
from support.refusals import refused


def room_on(driver, array, device, stream=None):
    """Compact memory of the array's shape and type, in which a kernel on the stream writes until then."""
    memory = driver.allocate(max(array.nbytes, 4), device)
    if stream is not None:
        driver.fill(stream, memory, 99)
    return memory.array(array.shape, array.dtype.newbyteorder("=").str, stream=stream)


def finish(driver, device, stream):
    """Waits for the kernel that writes to the room."""
    if stream is not None:
        driver.synchronize(stream, device)


def check_room(room, array):
    assert room.keep.bytes.view(array.dtype.newbyteorder("="))[: array.size].tolist() == array.ravel().tolist()


def unchanged(driver, live):
    assert driver.live() == live


def streams_of(driver):
    """Devices, each with a stream or none."""
    first, last = driver.devices[0], driver.devices[-1]
    return (first, None), (first, driver.stream()), (first, LEGACY), (first, PER_THREAD), (last, driver.stream(last))


@with_each_driver
def test_memory_of_the_host_goes_into_that_of_a_device(driver):
    others = {"swapped": numbers(4, 5, dtype=">f4"), "misaligned": np.zeros(41, "u1")[1:].view("f4")}
    streams = streams_of(driver)
    for array in {**COMPACTED, **GATHERED, **others}.values():
        for device, stream in streams:
            room = room_on(driver, array, device, stream)
            live = driver.live()
            assert copy_into(array, room) is None
            unchanged(driver, live)
            finish(driver, device, stream)
            check_room(room, array)


@with_each_driver
def test_memory_of_a_device_goes_into_any_of_the_host(driver):
    streams = streams_of(driver)
    for array in {**COMPACTED, **GATHERED}.values():
        rooms = [np.zeros(array.shape, array.dtype), np.zeros(array.shape[::-1], array.dtype).T]
        rooms += [
            np.zeros(array.shape, ">i4" if array.itemsize == 4 else "u1"),
            np.zeros([2 * n for n in array.shape], array.dtype)[(..., *[slice(0, None, 2)] * array.ndim)],
        ]
        for device, stream in streams:
            source = driver.put(array, device, stream=stream)
            live = driver.live()
            for room in rooms:
                room[...] = 0
                copy_into(source, room)
                assert room.tolist() == array.tolist()
            unchanged(driver, live)


@with_each_driver
def test_memory_of_a_device_goes_into_that_of_devices(driver):
    own, streams = driver.stream(), streams_of(driver)
    for array in COMPACTED.values():
        for device, stream in streams:
            source = driver.put(array, 0, stream=own)
            room = room_on(driver, array, device, stream)
            live = driver.live()
            driver.clear()
            copy_into(source, room)
            for log in driver.logged("cuMemAlloc_v2"):
                assert log == [] or (device != 0 and array.strides != numbers(*array.shape, dtype=array.dtype).strides)
            unchanged(driver, live)
            finish(driver, device, stream)
            check_room(room, array)


@with_each_driver
def test_overlapping_device_memory_is_read_before_it_is_written(driver):
    memory = driver.allocate(1 << 20, driver.devices[-1])
    items = np.arange(1 << 18, dtype="i4")
    live = driver.live()
    for first, target in (0, 4), (4, 0), (0, 0):
        memory.write(items)
        copy_into(memory.array((items.size - 1,), "<i4", first), memory.array((items.size - 1,), "<i4", target))
        expected = items.copy()
        expected[target // 4 :][: items.size - 1] = items[first // 4 :][: items.size - 1]
        assert (memory.bytes.view("i4") == expected).all()
    memory.write(items)
    rows_reversed = memory.array((3, 16), "<i4", 48 * 4, strides=(-64, 4))  # the last one is in the target
    copy_into(rows_reversed, memory.array((3, 16), "<i4"))
    assert memory.bytes.view("i4")[:48].tolist() == [*range(48, 64), *range(32, 48), *range(16, 32)]
    unchanged(driver, live)


@with_driver
def test_overlapping_managed_memory_is_read_before_it_is_written(driver):
    """Managed memory is the device's only if the object says so: asdlpack(obj, device="cuda")."""
    memory = driver.allocate(20_000, 0, "managed")
    for first, target in (0, 0), (0, 100), (100, 0):
        source_array = memory.array((10_000,), "|u1", first)
        target_array = memory.array((10_000,), "|u1", target)
        for source, room in itertools.product(
            (source_array, asdlpack(source_array, device="cuda")), (target_array, asdlpack(target_array, device="cuda"))
        ):
            memory.bytes[...] = np.arange(20_000) % 251 + 1
            expected = memory.bytes[first : first + 10_000].copy()
            copy_into(source, room)
            assert (memory.bytes[target : target + 10_000] == expected).all(), (source, room)


@with_driver
def test_a_failed_copy_to_the_host_leaves_the_target(driver):
    source, target, stream = driver.put(np.ones(10_000, "u1"), 0), bytearray(b"x" * 10_000), driver.stream()
    driver.fail("cuMemcpyDtoHAsync_v2", 1, 2)
    refused(lambda: copy_into(source, target), "driver-failed", MemoryError, result="CUDA_ERROR_OUT_OF_MEMORY")
    assert driver.failures_left() == 0
    refused(lambda: copy_into(driver.allocate(100_000).array((10_000,), "|u1", strides=(10,)), target), "scattered")
    captured = driver.allocate(10_000).array((10_000,), "|u1", stream=stream)
    driver.begin_capture(stream)
    refused(lambda: copy_into(captured, target), "capture")
    driver.end_capture(stream)
    assert target == b"x" * 10_000


@with_each_driver
def test_memory_that_both_reach_is_copied_by_the_cpu(driver):
    for kind in "host", "registered", "managed":
        array, stream = numbers(6, 4), driver.stream()
        source = driver.put(array, 0, kind, stream=stream)
        target = np.zeros((4, 6), "i4").T
        copy_into(source, target)
        assert target.tolist() == array.tolist()
        room = driver.put(array * 0, 0, kind, stream=stream)
        driver.clear()
        copy_into(array[::-1], room)
        for log in driver.logged("cuMemcpyHtoDAsync_v2"):
            assert log == []
        finish(driver, 0, stream)
        check_room(room, array[::-1])
        on_device = driver.put(array, 0, stream=stream)
        for one, other in (on_device, room), (room, on_device):
            copy_into(one, other)
            check_room(other, array)


@with_each_driver
def test_a_target_that_is_not_row_major_is_refused_on_a_device(driver):
    array, device = numbers(4, 6), driver.devices[-1]
    rooms = driver.put(array.T, device), driver.put(numbers(8, 6)[::2], device), driver.put(array[::-1], device)
    for room in *rooms, driver.put(numbers(4, 12)[:, ::2], device):
        shape = room.__cuda_array_interface__["shape"]
        before = room.keep.bytes.tolist()
        for source in np.zeros(shape, "i4"), driver.put(np.zeros(shape, "i4"), device):
            live, on = driver.live(), f"kDLCUDA:{device}"
            refused(partial(copy_into, source, room), "not-compact", device=on, dtype="int32", side="target")
            unchanged(driver, live)
        assert room.keep.bytes.tolist() == before


@with_driver
def test_other_refusals_name_the_side(driver):
    room = room_on(driver, numbers(4), 1)
    with pytest.raises(ValueError, match=r"source is int32 \(5,\), target is int32 \(4,\)"):
        copy_into(numbers(5), room)
    refused(lambda: copy_into(from_pointer(4096, 4, "int32"), room), "unreadable", address=4096, side="source")
    refused(lambda: copy_into(room, from_pointer(4096, 4, "int32")), "unwritable", address=4096, side="target")
    refused(lambda: copy_into(driver.put(numbers(40)[::10], 1), np.zeros(4, "i4")), "scattered", strides="40")
    rocm = asdlpack(Managed(4096, shape=(4,), dtype=(0, 32, 1), device=(10, 0)).capsule())
    refused(lambda: copy_into(rocm, room), "other-device", source="kDLROCM:0", target="kDLCUDA:1")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)
    address = np.frombuffer(page, "u1").ctypes.data
    refused(lambda: copy_into(room, from_pointer(address, 4, "int32", owner=page)), "unwritable", side="target")


@with_driver
def test_bits_behind_the_last_packed_item_stay_or_are_refused(driver):
    memory, room = driver.allocate(4, 1), bytearray(b"\xff" * 4)
    memory.bytes[...] = 0
    address = memory.array((4,), "|u1").__cuda_array_interface__["data"][0]
    packed = from_pointer(address, 7, "int4", device="cuda:1", owner=memory)
    copy_into(packed, frombuffer(room, "int4", 7))
    assert room.hex() == "000000f0"
    for source in frombuffer(room, "int4", 7), packed:
        with pytest.raises(
            BufferError, match=r"^target: int4 \(7,\) on kDLCUDA:1 ends within a byte; .*\(pass as many"
        ):
            copy_into(source, packed)
    copy_into(frombuffer(room, "int4", 8), from_pointer(address, 8, "int4", device="cuda:1", owner=memory))
    assert memory.bytes.tobytes() == room


@with_driver
def test_packed_items_become_pairs_on_a_device_and_back(driver):
    memory, data = driver.allocate(8, 1), bytearray(range(8))
    on_device = {
        name: from_pointer(memory.address, shape, name, device="cuda:1", owner=memory)
        for name, shape in {"int4": (2, 8), "int4x2": (2, 4)}.items()
    }
    on_host = {"int4": frombuffer(data, "int4", (2, 8)), "int4x2": frombuffer(data, "int4x2", (2, 4))}
    for there, here in ("int4", "int4x2"), ("int4x2", "int4"):
        memory.bytes[...] = 0
        copy_into(on_host[here], on_device[there])
        assert memory.bytes.tobytes() == bytes(range(8))
        memory.bytes[...] = 9
        copy_into(on_device[there], on_host[here])
        assert bytes(data) == b"\x09" * 8
        data[:] = range(8)
    memory.bytes[...] = np.arange(8)
    copy_into(on_device["int4"], on_device["int4x2"])
    assert memory.bytes.tobytes() == bytes(range(8))
    padded = np.zeros((2, 8), ml_dtypes.int4)
    for sides in (padded, on_device["int4x2"]), (on_device["int4"], padded):
        refused(partial(copy_into, *sides), "types-differ", ValueError, hint="pack or pad the items on the CPU")


@with_driver
def test_other_threads_run_while_the_device_is_written(driver):
    array = numbers(4, 6)
    room, on_device = room_on(driver, array, 1), driver.put(array, 1)
    assert driver.while_inside("cuMemcpyHtoDAsync_v2", lambda: copy_into(array, room)) is None
    assert driver.while_inside("cuMemcpyDtoHAsync_v2", lambda: copy_into(on_device, np.zeros((4, 6), "i4"))) is None
    check_room(room, array)
