"""Greenlets and tasks share one thread, and any of them may stand still inside a producer or a destructor."""

import asyncio
import ctypes
import importlib
import os
import signal
import sys
import warnings
import weakref

import greenlet
import numpy as np
import pytest

from dlpack import asdlpack, shared
from support import capi
from support.alone import alone

MANY = 60  # more than imports and deallocations may be nested


class Waiting:
    """A producer that lets others run before it answers."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        greenlet.getcurrent().parent.switch()
        return self.array.__dlpack__(**arguments)


class WaitingAfterRefusal(Waiting):
    """A producer that refuses DLPack, and lets others run when asked by another protocol."""

    def __dlpack__(self, **arguments):
        raise BufferError("not today")

    @property
    def __array_interface__(self):
        greenlet.getcurrent().parent.switch()
        return self.array.__array_interface__


def waiting_for(x, attribute):
    """A greenlet that reads the attribute, and stands still inside x's producer."""
    one = greenlet.greenlet(lambda: getattr(x, attribute))
    one.switch()
    return one


@pytest.mark.parametrize("producer", [Waiting, WaitingAfterRefusal])
def test_greenlets_that_wait_inside_their_producers_all_get_their_tensor(producer):
    waiting = [waiting_for(asdlpack(producer(np.arange(float(n)))), "shape") for n in range(5 * MANY)]
    assert asdlpack(np.zeros(2)).shape == (2,)
    assert [one.switch() for one in waiting] == [(n,) for n in range(5 * MANY)]


def test_greenlets_that_ask_one_object_get_the_same_tensor():
    x = asdlpack(Waiting(np.arange(3.0)))
    waiting = [waiting_for(x, "pointer") for _ in range(MANY)]
    assert {one.switch() for one in waiting} == {x.obj.array.ctypes.data}


def test_imports_that_end_in_another_order_are_counted_right():
    for _ in range(MANY):
        first, second = (waiting_for(asdlpack(Waiting(np.zeros(n))), "shape") for n in (1, 2))
        assert first.switch() == (1,)
        assert second.switch() == (2,)


class Owner(bytearray):
    """Whose destructor lets others run."""

    def __del__(self):
        greenlet.getcurrent().parent.switch()


def chain(length):
    """The last object of a chain, and a weak reference to the owner of its memory."""
    source = np.zeros(8, "u1")
    alive = weakref.ref(source)
    x = asdlpack(source)
    for _ in range(length):
        x = asdlpack(memoryview(x))
    return [x], alive


def drop(holder):
    holder.clear()


@pytest.mark.parametrize("waiting", [1, MANY, 5 * MANY])
def test_chains_are_freed_while_greenlets_wait_inside_destructors(waiting):
    stopped = [greenlet.greenlet(drop) for _ in range(waiting)]
    for one in stopped:
        one.switch([asdlpack(Owner(b"memory"))])
    for length in 1, MANY, 10 * MANY:
        holder, alive = chain(length)
        drop(holder)
        assert alive() is None
        holder, alive = chain(length)
        greenlet.greenlet(drop).switch(holder)
        assert alive() is None
        holder, alive = chain(length)
        list(map(drop, [holder]))  # a frame lower on C's stack
        assert alive() is None
    for one in stopped:
        one.switch()
    assert all(one.dead for one in stopped)


def test_a_chain_whose_destructor_waits_is_freed_when_it_goes_on():
    owner = Owner(b"memory")
    x = asdlpack(owner)
    for _ in range(MANY):
        x = asdlpack(memoryview(x))
    holder = [x]
    del owner, x
    one = greenlet.greenlet(drop)
    one.switch(holder)
    assert not one.dead
    one.switch()
    assert one.dead


@alone(timeout=20)
def test_python_ends_while_a_greenlet_waits_inside_a_deleter():
    """The deleter is called without the GIL, and Python waits at its end for those of other threads."""

    def delete():
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.cast(struct.deleter, ctypes.c_void_p).value)(address)

    struct = capi.consume(asdlpack(Owner(b"memory")).__dlpack__())
    address = capi.address(struct)
    capi.waiting = greenlet.greenlet(delete)  # alive at the end
    capi.waiting.switch()
    assert not capi.waiting.dead


def exchange(wait):
    """Waits inside a producer, copies, and exports memory, as a greenlet or task of a server does."""

    class Producer:
        def __dlpack__(self, **arguments):
            wait()
            return array.__dlpack__(**arguments)

    array = np.arange(6.0)
    x = asdlpack(Producer())
    assert x.shape == (6,)
    np.from_dlpack(x)[0] = 7
    assert array[0] == 7
    copy = asdlpack(memoryview(b"0123456789")[::-2], copy=True)
    wait()
    assert bytes((ctypes.c_char * copy.nbytes).from_address(copy.pointer)) == b"97531"
    assert asdlpack(memoryview(bytearray(4 << 20))[::2], copy=True).nbytes == 2 << 20


@alone
def test_gevent_with_everything_patched_works():
    from gevent import monkey

    monkey.patch_all()

    import gevent

    def child():
        if os.fork() == 0:  # gevent's
            exchange(lambda: gevent.sleep(0))
            os._exit(7)
        return os.waitstatus_to_exitcode(os.wait()[1])

    tasks = [gevent.spawn(exchange, lambda: gevent.sleep(0.01)) for _ in range(MANY)]
    pool = gevent.get_hub().threadpool
    threads = [pool.spawn(exchange, lambda: None) for _ in range(4)]
    gevent.joinall(tasks, raise_error=True)
    for thread in threads:
        thread.get()
    assert gevent.spawn(child).get() == 7


@alone(timeout=30)
def test_a_child_of_gevent_goes_on_after_its_parent_has_sent_shared_memory():
    """The parent's sending greenlet also runs on in the child, with nothing to send."""
    from gevent import monkey

    monkey.patch_all()

    import multiprocessing

    import gevent

    here, _ = multiprocessing.Pipe()
    here.send(shared(8, "uint8"))
    gevent.sleep(0)
    if os.fork() == 0:
        gevent.sleep(0.01)
        here.send(shared(8, "uint8"))
        gevent.sleep(0.01)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7


@alone
def test_eventlet_with_everything_patched_works():
    warnings.simplefilter("ignore")  # eventlet says that it is no longer developed
    import eventlet

    eventlet.monkey_patch()

    pool = eventlet.GreenPool(MANY)
    tasks = [pool.spawn(exchange, lambda: eventlet.sleep(0.01)) for _ in range(MANY)]
    for task in tasks:
        task.wait()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@alone
def test_event_loops_work_with_tasks_threads_signals_and_children(loop):
    async def main():
        caught = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, caught.set)

        async def task():
            exchange(lambda: None)
            await loop.run_in_executor(None, exchange, lambda: None)

        await asyncio.gather(*(task() for _ in range(MANY)))
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(caught.wait(), 30)
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(7)")
        assert await asyncio.wait_for(child.wait(), 30) == 7

    importlib.import_module(loop).run(main())


@alone
def test_trio_works_with_tasks_threads_signals_and_children():
    import trio

    async def task():
        exchange(lambda: None)
        await trio.to_thread.run_sync(exchange, lambda: None)

    async def main():
        async with trio.open_nursery() as nursery:
            for _ in range(MANY):
                nursery.start_soon(task)
        with trio.open_signal_receiver(signal.SIGUSR1) as received:
            os.kill(os.getpid(), signal.SIGUSR1)
            async for number in received:
                assert number == signal.SIGUSR1
                break
        process = await trio.run_process([sys.executable, "-c", "raise SystemExit(7)"], check=False)
        assert process.returncode == 7

    trio.run(main)
