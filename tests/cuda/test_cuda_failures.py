"""Calls of the CUDA driver that fail: each call of each operation, with each of several errors. The exception names
the function and the error, and everything taken before is given back."""

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, from_pointer
from support.capi import look
from support.cuda_driver import LEGACY, PER_THREAD, DriverError, with_driver
from support.cuda_layouts import numbers

OUT_OF_MEMORY, LAUNCH_FAILED = 2, 719
ERRORS = {
    1: "CUDA_ERROR_INVALID_VALUE",
    OUT_OF_MEMORY: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    400: "CUDA_ERROR_INVALID_HANDLE",
    717: "717",  # the driver has no name for it
    LAUNCH_FAILED: "CUDA_ERROR_LAUNCH_FAILED",
    999: "CUDA_ERROR_UNKNOWN",
}
MISSING = -1  # stands for the result of a function that the driver lacks
OPTIONAL = "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"
MOST_CALLS = 200


def wrapped(driver, kind="plain", stream=None, device=1):
    return asdlpack(driver.allocate(8, device, kind).array(stream=stream or driver.stream(device)))


def with_numbers(driver, array, kind="plain", stream=None):
    return asdlpack(driver.put(array, 1, kind, stream or driver.stream(1)))


def exporting(x, **arguments):
    return lambda: look(x.__dlpack__(**arguments))


def copying(source, target):
    return lambda: copy_into(source, target) is None


def overlapping(driver, memory):
    return copying(asdlpack(memory.array((32,))), asdlpack(memory.array((32,), offset=8, stream=driver.stream(1))))


def order_in_a_capture(driver):
    one, two = driver.stream(), driver.stream()
    x = wrapped(driver, stream=two, device=0)
    driver.begin_capture(one)
    driver.order(one, two)
    return exporting(x, stream=one)


TO_HOST: Any = {"device": "cpu", "copy": None}
ROWS = numbers(4, 6)[:, 1:5]
MANY_ROWS = numbers(6, 2, 3)[::-1, :, 1:]
# Each makes what it needs, and returns the operation.
OPERATIONS = {
    "wrap": lambda driver: partial(asdlpack, driver.allocate(8, 1).array()),
    "wrap_a_pointer": lambda driver: partial(from_pointer, driver.allocate(8, 1).address, 8, "uint8", device="cuda:1"),
    "order": lambda driver: exporting(wrapped(driver), stream=driver.stream(2)),
    "order_of_numbers": lambda driver: exporting(wrapped(driver, "pool", LEGACY), stream=PER_THREAD),
    "order_in_a_capture": order_in_a_capture,
    "finish": lambda driver: partial(asdlpack, wrapped(driver, "managed"), device="cpu"),
    "finish_a_buffer": lambda driver: partial[Any](memoryview, wrapped(driver, "host", LEGACY)),
    "to_the_host": lambda driver: partial(asdlpack, with_numbers(driver, ROWS), **TO_HOST),
    "to_the_host_by_a_gather": lambda driver: partial(
        np.from_dlpack, with_numbers(driver, numbers(4, 6).T, "pool", LEGACY), device="cpu"
    ),
    "to_the_host_in_many_calls": lambda driver: partial(asdlpack, with_numbers(driver, MANY_ROWS), **TO_HOST),
    "on_the_device": lambda driver: partial(asdlpack, with_numbers(driver, ROWS), copy=True),
    "on_the_device_of_a_pool": lambda driver: partial(
        asdlpack, with_numbers(driver, numbers(8), "pool", PER_THREAD), copy=True
    ),
    "between_devices": lambda driver: partial(asdlpack, with_numbers(driver, numbers(8)), device="cuda:2", copy=None),
    "between_devices_by_blocks": lambda driver: exporting(with_numbers(driver, ROWS), dl_device=(2, 0)),
    "to_a_device": lambda driver: partial(asdlpack, numbers(4, 6).T, device="cuda:1", copy=None),
    "to_a_device_from_pinned_memory": lambda driver: partial(
        asdlpack, with_numbers(driver, numbers(8), "host"), device="cuda:2", copy=None
    ),
    "into_a_device": lambda driver: copying(numbers(4, 6).T, with_numbers(driver, numbers(6, 4))),
    "into_the_host": lambda driver: copying(with_numbers(driver, ROWS), np.zeros((4, 4), "i4").T),
    "into_memory_of_both": lambda driver: copying(numbers(6, 4), with_numbers(driver, numbers(6, 4), "managed")),
    "into_the_device": lambda driver: copying(with_numbers(driver, ROWS), with_numbers(driver, numbers(4, 4))),
    "into_overlapping_memory": lambda driver: overlapping(driver, driver.allocate(64, 1)),
    "into_another_device": lambda driver: copying(with_numbers(driver, ROWS), asdlpack(driver.put(numbers(4, 4), 2))),
}


def fail(driver, operation, nth, result, count=1):
    """Returns the operation's exception or None, and True if it made an nth call that could fail."""
    driver.clear()
    driver.fail(None, nth, result, count)
    made = error = None
    try:
        made = operation()
    except Exception as raised:
        error = raised.with_traceback(None)
    reached = driver.failures_left() < count
    if "cuCtxGetCurrent() = CUDA_ERROR_NOT_INITIALIZED" not in driver.log():  # that error: nothing is queued
        assert (made is None) == reached, made
    return error, reached


def check(driver, operation, live, nth, result):
    """Returns True if there was an nth call to fail."""
    error, reached = fail(driver, operation, nth, result)
    if error is None:
        return reached
    name = ERRORS[result]
    log = driver.log()
    function = next(line for line in log if line.endswith(f" = {name}")).split("(")[0].removesuffix("_v2")
    said = f"{nth}: {function}: {error!r}\n" + "\n".join(log)
    assert isinstance(error, BufferError | MemoryError | ValueError), said
    assert result == OUT_OF_MEMORY or not isinstance(error, MemoryError), said
    assert result != OUT_OF_MEMORY or isinstance(error, MemoryError) or function != "cuMemAlloc", said
    assert re.search(rf"\b{function}", str(error)), said
    assert re.search(rf"\b{name}\b", str(error)), said
    now = driver.live()
    if function == "cuCtxPushCurrent":  # what can't be entered can't be left tidy
        assert now["allocations"] - live["allocations"] <= 1, said
        live["allocations"] = now["allocations"]
    assert now == live, said
    return True


@with_driver
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_call_may_fail_with_each_error(name, driver):
    operation = OPERATIONS[name](driver)
    operation()
    live = driver.live()
    for result in ERRORS:
        for nth in range(1, MOST_CALLS):
            if not check(driver, operation, live, nth, result):
                break
        else:
            raise AssertionError("the operation has no end of calls")
        operation()
        assert driver.live() == live
    assert nth > 1


@with_driver
def test_a_function_that_the_driver_lacks_is_named(driver):
    """A driver that can't capture needs no function that asks for captures."""
    for name in sorted(OPERATIONS, key="order_in_a_capture".__eq__):  # that goes on
        operation = OPERATIONS[name](driver)
        driver.clear()
        operation()
        live = driver.live()
        for function in {line.split("(")[0] for line in driver.log()}:
            driver.fail(function, 1, MISSING, count=1000)
            made = error = None
            try:
                made = operation()
            except BufferError as raised:
                error = raised.with_traceback(None)
            called = driver.failures_left() < 1000
            if function in OPTIONAL or not called:  # what frees a copy is called when it is dropped
                assert error is None, (name, function)
            elif function == "cuStreamGetCaptureInfo_v2":
                assert error.reason == "capture"
            else:
                assert f"the driver is too old: it has no {function}" in str(error), name
            del made
            assert driver.live() == live, (name, function)


@with_driver
def test_an_error_that_stays_is_told_and_harms_nothing(driver):
    """As after a kernel has failed: every call fails from there on."""
    for name in OPERATIONS.keys() - {"order_in_a_capture"}:  # it goes on
        operation = OPERATIONS[name](driver)
        operation()
        live = driver.live()
        for nth in range(1, MOST_CALLS):
            error, reached = fail(driver, operation, nth, LAUNCH_FAILED, count=1000)
            if not reached:
                assert error is None, error
                break
            assert isinstance(error, BufferError | ValueError), (name, error)
            assert "CUDA_ERROR_LAUNCH_FAILED" in str(error) or "719" in str(error), (name, error)
            now = driver.live()
            assert (now["pushed"], now["mode"]) == (live["pushed"], live["mode"]), (name, driver.log())
        else:
            raise AssertionError(f"{name} has no end of calls")
        operation()


@with_driver
def test_a_failing_call_breaks_no_capture_elsewhere(driver):
    capturing = driver.stream()
    for name in OPERATIONS.keys() - {"order_in_a_capture"}:
        operation = OPERATIONS[name](driver)
        for nth in range(1, MOST_CALLS):
            driver.begin_capture(capturing)
            _, reached = fail(driver, operation, nth, LAUNCH_FAILED)
            failed = [line for line in driver.log() if line.endswith(" = CUDA_ERROR_LAUNCH_FAILED")]
            try:
                driver.end_capture(capturing)
            except DriverError:  # what can't be made sure of
                assert failed == ["cuThreadExchangeStreamCaptureMode(0) = CUDA_ERROR_LAUNCH_FAILED"], (
                    name,
                    driver.log(),
                )
            if not reached:
                break


@with_driver
def test_a_copy_that_can_not_be_freed_is_let_go_without_a_word(driver):
    array = numbers(8)
    for result in ERRORS:
        for nth in range(1, MOST_CALLS):
            x = asdlpack(array, device="cuda:1", copy=None)
            live = driver.live()
            driver.clear()
            driver.fail(None, nth, result)
            del x
            if driver.failures_left():
                break
            now = driver.live()
            failed = {line.split("(")[0] for line in driver.log() if " = " in line}
            reached = failed.isdisjoint({"cuPointerGetAttribute", "cuCtxPushCurrent_v2"})
            assert now["allocations"] == live["allocations"] - reached, driver.log()
            assert (now["pushed"], now["mode"], now["retained"]) == (live["pushed"], live["mode"], live["retained"] - 1)
        assert nth > 4


@with_driver(without=["cuPointerGetAttribute"])
def test_memory_that_could_not_be_freed_is_not_allocated(driver):
    live = driver.live()
    with pytest.raises(BufferError, match="too old.*cuPointerGetAttribute"):
        asdlpack(bytearray(8), device="cuda", copy=None)
    assert driver.live() == live
