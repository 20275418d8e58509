"""Arrow device arrays of CUDA: whoever reads the memory waits for their event, and nobody else does.

The driver does nothing before it is waited for: a kernel of the producer's is queued, and a consumer not ordered after
its event reads what was there before.
"""

import contextlib
import ctypes
import gc

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, frombuffer
from dlpack._abi import capsule_pointer
from support.arrow_c import ArrowDeviceArray, DeviceColumn, DeviceStream
from support.capi import Speaks, look
from support.cuda_driver import LEGACY, PER_THREAD, with_driver
from support.process import in_thread
from support.refusals import refused

ORDER = "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2", "cuStreamSynchronize"
CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13


class Produced:
    """Memory that a kernel on a stream of the producer's fills with 7, and the event behind that kernel."""

    def __init__(self, driver, kind="plain", device=0, has_event=True):
        self.memory = driver.allocate(8, device, kind)
        self.stream = driver.stream(device)
        driver.fill(self.stream, self.memory, 7)
        with driver.current(device):
            self.event = ctypes.c_uint64(driver.give("cuEventCreate", 2))
            driver.call("cuEventRecord", self.event.value, self.stream)
        types = {"plain": CUDA, "host": CUDA_HOST, "managed": CUDA_MANAGED}
        self.column = DeviceColumn(
            b"C",
            np.zeros(8, "u1"),
            device=(types[kind], device),
            event=ctypes.addressof(self.event) if has_event else None,
        )
        self.column.array.buffers[1] = self.memory.address
        driver.clear()

    def object(self):
        return asdlpack(self.column.exporter())


def export(x, **stream):
    return look(x.__dlpack__(**stream)).dl_tensor.data


@with_driver
def test_the_consumers_stream_waits_for_the_event(driver):
    """It alone does: the host does not wait, and nobody else's event is made."""
    streams = {"s": driver.stream(), "1": LEGACY, "2": PER_THREAD}
    for name, stream in [*streams.items(), ("1", None), ("1", "no stream")]:
        produced = Produced(driver)
        x = produced.object()
        assert (x.device, x.pointer) == ((CUDA, 0), produced.memory.address)
        assert driver.log() == []
        address = export(x, **({} if stream == "no stream" else {"stream": stream}))
        (waited,) = driver.log(*ORDER)
        assert waited.startswith("cuStreamWaitEvent(s" if name == "s" else f"cuStreamWaitEvent({name}, "), waited
        assert produced.memory.bytes[0] == 0
        assert driver.read_on(streams[name], address) == {7}


@with_driver
def test_each_consumer_waits(driver):
    produced = Produced(driver)
    x = produced.object()
    one, two = driver.stream(), driver.stream()
    export(x, stream=one)
    export(x, stream=two)
    assert [line.partition("(")[0] for line in driver.log(*ORDER)] == ["cuStreamWaitEvent"] * 2
    in_thread(lambda: export(x, stream=PER_THREAD))
    assert len(driver.log(*ORDER)) == 3


@with_driver
def test_nothing_waits_without_an_event_or_an_order(driver):
    x = Produced(driver, has_event=False).object()
    for stream in None, LEGACY, PER_THREAD, driver.stream(), -1:
        driver.clear()
        export(x, stream=stream)
        assert driver.log(*ORDER) == []
    x = Produced(driver).object()
    export(x, stream=-1)
    assert driver.log() == []


@with_driver
def test_a_stream_of_another_device_waits(driver):
    produced = Produced(driver, device=1)
    stream = driver.stream(2)
    assert driver.read_on(stream, export(produced.object(), stream=stream), 2) == {7}


@with_driver
def test_a_stream_of_arrays_has_the_event_of_its_chunk(driver):
    produced = Produced(driver)
    x = asdlpack(DeviceStream(produced.column, device_type=CUDA).exporter())
    stream = driver.stream()
    assert driver.read_on(stream, export(x, stream=stream)) == {7}


@with_driver
def test_copies_wait_for_the_event(driver):
    for copy in (
        lambda x: np.asarray(asdlpack(x, device="cpu", copy=None)),
        lambda x: np.asarray(asdlpack(asdlpack(x, copy=True), device="cpu", copy=None)),
        lambda x: np.asarray(asdlpack(asdlpack(x, device=(2, 1), copy=None), device="cpu", copy=None)),
    ):
        for made in True, False:
            produced = Produced(driver)
            live = driver.live()
            array = copy(produced.object() if made else produced.column.exporter())
            assert set(array.tolist()) == {7}
            del array
            gc.collect()
            assert {**driver.live(), "events": 0} == {**live, "events": 0}
    produced = Produced(driver)
    target = np.zeros(8, "u1")
    copy_into(produced.column.exporter(), target)
    assert set(target.tolist()) == {7}


@with_driver
def test_the_cpu_waits_for_memory_that_it_reads(driver):
    for kind in "host", "managed":
        produced = Produced(driver, kind)
        assert set(np.from_dlpack(produced.object()).tolist()) == {7}
        produced = Produced(driver, kind)
        assert set(memoryview(produced.object())) == {7}


@with_driver
def test_the_cuda_array_interface_names_a_stream_that_waits(driver):
    produced = Produced(driver)
    interface = produced.object().__cuda_array_interface__
    assert (interface["stream"], interface["data"][0]) == (LEGACY, produced.memory.address)
    assert driver.log("cuStreamWaitEvent")[0].startswith("cuStreamWaitEvent(1, ")
    assert driver.read_on(LEGACY, produced.memory.address) == {7}


@with_driver
def test_other_views_of_the_memory_wait_as_well(driver):
    produced = Produced(driver)
    stream = driver.stream()
    assert driver.read_on(stream, export(frombuffer(produced.object(), "uint16"), stream=stream)) == {7}


@with_driver
def test_array_and_event_are_released_after_the_last_consumer(driver):
    produced = Produced(driver)
    x = produced.object()
    capsules = [x.__dlpack__(stream=stream) for stream in (-1, driver.stream())]
    del x
    while capsules:
        assert produced.column.released == (0, 0)
        capsules.pop()
    assert produced.column.released == (1, 1)
    assert driver.live()["events"] == 1  # its own release would free it; nobody else does


@with_driver
def test_the_capture_of_a_graph_is_not_broken(driver):
    produced = Produced(driver)
    stream = driver.stream()
    driver.begin_capture(stream)
    x = produced.object()
    refused(lambda: export(x, stream=stream), "capture")
    driver.end_capture(stream)
    assert driver.read_on(stream, export(x, stream=stream)) == {7}


@with_driver
def test_an_event_that_is_none_is_named(driver):
    produced = Produced(driver)
    x = produced.object()
    driver.call("cuEventDestroy_v2", produced.event.value)
    for consume in lambda: export(x), lambda: asdlpack(x, device="cpu", copy=None), lambda: x.__cuda_array_interface__:
        with pytest.raises((BufferError, AttributeError)) as caught:
            consume()
        assert caught.value.reason == "driver-failed"
    del caught
    produced = Produced(driver)
    produced.event.value = 64
    x = produced.object()
    with pytest.raises(ValueError) as caught:
        export(x)
    assert caught.value.reason == "unreadable"


@with_driver
def test_failing_calls_leave_nothing(driver):
    stream = driver.stream()
    failures = 0
    for consume in lambda x: export(x, stream=stream), lambda x: asdlpack(x, device="cpu", copy=None):
        for nth in range(30):
            produced = Produced(driver)
            live = driver.live()
            x = produced.object()
            driver.fail(None, nth, 1)
            with contextlib.suppress(BufferError, ValueError):
                consume(x)
            failures += driver.failures_left() == 0
            del x
            gc.collect()
            assert (driver.live(), produced.column.released) == (live, (1, 1))
    assert failures > 15


# Out.


def whole_of(pair):
    return ArrowDeviceArray.from_address(capsule_pointer(pair[1], b"arrow_device_array"))


@with_driver
def test_exported_memory_is_complete(driver):
    """Its event is NULL: nobody who takes it has to wait."""
    streams = {"own": driver.stream(), "legacy": LEGACY, "per thread": PER_THREAD}
    for stream in streams.values():
        memory = driver.allocate(8)
        driver.fill(stream, memory, 7)
        pair = asdlpack(memory.array(stream=stream)).__arrow_c_device_array__()
        assert set(memory.bytes.tolist()) == {7}
        whole = whole_of(pair)
        assert (whole.device_type, whole.device_id, whole.sync_event) == (CUDA, 0, None)
        assert whole.array.buffers[1] == memory.address
    produced = Produced(driver)
    live = driver.live()
    x = produced.object()
    pair = x.__arrow_c_device_array__()
    assert set(produced.memory.bytes.tolist()) == {7}
    assert driver.live() == live
    del x
    assert produced.column.array_released == 0
    del pair
    assert produced.column.released == (1, 1)


@with_driver
def test_a_producer_with_dlpack_is_ordered_and_waited_for(driver):
    memory = driver.allocate(8)
    stream = driver.stream()
    inner = asdlpack(memory.array(stream=stream))
    x = asdlpack(Speaks(__dlpack__=inner.__dlpack__, __dlpack_device__=inner.__dlpack_device__))
    driver.fill(stream, memory, 7)
    pair = x.__arrow_c_device_array__()
    assert set(memory.bytes.tolist()) == {7}
    assert whole_of(pair).array.buffers[1] == memory.address


@with_driver
def test_complete_memory_needs_no_call_of_the_driver(driver):
    x = asdlpack(driver.allocate(8).array(stream=None))
    driver.clear()
    x.__arrow_c_device_array__()
    assert driver.log() == []


@with_driver
def test_unfinished_memory_is_not_exported(driver):
    memory = driver.allocate(8)
    x = asdlpack(memory.array(stream=driver.stream()))
    driver.fail("cuStreamSynchronize", 1, 999)
    refused(x.__arrow_c_device_array__, "driver-failed")
