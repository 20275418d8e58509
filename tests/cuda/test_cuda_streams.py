"""The order of streams of CUDA: who exports says on which stream the memory is written, who imports on which it reads.

The driver does nothing before it is waited for: a kernel of the producer's is queued, and a consumer not ordered after
it reads what was there before.
"""

import ctypes
import threading

import numpy as np
import pytest

from dlpack import asdlpack, borrow, describe, from_pointer
from dlpack._dlpack import _core_calls
from support.capi import Managed, Speaks, look
from support.cuda_driver import (
    GLOBAL,
    LEGACY,
    PER_THREAD,
    RELAXED,
    THREAD_LOCAL,
    Driver,
    DriverError,
    with_driver,
    with_each_driver,
)
from support.process import in_thread

ORDER = ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2")
NOT_GIVEN = object()


def export(x, stream=NOT_GIVEN):
    """The address that a consumer on a stream gets."""
    return look(x.__dlpack__() if stream is NOT_GIVEN else x.__dlpack__(stream=stream)).dl_tensor.data


def consumed(driver, x, stream, device=0):
    """Returns the values that a kernel on the consumer's stream reads."""
    return driver.read_on(stream, export(x, stream), device)


def check_order(driver, producer, consumer):
    """Checks that the log has the one event that orders two streams, if they differ, and no other wait."""
    for lines in driver.logged(*ORDER, "cuStreamSynchronize"):
        event = "".join(lines[:2]).rpartition("cuEventRecord(")[2].partition(",")[0]
        expected = [
            "cuEventCreate(2)",
            f"cuEventRecord({event}, {producer})",
            f"cuStreamWaitEvent({consumer}, {event})",
            f"cuEventDestroy_v2({event})",
        ]
        assert lines == (expected if producer != consumer else [])


def refused(error, function, *parts):
    with pytest.raises(error) as caught:
        function()
    message = str(caught.value)
    for part in parts:
        assert part in message, message


@with_each_driver
def test_known_streams_that_differ_are_ordered_by_one_event(driver):
    """And nothing waits on the host. None, and no argument, is the legacy stream."""
    streams = {"s1": driver.stream(), "s2": driver.stream(), "s3": driver.stream(blocking=True), "1": 1, "2": 2}
    memory, result = driver.allocate(8), driver.allocate(8)
    live = driver.live()
    for producer, p in streams.items():
        array = asdlpack(memory.array(stream=p))
        owned = asdlpack(memory.array(stream=p), owner=memory, readonly=True)
        for x in array, from_pointer(memory.address, 8, "uint8", device="cuda:0", stream=p), owned:
            for consumer, s in [*streams.items(), ("1", None), ("1", NOT_GIVEN)]:
                memory.write(np.zeros(8, "u1"))
                result.write(np.zeros(8, "u1"))
                with driver.gate() as gate:
                    gate.fill(p, memory, 7)
                    driver.clear()
                    address = export(x, s)
                    check_order(driver, producer, consumer)
                    assert (driver.is_done(p), driver.live()) == (False, live)
                    driver.copy(streams[consumer], result, address)
                    assert not driver.is_done(streams[consumer])
                    gate.open()
                    driver.synchronize(streams[consumer])
                assert set(result.bytes.tolist()) == {7}, (producer, consumer)


@with_driver
def test_a_consumer_on_the_default_stream_needs_no_call_into_go(driver):
    for producer in None, LEGACY:
        x = asdlpack(driver.allocate(8).array(stream=producer))
        export(x)
        calls = _core_calls()
        for stream in None, LEGACY, NOT_GIVEN:
            export(x, stream)
        assert _core_calls() == calls


@with_each_driver
def test_without_an_order_the_consumer_reads_too_early(driver):
    """The other tests rely on this; and -1 asks for just that."""
    memory = driver.allocate(8)
    producer, consumer = driver.stream(), driver.stream()
    x, unordered = asdlpack(memory.array(stream=producer)), asdlpack(memory.array(stream=None))
    results = driver.allocate(8), driver.allocate(8)
    with driver.gate() as gate:
        gate.fill(producer, memory, 7)
        for each, stream, result in (x, -1, results[0]), (unordered, consumer, results[1]):
            driver.clear()
            address = export(each, stream)
            for log in driver.logged():
                assert log == []
            driver.copy(consumer, result, address)
            driver.synchronize(consumer)
        gate.open()
    for result in results:
        assert set(result.bytes.tolist()) == {0}
    assert consumed(driver, x, consumer) == {7}


@with_each_driver
def test_streams_of_two_contexts_are_ordered(driver):
    memory, stream, primary, context = driver.allocate(8), driver.stream(), driver.primary[0], driver.new_context(0)
    other = driver.stream(context=context)
    for producer, consumer, home in (other, stream, primary), (stream, other, context):
        with driver.gate() as gate:
            gate.hold(producer)
            export(asdlpack(memory.array(stream=producer)), consumer)
            assert not driver.is_done(consumer, home)
            gate.open()
            with driver.context(home):
                driver.call("cuStreamSynchronize", consumer)


@with_each_driver
def test_borrowed_memory_is_complete_in_the_legacy_streams_order(driver):
    memory, producer = driver.allocate(8), driver.stream()
    driver.fill(producer, memory, 7)
    with borrow(memory.array(stream=producer)) as tensor:
        assert driver.read_on(LEGACY, tensor.contents.data) == {7}


@with_driver
def test_a_consumer_that_names_the_device_is_ordered(driver):
    memory = driver.allocate(8, 1)
    producer, consumer = driver.stream(1), driver.stream(1)
    x = asdlpack(memory.array(stream=producer))
    for arguments in {}, {"copy": False}, {"copy": None, "max_version": (1, 0)}:
        memory.bytes[...] = 0
        driver.fill(producer, memory, 7)
        address = look(x.__dlpack__(stream=consumer, dl_device=(2, 1), **arguments)).dl_tensor.data
        assert address == memory.address
        assert driver.read_on(consumer, address, 1) == {7}


@with_driver
def test_to_look_at_memory_asks_for_no_order(driver):
    x = asdlpack(driver.allocate(8, 1).array(stream=driver.stream(1)))
    driver.clear()
    assert "kDLCUDA:1" in repr(x)
    assert describe(x)["device"] == "kDLCUDA:1"
    assert (x.shape, x.strides, x.dtype, x.nbytes) == ((8,), (1,), "uint8", 8)
    x.__dlpack_device__()
    asdlpack(x)
    assert driver.log(*ORDER, "cuStreamSynchronize") == []


@with_driver
def test_memory_of_no_known_stream_is_ordered_after_nothing(driver):
    memory = driver.allocate(8)
    stream = driver.stream()
    interface = memory.array().__cuda_array_interface__
    del interface["stream"]
    lent = Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(2, 0))  # nobody says that it was exported
    for keys in {"version": 0}, {"version": 1}, {"version": 2}, {"version": 3}, {"version": 3, "stream": None}:
        array = asdlpack(Speaks(__cuda_array_interface__={**interface, **keys}))
        borrowed = asdlpack(ctypes.pointer(lent.struct.dl_tensor))
        for x in array, borrowed, from_pointer(memory.address, 8, "uint8", device="cuda:0"):
            driver.clear()
            for s in NOT_GIVEN, None, -1, LEGACY, PER_THREAD, stream:
                assert export(x, s) == memory.address
            assert driver.log() == []
            assert x.__cuda_array_interface__["stream"] is None


@with_each_driver
def test_memory_held_by_dlpack_is_in_the_legacy_streams_order(driver):
    device = driver.devices[-1]
    for by_pointer in False, True:
        memory, consumer = driver.allocate(8, device), driver.stream(device)
        driver.fill(LEGACY, memory, 7)
        managed = Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(2, device))
        x = asdlpack(ctypes.pointer(managed.struct) if by_pointer else managed.capsule())
        driver.clear()
        for s in NOT_GIVEN, None, LEGACY, -1:
            export(x, s)
        for log in driver.logged():
            assert log == []
        address = export(x, consumer)
        check_order(driver, "1", f"s{by_pointer + 1}")
        assert driver.read_on(consumer, address, device) == {7}
        assert x.__cuda_array_interface__["stream"] == LEGACY


@with_each_driver
def test_memory_of_each_kind_is_ordered(driver):
    device = driver.devices[-1]
    for kind in driver.kinds:
        memory = driver.allocate(8, device, kind)
        producer, consumer = driver.stream(device), driver.stream(device)
        driver.fill(producer, memory, 7)
        assert consumed(driver, asdlpack(memory.array(stream=producer)), consumer, device) == {7}, kind


@with_driver
def test_a_thread_without_a_context_has_none_afterwards(driver):
    memory = driver.allocate(8, 1)
    producer, consumer = driver.stream(1), driver.stream(1)

    def export_here():
        for p, s in (producer, consumer), (LEGACY, consumer), (producer, LEGACY), (PER_THREAD, consumer):
            export(asdlpack(memory.array(stream=p)), s)
        return driver.live()

    live = driver.live()
    assert in_thread(export_here) == {**live, "pushed": 0}
    assert driver.live() == live


@with_each_driver
def test_per_thread_stream_is_legacy_on_another_thread(driver):
    memory = driver.allocate(8)
    consumer = driver.stream()
    x = asdlpack(memory.array(stream=PER_THREAD))
    driver.fill(PER_THREAD, memory, 7)
    driver.clear()
    export(x, PER_THREAD)
    check_order(driver, "2", "2")

    def export_elsewhere(s, consumer):
        driver.clear()
        export(x, s)
        check_order(driver, "1", consumer)
        driver.clear()
        export(x, LEGACY)
        export(x)
        check_order(driver, "1", "1")
        return x.__cuda_array_interface__["stream"]

    for s, name in (PER_THREAD, "2"), (consumer, "s1"):
        assert in_thread(lambda s=s, name=name: export_elsewhere(s, name)) == LEGACY
    assert x.__cuda_array_interface__["stream"] == PER_THREAD
    assert driver.read_on(consumer, memory.address) == {7}


@with_driver
def test_a_thread_is_not_taken_for_an_ended_one_of_its_number(driver):
    memory = driver.allocate(8)

    def write():
        driver.fill(PER_THREAD, memory, 7)
        return asdlpack(memory.array(stream=PER_THREAD)), threading.get_ident()

    def read(number):
        if threading.get_ident() != number:
            return {7}
        return consumed(driver, x, PER_THREAD)

    for _ in range(20):
        memory.bytes[...] = 0
        x, number = in_thread(write)
        assert in_thread(lambda number=number: read(number)) == {7}
        driver.synchronize(LEGACY)


@with_driver
def test_the_stream_goes_out_by_the_cuda_array_interface(driver):
    memory = driver.allocate(8)
    for stream in LEGACY, PER_THREAD, driver.stream():
        x = from_pointer(memory.address, 8, "uint8", device="cuda", stream=stream)
        assert x.__cuda_array_interface__["stream"] == stream
        x = asdlpack(memory.array(stream=stream))
        interface = x.__cuda_array_interface__
        assert (interface["stream"], interface["version"], interface["data"]) == (stream, 3, (memory.address, False))
        again = asdlpack(Speaks(__cuda_array_interface__=interface, keep=x))
        assert again.__cuda_array_interface__["stream"] == stream


@with_driver
def test_a_stream_that_cannot_write_is_a_value_error(driver):
    memory = driver.allocate(8)
    for stream in 0, -1, -2, -(2**63):
        for refusing in (
            lambda stream=stream: asdlpack(memory.array(stream=stream)),
            lambda stream=stream: from_pointer(memory.address, 8, "uint8", device="cuda:0", stream=stream),
        ):
            refused(ValueError, refusing, f"stream {stream}", "None")
    for stream in "1", 1.5, [1], 2**63, object():
        refused((TypeError, ValueError), lambda stream=stream: asdlpack(memory.array(stream=stream)), "stream", "None")


@with_driver
def test_a_stream_that_a_consumer_can_not_have_is_a_value_error(driver):
    memory = driver.allocate(8)
    for p in None, LEGACY, driver.stream():
        x = asdlpack(memory.array(stream=p))
        for s in 0, -2, -(2**63):
            refused(ValueError, lambda x=x, s=s: export(x, s), f"stream {s}", "None")
        for s in "1", 1.5, [1], 2**64:
            refused((TypeError, ValueError), lambda x=x, s=s: export(x, s), "stream")


@with_driver
def test_a_handle_that_is_none_is_a_value_error(driver):
    """The driver never gets a handle that it could not read. NVIDIA's may even crash on readable ones, which the fake
    driver refuses."""
    memory = driver.allocate(8)
    stream = driver.stream()
    event = driver.give("cuEventCreate", 2)
    readable = (ctypes.c_char * 256)()
    destroyed = driver.stream()
    driver.call("cuStreamDestroy_v2", destroyed)
    context = driver.new_context(0)
    lost = driver.stream(context=context)
    driver.call("cuCtxDestroy_v2", context)
    live = driver.live()
    unreadable = [3, 8, 4095, memory.address, 0xDEAD0000, 1 << 47, 1 << 60, (1 << 63) - 8]
    for handle in [*unreadable, ctypes.addressof(readable), event, destroyed, lost, driver.primary[0]]:
        for p, s in (handle, stream), (stream, handle), (LEGACY, handle), (handle, LEGACY), (handle, None):
            x = asdlpack(memory.array(stream=p))
            driver.clear()
            refused(ValueError, lambda x=x, s=s: export(x, s), "stream", str(handle))
            assert driver.live() == live
            if handle in unreadable:
                assert [line for line in driver.log() if "?" in line] == []
        assert export(asdlpack(memory.array(stream=handle)), -1) == memory.address
        assert export(asdlpack(memory.array(stream=handle)), handle) == memory.address


@with_driver
def test_ordering_streams_needs_a_running_driver():
    x = asdlpack(Managed(1 << 20, shape=(8,), dtype=(1, 8, 1), device=(2, 1)).capsule())
    for s in NOT_GIVEN, None, -1, LEGACY:
        assert export(x, s) == 1 << 20
    refused(BufferError, lambda: export(x, PER_THREAD), "CUDA_ERROR_NOT_INITIALIZED")
    assert Driver(initialise=False).log("cuInit") == []


# Captures of graphs: no call may break one.


@with_each_driver
@pytest.mark.parametrize("blocking", [False, True])
def test_a_capture_goes_on_whatever_is_asked_of_its_stream(blocking, driver):
    """The legacy stream waits for blocking ones: it can't be used while one of them captures."""
    memory = driver.allocate(8)
    capturing, other = driver.stream(blocking=blocking), driver.stream()
    refusals = [(capturing, other), (other, capturing), (LEGACY, capturing), (capturing, None), (capturing, LEGACY)]
    if blocking:
        refusals += [(LEGACY, other), (other, LEGACY), (other, None), (LEGACY, PER_THREAD)]
    for p, s in refusals:
        x = asdlpack(memory.array(stream=p))
        live = driver.live()
        for mode in GLOBAL, THREAD_LOCAL, RELAXED:
            driver.begin_capture(capturing, mode)
            refused(BufferError, lambda x=x, s=s: export(x, s), "captur")
            refused(BufferError, lambda x=x, s=s: in_thread(lambda: export(x, s)), "captur")
            driver.end_capture(capturing)
            assert driver.live() == live
        assert export(x, s) == memory.address
    driver.begin_capture(capturing)
    for p, s in (None, capturing), (capturing, capturing), (capturing, -1), (None, None):
        assert export(asdlpack(memory.array(stream=p)), s) == memory.address
    driver.end_capture(capturing)


@with_driver
def test_two_streams_of_one_capture_are_ordered_within_it(driver):
    memory = driver.allocate(8)
    one, two = driver.stream(), driver.stream()
    driver.begin_capture(one)
    driver.order(one, two)
    driver.fill(two, memory, 7)
    driver.clear()
    export(asdlpack(memory.array(stream=two)), one)
    check_order(driver, "s2", "s1")
    driver.end_capture(one)


@with_each_driver
def test_streams_of_two_captures_are_refused_and_both_go_on(driver):
    memory = driver.allocate(8)
    one, two = driver.stream(), driver.stream()
    for stream in one, two:
        driver.begin_capture(stream, RELAXED)
    refused(BufferError, lambda: export(asdlpack(memory.array(stream=one)), two), "captur")
    for stream in one, two:
        driver.end_capture(stream)


@with_driver
def test_a_stream_whose_capture_is_broken_is_refused(driver):
    memory = driver.allocate(8)
    one, two = driver.stream(), driver.stream()
    driver.begin_capture(one)
    with pytest.raises(DriverError):
        driver.order(two, one)  # breaks it
    refused(BufferError, lambda: export(asdlpack(memory.array(stream=one)), two), "captur")


@with_each_driver
def test_a_capture_elsewhere_is_not_broken_and_hinders_nobody(driver):
    memory = driver.allocate(8)
    capturing, one, two = driver.stream(), driver.stream(), driver.stream()
    for mode in GLOBAL, THREAD_LOCAL, RELAXED:
        memory.write(np.zeros(8, "u1"))
        driver.fill(one, memory, 7)
        driver.begin_capture(capturing, mode)
        x = asdlpack(memory.array(stream=one))
        for s in two, LEGACY, PER_THREAD, None, -1:
            export(x, s)
        in_thread(lambda x=x: export(x, two))
        driver.end_capture(capturing)
        assert driver.read_on(two, memory.address) == {7}


@with_driver(without=["cuStreamGetCaptureInfo_v2"])
def test_a_driver_that_cannot_tell_captures_apart_has_two(driver):
    memory = driver.allocate(8)
    one, two = driver.stream(), driver.stream()
    driver.fill(one, memory, 7)
    assert consumed(driver, asdlpack(memory.array(stream=one)), two) == {7}
    driver.begin_capture(one)
    driver.order(one, two)
    refused(BufferError, lambda: export(asdlpack(memory.array(stream=two)), one), "captur")
    driver.order(two, one)
    driver.end_capture(one)


@with_driver(
    without=[
        "cuStreamIsCapturing",
        "cuStreamGetCaptureInfo_v2",
        "cuThreadExchangeStreamCaptureMode",
        "cuStreamBeginCapture_v2",
    ]
)
def test_a_driver_without_captures_orders_streams(driver):
    memory = driver.allocate(8)
    one, two = driver.stream(), driver.stream()
    driver.fill(one, memory, 7)
    assert consumed(driver, asdlpack(memory.array(stream=one)), two) == {7}


@with_driver
def test_memory_that_the_cpu_reaches_is_complete_for_numpy(driver):
    """Its producer may use the legacy stream: the array interface names it, a capsule implies it."""
    for kind, device in ("managed", 13), ("host", 3):
        for by_capsule in True, False:
            memory = driver.allocate(8, 0, kind)
            driver.fill(LEGACY, memory, 7)
            managed = Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(device, 0))
            x = asdlpack(managed.capsule() if by_capsule else memory.array(stream=LEGACY))
            array = np.from_dlpack(x)
            assert set(array.tolist()) == {7}, (kind, by_capsule)


class Stream:
    """As streams of torch, cupy and cuda.core, which none can make without a GPU."""

    def __init__(self, *answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


@with_driver
def test_a_stream_by_its_own_word(driver):
    memory, handle = driver.allocate(8), driver.stream()
    for stream, number in (Stream(0, handle), handle), (Stream(0, 0), 1):
        x = from_pointer(memory.address, 8, "uint8", device="cuda:0", stream=stream)
        assert x.__cuda_array_interface__["stream"] == number
        x.__dlpack__(stream=stream)
    for wrong in Stream(1, handle), Stream(0, -1), Stream(0, "1"), Stream(handle):
        with pytest.raises(ValueError, match=r"stream: __cuda_stream__\(\) must return \(0, handle\), got"):
            x.__dlpack__(stream=wrong)
