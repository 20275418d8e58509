"""Many threads at once, some of which Python does not know."""

import ctypes
import itertools
import threading
import weakref

import numpy as np
import pytest

import dlpack
from support import capi
from support.capi import Memory
from support.threads import ForeignThreads, in_threads

pytestmark = pytest.mark.usefixtures("quick_switches")


def test_threads_describe_many_layouts_together():
    memory = bytearray(1 << 14)

    def work(number):
        for extent in range(1, 400):
            rows = 1 + (extent + number) % 7
            layout = {"shape": (1 + rows, 1 + extent), "strides": (2 + 2 * extent, 2), "offset": 7 * extent + rows}
            x = dlpack.frombuffer(memory, "uint8", **layout)
            assert (x.shape, x.strides, x.dtype) == ((1 + rows, 1 + extent), (2 + 2 * extent, 2), "uint8")
            assert dlpack.frombuffer(memory, "uint8", **layout).nbytes == (1 + rows) * (1 + extent)

    in_threads(work)


def test_threads_copy_at_once():
    source = np.arange(1 << 19, dtype="u4")[::-2]
    expected = source.tobytes()

    def work(number):
        for _ in range(5):
            assert np.from_dlpack(dlpack.asdlpack(memoryview(source), copy=True)).tobytes() == expected

    in_threads(work)


@pytest.mark.parametrize("take", [np.from_dlpack, np.asarray, memoryview])
def test_threads_that_first_use_a_copy_at_once_get_the_same(take):
    """copy=None copies once. All threads have read the interface before one has copied."""
    values = np.zeros(1 << 16, ">f8")
    count = 4
    together, reads = threading.Barrier(count), itertools.count()

    class Swapped:
        def __dlpack__(self, **arguments):
            raise BufferError("not in this byte order")

        @property
        def __array_interface__(self):
            if next(reads) < count:
                together.wait()
            return values.__array_interface__

    x = dlpack.asdlpack(Swapped(), copy=None)
    taken = in_threads(lambda number: take(x), count)
    assert len({np.asarray(array).ctypes.data for array in taken}) == 1
    assert np.asarray(taken[0]).ctypes.data == x.pointer


def test_deleters_run_on_foreign_threads(effort, figure):
    """They wait for the GIL, which working threads pass around."""
    rounds = effort(100, 1250)

    def work(number):
        for _ in range(rounds):
            source = Memory(8)
            alive = weakref.ref(source)
            struct = capi.consume(dlpack.asdlpack(source).__dlpack__(max_version=[None, (1, 3)][number % 2]))
            del source
            assert alive() is not None
            threads = ForeignThreads()
            threads.start(ctypes.cast(struct.deleter, ctypes.c_void_p), capi.address(struct))
            threads.join()
            assert alive() is None

    in_threads(work, 8)
    figure("deleters on foreign threads", 8 * rounds)
