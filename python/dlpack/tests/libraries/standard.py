"""Python's standard library provides, and takes by memoryview. The other consumers are what a C program sees of either
structure, by ctypes."""

import array
import ctypes
import functools
import math
import mmap
import struct
import tempfile
from multiprocessing import shared_memory
from typing import Any

import dlpack

from ..._abi import DELETER, Seen, capsule_name, capsule_new, compact, consume, gather, read_managed
from ...structs import DLDataType, DLDevice, DLManagedTensor, DLTensor
from ..expectations import PADDED, Consumer, Rule, dtype
from ..findings import Skip
from ..memory import Array, Memory, buffer_address, of_buffer, references_of
from .datatypes import FORMATS


def a_bytearray() -> Memory:
    memory = bytearray(range(200))
    return of_buffer(memory, resize=lambda: memory.append(0))


def an_array() -> Memory:
    memory = array.array("d", range(20))
    return of_buffer(memory, "float64", resize=lambda: memory.append(0))


def an_mmap() -> Memory:
    memory = mmap.mmap(-1, 4096)
    memory[:5] = b"mmap!"
    return of_buffer(memory, resize=memory.close)


def an_mmap_of_a_file() -> Memory:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(100)))
        file.flush()
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return of_buffer(memory, resize=memory.close)


def new_shared_memory() -> shared_memory.SharedMemory:
    try:
        return shared_memory.SharedMemory(create=True, size=64)
    except FileNotFoundError:
        raise Skip("there is no /dev/shm") from None


def shared_between_processes() -> Memory:
    memory = new_shared_memory()
    memory.unlink()  # the name goes, the memory stays until it is closed
    view: Any = memory.buf
    view[:7] = b"shared!"
    provided = of_buffer(view, resize=memory.close)
    provided.references = None  # what holds the memory is no reference to the view: it can be released
    return provided


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float), ("weights", ctypes.c_int32 * 4)]


def a_field_of_a_structure() -> Memory:
    point = Point(1, 2, (3, 4, 5, 6))
    return of_buffer(point.weights, "int32")


def structures() -> Memory:
    memory = of_buffer((Point * 3)(), "structure")
    memory.withheld = "DLPack has no structured types"
    return memory


alive: dict[int, Any] = {}  # what a structure needs, by its address
forget: Any = DELETER(alive.pop)


def a_pointer() -> Memory:
    """What a C function returns. The pointer is NULL once the structure was taken over."""
    values = struct.pack("6f", *range(6))
    floats, extents = Array("<f4", "float32", values, offset=64), (ctypes.c_int64 * 4)(2, 3, 3, 1)
    strides = ctypes.cast(ctypes.byref(extents, 16), ctypes.POINTER(ctypes.c_int64))
    tensor = DLTensor(floats.address - 64, DLDevice(1, 0), 2, DLDataType(2, 32, 1), extents, strides, 64)
    pointer = ctypes.pointer(DLManagedTensor(tensor, None, forget))
    address = ctypes.addressof(pointer.contents)
    alive[address] = pointer.contents, floats, extents

    def references() -> int:
        return (address in alive) - bool(pointer)

    return Memory(pointer, "float32", (2, 3), values, floats.address, references=references)


def a_capsule() -> Memory:
    memory = a_pointer()
    address = ctypes.addressof(memory.obj.contents)
    capsule = memory.obj = capsule_new(address, b"dltensor", None)
    memory.readonly = True  # a legacy structure can't say that its memory may be written
    memory.references = lambda: (address in alive) - (capsule_name(capsule) == b"dltensor")
    return memory


def raw(dtype: str, items: bytes, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> Memory:
    """Bytes behind a header, of which the caller says what they are."""
    header = bytes(64)
    memory = bytearray(header + items)
    address, itemsize = buffer_address(memory) + len(header), len(items) // math.prod(shape)
    values = gather(address, shape, strides or compact(shape), itemsize)
    share = functools.partial(dlpack.frombuffer, dtype=dtype, shape=shape, strides=strides or None, offset=len(header))
    resize, references = lambda: memory.append(0), references_of(memory)
    return Memory(memory, dtype, shape, values, address, strides, False, resize, references, share=share)


def pointed_to(owner: Any, address: int, dtype: str, shape: tuple[int, ...], values: bytes) -> Memory:
    """Memory at an address, of which the caller says what it is."""

    def share(owner: Any, copy: bool | None) -> dlpack.DLPackObject:
        return dlpack.asdlpack(dlpack.from_pointer(address, shape, dtype, owner=owner), copy=copy)

    return Memory(owner, dtype, shape, values, address, references=references_of(owner), share=share)


def an_address() -> Memory:
    owner = (ctypes.c_double * 6)(*range(6))
    return pointed_to(owner, ctypes.addressof(owner), "float64", (2, 3), bytes(owner))


PROVIDERS = {
    "bytes": lambda: of_buffer(bytes(range(200))),
    "bytearray": a_bytearray,
    "memoryview": lambda: of_buffer(memoryview(bytearray(range(200)))),
    "memoryview, 2-d": lambda: of_buffer(memoryview(bytearray(range(24))).cast("h", (3, 4)), "int16"),
    "memoryview, every second": lambda: of_buffer(memoryview(bytearray(range(200)))[::2]),
    "memoryview, reversed": lambda: of_buffer(memoryview(bytes(range(200)))[::-1]),
    "array.array": an_array,
    "mmap": an_mmap,
    "mmap of a read-only file": an_mmap_of_a_file,
    "ctypes array": lambda: of_buffer((ctypes.c_int32 * 3 * 2).from_buffer_copy(bytes(range(24))), "int32"),
    "ctypes array in a structure": a_field_of_a_structure,
    "ctypes array of structures": structures,
    "SharedMemory": shared_between_processes,
    "DLManagedTensor*": a_pointer,
    "DLManagedTensor* in a capsule": a_capsule,
    "frombuffer, bfloat16": lambda: raw("bfloat16", struct.pack("6H", *[0, 0x3F80] * 3), (2, 3)),
    "frombuffer, float8_e5m2": lambda: raw("float8_e5m2", b"\0\x3c" * 3, (6,)),
    "frombuffer, transposed": lambda: raw("float32", struct.pack("6f", *range(6)), (3, 2), (1, 3)),
    "from_pointer": an_address,
}


class Consumed:
    """A structure that was taken over. Its end calls the deleter."""

    def __init__(self, capsule: Any) -> None:
        self.managed: Any = consume(capsule)

    def __del__(self) -> None:
        self.managed.deleter(ctypes.addressof(self.managed))


def see_memoryview(view: memoryview) -> Seen:
    return Seen(DTYPES[view.format], view.shape or (), view.tobytes(), buffer_address(view), view.readonly)


DTYPES = {f"Z{parts[0]}" if len(parts) > 1 else parts: dtype for dtype, parts in FORMATS.items()}
DTYPES |= {"l": DTYPES["q"], "L": DTYPES["Q"]}

VERSIONED = Consumer(
    "C, versioned",
    lambda x: Consumed(x.__dlpack__(max_version=(1, 3))),
    lambda taken: read_managed(taken.managed),
    "flagged",
    rules=[Rule("shared", "", dtype(*PADDED))],
)
LEGACY = Consumer("C, legacy", lambda x: Consumed(x.__dlpack__()), lambda taken: read_managed(taken.managed))
NO_FORMAT = Rule("refused", "the buffer protocol has no such type", dtype("bfloat16", "float8*"))
AS_MEMORYVIEW = Consumer("memoryview", memoryview, see_memoryview, "stays read-only", "buffer", rules=[NO_FORMAT])

CONSUMERS = [VERSIONED, LEGACY, AS_MEMORYVIEW]
