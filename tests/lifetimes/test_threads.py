"""Many threads at once, some of which Python does not know."""

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

import dlpack
from support import capi
from support.capi import Memory
from support.threads import THREADS, ForeignThreads, in_threads

pytestmark = pytest.mark.usefixtures("quick_switches")


def test_threads_wrap_export_consume_and_drop_objects_of_their_own():
    def work(number):
        for length in range(1, 300):
            source = Memory(bytes([number]) * length)
            alive = weakref.ref(source)
            x = dlpack.asdlpack(source)
            unused = x.__dlpack__(max_version=(1, 0))
            array = np.from_dlpack(x)
            del x
            assert array.tolist() == [number] * length
            del array
            del unused
            source.append(0)  # unlocked
            del source
            assert alive() is None

    in_threads(work)


def test_threads_share_one_source():
    source = np.arange(24.0).reshape(4, 6)
    view = memoryview(source)
    counts = sys.getrefcount(source), sys.getrefcount(view)

    def work(number):
        for _ in range(200):
            for x in dlpack.asdlpack(view), dlpack.asdlpack(source):
                array = np.from_dlpack(x)
                assert array.ctypes.data == source.ctypes.data
                assert x.shape == (4, 6)
                assert dlpack.asdlpack(x.__dlpack__()).strides == (6, 1)

    in_threads(work)
    gc.collect()
    assert (sys.getrefcount(source), sys.getrefcount(view)) == counts


def test_threads_share_one_object():
    """A delegate imports its tensor at first use: once, whoever is first."""
    for _ in range(20):
        source = np.arange(6.0)
        count = sys.getrefcount(source)
        x = dlpack.asdlpack(source)

        def work(number, x=x):
            return x.shape, x.pointer, x.dtype, repr(x)

        assert len(set(in_threads(work))) == 1
        del x, work
        gc.collect()
        assert sys.getrefcount(source) == count


def test_threads_meet_new_kinds_together():
    """The table of remembered answers is shared."""

    def work(number):
        for extent in range(1, 400):
            rows = 1 + (extent + number) % 7
            values = memoryview(np.zeros((1 + rows, 1 + extent, 2), "u1")[..., 0])
            x = dlpack.asdlpack(values)
            assert (x.shape, x.strides, x.dtype) == ((1 + rows, 1 + extent), (2 + 2 * extent, 2), "uint8")
            assert dlpack.asdlpack(values).nbytes == (1 + rows) * (1 + extent)

    in_threads(work)


def test_threads_copy_at_once():
    source = np.arange(1 << 19, dtype="u4")[::-2]
    expected = source.tobytes()

    def work(number):
        for _ in range(5):
            assert np.from_dlpack(dlpack.asdlpack(memoryview(source), copy=True)).tobytes() == expected

    in_threads(work)


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_a_capsule_shared_by_threads_is_consumed_exactly_once(max_version):
    for _ in range(50):
        source = Memory(8)
        alive = weakref.ref(source)
        capsule = dlpack.asdlpack(source).__dlpack__(max_version=max_version)

        def consume(number, capsule=capsule):
            try:
                return dlpack.asdlpack(capsule)
            except ValueError:
                return None

        taken = [x for x in in_threads(consume, 8) if x is not None]
        assert len(taken) == 1
        del capsule, consume, taken, source
        gc.collect()
        assert alive() is None


def test_a_consumer_ends_on_another_thread():
    source = Memory(8)
    alive = weakref.ref(source)
    arrays = {number: np.from_dlpack(dlpack.asdlpack(source)) for number in range(THREADS)}
    del source

    def work(number):
        del arrays[number]

    in_threads(work)
    assert alive() is None


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_deleters_run_on_threads_that_python_does_not_know(max_version):
    sources = [Memory(8) for _ in range(200)]
    alive = [weakref.ref(source) for source in sources]
    managed = [capi.consume(dlpack.asdlpack(source).__dlpack__(max_version=max_version)) for source in sources]
    sources.clear()
    gc.collect()
    assert all(source() is not None for source in alive)
    threads = ForeignThreads()
    for struct in managed:
        threads.start(ctypes.cast(struct.deleter, ctypes.c_void_p), capi.address(struct))
    threads.join()
    assert not any(source() for source in alive)


def test_a_deleter_runs_on_a_foreign_thread_while_python_is_at_work():
    """The foreign threads wait for the GIL, which working threads pass around."""
    failures = []

    def work(number):
        for _ in range(100):
            source = Memory(8)
            alive = weakref.ref(source)
            struct = capi.consume(dlpack.asdlpack(source).__dlpack__())
            del source
            threads = ForeignThreads()
            threads.start(ctypes.cast(struct.deleter, ctypes.c_void_p), capi.address(struct))
            threads.join()
            if alive() is not None:
                failures.append(number)

    in_threads(work, 8)
    assert not failures
