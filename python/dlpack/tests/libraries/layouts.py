"""The ways in which items may lie in memory: float32 behind an array interface."""

import struct
from types import SimpleNamespace

from ..memory import Array, Memory, of_buffer, references_of

FLOATS = struct.pack("12f", *range(12))


def floats(
    shape: tuple[int, ...], strides: tuple[int, ...] | None = None, first: int = 0, readonly: bool = False
) -> Memory:
    return Array("<f4", "float32", FLOATS).memory(shape, strides, first, readonly)


def off_alignment() -> Memory:
    return Array("<f8", "float64", struct.pack("12d", *range(12)), offset=8).memory((12,))


def big_endian() -> Memory:
    memory = Array(">f4", "float32", struct.pack(">12f", *range(12))).memory((3, 4))
    memory.values, memory.converted = FLOATS, "the bytes have to be swapped"
    return memory


def misaligned() -> Memory:
    memory = Array("<f4", "float32", FLOATS, offset=1).memory((12,))
    memory.converted = "DLPack needs items at multiples of their size"
    return memory


def part_of_a_buffer() -> Memory:
    """An array interface whose data is an object with a buffer: that is locked as the buffer protocol does it."""
    whole = bytearray(FLOATS)
    with memoryview(whole)[16:32].cast("f") as part:
        memory = of_buffer(part, "float32", resize=lambda: whole.append(0))
    shown = {"version": 3, "typestr": "<f4", "shape": (4,), "data": whole, "offset": 16}
    memory.obj, memory.references = SimpleNamespace(__array_interface__=shown), references_of(whole)
    return memory


PROVIDERS = {
    "1-d": lambda: floats((12,)),
    "read-only": lambda: floats((12,), readonly=True),
    "8 bytes off 64-byte alignment": off_alignment,
    "0-d": lambda: floats(()),
    "empty": lambda: floats((0,)),
    "empty 2-d": lambda: floats((3, 0)),
    "5-d": lambda: floats((1, 2, 1, 3, 2)),
    "every second": lambda: floats((6,), (2,)),
    "columns": lambda: floats((3, 2), (4, 1)),
    "one column": lambda: floats((3, 1), (4, 1)),
    "one row of a reversed matrix": lambda: floats((1, 4), (-4, 1), 8),
    "reversed": lambda: floats((12,), (-1,), 11),
    "transposed": lambda: floats((4, 3), (1, 4)),
    "broadcast": lambda: floats((4, 3), (0, 1)),
    "part of a buffer": part_of_a_buffer,
    "big-endian, copy=None": big_endian,
    "misaligned, copy=None": misaligned,
}
