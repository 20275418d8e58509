"""Copies between the host and devices of CUDA: complete when they return, in the order of the producer's stream."""

import contextlib
import ctypes
import itertools
import mmap
import re
import resource
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, from_pointer, frombuffer
from support.arrow_c import Column
from support.capi import Managed, Speaks, look
from support.cuda_driver import (
    COPIES,
    CPU,
    GLOBAL,
    LEGACY,
    PER_THREAD,
    RELAXED,
    THREAD_LOCAL,
    Driver,
    cuda,
    with_driver,
    with_each_driver,
)
from support.cuda_layouts import BLOCKS, COMPACTED, GATHERED, SPARSE, numbers
from support.layouts import DTYPES, LAYOUTS
from support.process import address_space, in_thread


def copies_in(log):
    """{direction: "how many of how many bytes"}, in the order of the log."""
    found = {}
    for line in log:
        direction, size = re.fullmatch(r"cuMemcpy(.+?)Async(?:_v2)?\(.*, (\w+), \w+\)", line).groups()
        found.setdefault((direction, size), []).append(line)
    return {direction: f"{len(lines)} of {size}" for (direction, size), lines in found.items()}


def unchanged(driver, live):
    assert driver.live() == live, (driver.live(), live)


def check_host(x, array):
    assert (x.device, x.shape, x.readonly, x.obj) == (CPU, array.shape, False, None)
    assert x.pointer % 64 == 0
    assert look(x.__dlpack__(max_version=(1, 0))).flags == 0
    out = np.from_dlpack(x)
    assert out.flags.c_contiguous
    assert out.dtype == array.dtype.newbyteorder("=")
    assert out.tolist() == array.tolist()


def check_device(driver, x, device, array):
    assert (x.device, x.shape, x.readonly, x.obj) == (cuda(device), array.shape, False, None)
    assert x.strides == tuple(
        s // array.itemsize for s in np.empty([max(n, 1) for n in array.shape], array.dtype).strides
    )
    tensor = look(x.__dlpack__(max_version=(1, 0)))
    assert (tensor.flags, tensor.dl_tensor.data or 0) == (0, x.pointer)
    if x.size == 0:
        assert x.pointer == 0
        return
    assert x.pointer % 64 == 0
    native = array.dtype.newbyteorder("=")
    assert driver.bytes_at(x.pointer, x.nbytes).view(native).reshape(array.shape).tolist() == array.tolist()


def check_copy(driver, x, array):
    if x.device == CPU:
        check_host(x, array)
    else:
        check_device(driver, x, x.device[1], array)


def check_rows(driver, memory, dtype):
    x = from_pointer(memory.address, (4, 2), dtype, device="cuda:1", strides=(3, 1))
    rows = [memory.bytes[row * 3 * x.itemsize :][: 2 * x.itemsize].tobytes() for row in range(4)]
    on_host, on_device = asdlpack(x, device="cpu", copy=None), asdlpack(x, device="cuda:2", copy=None)
    assert on_host.dtype == on_device.dtype == dtype
    assert ctypes.string_at(on_host.pointer, on_host.nbytes) == b"".join(rows)
    assert driver.bytes_at(on_device.pointer, on_device.nbytes).tobytes() == b"".join(rows)
    back = asdlpack(on_host, device="cuda:0", copy=None)
    assert driver.bytes_at(back.pointer, back.nbytes).tobytes() == b"".join(rows)


@with_each_driver
def test_memory_of_every_layout_is_copied_both_ways(driver):
    for array in {**COMPACTED, **GATHERED}.values():
        for device, p in (0, driver.stream()), (driver.devices[-1], driver.stream(driver.devices[-1])), (0, None):
            obj = driver.put(array, device, stream=p)
            live = driver.live()
            check_host(asdlpack(obj, device="cpu", copy=None), array)
            check_host(asdlpack(obj, device="cpu", copy=True), array)
            out = np.from_dlpack(asdlpack(obj), device="cpu")
            assert (out.tolist(), out.flags.writeable) == (array.tolist(), True)
            check_device(driver, asdlpack(array, device=f"cuda:{device}", copy=None), device, array)
            check_device(driver, asdlpack(array, device=cuda(device), copy=True), device, array)
            exported = asdlpack(asdlpack(array).__dlpack__(dl_device=(2, device), max_version=(1, 0)))
            check_host(asdlpack(exported, device="cpu", copy=None), array)
            del exported
            unchanged(driver, live)


@with_driver
def test_a_layout_is_copied_by_few_calls(driver):
    """Between devices, several blocks become one row on the first device."""
    for name, (array, blocks) in BLOCKS.items():
        source, target, host = (
            driver.put(array, 1),
            driver.put(np.zeros_like(array, order="C"), 1),
            np.zeros_like(array),
        )
        by_rows, row = "x" in blocks, f"1 of {array.nbytes}" if array.size else ""
        to_host, on_device = ({"3D" if by_rows else kind: blocks} for kind in ("DtoH", "DtoD"))
        between = on_device | {"Peer": row} if blocks != row else {"Peer": row}
        for copy, expected in (
            (partial(asdlpack, source, device="cpu", copy=None), to_host),
            (partial(copy_into, source, host), to_host),
            (partial(asdlpack, source, copy=True), on_device),
            (partial(copy_into, source, target), on_device),
            (partial(asdlpack, source, device="cuda:2", copy=None), between),
            (partial(asdlpack, host, device="cuda:1", copy=None), {"HtoD": row}),
            (partial(copy_into, host, target), {"HtoD": row}),
        ):
            driver.clear()
            copy()
            assert copies_in(driver.log(*COPIES)) == (expected if array.size else {}), (name, copy)
    for name, array in GATHERED.items():
        low, high = np.lib.array_utils.byte_bounds(array)
        source = driver.put(array, 1)
        driver.clear()
        asdlpack(source, device="cpu", copy=None)
        assert copies_in(driver.log(*COPIES)) == {"DtoH": f"1 of {high - low}"}, name


@with_each_driver
def test_items_of_every_type_are_copied_both_ways(driver):
    first, last = driver.devices[0], driver.devices[-1]
    for layout in LAYOUTS.keys() - {"reversed columns of every third row"}:  # spread thin
        for dtype in DTYPES:
            array = LAYOUTS[layout](dtype)
            obj = driver.put(array, last, stream=driver.stream(last))
            check_host(asdlpack(obj, device="cpu", copy=None), array)
            check_device(driver, asdlpack(array, device=f"cuda:{first}", copy=None), first, array)


@with_driver
def test_items_of_types_that_numpy_lacks_are_copied_as_bytes(driver):
    memory = driver.allocate(256, 1)
    memory.bytes[...] = np.arange(256)
    for dtype in "bfloat16", "float8_e4m3fn", "float4_e2m1fnx2", "float32x4", "int32x2":
        check_rows(driver, memory, dtype)


@with_driver
def test_items_of_another_byte_order_are_swapped_on_their_way(driver):
    for dtype in ">i2", ">f4", ">f8", ">c8", ">u8":
        for array in numbers(24, dtype=dtype), numbers(4, 6, dtype=dtype)[:, 1:5], numbers(4, 6, dtype=dtype).T:
            obj = driver.put(array, 1, stream=driver.stream(1))
            with pytest.raises(BufferError, match="copy=None"):
                asdlpack(obj, device="cpu")
            check_host(asdlpack(obj, device="cpu", copy=None), array)
            check_host(asdlpack(obj, device="cpu", copy=True), array)
            live = driver.live()
            for refused in (
                lambda obj=obj: asdlpack(obj, copy=None),
                lambda obj=obj: asdlpack(obj, copy=True),
                lambda obj=obj: asdlpack(obj, device="cuda:0", copy=None),
            ):
                with pytest.raises(BufferError, match=r'asdlpack\(x, device="cpu", copy=None\)'):
                    refused()
            unchanged(driver, live)
            check_device(driver, asdlpack(array, device="cuda:1", copy=None), 1, array)


@with_each_driver
def test_a_copy_on_the_device_is_compact(driver):
    for device in driver.devices[:2]:
        with driver.current(device):
            for array in COMPACTED.values():
                obj = driver.put(array, device, stream=driver.stream(device))
                live = driver.live()
                x = asdlpack(obj, copy=True)
                check_device(driver, x, device, array)
                y = asdlpack(asdlpack(obj).__dlpack__(copy=True, max_version=(1, 0)))
                check_device(driver, asdlpack(y, copy=True), device, array)
                assert len({0, obj.keep.address, x.pointer, y.pointer}) == (4 if x.size else 2)
                assert x.pointer % 256 == 0
                del x, y
                unchanged(driver, live)


@with_driver
def test_memory_without_blocks_is_refused_not_copied_by_item(driver):
    """Nor is it brought to the host with its gaps, if these are larger than the items."""
    for name, array in {**GATHERED, **SPARSE}.items():
        obj = driver.put(array, 1, stream=driver.stream(1))
        live = driver.live()
        driver.clear()
        spread = name in SPARSE
        way_out = r"\(copy it with the library that owns it\)" if spread else r'library that owns it, or .*device="cpu"'
        refusals = [
            (lambda obj=obj: asdlpack(obj, copy=True), way_out),
            (lambda obj=obj: asdlpack(obj).__dlpack__(copy=True), way_out),
            (lambda obj=obj: asdlpack(obj).__dlpack__(dl_device=(2, 0)), way_out),
            (lambda obj=obj: asdlpack(obj, device="cuda:2", copy=None), way_out),
        ]
        if spread:
            refusals += [
                (lambda obj=obj: asdlpack(obj, device="cpu", copy=None), "make it compact"),
                (lambda obj=obj: np.from_dlpack(asdlpack(obj), device="cpu"), "make it compact"),
            ]
        for copies, way_out in refusals:
            with pytest.raises(BufferError, match=f"strides .*{way_out}"):
                copies()
        unchanged(driver, live)
        assert driver.log(*COPIES) == []


@with_driver
def test_memory_is_copied_between_devices(driver):
    for name, array in COMPACTED.items():
        obj = driver.put(array, 0, stream=driver.stream(0))
        live = driver.live()
        x = asdlpack(obj, device="cuda:2", copy=None)
        check_device(driver, x, 2, array)
        y = asdlpack(asdlpack(obj).__dlpack__(dl_device=(2, 1), max_version=(1, 0)))
        assert y.device == cuda(1)
        z = asdlpack(y, device=(2, 0), copy=True)
        check_device(driver, z, 0, array)
        check_host(asdlpack(z, device="cpu", copy=None), array)
        del x, y, z
        unchanged(driver, live)
        assert driver.log("cuMemcpyPeerAsync") != [], name


@with_driver
def test_memory_of_a_pool_and_of_other_contexts_is_copied(driver):
    array = numbers(6, 8)[:, 1:5]
    context = driver.new_context(1)
    obj = driver.put(array, 1, "pool", stream=driver.stream(1))
    memory = driver.allocate(48, 1, context=context)
    driver.fill(LEGACY, memory, 7, context=context)
    live = driver.live()
    for current in driver.primary[0], driver.primary[1], context:
        with driver.context(current):
            check_host(asdlpack(obj, device="cpu", copy=None), array)
            check_device(driver, asdlpack(obj, copy=True), 1, array)
            check_device(driver, asdlpack(obj, device="cuda:2", copy=None), 2, array)
            x = asdlpack(memory.array(stream=LEGACY), device="cpu", copy=None)
            assert set(np.from_dlpack(x).tolist()) == {7}
    in_thread(lambda: check_host(asdlpack(obj, device="cpu", copy=None), array))
    in_thread(lambda: check_device(driver, asdlpack(obj, copy=True), 1, array))
    unchanged(driver, live)


@with_driver
def test_a_copy_on_the_device_is_of_the_memorys_context(driver):
    """Memory of a pool has none: the current one serves if it is of the same device, else the primary one."""
    other, (elsewhere, primary, _) = driver.new_context(1), driver.primary
    for kind, owner, current, expected in (
        ("plain", other, primary, "c1"),
        ("plain", primary, None, "primary1"),
        ("pool", primary, other, "c1"),
        ("pool", primary, primary, "primary1"),
        ("pool", primary, elsewhere, "primary1"),
        ("pool", primary, None, "primary1"),
    ):
        array = driver.allocate(8, 1, kind, context=owner).array(stream=LEGACY)

        def copy(array=array, current=current):
            with driver.context(current) if current else contextlib.nullcontext():
                return asdlpack(array, copy=True)

        live = driver.live()
        x = in_thread(copy)
        assert driver.live()["retained"] == live["retained"] + (expected == "primary1")
        driver.clear()
        del x
        assert driver.log("cuCtxPushCurrent_v2") == [f"cuCtxPushCurrent_v2({expected})"]
        unchanged(driver, live)
    driver.call("cuDevicePrimaryCtxRelease_v2", 1)
    array = driver.allocate(8, 1, context=other).array()
    driver.clear()
    asdlpack(array, copy=True)
    assert driver.log("cuDevicePrimaryCtxRetain") == []  # which would make one


@with_driver
def test_packed_items_are_copied_as_they_lie(driver):
    data = np.arange(1, 9, dtype="u1")
    packed = asdlpack(Managed(data.ctypes.data, shape=(3, 5), dtype=(1, 4, 1)).capsule())
    live = driver.live()
    x = asdlpack(packed, device="cuda:1", copy=None)
    assert (x.device, x.dtype, x.shape) == (cuda(1), "uint4", (3, 5))
    assert driver.bytes_at(x.pointer, 8).tolist() == data.tolist()
    for y in asdlpack(x, copy=True), asdlpack(x, device="cuda:0", copy=None):
        assert (y.dtype, y.shape) == ("uint4", (3, 5))
        assert driver.bytes_at(y.pointer, 8).tolist() == data.tolist()
    z = asdlpack(x, device="cpu", copy=None)
    assert (z.device, z.dtype, z.shape) == (CPU, "uint4", (3, 5))
    assert ctypes.string_at(z.pointer, 8) == data.tobytes()
    del x, y, z
    unchanged(driver, live)


@with_driver
def test_misaligned_items_are_copied(driver):
    memory = driver.allocate(64)
    memory.bytes[...] = np.arange(64)
    obj = memory.array((4,), "<i4", offset=3)
    expected = np.frombuffer(memory.bytes.tobytes()[3:19], "<i4")
    with pytest.raises(BufferError, match="copy=None"):
        asdlpack(obj)
    check_device(driver, asdlpack(obj, copy=None), 0, expected)
    check_host(asdlpack(obj, device="cpu", copy=None), expected)


@with_driver
def test_an_alignment_is_that_of_the_address_on_the_device(driver):
    array = numbers(8)
    for offset, kind in itertools.product((0, 64, 16), ("plain", "host")):
        memory = driver.allocate(256, 1, kind)
        assert memory.address % 64 == 0
        memory.bytes[offset : offset + array.nbytes] = array.view("u1")
        obj = memory.array(array.shape, array.dtype.str, offset)
        device = "cuda:1" if kind == "plain" else "cpu"
        if offset % 64 == 0:
            for copy in False, None:
                assert asdlpack(obj, align=64, device=device, copy=copy).pointer == memory.address + offset
        else:
            with pytest.raises(BufferError, match=r"is a multiple of 16; expected one of 64, .* \(pass copy=None"):
                asdlpack(obj, align=64, device=device)
            check_copy(driver, asdlpack(obj, align=64, device=device, copy=None), array)
        check_copy(driver, asdlpack(obj, align=64, device=device, copy=True), array)
        check_host(asdlpack(obj, align=64, device="cpu", copy=None if kind == "plain" else True), array)
        with pytest.raises(BufferError, match="copy=False forbids to copy it"):
            asdlpack(array, align=64, device="cuda:1")


@with_each_driver
def test_a_copy_is_complete_when_it_returns(driver):
    array = numbers(8)
    for p in driver.stream(), driver.stream(blocking=True), LEGACY, PER_THREAD:
        for arguments in {"device": "cpu", "copy": None}, {"copy": True}, *driver.to_others:
            obj = driver.put(array, stream=p)
            x = asdlpack(obj, **arguments)
            obj.keep.write(np.zeros(8, "i4"))
            obj.keep.free()
            check_copy(driver, x, array)
    x = asdlpack(array, device="cuda:0", copy=None)
    array[...] = 0
    check_device(driver, x, 0, numbers(8))


@with_each_driver
def test_a_copy_waits_for_the_producers_stream_alone(driver):
    memory, other = driver.allocate(8), driver.allocate(8)
    producer, elsewhere = driver.stream(), driver.stream()
    driver.fill(producer, memory, 7)
    with driver.gate() as gate:
        gate.fill(elsewhere, other, 7)
        x = asdlpack(memory.array(stream=producer), device="cpu", copy=None)
        assert set(np.from_dlpack(x).tolist()) == {7}
        assert not driver.is_done(elsewhere)
        gate.fill(producer, memory, 8)
        x = asdlpack(memory.array(stream=None), device="cpu", copy=None)
        assert set(np.from_dlpack(x).tolist()) == {7}
        gate.open()


@with_driver
def test_a_copy_waits_for_no_default_stream(driver):
    memory, other, producer = driver.allocate(8), driver.allocate(8), driver.stream()
    driver.fill(producer, memory, 7)
    for stream in driver.stream(blocking=True), LEGACY:
        driver.fill(stream, other, 7)
    asdlpack(memory.array(stream=producer), device="cpu", copy=None)
    assert set(other.bytes.tolist()) == {0}


@with_each_driver
def test_a_copy_waits_for_another_threads_stream(driver):
    for arguments in {"device": "cpu", "copy": None}, {"copy": True}, *driver.to_others:
        x = asdlpack(driver.put(numbers(8), stream=PER_THREAD))
        y = in_thread(lambda x=x, arguments=arguments: asdlpack(x, **arguments))
        check_copy(driver, y, numbers(8))


@with_driver
def test_consumers_of_a_copy_on_a_device_do_not_wait(driver):
    obj = driver.put(numbers(8), stream=driver.stream())
    consumer = driver.stream(1)
    x = asdlpack(obj, device="cuda:1", copy=None)
    driver.clear()
    for s in None, -1, LEGACY, PER_THREAD, consumer:
        look(x.__dlpack__(stream=s))
    assert driver.log() == []
    assert x.__cuda_array_interface__["stream"] is None
    look(asdlpack(obj).__dlpack__(stream=consumer, dl_device=(2, 1)))
    assert driver.log("cuStreamWaitEvent", "cuStreamSynchronize") != []


@with_driver
def test_a_copy_to_the_host_has_no_stream(driver):
    obj = driver.put(numbers(8), stream=driver.stream())
    for s in LEGACY, PER_THREAD, driver.stream(), -1:
        with pytest.raises(ValueError, match=f"stream {s}"):
            asdlpack(obj).__dlpack__(stream=s, dl_device=(1, 0))


@with_driver
def test_copy_false_never_copies(driver):
    array = numbers(8)
    obj = driver.put(array)
    live = driver.live()
    for copies in (
        lambda: asdlpack(obj, device="cpu"),
        lambda: asdlpack(obj, device="cuda:1"),
        lambda: asdlpack(array, device="cuda:0"),
        lambda: asdlpack(obj).__dlpack__(dl_device=(1, 0), copy=False),
        lambda: asdlpack(obj).__dlpack__(dl_device=(2, 1), copy=False),
        lambda: np.from_dlpack(asdlpack(obj), device="cpu", copy=False),
    ):
        with pytest.raises(BufferError, match="copy=None"):
            copies()
    for same in asdlpack(obj, device="cuda:0"), asdlpack(obj, device=(2, 0)), asdlpack(asdlpack(obj), device="cuda:0"):
        assert (same.pointer, same.device) == (obj.keep.address, cuda(0))
    unchanged(driver, live)


@with_driver
def test_a_device_that_is_not_there_is_refused(driver):
    obj = driver.put(numbers(8))
    live = driver.live()
    for device in 3, 100, 2**31 - 1:
        for copies in (
            lambda device=device: asdlpack(numbers(8), device=(2, device), copy=None),
            lambda device=device: asdlpack(obj, device=(2, device), copy=None),
            lambda device=device: asdlpack(obj).__dlpack__(dl_device=(2, device)),
            lambda device=device: asdlpack(bytearray(8)).__dlpack__(dl_device=(2, device)),
        ):
            with pytest.raises(BufferError, match=f"kDLCUDA:{device}.* 3"):
                copies()
    for device in (3, 0), (13, 0), (10, 0), (8, 0):
        with pytest.raises(BufferError, match="between the CPU and CUDA alone"):
            asdlpack(obj, device=device, copy=None)
    unchanged(driver, live)


@with_each_driver
def test_more_than_a_device_has_is_a_memory_error(driver):
    x = from_pointer(4096, driver.available() + (1 << 30), "uint8")  # it isn't read before
    with pytest.raises(MemoryError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        asdlpack(x, device="cuda:0", copy=None)


@with_driver
def test_a_device_without_memory_is_an_error_that_says_how_much(driver):
    array = np.zeros(1 << 20, "u1")
    obj = driver.put(array, 1)
    with driver.current(1):
        driver.give("cuMemAlloc_v2", driver.available(1) - 1000)
    live = driver.live()
    for copies in (
        lambda: asdlpack(array, device="cuda:1", copy=None),
        lambda: asdlpack(from_pointer(4096, 1 << 20, "uint8"), device="cuda:1", copy=None),  # it isn't read before
        lambda: asdlpack(obj, copy=True),
        lambda: asdlpack(asdlpack(array, device="cuda:0", copy=None), device="cuda:1", copy=None),
    ):
        with pytest.raises(MemoryError, match="1048576"):
            copies()
    unchanged(driver, live)


@with_driver
def test_a_gather_without_memory_of_the_host_is_a_memory_error(driver):
    """The copy has its 64 MiB; the memory for all bytes between the items has none."""
    every_second = driver.allocate(128 << 20).array((1 << 12, 1 << 12), "<i4", strides=(1 << 15, 8))
    check_host(asdlpack(driver.put(numbers(4, 6)[:, ::2]), device="cpu", copy=None), numbers(4, 6)[:, ::2])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + (100 << 20), before[1]))
    with pytest.raises(MemoryError, match="no memory of the host for 134217724 bytes"):
        asdlpack(every_second, device="cpu", copy=None)
    resource.setrlimit(resource.RLIMIT_AS, before)
    assert asdlpack(every_second, device="cpu", copy=None).nbytes == 64 << 20


# Memory that the CPU can also read.


@with_each_driver
@pytest.mark.parametrize("kind", ["managed", "host", "registered"])
def test_memory_that_the_cpu_reaches_is_shared_with_it(kind, driver):
    first, last = driver.devices[0], driver.devices[-1]
    for p in None, driver.stream(last), driver.stream(last, blocking=True), driver.stream(first), LEGACY, PER_THREAD:
        memory = driver.allocate(8, last, kind)
        obj = memory.array(stream=p)
        x = asdlpack(obj)
        for share in (
            lambda obj=obj: np.from_dlpack(asdlpack(obj, device="cpu")),
            lambda x=x: np.from_dlpack(asdlpack(x, device="cpu")),
            lambda x=x: np.from_dlpack(x, device="cpu"),
            lambda x=x: np.from_dlpack(x, device="cpu", copy=False),
            lambda x=x: np.asarray(memoryview(x)),
            lambda x=x: np.asarray(x),
            lambda x=x: np.asarray(Speaks(__array_interface__=x.__array_interface__, keep=x)),
            lambda x=x: np.asarray(Speaks(__array_struct__=x.__array_struct__, keep=x)),
        ):
            memory.write(np.zeros(8, "u1"))
            if p is not None:
                driver.fill(p, memory, 7)
            out = share()
            assert out.ctypes.data == memory.address
            assert set(out.tolist()) == {0 if p is None else 7}
            out[0] = 9
            assert memory.bytes[0] == 9
        y = asdlpack(obj, device="cpu")
        assert (y.device, y.pointer, y.obj is obj) == (CPU, memory.address, True)
        assert look(y.__dlpack__(max_version=(1, 0))).flags == 0
        capsule = x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
        assert look(capsule).dl_tensor.device.device_type == 1
        with pytest.raises(ValueError, match="stream 1"):
            y.__dlpack__(stream=1)


@with_driver
@pytest.mark.parametrize("kind", ["managed", "host", "registered"])
def test_a_copy_of_memory_that_the_cpu_reaches_is_plain_memory(kind, driver):
    for array in numbers(4, 6), numbers(4, 6).T, numbers(30)[::3], numbers(4, 6, dtype=">i2"):
        obj = driver.put(array, 1, kind, stream=driver.stream(1))
        check_host(asdlpack(obj, copy=True), array)
        obj = driver.put(array, 1, kind, stream=driver.stream(1))
        check_device(driver, asdlpack(obj, device="cuda:1", copy=None if kind != "managed" else True), 1, array)
        obj = driver.put(array, 1, kind, stream=driver.stream(1))
        check_device(driver, asdlpack(obj, device="cuda:2", copy=True), 2, array)


@with_driver
def test_arrow_waits_for_memory_that_the_cpu_reaches(driver):
    memory = driver.allocate(8, 1, "managed")
    p = driver.stream(1)
    driver.fill(p, memory, 7)
    x = asdlpack(memory.array(stream=p))
    kept = x.__arrow_c_array__()
    assert ctypes.string_at(x.pointer, 8) == b"\7" * 8
    del kept


# Captures of graphs go on.


@with_each_driver
def test_copies_and_what_frees_them_break_no_capture(driver):
    array = numbers(6, 8)[:, 1:5]
    capturing, p = driver.stream(), driver.stream()
    obj, managed = driver.put(array, stream=p), driver.put(array, kind="managed", stream=p)
    room, host = driver.put(np.zeros((6, 4), array.dtype)), np.zeros((6, 4), array.dtype)
    made = []

    def copy():
        made.extend(
            asdlpack(source, **arguments)
            for source, arguments in (
                (obj, {"device": "cpu", "copy": None}),
                (obj, {"copy": True}),
                (array, {"device": "cuda:0", "copy": None}),
                (managed, {"device": "cpu"}),
                *((obj, arguments) for arguments in driver.to_others),
            )
        )
        asdlpack(obj, copy=True)  # freed at once
        for source, target in (array, room), (obj, room), (room, room), (room, host):
            copy_into(source, target)
        return driver.live()["mode"]

    for mode in GLOBAL, THREAD_LOCAL, RELAXED:
        driver.begin_capture(capturing, mode)
        assert copy() == GLOBAL
        assert in_thread(copy) == GLOBAL
        driver.end_capture(capturing)
    for mode in THREAD_LOCAL, RELAXED, GLOBAL:
        driver.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(mode)))
        assert copy() == mode
    for x in made:
        if x.obj is None:
            check_copy(driver, x, array)
        assert np.from_dlpack(x, device="cpu").tolist() == array.tolist()
    assert host.tolist() == array.tolist()


@with_each_driver
def test_memory_in_a_capture_is_neither_copied_nor_waited_for(driver):
    capturing = driver.stream()
    memory = driver.allocate(8)
    managed = driver.allocate(8, kind="managed")
    x, y = asdlpack(memory.array(stream=capturing)), asdlpack(managed.array(stream=capturing))
    live = driver.live()
    driver.begin_capture(capturing)
    for refused in (
        lambda: asdlpack(x, device="cpu", copy=None),
        lambda: np.from_dlpack(x, device="cpu"),
        lambda: asdlpack(x, copy=True),
        lambda: asdlpack(y, device="cpu"),
        lambda: asdlpack(y, copy=True),
        lambda: memoryview(y),
        lambda: np.from_dlpack(y, device="cpu"),
        *(partial(asdlpack, x, **arguments) for arguments in driver.to_others),
    ):
        with pytest.raises(BufferError, match="captur"):
            refused()
    driver.end_capture(capturing)
    unchanged(driver, live)


# Other ways in.


@with_driver
def test_frombuffer_keeps_the_device_and_the_stream(driver):
    p, consumer = driver.stream(1), driver.stream(1)
    memory = driver.allocate(8, 1)
    driver.fill(p, memory, 1)
    x = frombuffer(asdlpack(memory.array(stream=p)), "uint16", (2, 2))
    assert (x.device, x.shape, x.pointer) == (cuda(1), (2, 2), memory.address)
    assert x.__cuda_array_interface__["stream"] == p
    assert driver.read_on(consumer, look(x.__dlpack__(stream=consumer)).dl_tensor.data, 1) == {1}
    assert np.from_dlpack(asdlpack(x, device="cpu", copy=None)).tolist() == [[257, 257], [257, 257]]


@with_driver
def test_a_wrong_address_of_the_host_is_not_read_by_the_driver(driver):
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin + mmap.PAGESIZE), mmap.PAGESIZE, 0)
    asdlpack(from_pointer(begin, mmap.PAGESIZE, "uint8", owner=pages), device="cuda:1", copy=None)
    live = driver.live()
    for shape, strides in ((2, mmap.PAGESIZE), None), ((mmap.PAGESIZE + 1,), None), ((2, 8), (mmap.PAGESIZE, 1)):
        x = from_pointer(begin, shape, "uint8", strides=strides, owner=pages)
        with pytest.raises(BufferError, match="data: the memory at 0x[0-9a-f]+ can't be read"):
            asdlpack(x, device="cuda:1", copy=None)
        unchanged(driver, live)
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin + mmap.PAGESIZE), mmap.PAGESIZE, 3)


@with_driver
def test_the_driver_is_initialised_for_a_copy_to_a_device_alone():
    driver = Driver(initialise=False)
    x = asdlpack(Managed(1 << 20, shape=(8,), dtype=(1, 8, 1), device=(2, 1)).capsule())
    for refused in lambda: asdlpack(x, device="cpu", copy=None), lambda: asdlpack(x, copy=True):
        with pytest.raises(BufferError, match="CUDA_ERROR_NOT_INITIALIZED"):
            refused()
    assert driver.log("cuInit") == []
    copied = asdlpack(numbers(8), device="cuda:1", copy=None)
    assert driver.log("cuInit") == ["cuInit(0)"]
    assert driver.live()["pushed"] == 0
    assert driver.live()["retained"] == 1
    check_host(asdlpack(copied, device="cpu", copy=None), numbers(8))
    del copied
    assert not any(driver.live().values())


@with_driver
def test_managed_memory_is_that_of_each_gpu_in_order(driver):
    memory, consumer = driver.allocate(8, 1, "managed"), driver.stream()
    stream = driver.stream(1)
    array = memory.array(stream=stream)
    for x in asdlpack(array, device="cuda:0"), asdlpack(asdlpack(array), device="cuda:2"):
        assert x.device[0] == 2
        assert x.pointer == memory.address
        driver.fill(stream, memory, 5)
        capsule = x.__dlpack__(stream=consumer)
        assert (look(capsule).dl_tensor.device.device_type, look(capsule).dl_tensor.data) == (2, memory.address)
        driver.synchronize(consumer)
        assert set(memory.bytes.tolist()) == {5}
        memory.bytes[...] = 0
    tensor = look(asdlpack(array).__dlpack__(dl_device=(2, 1), copy=False)).dl_tensor
    assert (tensor.device.device_type, tensor.device.device_id, tensor.data) == (2, 1, memory.address)


@with_driver
def test_managed_memory_is_copied_to_the_gpu_that_it_is_named_as(driver):
    array = numbers(4, 6)[:, 1:4]
    x = asdlpack(driver.put(array, 2, "managed"), device="cuda:0")
    check_device(driver, asdlpack(x, copy=True), 0, array)
    target = driver.put(np.zeros((4, 3), array.dtype), 0)
    copy_into(x, target)
    check_host(asdlpack(target, device="cpu", copy=True), array)


@with_driver
@pytest.mark.parametrize("copy", [None, True])
def test_booleans_of_arrow_are_unpacked_on_their_way_to_a_device(copy, driver):
    values = [True, False, True, True, False, False, False, True, True]
    column = Column(b"b", np.packbits(values, bitorder="little"), array={"length": 9})
    x = asdlpack(column.exporter(), device="cuda", copy=copy)
    assert driver.bytes_at(x.pointer, 9).tolist() == values
