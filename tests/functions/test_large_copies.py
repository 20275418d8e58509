"""Copies so large that several threads share them, to memory in huge pages."""

import ctypes
import mmap
import os
import signal
import tempfile
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dlpack import asdlpack, copy_into
from support import forks, process
from support.alone import alone
from support.capi import Speaks, array_at
from support.layouts import PROTOCOLS
from support.refusals import refused

HUGE_PAGE = 2 << 20
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")


def numbers(*shape, dtype="f4"):
    return np.random.default_rng(0).integers(0, 256, (*shape, np.dtype(dtype).itemsize), "u1").view(dtype)[..., 0]


# Go's TestWorkersCopyWhatOneDoes has all layouts; these are shared by several threads of the core itself.
LAYOUTS = {
    "compact bytes, one more than some pieces": lambda: numbers(8 * HUGE_PAGE + 1, dtype="u1"),
    "transposed": lambda: numbers(1500, 1511).T,
    "transposed and byte-swapped": lambda: numbers(1500, 1511, dtype=">f4").T,
    "channels last to channels first": lambda: numbers(1301, 1303, 3, dtype="u1").transpose(2, 0, 1),
    "every second column": lambda: numbers(1500, 3023)[:, ::2],
    "one row, broadcast": lambda: np.broadcast_to(numbers(1511), (1500, 1511)),
    "two huge rows": lambda: numbers(2, 3 * HUGE_PAGE + 7, dtype="u1")[:, :-3],
    "byte-swapped words of 4 bytes, misaligned": lambda: numbers(6_000_001, dtype="u1")[1:].view(">i4"),
    "byte-swapped halves of 16 bytes": lambda: numbers(300_001, dtype=">c16"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_item_is_copied(layout):
    array = LAYOUTS[layout]()
    x = asdlpack(PROTOCOLS["__array_interface__"](array), copy=True)
    assert x.nbytes == array.nbytes > 4_000_000
    assert x.shape == array.shape
    assert x.pointer % 64 == 0
    native = array.dtype.newbyteorder("=")
    assert array_at(x, native).tobytes() == array.astype(native).tobytes()


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="the kernel has no transparent huge pages")
def test_the_copy_lies_in_huge_pages_where_the_kernel_has_them():
    array = numbers(3 * HUGE_PAGE, dtype="u1")
    x = asdlpack(array, copy=True)
    assert "hg" in flags_of_mapping(x.pointer + x.nbytes // 2)


def flags_of_mapping(address):
    """The flags that the kernel keeps for the mapping that the address lies in."""
    found = False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            first, *rest = line.split()
            if not first.endswith(":"):
                begin, end = (int(number, 16) for number in first.split("-"))
                found = begin <= address < end
            elif found and first == "VmFlags:":
                return rest
    raise AssertionError(hex(address))


@alone
def test_memory_that_is_not_there_raises_whichever_thread_finds_out():

    side = 4096
    size = side * side
    pages = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None, use_errno=True).mprotect

    def copy(typestr, shape, strides):
        keys = {"version": 3, "typestr": typestr, "shape": shape, "strides": strides, "data": (address, False)}
        return asdlpack(Speaks(__array_interface__=keys), copy=True)

    layouts = [
        ("|u1", (side, side), (side, 1)),
        ("|u1", (side, side), (1, side)),
        ("<u2", (side // 2, side), (2, side)),
        (">u2", (side, side // 2), (side, 2)),
        (">u2", (side // 2, side), (2, side)),
    ]
    for hole in (0, size // 2, size - mmap.PAGESIZE):
        assert protect(ctypes.c_void_p(address + hole), mmap.PAGESIZE, 0) == 0
        for layout in layouts:
            error = refused(partial(copy, *layout), "unreadable")
            assert hole <= int(str(error).split()[4], 16) - address < hole + mmap.PAGESIZE
        assert protect(ctypes.c_void_p(address + hole), mmap.PAGESIZE, mmap.PROT_READ) == 0
    for layout in layouts:
        assert copy(*layout).nbytes == size


@pytest.mark.parametrize("size", [2 * mmap.PAGESIZE, 1 << 20, 32 << 20])
@alone
def test_a_file_that_is_cut_short_raises_too(size):
    """Pages behind its new end give SIGBUS in every copy of the mapping, and of an array on it."""
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        pages, room = mmap.mmap(file.fileno(), size), np.empty(size, "uint8")
        array = np.frombuffer(pages, "uint8")
        sources = (pages, memoryview(pages), array, array[:], memoryview(array))
        copies = [lambda source=source: asdlpack(source, copy=True) for source in sources]
        copies += [lambda source=source: copy_into(source, room) for source in sources]
        copies += [lambda target=target: copy_into(room, target) for target in sources]
        for copy in copies * 2:
            copy()
        file.truncate(size - mmap.PAGESIZE)
        for copy in copies:
            with pytest.raises(BufferError, match=r"the memory at 0x[0-9a-f]+ can't be "):
                copy()


@alone
def test_a_copy_that_fails_leaves_no_memory_behind():
    size = 64 << 20
    pages = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + size // 2), mmap.PAGESIZE, 0)
    keys = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False)}

    def fail():
        try:
            asdlpack(Speaks(__array_interface__=keys), copy=True)
        except BufferError:
            return
        raise AssertionError("copied")

    fail()
    before = process.address_space()
    for _ in range(10):
        fail()
    assert process.address_space() < before + 5 * size


@alone
def test_every_thread_of_the_core_blocks_the_signals_that_it_can():
    """Those for faults, profiling and preemption, and SIGCHLD, are Go's to unblock; the Python handlers' are not."""
    data = memoryview(bytearray(32 << 20))[::-1]
    before = set(os.listdir("/proc/self/task"))
    for _ in range(5):
        asdlpack(data, copy=True)
    started = set(os.listdir("/proc/self/task")) - before
    assert started
    for thread in started:
        with open(f"/proc/self/task/{thread}/status") as lines:
            blocked = int(next(line.split()[1] for line in lines if line.startswith("SigBlk:")), 16)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGPIPE):
            assert blocked >> (number - 1) & 1, (thread, number)


@alone(timeout=120)
def test_children_forked_while_threads_share_copies_copy_too():
    data = memoryview(bytes(range(256)) * (8 << 12))[::-1]
    expected = bytes(data)
    stop = threading.Event()

    def copy():
        x = asdlpack(data, copy=True)
        assert bytes(forks.memory_of(x)) == expected

    def copy_on():
        while not stop.is_set():
            asdlpack(data, copy=True)

    thread = threading.Thread(target=copy_on)
    thread.start()
    try:
        for _ in range(10):
            forks.fork_and_join(copy)
    finally:
        stop.set()
        thread.join()
    copy()


@alone
def test_a_copy_leaves_no_file_open():
    before = process.open_files()
    asdlpack(memoryview(bytearray(32 << 20))[::-1], copy=True)
    assert process.opened_since(before) == process.OF_THE_CORE


@pytest.mark.serial
@alone
def test_a_thread_bound_to_one_cpu_copies_by_itself():
    """What it may use is asked at each copy: no other thread runs for it."""
    data = memoryview(bytearray(64 << 20))[::-1]
    asdlpack(data, copy=True)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    me = str(os.getpid())

    def ticks_of_others():
        ticks = 0
        for thread in os.listdir("/proc/self/task"):
            if thread != me:
                with open(f"/proc/self/task/{thread}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks

    before = ticks_of_others()
    for _ in range(20):
        asdlpack(data, copy=True)
    assert ticks_of_others() - before <= 2
