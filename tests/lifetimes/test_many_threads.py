"""Many threads: at once, one after the other, alive, with small stacks, and such as Python does not know."""

import collections
import gc
import itertools
import os
import random
import sys
import threading
import weakref

import numpy as np
import pytest

from dlpack import asdlpack, frombuffer
from support.abi import LEGACY, VERSIONED, Tensor, owned, strays
from support.alone import alone, python
from support.builds import build
from support.capi import Memory, address, consume
from support.forks import ask_core, use_all
from support.libraries import library
from support.process import status, threads
from support.threads import in_threads

SMALLEST_STACK = max(32768, os.sysconf("SC_THREAD_STACK_MIN"))  # 131072 on aarch64


def use_everything(source=b"a kind that is known", dtype="uint8"):
    """Every way in and out that needs no library but numpy."""
    use_all()
    x = asdlpack(source)
    for take in memoryview, bytes, repr, np.from_dlpack, np.asarray, lambda x: frombuffer(x, dtype), asdlpack:
        take(x)
    for name in "__array_interface__", "__array_struct__", "shape", "device":
        getattr(x, name)
    x.__arrow_c_array__()
    assert not hasattr(x, "__cuda_array_interface__")
    for refused in 5, [1], "text", object():
        with pytest.raises(TypeError):
            asdlpack(refused)


# At once.


@alone(timeout=600)
def test_threads_share_the_same_and_different_objects(effort, figure):
    """Each thread puts objects into a few shared places; others consume, drop or export them again."""
    count, rounds = 64, effort(30, 3000)
    sys.setswitchinterval(1e-5)
    places = [None] * 16
    alive = collections.deque()
    shared_bytes, shared_array = Memory(64), np.arange(64.0)
    shared = [asdlpack(shared_bytes), asdlpack(shared_array), asdlpack(Tensor(shape=(8,)).capsule())]

    def work(number):
        choose = random.Random(number).choice
        for _ in range(rounds):
            source = Memory(choose([1, 8, 64]))
            alive.append(weakref.ref(source))
            obj = choose([source, shared_bytes, shared_array, Tensor(choose([LEGACY, VERSIONED])).capsule()])
            x = choose([*shared, asdlpack(obj)])
            del source, obj
            use = choose([asdlpack, np.from_dlpack, memoryview, repr, lambda x: x.__dlpack__(), lambda x: x])
            places[choose(range(16))] = use(x)  # lets go of what another thread put there
            capsule = x.__dlpack__(max_version=choose([None, (1, 3)]))
            if choose([True, False]):
                managed = consume(capsule)
                managed.deleter(address(managed))
            elif choose([True, False]):
                asdlpack(capsule)

    in_threads(work, count)
    places.clear()
    del work  # which has the shared objects
    gc.collect()
    assert not any(reference() for reference in alive)
    assert owned() == 1
    shared.clear()
    shared_bytes.append(0)
    gc.collect()
    assert (owned(), strays) == (0, [])
    assert sys.getrefcount(shared_array) == 2
    figure("objects made by 64 threads", count * rounds)


# One after the other.


@alone(timeout=600)
def test_threads_that_end_leave_nothing(effort, figure):
    use_all()
    left = []

    def work(number):
        ask_core()
        asdlpack(memoryview(b"0123456789")[::-2], copy=True)
        left.append(asdlpack(bytearray(8)))  # which another thread lets go
        left.pop(0)

    def start(count):
        for _ in range(count // 50):
            in_threads(work, 50)
        assert len(left) == 0
        gc.collect()
        return threads(), int(status("VmRSS"))

    count = effort(500, 10_000)
    before, resident = start(max(count // 10, 100))
    after, grown = start(count)
    assert after < before + 8  # Go's own
    assert grown < resident + 20_000  # KiB
    figure("short threads", count)


# Alive.


@pytest.mark.serial
@alone(timeout=600)
def test_threads_that_live_at_once(effort, figure):
    threading.stack_size(1 << 18)
    source = Memory(64)

    def work(number):
        mine = asdlpack(bytearray([number % 251] * 8))
        ours = asdlpack(source)
        ask_core()
        together.wait()  # all of them have called Go, and are alive
        asdlpack(memoryview(mine)[::-2], copy=True)
        ask_core()
        together.wait()
        return bytes(mine)[0] + ours.size

    count = effort(100, 1000)
    together = threading.Barrier(count)
    assert in_threads(work, count) == [number % 251 + 64 for number in range(count)]
    gc.collect()
    source.append(0)
    figure("living threads", count)


# With small stacks.


@alone
def test_the_core_starts_on_a_thread_with_the_smallest_stack():
    threading.stack_size(SMALLEST_STACK)
    in_threads(lambda number: use_everything(), 1)


def chain(longer):
    x = asdlpack(bytearray(8))
    for _ in range(1000):
        x = longer(x)
    return [x]


@alone(timeout=600)
def test_threads_with_the_smallest_stacks(effort, figure):
    count, rounds = 16, effort(1, 20)
    lets_go = [
        lambda x: frombuffer(x, "uint8"),
        lambda x: asdlpack(memoryview(x)),
        lambda x: asdlpack(x.__dlpack__(max_version=(1, 0))),
    ]
    threading.stack_size(SMALLEST_STACK)
    for _ in range(rounds):
        chains = [chain(longer) for longer in lets_go]

        def work(number, chains=chains):
            for longer in chains:
                longer.clear()
            use_everything(np.arange(6.0).reshape(2, 3), "float64")
            asdlpack(memoryview(bytearray(1 << 22))[::2], copy=True)  # by all of Go's threads
            gc.collect()

        in_threads(work, count)
    figure("threads with stacks of 32 KiB", count * rounds)


# While the memory changes.


@alone(timeout=600)
def test_memory_that_changes_during_a_copy_is_copied_item_by_item(effort, figure):
    source = np.zeros(1 << 18, "i8")
    ended = threading.Event()
    value = itertools.cycle([0, -1])

    def change():
        while not ended.is_set():
            source[...] = next(value)

    thread = threading.Thread(target=change)
    thread.start()
    rounds = effort(20, 1000)
    for _ in range(rounds):
        copies = [asdlpack(source[::-1], copy=True), asdlpack(memoryview(source)[::2], copy=True)]
        for copied in copies:
            assert set(np.unique(np.from_dlpack(copied))) <= {0, -1}
    ended.set()
    thread.join()
    figure("copies of memory that changes", 2 * rounds)


# That Python does not know.


SCRIPT = """
import ctypes, sys
from dlpack import asdlpack
from dlpack._abi import capsule_new, consume
library = ctypes.CDLL({path!r})
library.make.restype = ctypes.c_void_p
library.take.argtypes = [ctypes.c_void_p]
for _ in range({count}):
    x = asdlpack(capsule_new(library.make(), b"dltensor_versioned", None))
    library.take(ctypes.addressof(consume(x.__dlpack__(max_version=(1, 3)))))
    del x
"""


def test_a_foreign_thread_waits_while_another_holds_the_gil():
    with library("deleters") as path:
        result = python(
            SCRIPT.format(path=str(path), count=1)
            + """
print(ctypes.PyDLL(library._name).hold_off())  # PyDLL keeps the GIL
library.wait_for_all()
print(library.deleted(1), library.deleted(2))
"""
        )
    assert (result.returncode, result.stdout, result.stderr) == (0, "0\n1 0\n", "")


def end_while_threads_delete(path, count, until, **options):
    """How many of the deleters found Python running; each returns, at the latest when Python is gone."""
    result = python(
        SCRIPT.format(path=str(path), count=count)
        + f"""
library.delete_at_exit()
library.start(4)
while not library.{until}:
    pass
""",
        **options,
    )
    assert (result.returncode, result.stderr) == (0, "")
    deleted, twice = map(int, result.stdout.split())
    assert twice == 0
    return deleted


@pytest.mark.serial
def test_foreign_threads_delete_while_and_after_python_finalises(effort, figure):
    """Deleters that begin before run; those that begin after leave the memory to the process's end."""
    rounds, count = effort(4, 100), 20_000
    with library("deleters") as path:
        early = [end_while_threads_delete(path, count, until="deleted(1)") for _ in range(rounds)]
    assert all(0 < deleted <= count for deleted in early)
    figure("processes that end while 4 foreign threads delete", rounds)
    figure("deleters that these entered", rounds * count)
    figure("of them before Python finalised", sum(early))


LATE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <unistd.h>
#define PyGILState_Ensure() (usleep(500000), PyGILState_Ensure())
"""


def test_python_does_not_finalise_before_who_asks_for_the_gil_has_it(tmp_path):
    """A thread may stop anywhere. In this test's build it stops after it saw that Python runs."""
    header = tmp_path / "late.h"
    header.write_text(LATE)
    package = build(tmp_path, cflags=f"-include {header}")
    with library("deleters") as path:
        environ = {"PYTHONPATH": str(package)}
        assert end_while_threads_delete(path, 20, until="entered()", environ=environ) > 0


SLOW = """
import time
import numpy as np

class Slow:
    \"\"\"Whose end lets the GIL go, again and again.\"\"\"

    def __init__(self):
        self.data = np.zeros(3, "u1")
        self.__array_interface__ = self.data.__array_interface__

    def __del__(self, sleep=time.sleep):
        began.append(True)
        for _ in range(20):
            sleep(0.01)
        print("done")

began = []
x = asdlpack(Slow())
library.take(ctypes.addressof(consume(x.__dlpack__(max_version=(1, 3)))))
del x
library.delete_at_exit()
library.start(1)
while not began:
    pass
"""


def test_python_does_not_finalise_while_a_foreign_thread_runs_python():
    """The thread would not get the GIL back, and not return from the deleter that it called."""
    with library("deleters") as path:
        result = python(SCRIPT.format(path=str(path), count=0) + SLOW)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n0 0\n", "")
