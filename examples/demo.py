"""Wraps six kinds of memory, hands each to numpy, and proves that nothing was copied.

`make demo` runs it. By hand it needs dlpack and numpy (2.1 or later).
"""

import array
import ctypes
import mmap
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dlpack

Read = Callable[[], float]
Write = Callable[[int], object]


class Image:
    """A picture with padded rows, as an imaging library might hold it: it has no protocol but the array interface."""

    def __init__(self, height: int, width: int) -> None:
        row = (width + 7) // 8 * 8
        self.pixels = (ctypes.c_uint16 * (height * row))()
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<u2",
            "shape": (height, width),
            "strides": (2 * row, 2),
            "data": (ctypes.addressof(self.pixels), False),
        }


def sources(folder: Path) -> Iterator[tuple[str, Any, Read | None, Write | None]]:
    """Yields a name, an object, a function that reads its first item without dlpack, and one that writes it."""
    yield "bytes", b"written once, read everywhere", None, None

    path = folder / "mapped.bin"
    path.write_bytes(bytes(range(64)))
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)

    def write_to_file(value: int) -> None:
        with path.open("r+b") as file:
            file.write(bytes([value]))

    # Through the file, not the mapping: a copy of the mapping would show neither write.
    yield "mmap of a file", mapped, lambda: path.read_bytes()[0], write_to_file

    numbers = array.array("d", [1.5, 2.5, 3.5])
    yield "array.array", numbers, lambda: numbers[0], lambda value: numbers.__setitem__(0, value)

    matrix = (ctypes.c_int32 * 3 * 2)()
    yield "ctypes array", matrix, lambda: matrix[0][0], lambda value: matrix[0].__setitem__(0, value)

    path = folder / "weights.bin"
    weights = np.memmap(path, dtype=np.float32, mode="w+", shape=(4, 5))
    yield "numpy memmap", weights, lambda: weights[0, 0], lambda value: weights.__setitem__((0, 0), value)

    image = Image(3, 5)
    yield "array interface", image, lambda: image.pixels[0], lambda value: image.pixels.__setitem__(0, value)


def prove(
    source: Any, d: dlpack.DLPackObject, view: np.ndarray, read: Read | None, write: Write | None
) -> tuple[str, bool]:
    """Returns what was seen, and whether that is what shared memory looks like."""
    address = view.ctypes.data
    if address != d.pointer:
        return f"numpy has another address: {address:#x}", False
    if read is None or write is None:
        if address != np.frombuffer(source, "u1").ctypes.data:
            return "the source is at another address", False
        return ("numpy could write to it", False) if view.flags.writeable else ("source's address, read-only", True)

    first = (0,) * view.ndim
    view[first] = 42
    if read() != 42:
        return f"numpy wrote 42, the source has {read()}", False
    write(7)
    if view[first] != 7:
        return f"the source wrote 7, numpy has {view[first]}", False
    return "numpy wrote 42, the source wrote 7: both seen", True


def main() -> None:
    print(f"dlpack {dlpack.__version__}, numpy {np.__version__}\n")
    row = "{:<15}  {:<19}  {:<7}  {:<6}  {:<14}  {:<6}  {}".format
    print(row("source", "protocol", "dtype", "shape", "address", "shared", "proof"))

    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, source, read, write in sources(Path(folder)):
            d = dlpack.asdlpack(source)
            proof, shared = prove(source, d, np.from_dlpack(d), read, write)
            failures += not shared
            print(row(name, d.protocol, d.dtype, str(d.shape), f"{d.pointer:#x}", "yes" if shared else "NO", proof))

    if failures:
        sys.exit(f"\n{failures} of the sources did not share their memory")
    print("\nEvery source shares its memory with numpy: nothing was copied.")


if __name__ == "__main__":
    main()
