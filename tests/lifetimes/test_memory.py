"""Memory: nothing grows, references are exact, and what a deleter took away is touched no more."""

import array
import ctypes
import gc
import json
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

import dlpack
from dlpack import asdlpack
from dlpack._abi import STRUCTS, capsule_new
from dlpack.structs import DELETER
from support.alone import SUPPORT, TESTS, alone, run
from support.arrow_c import Column, Stream
from support.builds import build, seed
from support.capi import Speaks
from support.operations import ROUNDS
from support.process import status

OPERATIONS = SUPPORT / "operations.py"

# Tolerates one leak in 1000 operations. Each kind of operation is one in 120, so its leak is larger.
RARE = 1000
COUNTED = {"blocks of Python": 1, "bytes of the C heap": 128, "references": 1}


def grown(count, package):
    environ = {"PYTHONPATH": f"{package}:{TESTS}"}
    result = run(sys.executable, OPERATIONS, count, environ=environ, timeout=1500)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def leaks(seen):
    most = max(3, seen["operations"] / ROUNDS / RARE)
    return {what for what, unit in COUNTED.items() if abs(seen[what]) > most * unit}


def test_nothing_grows_over_mixed_operations_and_errors(effort, figure):
    seen = grown(effort(100_000, 10_000_000), Path(dlpack.__file__).parents[1])
    for what, value in seen.items():
        figure(what, value)
    assert not leaks(seen), seen
    assert seen["bytes resident"] < 4 << 20


GONE = "    else {\n        return;\n    }\n"
LEAKS = [
    ("pyext/object/export.c", f"{GONE}    free(block);\n", GONE),
    ("pyext/python/python.c", "        Py_CLEAR(result);\n", "        result = NULL;\n"),
    ("pyext/read/interface.c", "        Py_XDECREF(fields[i]);\n", ""),
]


def test_seeded_leaks_are_found(tmp_path):
    """Leaks a block of an export, an error, and a reference to the source."""
    package = build(tmp_path, cflags="-O0 -fno-lto", edit=seed(*LEAKS))
    assert leaks(grown(10_000, package)) >= {"bytes of the C heap", "blocks of Python", "references"}


PAGE = mmap.PAGESIZE
PROT_NONE = 0


class Guarded:
    """A managed tensor, with its shape, strides and memory, in pages of its own, which the deleter takes away: who
    touches them afterwards ends the process."""

    def __init__(self, name, shape=(2, 3), ndim=None):
        self.deleted = 0
        self.name = name
        self.pages = mmap.mmap(-1, 2 * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.deleter = DELETER(self.delete)
        struct = STRUCTS[name].from_address(self.start)
        if name == b"dltensor_versioned":
            struct.version = (1, 3)
        tensor = struct.dl_tensor
        tensor.data = self.start + PAGE
        tensor.device = (1, 0)
        tensor.dtype = (2, 32, 1)
        tensor.ndim = len(shape) if ndim is None else ndim
        dims = (ctypes.c_int64 * len(shape)).from_address(self.start + 512)
        dims[:] = shape
        tensor.shape = ctypes.cast(dims, type(tensor.shape))
        struct.deleter = self.deleter

    def delete(self, managed):
        assert managed == self.start
        self.deleted += 1
        mprotect = ctypes.CDLL(None).mprotect
        assert mprotect(ctypes.c_void_p(self.start), ctypes.c_size_t(2 * PAGE), PROT_NONE) == 0

    def capsule(self):
        return capsule_new(self.start, self.name, None)

    def producer(self):
        return Speaks(__dlpack__=lambda **_: self.capsule(), __dlpack_device__=lambda: (1, 0))

    def pointer(self):
        return ctypes.pointer(STRUCTS[self.name].from_address(self.start))


def use(x):
    """All that is known of it; what is exported dies again."""
    array = np.from_dlpack(x)
    assert (x.shape, x.strides, x.ndim, x.size, x.nbytes) == ((2, 3), (3, 1), 2, 6, 24)
    repr(x), x.device, x.__array_interface__, x.__array_struct__, bytes(x), memoryview(x), x.__arrow_c_array__()
    x.__dlpack__(), x.__dlpack__(max_version=(1, 3)), x.__dlpack__(copy=True)
    assert array.sum() == 0


def cycle(guarded):
    ring = [asdlpack(guarded.capsule())]
    use(ring[0])
    ring.append(ring)


WAYS = {
    "a capsule": lambda it: use(asdlpack(it.capsule())),
    "a copied capsule": lambda it: use(asdlpack(it.capsule(), copy=True)),
    "a structure": lambda it: use(asdlpack(it.pointer())),
    "a copied structure": lambda it: use(asdlpack(it.pointer(), copy=True)),
    "a copied producer": lambda it: use(asdlpack(it.producer(), copy=True)),
    "a chain": lambda it: use(asdlpack(asdlpack(asdlpack(it.capsule()).__dlpack__()).__dlpack__(max_version=(1, 3)))),
    "garbage": cycle,
}


@alone
def test_memory_is_not_touched_after_its_deleter_ran():
    gc.freeze()  # what is there already, so that each collection is short
    for name in b"dltensor", b"dltensor_versioned":
        for way, take in WAYS.items():
            for _ in range(5):
                guarded = Guarded(name)
                take(guarded)
                gc.collect()
                assert guarded.deleted == 1, way


@alone
def test_a_refused_structure_is_deleted_and_not_touched():
    for name in b"dltensor", b"dltensor_versioned":
        for shape, ndim in ((-1,), None), ((2, 3), -1), ((2, 3), 1 << 30), ((1 << 40, 1 << 40), None):
            guarded = Guarded(name, shape, ndim)
            pointer = guarded.pointer()
            for _ in range(2):  # the second finds it NULL
                with pytest.raises(ValueError):
                    asdlpack(pointer)
            assert guarded.deleted == 1


@alone
def test_a_producers_tensor_is_touched_as_long_as_its_consumers_live():
    guarded = Guarded(b"dltensor_versioned")
    x = asdlpack(guarded.producer())
    array = np.from_dlpack(x)  # has the producer's own capsule
    assert guarded.deleted == 0
    array[1, 2] = 5
    del x
    assert array.sum() == 5
    del array
    assert guarded.deleted == 1


@pytest.mark.parametrize("size", [256 << 10, 2 << 20, 16 << 20])
@alone(timeout=120)
def test_copies_that_come_and_go_take_no_more_memory(size):
    """Each leaves a hole in the heap, where little that stays takes some of it: the next has to fit in there, or in
    another."""
    layouts = np.zeros((2, size // 2), "u1").T, np.zeros(size, "u1")
    small, held = array.array("d", range(6)), []

    def copy_and_keep(count):
        for i in range(count):
            copied = asdlpack(layouts[i % 2], copy=True)
            held.append(asdlpack(small).__dlpack__())
            del copied

    copy_and_keep(20)
    before = int(status("VmRSS"))
    copy_and_keep(200)
    assert int(status("VmRSS")) - before < (20 << 10) + (2 * size >> 10)


@alone
def test_chunks_are_copied_once_if_a_copy_is_asked_for():
    chunks = np.arange(1 << 18, dtype="i4"), np.arange(1 << 18, dtype="i4")  # 1 MiB each

    def copy(count):
        for _ in range(count):
            x = asdlpack(Stream(*(Column(items=chunk) for chunk in chunks)).exporter(), copy=True)
            assert (x.shape, x.readonly, x.pointer % 64) == ((1 << 19,), False, 0)

    copy(10)
    before = int(status("VmRSS"))
    copy(50)
    assert int(status("VmRSS")) - before < 20 << 10
