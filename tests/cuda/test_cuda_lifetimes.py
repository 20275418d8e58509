"""Freeing of CUDA memory: the last holder frees it, on any thread, in the memory's own context, and never twice."""

import contextlib
import ctypes
import gc
import os
import sys
import weakref
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, from_pointer
from support.alone import TESTS, python
from support.capi import Managed, consume, look
from support.cuda_driver import LEGACY, Driver, cuda_array, environ, with_driver, with_each_driver
from support.cuda_layouts import numbers
from support.forks import fork_and_join
from support.process import in_thread
from support.threads import in_threads

FREES = ("cuCtxPushCurrent_v2", "cuMemFree_v2", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2")


def copies(driver):
    """Each way to memory of a device that is ours, on device 1 if there is one."""
    device = min(1, driver.devices[-1])
    array = driver.put(numbers(8), device, stream=driver.stream(device))
    other = driver.put(numbers(8), 0, stream=driver.stream(0))
    return (
        lambda: asdlpack(numbers(8), device=f"cuda:{device}", copy=None),
        lambda: asdlpack(array, copy=True),
        lambda: asdlpack(asdlpack(array).__dlpack__(copy=True)),
        lambda: asdlpack(asdlpack(numbers(8)).__dlpack__(dl_device=(2, device), max_version=(1, 0))),
        *(partial(asdlpack, other, **arguments) for arguments in driver.to_others),
    )


def free(managed):
    managed.deleter(ctypes.addressof(managed))


@with_driver
def test_a_copy_is_freed_by_its_last_holder_in_its_context(driver):
    for make in copies(driver):
        live = driver.live()
        x = make()
        made = driver.live()
        assert made["allocations"] == live["allocations"] + 1
        assert (made["events"], made["streams"]) == (live["events"], live["streams"])
        unused, managed = x.__dlpack__(), consume(x.__dlpack__(max_version=(1, 0)))
        again = asdlpack(x.__dlpack__(stream=-1))
        for last in range(4):
            assert driver.live() == made, last
            driver.clear()
            if last == 0:
                del x
            elif last == 1:
                del unused
            elif last == 2:
                del again
            else:
                free(managed)
        assert driver.live() == live
        pushed, freed, popped, *released = driver.log(*FREES)
        assert (pushed, popped) == ("cuCtxPushCurrent_v2(primary1)", "cuCtxPopCurrent_v2(primary1)")
        assert freed.startswith("cuMemFree_v2(m")
        assert released in ([], ["cuDevicePrimaryCtxRelease_v2(1)"])


@with_driver
def test_a_copy_freed_on_any_thread_leaves_its_context(driver):
    for make in copies(driver):
        for context in None, driver.primary[0], driver.primary[1], driver.new_context(2):
            live = driver.live()
            managed = [consume(make().__dlpack__())]

            def free_here(context=context, managed=managed):
                if context is not None:
                    driver.call("cuCtxPushCurrent_v2", context)
                free(managed.pop())
                return driver.live()["pushed"], driver.give("cuCtxGetCurrent")

            assert in_thread(free_here) == (context is not None, context or 0)
            assert driver.live() == live


@with_driver
def test_queued_work_is_done_before_the_memory_is_freed(driver):
    for stream in driver.stream(1), driver.stream(1, blocking=True), LEGACY:
        x = asdlpack(numbers(2), device="cuda:1", copy=None)
        result = driver.allocate(8, 1)
        driver.copy(stream, result, x.pointer)
        del x
        driver.synchronize(stream, 1)
        assert result.bytes.view("i4").tolist() == [1, 2]


@with_driver
def test_a_copy_in_a_context_that_is_gone_is_let_go(driver):
    context = driver.new_context(1)
    memory = driver.allocate(8, 1, context=context)
    x = asdlpack(memory.array(), copy=True)
    y = asdlpack(memory.array(), device="cuda:2", copy=None)
    driver.call("cuCtxDestroy_v2", context)
    later = [driver.allocate(8, 1) for _ in range(8)]
    assert x.pointer in [each.address for each in later]  # another context's memory is there now
    live = driver.live()
    driver.clear()
    del x
    assert driver.log("cuMemFree_v2", "cuCtxPushCurrent_v2") == []
    assert driver.live() == live
    del y
    assert driver.live()["allocations"] == live["allocations"] - 1


@with_driver
def test_a_copy_keeps_the_primary_context_of_its_device_alive():
    driver = Driver(initialise=False)
    x = asdlpack(numbers(8), device="cuda:1", copy=None)
    y = asdlpack(x, device="cuda:2", copy=None)
    z = asdlpack(y, copy=True)
    assert driver.live()["retained"] >= 2
    del x
    del y
    assert driver.bytes_at(z.pointer, 32).view("i4").tolist() == numbers(8).tolist()
    del z
    assert not any(driver.live().values())


@with_driver
def test_shared_memory_lives_by_its_owner(driver):
    memory = driver.allocate(32, 1)
    live = driver.live()
    driver.clear()
    for wrap in (
        lambda array: asdlpack(array),
        lambda array: asdlpack(asdlpack(array).__dlpack__()),
        lambda array: from_pointer(memory.address, 8, "int32", device="cuda:1", owner=array),
    ):
        array = memory.array((8,), "<i4", stream=driver.stream(1))
        gone = weakref.ref(array)
        managed = consume(wrap(array).__dlpack__(stream=LEGACY))
        del array
        assert gone() is not None
        free(managed)
        assert gone() is None
    assert driver.log("cuMemFree_v2") == []
    assert {**driver.live(), "streams": 0} == {**live, "streams": 0}


@with_driver
def test_a_source_is_let_go_when_its_copy_is_there(driver):
    for arguments in {"device": "cpu", "copy": None}, {"copy": True}, {"device": "cuda:2", "copy": None}:
        array = driver.put(numbers(8), 1)
        gone = weakref.ref(array)
        keep = array.keep
        count = sys.getrefcount(keep)
        x = asdlpack(array, **arguments)
        assert sys.getrefcount(keep) == count
        del array
        assert gone() is None
        assert x.shape == (8,)


@with_driver
def test_a_refused_call_keeps_nothing(driver):
    memory = driver.allocate(64, 1)
    array = memory.array((8,), "<i4", stream=driver.stream(1))
    unknown = cuda_array(1 << 20, stream=driver.stream(1))
    counts = sys.getrefcount(array), sys.getrefcount(unknown)
    live = driver.live()
    for _ in range(10):
        for refused in (
            lambda: asdlpack(unknown),
            lambda: asdlpack(array, device="cpu"),
            lambda: asdlpack(array, device="cuda:9", copy=None),
            lambda: asdlpack(array).__dlpack__(stream=3),
            lambda: asdlpack(array).__dlpack__(dl_device=(1, 0), copy=False),
            lambda: from_pointer(memory.address, 8, "int32", device="cuda:0", owner=array),
        ):
            with pytest.raises((BufferError, ValueError)) as caught:
                refused()
            del caught
    assert (sys.getrefcount(array), sys.getrefcount(unknown)) == counts
    assert driver.live() == live


@with_each_driver(timeout=120)
def test_many_rounds_leave_nothing(driver):
    device = driver.devices[-1]
    array = driver.put(numbers(8), device, stream=driver.stream(device))
    sparse = driver.put(numbers(64)[::8], device)
    room, host, consumer = driver.put(numbers(8) * 0, device), numbers(8), driver.stream(device)
    makers = copies(driver)
    pointer = partial(from_pointer, array.keep.address, 8, "int32", device=f"cuda:{device}", owner=array)

    def work():
        x = asdlpack(array)
        look(x.__dlpack__(stream=consumer))
        look(pointer(stream=LEGACY).__dlpack__(stream=consumer))
        np.from_dlpack(x, device="cpu")
        for make in makers:
            make()
        for source, target in (host, room), (x, room), (room, host):
            copy_into(source, target)
        for refused in (
            lambda: asdlpack(cuda_array(host.ctypes.data)),
            lambda: look(asdlpack(array.keep.array(stream=3)).__dlpack__(stream=consumer)),
            lambda: asdlpack(sparse, copy=True),
        ):
            with contextlib.suppress(ValueError, BufferError):
                refused()
                raise AssertionError("it is refused")

    for _ in range(10):
        work()
    gc.collect()
    references = sys.getrefcount(array)
    live, available = driver.live(), [driver.available(device) for device in driver.devices]
    for number in range(driver.rounds):
        work()
        if number % 100 == 0:
            driver.synchronize(consumer, device)
            driver.clear()
    gc.collect()
    assert (driver.live(), sys.getrefcount(array)) == (live, references)
    for device, before in zip(driver.devices, available, strict=True):
        assert before - driver.available(device) < driver.unit


@with_each_driver
def test_device_memory_is_freed_by_its_last_holder_on_any_thread(driver):
    size = 64 << 20
    memory, before = bytearray(size), driver.available()
    held = [asdlpack(memory, copy=None, device="cuda:0")]
    memory.append(0)  # the copy holds nothing of its source
    held.append(consume(held[0].__dlpack__()))
    held.append(asdlpack(held[0].__dlpack__()))
    del held[0]
    free(held.pop(0))
    assert before - driver.available() >= size

    def drop():
        held.clear()
        return driver.give("cuCtxGetCurrent")

    assert in_thread(drop) == 0
    assert before - driver.available() < driver.unit


@with_driver
def test_a_cycle_with_device_memory_is_collected(driver):
    live = driver.live()

    class Owner(list):
        pass

    owner = Owner()
    memory = driver.allocate(8, 1)
    owner.append(from_pointer(memory.address, 8, "uint8", device="cuda:1", owner=owner))
    owner.append(asdlpack(numbers(8), device="cuda:1", copy=None))
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    memory.free()
    assert driver.live() == live


AT_EXIT = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy, threading
from support.cuda_driver import Driver
from support.cuda_layouts import numbers
import dlpack
from dlpack import asdlpack
from support.capi import consume

driver = Driver()
driver.library.fake_copy_log(1)
{{}}
print("main ends", flush=True)
"""


@pytest.mark.parametrize(
    "held",
    [
        "x = asdlpack(bytearray(8), device='cuda:1', copy=None)",
        "dlpack.x = asdlpack(bytearray(8), device='cuda:1', copy=None)",
        "x = [asdlpack(bytearray(8), device='cuda:1', copy=None)]; x.append(x)",
        "numpy.x = asdlpack(bytearray(8), device='cuda:1', copy=None).__dlpack__()",
        "sys.x = asdlpack(driver.allocate(8).array(stream=driver.stream()), copy=True)",
        "leaked = consume(asdlpack(bytearray(8), device='cuda:1', copy=None).__dlpack__()); import ctypes; "
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object(leaked))",
        "x = asdlpack(bytearray(8), device='cuda:1', copy=None); import atexit; "
        "atexit.register(lambda: driver.call('cuCtxSetCurrent', None))",
        "x = asdlpack(bytearray(8), device='cuda:1', copy=None); driver.library.fake_fail(None, 1, 1000, 4)",
    ],
)
def test_objects_alive_at_exit_do_no_harm(held):
    result = python(AT_EXIT.format(held), environ=environ())
    assert (result.returncode, result.stderr) == (0, "")
    before, after = result.stdout.split("main ends\n")
    assert before.count("cuMemAlloc_v2") >= 1
    assert after.count("cuMemFree_v2") <= 1
    assert after.count("cuCtxPushCurrent_v2") == after.count("cuCtxPopCurrent_v2") or "DEINITIALIZED" in after


@with_each_driver(alone_on_gpu=True, timeout=120)
def test_a_forked_child_touches_nothing_of_cuda(driver):
    device = driver.devices[-1]
    array = driver.put(numbers(8), device, stream=driver.stream(device))
    wrapped = asdlpack(array)
    pinned = asdlpack(driver.put(numbers(8), device, "host", stream=driver.stream(device)))
    held = [make() for make in copies(driver)]
    live = driver.live()

    def child():
        driver.clear()
        assert wrapped.device[0] == 2  # what is known stays so
        while held:
            held.pop()
        gc.collect()
        for log in driver.logged():
            assert log == []
        for refused in (
            lambda: asdlpack(array),
            lambda: asdlpack(wrapped, device="cpu", copy=None),
            lambda: np.from_dlpack(wrapped, device="cpu"),
            lambda: asdlpack(wrapped, copy=True),
            lambda: asdlpack(pinned, device="cpu"),
            lambda: memoryview(pinned),
            lambda: look(wrapped.__dlpack__(stream=2)),
            lambda: asdlpack(numbers(8), device="cuda:0", copy=None),
            lambda: from_pointer(array.keep.address, 8, "int32", device=f"cuda:{device}"),
        ):
            with pytest.raises(BufferError, match="CUDA_ERROR_NOT_INITIALIZED.*spawn"):
                refused()
        assert look(wrapped.__dlpack__(stream=-1)).dl_tensor.data == array.keep.address
        assert np.from_dlpack(asdlpack(bytearray(8))).shape == (8,)

    fork_and_join(child)
    fork_and_join(lambda: fork_and_join(child))
    assert driver.live() == live
    for x in held:
        assert driver.bytes_at(x.pointer, 32).view("i4").tolist() == numbers(8).tolist()
    assert np.from_dlpack(wrapped, device="cpu").tolist() == numbers(8).tolist()


@with_driver
def test_a_child_of_a_process_without_cuda_may_use_it():
    driver = Driver(initialise=False)
    asdlpack(Managed(1 << 20, shape=(2,), device=(2, 1)).capsule())
    with pytest.raises(BufferError):
        asdlpack(cuda_array(1 << 20))

    def child():
        x = asdlpack(numbers(8), device="cuda:1", copy=None)
        assert np.from_dlpack(x, device="cpu").tolist() == numbers(8).tolist()
        del x
        assert not any(driver.live().values())

    fork_and_join(child)
    assert driver.log("cuInit") == []


@with_driver
def test_a_child_that_exits_python_frees_nothing(driver):
    x = asdlpack(numbers(8), device="cuda:1", copy=None)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        driver.library.fake_copy_log(writer)
        driver.clear()
        sys.exit(0)
    os.close(writer)
    with open(reader) as log:
        assert log.read() == ""
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert driver.bytes_at(x.pointer, 32).view("i4").tolist() == numbers(8).tolist()


# Threads.


@with_driver(timeout=120)
def test_many_threads_wrap_order_copy_and_drop_at_once(driver):
    live = driver.live()

    def work(number):
        device = number % 3
        stream, consumer = driver.stream(device), driver.stream(device)
        for turn in range(60):
            values = np.arange(turn, turn + 24, dtype="i4").reshape(4, 6)[:, 1:5]
            array = driver.put(values, device, stream=stream)
            x = asdlpack(array)
            look(x.__dlpack__(stream=consumer))
            assert np.from_dlpack(x, device="cpu").tolist() == values.tolist()
            y = asdlpack(x, copy=True)
            z = asdlpack(y, device=(2, (device + 1) % 3), copy=None)
            driver.synchronize(consumer, device)
            del x, y
            assert np.from_dlpack(z, device="cpu").tolist() == values.tolist()
            array.keep.free()
        for each in stream, consumer:
            with driver.current(device):
                driver.call("cuStreamDestroy_v2", each)
        assert driver.live()["pushed"] == 0

    in_threads(work, 8)
    staged = driver.live()["allocations"] - live["allocations"]  # by put
    assert driver.live() == {**live, "allocations": live["allocations"] + staged}
    assert staged == 8 * 60


@with_driver
def test_other_threads_run_while_the_driver_is_at_work(driver):
    """A device's callbacks may need the GIL before the call can return."""
    array = driver.put(numbers(8), 1, stream=driver.stream(1))
    pool = driver.allocate(8, 2, "pool")
    consumer = driver.stream(1)

    def use():
        x = asdlpack(numbers(8), device="cuda:0", copy=None)
        asdlpack(array, copy=True)
        np.from_dlpack(asdlpack(array), device="cpu")
        look(asdlpack(array).__dlpack__(stream=consumer))
        look(asdlpack(pool.array(stream=LEGACY)).__dlpack__(stream=consumer))
        del x

    driver.clear()
    use()
    names = {line.split("(")[0] for line in driver.log()}
    assert {"cuInit", "cuStreamSynchronize", "cuMemAlloc_v2", "cuMemFree_v2", "cuEventRecord"} < names
    for name in names:
        driver.clear()
        driver.while_inside(name, use)
        assert [line for line in driver.log() if "CUDA_ERROR_TIMEOUT" in line] == []
