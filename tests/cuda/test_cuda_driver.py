"""The driver of libcuda.c itself, as NVIDIA documents it: what the other tests of CUDA rely on."""

from ctypes import byref, c_int

import pytest

from support.cuda_driver import LEGACY, PER_THREAD, RELAXED, DriverError, with_driver
from support.process import in_thread

INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_IS_DESTROYED = 201, 400, 709
UNSUPPORTED, INVALIDATED, MERGE, UNJOINED, ISOLATION, IMPLICIT = 900, 901, 902, 904, 905, 906


def raises(result):
    return pytest.raises(DriverError, match=f"^{result}$")


@with_driver
def test_legacy_and_blocking_streams_wait_for_each_other(driver):
    first, second = driver.allocate(8), driver.allocate(8)
    blocking, nonblocking = driver.stream(blocking=True), driver.stream()
    for producer, consumer, waits in [
        (blocking, LEGACY, True),
        (LEGACY, blocking, True),
        (PER_THREAD, LEGACY, True),
        (LEGACY, PER_THREAD, True),
        (nonblocking, LEGACY, False),
        (LEGACY, nonblocking, False),
        (blocking, PER_THREAD, False),
    ]:
        first.bytes[...] = 0
        driver.fill(producer, first, 1)
        driver.fill(consumer, second, 2)
        driver.synchronize(consumer)
        assert (first.bytes[0] == 1) == waits, (producer, consumer)
        driver.synchronize(producer)


@with_driver
def test_the_per_thread_stream_is_another_in_each_thread(driver):
    memory = driver.allocate(8)
    in_thread(lambda: driver.fill(PER_THREAD, memory, 1))
    driver.synchronize(PER_THREAD)
    assert memory.bytes[0] == 0
    driver.synchronize(LEGACY)
    assert memory.bytes[0] == 1


@with_driver
def test_streams_and_events_are_of_a_context_and_die_with_it(driver):
    event = driver.give("cuEventCreate", 2)
    with raises(INVALID_HANDLE):
        driver.call("cuEventRecord", event, driver.stream(device=1))
    context = driver.new_context(0)
    stream = driver.stream(context=context)
    driver.call("cuCtxDestroy_v2", context)
    with raises(CONTEXT_IS_DESTROYED):
        driver.synchronize(stream)
    driver.call("cuCtxSetCurrent", None)
    with raises(INVALID_CONTEXT):
        driver.give("cuMemAlloc_v2", 8)


@with_driver
def test_captured_work_does_not_run(driver):
    one, two = driver.stream(), driver.stream()
    memory = driver.allocate(8)
    driver.begin_capture(one)
    driver.fill(one, memory, 7)
    driver.order(one, two)
    driver.fill(two, memory, 8)
    driver.order(two, one)
    driver.end_capture(one)
    driver.synchronize(one)
    driver.synchronize(two)
    assert memory.bytes[0] == 0


@with_driver
def test_captures_break_as_documented(driver):
    one, two, blocking = driver.stream(), driver.stream(), driver.stream(blocking=True)
    memory = driver.allocate(8)
    driver.fill(two, memory, 7)

    def merge():
        driver.begin_capture(two)
        try:
            driver.order(two, one)
        finally:
            with raises(INVALIDATED):
                driver.end_capture(two)

    for stream, breaks, error in [
        (one, lambda: driver.order(two, one), ISOLATION),
        (one, lambda: driver.synchronize(one), UNSUPPORTED),
        (one, lambda: driver.allocate(8), UNSUPPORTED),
        (one, lambda: in_thread(lambda: driver.allocate(8)), UNSUPPORTED),
        (one, memory.free, UNSUPPORTED),
        (one, merge, MERGE),
        (blocking, lambda: driver.fill(LEGACY, memory, 1), IMPLICIT),
        (blocking, lambda: driver.order(one, LEGACY), IMPLICIT),
    ]:
        driver.begin_capture(stream)
        with raises(error):
            breaks()
        with raises(INVALIDATED):
            driver.end_capture(stream)

    driver.begin_capture(one)
    driver.order(one, two)
    with raises(UNJOINED):
        driver.end_capture(one)


@with_driver
def test_relaxed_threads_and_questions_break_no_capture(driver):
    stream = driver.stream(blocking=True)
    driver.begin_capture(stream)
    with raises(IMPLICIT):
        driver.call("cuStreamIsCapturing", LEGACY, byref(c_int()))
    mode = c_int(RELAXED)
    driver.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    driver.allocate(8).free()
    driver.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    driver.end_capture(stream)
