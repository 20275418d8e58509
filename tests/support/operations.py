"""Every kind of operation on one set of objects, errors included, in an order that a seed gives. As a program,

    operations.py COUNT

does so many, and prints as JSON what has grown meanwhile: Python's blocks, the C heap, resident memory, references.
"""

import array
import ctypes
import functools
import gc
import json
import mmap
import random
import sys
import weakref
from typing import Any

import numpy as np

import dlpack
from dlpack import asdlpack, describe, from_pointer, frombuffer
from dlpack.structs import DLTensor
from support.arrow_c import RELEASE, Column, Stream
from support.capi import Exporter, Managed, Speaks, address, consume
from support.exchange_api import Refused, allocate, borrow, delete, from_object, to_object
from support.process import resident


class Weak(bytearray):
    """A bytearray that can be referred to weakly, and be part of a cycle."""


class Producer:
    """A __dlpack__ in Python, which answers what it is told to."""

    def __init__(self, answer, device=(1, 0)):
        self.answer = answer
        self.device = device

    def __dlpack__(self, **arguments):
        return self.answer(**arguments) if callable(self.answer) else self.answer

    def __dlpack_device__(self):
        return self.device


class OldProducer(Producer):
    def __dlpack__(self, stream=None):
        return self.answer()


def raised(error):
    raise error("not today")


# What the operations share, and whose references are counted.

DATA = bytearray(64)
FLOATS = np.arange(24, dtype="f4")
MATRIX: Any = FLOATS.reshape(2, 3, 4)
FROZEN = np.arange(6)
FROZEN.flags.writeable = False
SWAPPED = np.arange(100, dtype=">i4").reshape(10, 10)
WORDS = array.array("i", range(10))
VIEW = memoryview(bytearray(24)).cast("B", (4, 6))
FIVE = memoryview(bytearray(64)).cast("B", (2,) * 6)
MAPPED = mmap.mmap(-1, 4096)
EXPORTER = Exporter(bytes(16), b"f", 4, (2, 2))
POINTERS = Exporter(bytes(16), b"P", 8, (2,))
KEYS = {"version": 3, "shape": (4,), "typestr": "<f4"}
INTERFACE = Speaks(__array_interface__=FLOATS.__array_interface__, keep=FLOATS)
BYTES_INTERFACE = Speaks(__array_interface__={**KEYS, "data": DATA})
STRUCT = Speaks(__array_struct__=FLOATS.__array_struct__)
MEMORY = (ctypes.c_float * 6)()
LEGACY = Managed(address(MEMORY), name=b"dltensor", shape=(2, 3))
VERSIONED = Managed(address(MEMORY), shape=(2, 3), strides=(1, 2))
SIX = Managed(address(MEMORY), shape=(1, 1, 1, 1, 2, 3))
BORROWED = DLTensor(data=address(MEMORY), device=(1, 0), ndim=2, dtype=(2, 32, 1), shape=(ctypes.c_int64 * 2)(2, 3))
MALFORMED = [
    Managed(address(MEMORY), shape=None, ndim=2),
    Managed(address(MEMORY), shape=(-1,)),
    Managed(address(MEMORY), shape=(2, 3), ndim=-1),
    Managed(address(MEMORY), shape=(2, 3), ndim=2_000_000_000),
    Managed(None, shape=(2, 3)),
    Managed(address(MEMORY), shape=(2,), strides=(2**62,)),
    Managed(address(MEMORY), shape=(2, 3), byte_offset=2**64 - 1),
    Managed(address(MEMORY), shape=(2, 3), dtype=(2, 32, 0)),
    Managed(address(MEMORY), shape=(2, 3), dtype=(99, 7, 1)),
    Managed(address(MEMORY), shape=(2, 3), version=(2, 0)),
    Managed(address(MEMORY), shape=(2, 3), name=b"dltensor", dtype=(2, 32, 0)),
    Managed(address(MEMORY), shape=None, ndim=2, name=b"dltensor"),
]
COLUMN = Column(b"i", np.arange(8, dtype="i4"))
CHUNKS = [Column(b"i", np.arange(4, dtype="i4")), Column(b"i", np.arange(5, dtype="i4"))]
STREAM = Stream(*CHUNKS)
LISTS = Column(b"+w:2", children=[Column(b"f", np.arange(8, dtype="f4"))], array={"length": 4})
BAD_COLUMNS = [
    Column(b"i", np.arange(8, dtype="i4"), array={"length": -1}),
    Column(b"u", np.arange(8, dtype="i4")),
    Column(b"i", np.arange(8, dtype="i4"), array={"n_buffers": 3}),
    Column(b"i", np.arange(8, dtype="i4"), array={"null_count": 5}),
]
INTERFACES = [
    Speaks(__array_interface__={**KEYS, "data": DATA, **wrong})
    for wrong in (
        {"typestr": ">f4"},
        {"typestr": "|O8"},
        {"typestr": "nonsense " * 20},
        {"typestr": 5},
        {"shape": (-4,)},
        {"shape": (2**40, 2**40)},
        {"shape": (400,)},
        {"shape": (4.0,)},
        {"shape": None},
        {"strides": (3,)},
        {"strides": (4, 4)},
        {"data": 5},
        {"data": (1 << 70, False)},
        {"data": (0, False)},
        {"offset": 3},
        {"offset": -1},
        {"mask": DATA},
        {"version": "3"},
    )
] + [Speaks(__array_interface__=5), Speaks(__array_struct__=5), Speaks(__cuda_array_interface__={})]
GOOD = Producer(lambda **arguments: FLOATS.__dlpack__(**arguments))
OLD = OldProducer(lambda: FLOATS.__dlpack__())
PRODUCERS = [
    Producer(lambda **arguments: raised(BufferError)),
    Producer(lambda **arguments: raised(KeyError)),
    Producer(5),
    Producer(None),
    Producer(lambda **arguments: MALFORMED[1].capsule()),
    Producer(lambda **arguments: VERSIONED.capsule(b"strange")),
    Producer(lambda **arguments: FLOATS.__dlpack__(**arguments), device=5),
]
WRAPPED = asdlpack(DATA)
WRAPPED_MATRIX = asdlpack(memoryview(MATRIX))
DELEGATE = asdlpack(MATRIX)
BFLOAT = frombuffer(DATA, "bfloat16")
PACKED = frombuffer(DATA, "float4_e2m1fn")
MANAGED = [LEGACY, VERSIONED, SIX, *MALFORMED]
SHARED = [
    DATA, FLOATS, MATRIX, FROZEN, SWAPPED, WORDS, VIEW, FIVE, MAPPED, EXPORTER, POINTERS, INTERFACE, BYTES_INTERFACE,
    STRUCT, MEMORY, BORROWED, COLUMN, LISTS, GOOD, OLD, WRAPPED, WRAPPED_MATRIX, DELEGATE, BFLOAT, PACKED, KEYS,
    *MANAGED, *CHUNKS, *BAD_COLUMNS, *INTERFACES, *PRODUCERS,
]  # fmt: skip
EVERYONES: list[Any] = [
    None, True, False, (), b"", "", "shape", "data", "typestr", bytearray, memoryview, np.ndarray, ValueError,
    TypeError, BufferError, dlpack.DLPackObject, dlpack.DLDeviceType, DLTensor, Weak, Producer,
]  # fmt: skip


def refused(function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except (BufferError, TypeError, ValueError, KeyError, AttributeError, Refused, OverflowError):
        return
    raise AssertionError("not refused", function, arguments, keywords)


def release(capsule):
    managed = consume(capsule)
    managed.deleter(address(managed))


RELEASED = RELEASE(lambda structure: None)


def ready(*columns):
    """Columns that can be exported again: who takes or releases a structure makes its release NULL."""
    for column in columns:
        column.schema.release = column.array.release = RELEASED
    return columns[0]


def stream():
    ready(*CHUNKS)
    STREAM.given = 0
    STREAM.stream.release = RELEASED
    return STREAM.exporter()


def cycle():
    source = Weak(3)
    source.x = asdlpack(source)
    source.x.__dlpack__()


def weakly():
    x = asdlpack(DATA)
    reference = weakref.ref(x)
    del x
    assert reference() is None


def used_twice():
    capsule = WRAPPED.__dlpack__()
    asdlpack(capsule)
    refused(asdlpack, capsule)


def attributes(x):
    return (
        x.shape, x.strides, x.ndim, x.size, x.itemsize, x.nbytes, x.dtype, x.device, x.readonly, x.pointer, x.protocol,
        x.obj, repr(x),
    )  # fmt: skip


extents = iter(range(1 << 62))


def new_kind():
    """Most of these the core is asked for."""
    extent = 2 + next(extents) % 4000
    asdlpack(memoryview(bytearray(2 * extent))[::2])


OFTEN = {
    "wrap bytes": lambda: asdlpack(DATA),
    "wrap an array": lambda: asdlpack(FLOATS),
    "wrap an array.array": lambda: asdlpack(WORDS),
    "wrap a view": lambda: asdlpack(VIEW),
    "wrap a buffer": lambda: asdlpack(EXPORTER),
    "wrap an interface": lambda: asdlpack(INTERFACE),
    "wrap bytes by an interface": lambda: asdlpack(BYTES_INTERFACE),
    "wrap a struct": lambda: asdlpack(STRUCT),
    "wrap a wrapped object": lambda: asdlpack(WRAPPED),
    "wrap many dimensions": lambda: asdlpack(FIVE),
    "export": lambda: WRAPPED.__dlpack__(),
    "export, versioned": lambda: WRAPPED.__dlpack__(max_version=(1, 3)),
    "export a delegate": lambda: DELEGATE.__dlpack__(max_version=(1, 3)),
    "export many dimensions": lambda: asdlpack(FIVE).__dlpack__(max_version=(1, 3)),
    "numpy": lambda: np.from_dlpack(WRAPPED),
    "numpy of a delegate": lambda: np.from_dlpack(asdlpack(MATRIX)),
    "wrap a capsule": lambda: asdlpack(WRAPPED.__dlpack__()),
    "wrap a versioned capsule": lambda: asdlpack(WRAPPED_MATRIX.__dlpack__(max_version=(1, 3))),
    "wrap numpy's capsule": lambda: asdlpack(FLOATS.__dlpack__()),
    "a view of it": lambda: memoryview(WRAPPED_MATRIX),
    "its bytes": lambda: bytes(WRAPPED_MATRIX),
    "frombuffer": lambda: frombuffer(DATA, "float32", (4, 4)),
    "frombuffer of its object": lambda: frombuffer(WRAPPED, "bfloat16"),
    "device": lambda: DELEGATE.__dlpack_device__(),
}
SELDOM = {
    "wrap mapped memory": lambda: asdlpack(MAPPED),
    "wrap what is read-only": lambda: asdlpack(FROZEN).__dlpack__(max_version=(1, 3)),
    "wrap what is new": new_kind,
    "attributes": lambda: attributes(asdlpack(DATA)),
    "attributes of a delegate": lambda: attributes(asdlpack(MATRIX)),
    "describe": lambda: describe(WRAPPED),
    "describe a delegate": lambda: describe(MATRIX),
    "describe a capsule": lambda: describe(VERSIONED.capsule()),
    "consume": lambda: release(WRAPPED.__dlpack__()),
    "consume, versioned": lambda: release(WRAPPED_MATRIX.__dlpack__(max_version=(1, 3))),
    "consume a delegate's": lambda: release(DELEGATE.__dlpack__(max_version=(1, 3))),
    "copy": lambda: asdlpack(VIEW, copy=True),
    "copy an array": lambda: asdlpack(MATRIX, copy=True),
    "copy where needed": lambda: asdlpack(SWAPPED, copy=None).shape,
    "copy at the export": lambda: WRAPPED.__dlpack__(copy=True),
    "a stream's order": lambda: asdlpack(VIEW).__dlpack__(dl_device=(1, 0), copy=False),
    "a producer": lambda: attributes(asdlpack(GOOD)),
    "an old producer": lambda: attributes(asdlpack(OLD)),
    "a producer's capsule": lambda: asdlpack(OLD).__dlpack__(max_version=(1, 3)),
    "a pointer": lambda: from_pointer(address(MEMORY), (2, 3), "float32", owner=MEMORY),
    "a ctypes pointer": lambda: from_pointer(ctypes.pointer(MEMORY), 6, "float32"),
    "a legacy structure": lambda: asdlpack(ctypes.pointer(LEGACY.struct)),
    "a versioned structure": lambda: asdlpack(ctypes.pointer(VERSIONED.struct)),
    "a structure of many dimensions": lambda: asdlpack(ctypes.pointer(SIX.struct)),
    "a borrowed structure": lambda: asdlpack(ctypes.pointer(BORROWED), owner=MEMORY),
    "a foreign capsule": lambda: asdlpack(VERSIONED.capsule(), copy=None),
    "a copied capsule": lambda: asdlpack(LEGACY.capsule(), copy=True),
    "__array_interface__": lambda: WRAPPED_MATRIX.__array_interface__,
    "__array_struct__": lambda: WRAPPED_MATRIX.__array_struct__,
    "__array__": lambda: np.asarray(WRAPPED_MATRIX),
    "__arrow_c_array__": lambda: WRAPPED_MATRIX.__arrow_c_array__(),
    "Arrow out and in": lambda: asdlpack(Speaks(__arrow_c_array__=WRAPPED.__arrow_c_array__)),
    "an Arrow array": lambda: asdlpack(ready(COLUMN).exporter()),
    "an Arrow list": lambda: asdlpack(ready(LISTS).exporter()).shape,
    "an Arrow stream": lambda: asdlpack(stream(), copy=None),
    "C: managed": lambda: delete(from_object(WRAPPED)),
    "C: managed by a delegate": lambda: delete(from_object(DELEGATE)),
    "C: borrowed": lambda: borrow(DELEGATE),
    "C: in": lambda: to_object(from_object(WRAPPED_MATRIX)),
    "C: allocate": lambda: delete(allocate((3, 5))),
    "a cycle": cycle,
    "a weak reference": weakly,
    "C: not an object": lambda: refused(from_object, DATA),
    "C: nothing to allocate": lambda: refused(allocate, (-1,)),
    "C: a foreign device": lambda: refused(allocate, (3,), device=(2, 0)),
    "no protocol": lambda: refused(asdlpack, 1),
    "a type": lambda: refused(asdlpack, bytearray),
    "no format of DLPack's": lambda: refused(asdlpack, POINTERS),
    "a capsule used twice": used_twice,
    "a capsule of another name": lambda: refused(asdlpack, VERSIONED.capsule(b"strange")),
    "a stream on the CPU": lambda: refused(asdlpack(VIEW).__dlpack__, stream=1),
    "a foreign device": lambda: refused(WRAPPED.__dlpack__, dl_device=(99, 0)),
    "no device": lambda: refused(WRAPPED.__dlpack__, dl_device=5),
    "no version": lambda: refused(WRAPPED.__dlpack__, max_version="1"),
    "no copy": lambda: refused(WRAPPED.__dlpack__, copy="no"),
    "no such argument": lambda: refused(WRAPPED.__dlpack__, colour="red"),
    "too many arguments": lambda: refused(WRAPPED.__dlpack__, 1, 2),
    "no attribute": lambda: refused(setattr, WRAPPED, "shape", None),
    "no CUDA": lambda: refused(getattr, WRAPPED, "__cuda_array_interface__"),
    "no typestr": lambda: refused(getattr, BFLOAT, "__array_interface__"),
    "no format": lambda: refused(memoryview, BFLOAT),
    "items share bytes": lambda: refused(memoryview, PACKED),
    "no Arrow type": lambda: refused(BFLOAT.__arrow_c_array__),
    "offset too large": lambda: refused(frombuffer, DATA, "float32", offset=1 << 40),
    "shape too large": lambda: refused(frombuffer, DATA, "float32", (1 << 40, 1 << 40)),
    "shape is no shape": lambda: refused(frombuffer, DATA, "float32", "ten"),
    "no such type": lambda: refused(frombuffer, DATA, "float33"),
    "no such device": lambda: refused(from_pointer, 4096, 1, "int8", device="moon:1"),
    "NULL": lambda: refused(from_pointer, 0, 1, "int8"),
    "an owner too many": lambda: refused(asdlpack, DATA, owner=DATA),
    "2 chunks": lambda: refused(asdlpack, stream()),
}


def malformed(what, objects, use):
    for number, obj in enumerate(objects):
        SELDOM[f"malformed {what} {number}"] = functools.partial(refused, use, obj)


malformed("capsule", MALFORMED, lambda it: asdlpack(it.capsule()))
malformed("structure", MALFORMED, lambda it: asdlpack(ctypes.pointer(it.struct)))
malformed("interface", INTERFACES, asdlpack)
malformed("producer", PRODUCERS, lambda it: asdlpack(it).shape)
malformed("column", BAD_COLUMNS, lambda it: asdlpack(ready(it).exporter()))

ALL = {**OFTEN, **SELDOM}


def in_some_order(seed=1, often=20):
    """Each operation at least once; those that cost little come often."""
    operations = [*SELDOM.values(), *OFTEN.values()] + [*OFTEN.values()] * often
    random.Random(seed).shuffle(operations)
    return operations


def do(count):
    """Does so many, or a few more."""
    operations = in_some_order()
    done = 0
    while done < count:
        for operation in operations:
            operation()
        done += len(operations)
    return done


class Heap(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks used".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in ("free", "keepcost")]


mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap


def state():
    gc.collect()
    gc.collect()
    heap = mallinfo2()
    return {
        "blocks of Python": sys.getallocatedblocks(),
        "bytes of the C heap": heap.used + heap.hblkhd,
        "bytes resident": resident(),
        "references": sum(map(sys.getrefcount, SHARED)),
        "references to what is everyone's": sum(map(sys.getrefcount, EVERYONES)),
    }


def main(count):
    """What grew in that of three rounds in which it grew least: a leak does in each, and caches are full at last."""
    do(10_000)
    state()
    rounds, done = [], 0
    for _ in range(3):
        before = state()
        done += do(count // 3)
        after = state()
        rounds.append({what: after[what] - before[what] for what in before})
    least = {what: min(grown[what] for grown in rounds) for what in rounds[0]}
    print(json.dumps({"operations": done, "kinds": len(ALL)} | least))


if __name__ == "__main__":
    main(int(sys.argv[1]))
