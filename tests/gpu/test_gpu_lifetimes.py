"""Everything taken is given back: memory, references, contexts; from any thread, and after a fork."""

import builtins
import gc
import sys
import threading

import cupy
import numpy as np
import pytest
import torch
from gpu import Gate, current_context, free_memory, interface, interface_of, stream_of, streams, write

from dlpack import asdlpack, from_pointer
from support.alone import alone
from support.forks import fork_and_join
from support.process import in_thread
from support.threads import in_threads

ROUNDS = 10_000
HOST = np.arange(1 << 14, dtype="f4")


def share(array, stream):
    x = asdlpack(interface_of(array, stream=stream.ptr))
    torch.from_dlpack(x)
    cupy.from_dlpack(x)
    x.__dlpack__()


def share_a_pointer(array, stream):
    x = from_pointer(array.data.ptr, array.shape, "float32", device="cuda", owner=array, stream=stream.ptr)
    torch.from_dlpack(x)


def pass_through(array, stream):
    torch.from_dlpack(asdlpack(array))


def copy_down(array, stream):
    np.from_dlpack(asdlpack(interface_of(array, stream=stream.ptr)), device="cpu")


def copy_up(array, stream):
    asdlpack(HOST, copy=None, device="cuda:0")


def copy_beside(array, stream):
    asdlpack(interface_of(array, stream=stream.ptr), copy=True).__dlpack__()


def refuse(array, stream):
    for bad in interface(HOST.ctypes.data), interface_of(array, stream=3):
        with pytest.raises(ValueError):
            asdlpack(bad).__dlpack__(stream=stream.ptr)
    with pytest.raises(BufferError):
        asdlpack(interface_of(array[::8]), copy=True)


@pytest.mark.parametrize(
    "work",
    [share, share_a_pointer, pass_through, copy_down, copy_up, copy_beside, refuse],
    ids=lambda work: work.__name__,
)
def test_ten_thousand_rounds_leave_the_gpus_memory_as_it_was(work):
    array, (stream,) = cupy.asarray(HOST), streams(1)
    for _ in range(10):
        work(array, stream)
    gc.collect()
    before, references = free_memory(), sys.getrefcount(array)
    for _ in range(ROUNDS):
        work(array, stream)
    gc.collect()
    assert sys.getrefcount(array) == references
    assert before - free_memory() < 2 << 20  # the driver's own unit


def test_a_copy_is_freed_by_its_last_holder():
    size = 256 << 20
    memory = bytearray(size)
    before = free_memory()
    x = asdlpack(memory, copy=None, device="cuda:0")
    tensor, array = torch.from_dlpack(x), cupy.from_dlpack(x)
    del x, tensor
    gc.collect()
    assert before - free_memory() >= size
    del array
    gc.collect()
    assert before - free_memory() < 2 << 20
    memory.append(0)  # the copy holds nothing of its source


def test_a_copy_is_freed_on_a_thread_without_a_context():
    size = 256 << 20
    before = free_memory()
    held = [asdlpack(bytearray(size), copy=None, device="cuda:0")]

    def drop():
        before = current_context()
        held.clear()
        return before, current_context()

    assert in_thread(drop) == (None, None)
    assert before - free_memory() < 2 << 20


def test_threads_without_a_context_share_and_copy_at_once():
    array, primary = cupy.asarray(HOST), current_context()
    torch.cuda.synchronize()

    def work(number):
        with stream_of(primary) as stream:
            for i in range(200):
                x = asdlpack(interface_of(array, stream=stream))
                x.__dlpack__()
                assert (np.from_dlpack(x, device="cpu") == HOST).all()
                up = asdlpack(HOST[i:], copy=None, device="cuda:0")
                beside = asdlpack(up, copy=True)
                assert (np.from_dlpack(beside, device="cpu") == HOST[i:]).all()
                assert current_context() is None

    in_threads(work, 8)


def opened_when_others_run(gate):
    """Opens the gate as soon as another thread than this may run, which is when this one gives up the GIL."""
    sys.setswitchinterval(1000)
    called = threading.Event()
    thread = threading.Thread(target=lambda: (called.wait(), gate.open()))
    thread.start()
    called.set()
    return thread


@alone(timeout=120)
def test_other_threads_run_while_a_copy_waits_for_the_gpu():
    memory, (producer,) = cupy.zeros(1024, "f4"), streams(1)
    x = asdlpack(interface_of(memory, stream=producer.ptr))
    np.from_dlpack(x, device="cpu")
    with Gate() as gate:
        gate.write(producer, memory.data.ptr, 1024, 1)
        thread = opened_when_others_run(gate)
        assert np.from_dlpack(x, device="cpu").tolist() == [1] * 1024
        thread.join()


@alone(timeout=120)
def test_a_copy_is_freed_after_the_work_on_it_while_other_threads_run():
    copy, (stream,) = asdlpack(HOST, copy=None, device="cuda:0"), streams(1)
    write(stream, copy.pointer, 1024, 1)
    stream.synchronize()
    with Gate() as gate:
        gate.write(stream, copy.pointer, 1024, 2)
        thread = opened_when_others_run(gate)
        del copy
        assert stream.done
        thread.join()


@alone(timeout=120)
def test_a_forked_child_is_told_to_spawn():
    array = cupy.asarray(HOST)
    x = asdlpack(interface_of(array))
    copies = [asdlpack(HOST, copy=None, device="cuda:0")]
    other, on_stream = interface(array.data.ptr + 4, (3,), keep=array), interface_of(array, stream=1)

    def child():
        assert x.device[0] == 2  # what is known stays so
        for refused in (
            lambda: asdlpack(other),
            lambda: np.from_dlpack(x, device="cpu"),
            lambda: asdlpack(x, copy=True),
            lambda: asdlpack(HOST, copy=None, device="cuda:0"),
            lambda: from_pointer(array.data.ptr, 3, "float32", device="cuda"),
            lambda: asdlpack(on_stream).__dlpack__(stream=2),
        ):
            with pytest.raises(BufferError, match="spawn"):
                refused()
        copies.clear()  # the memory is the parent's
        assert (np.from_dlpack(asdlpack(HOST)) == HOST).all()

    fork_and_join(child)
    assert (np.from_dlpack(x, device="cpu") == HOST).all()
    assert (np.from_dlpack(copies[0], device="cpu") == HOST).all()


@alone(timeout=120)
def test_gpu_objects_alive_at_exit_do_no_harm():
    x = asdlpack(HOST, copy=None, device="cuda:0")
    builtins.held = [
        x,
        x.__dlpack__(),
        torch.from_dlpack(x),
        cupy.from_dlpack(x),
        asdlpack(interface_of(cupy.zeros(3))),
    ]
