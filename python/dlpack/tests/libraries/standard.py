"""Python's standard library provides, and takes by memoryview. The other consumers are what a C program sees of either
structure, by ctypes."""

import array
import ctypes
import functools
import math
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import dlpack

from ..._abi import Seen, capsule_name, capsule_new, compact, consume, gather, read_managed
from ...structs import DLManagedTensor
from ..memory import Memory, Skip, buffer_address, of_buffer, references_of
from . import Consumer
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


SOURCE = """
#include <stdint.h>
#include <stdlib.h>

typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data; DLDevice device; int32_t ndim; DLDataType dtype;
    int64_t *shape, *strides; uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl_tensor; void *manager_ctx; void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

static struct { DLManagedTensor tensor; int64_t shape[2], strides[2]; _Alignas(64) float room[16], data[6]; } *block;
int alive = 0;

static void deleter(DLManagedTensor *tensor) { free(tensor->manager_ctx); alive--; }

DLManagedTensor *make(void) {
    if (!(block = aligned_alloc(64, (sizeof *block + 63) / 64 * 64))) return NULL;
    for (int i = 0; i < 6; i++) block->data[i] = i;
    block->shape[0] = 2; block->shape[1] = 3; block->strides[0] = 3; block->strides[1] = 1;
    block->tensor = (DLManagedTensor){
        {block->room, {1, 0}, 2, {2, 32, 1}, block->shape, block->strides, sizeof block->room}, block,
        deleter};
    alive++;
    return &block->tensor;
}
"""


@functools.cache
def c_library() -> Any:
    """SOURCE, compiled."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Skip("no C compiler on PATH")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "make.c"), Path(folder, "make.so")
        source.write_text(SOURCE)
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"{compiler}: {result.stderr.strip()}")
        loaded = ctypes.CDLL(str(library))
    loaded.make.restype = ctypes.POINTER(DLManagedTensor)
    return loaded


def a_pointer() -> Memory:
    """What a C function gives. The pointer is NULL once the structure was taken over."""
    library = c_library()
    managed = library.make()
    alive = ctypes.c_int.in_dll(library, "alive")
    tensor = managed.contents.dl_tensor
    address = tensor.data + tensor.byte_offset
    values = ctypes.string_at(address, 24)
    return Memory(managed, "float32", (2, 3), values, address, references=lambda: alive.value - bool(managed))


def a_capsule() -> Memory:
    memory = a_pointer()
    alive = ctypes.c_int.in_dll(c_library(), "alive")
    capsule = capsule_new(ctypes.addressof(memory.obj.contents), b"dltensor", None)
    memory.obj = capsule
    memory.readonly = True  # a legacy structure can't say that its memory may be written
    memory.references = lambda: alive.value - (capsule_name(capsule) == b"dltensor")
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
    "ctypes array of structures": lambda: of_buffer((Point * 3)(), "structure"),
    "SharedMemory": shared_between_processes,
    "DLManagedTensor* of a C function": a_pointer,
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


class Versioned(Consumer):
    name = "C, versioned"
    readonly = "flagged"

    def take(self, x: Any) -> Consumed:
        return Consumed(x.__dlpack__(max_version=(1, 3)))

    def see(self, taken: Consumed) -> Seen:
        return read_managed(taken.managed)


class Legacy(Versioned):
    name = "C, legacy"
    readonly = "not known to it"

    def take(self, x: Any) -> Consumed:
        return Consumed(x.__dlpack__())


class AsMemoryview(Consumer):
    name = "memoryview"
    readonly = "stays read-only"
    protocol = "buffer"

    def take(self, x: Any) -> memoryview:
        return memoryview(x)

    def see(self, taken: memoryview) -> Seen:
        return Seen(DTYPES[taken.format], taken.shape or (), taken.tobytes(), buffer_address(taken), taken.readonly)


DTYPES = {f"Z{parts[0]}" if len(parts) > 1 else parts: dtype for dtype, parts in FORMATS.items()}
DTYPES |= {"l": DTYPES["q"], "L": DTYPES["Q"]}

CONSUMERS: list[Consumer] = [Versioned(), Legacy(), AsMemoryview()]


def shared_memory_is_seen_from_a_second_process() -> None:
    memory = new_shared_memory()
    try:
        taken = Consumed(dlpack.asdlpack(memory.buf).__dlpack__())
        code = "from multiprocessing import resource_tracker, shared_memory; import sys\n"
        code += "resource_tracker.register = lambda *arguments: None\n"  # its maker alone unlinks it
        code += "m = shared_memory.SharedMemory(sys.argv[1]); m.buf[3] = 42; m.close()"
        subprocess.run([sys.executable, "-c", code, memory.name], check=True)
        assert read_managed(taken.managed).values[3] == 42
        del taken
    finally:
        memory.close()
        memory.unlink()


CHECKS = {"shared memory is seen from a second process": shared_memory_is_seen_from_a_second_process}
