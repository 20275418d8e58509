"""dlpack.memmap: a file, or a part of it, mapped into memory."""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import sys

from ._arguments import OFFSET, integer
from ._dlpack import DLPackObject, from_pointer, frombuffer
from ._foreign import short_repr, unexpected
from ._refusals import as_refusal, refusal, reworded

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal, SupportsIndex, TypeAlias

    Mode: TypeAlias = Literal["r", "c", "r+", "w+", "readonly", "copyonwrite", "readwrite", "write"]

PATH = "path: expected the name of a file, a str, bytes or os.PathLike"
MODE = "mode: expected 'c' (copy-on-write), 'r', 'r+' or 'w+', as in numpy.memmap"
CONVERT = "copy it: frombuffer(memmap(path, 'uint8'), dtype, shape, offset=offset, copy=None)"
CONVERT_IN_FILE = "use numpy.memmap, whose arrays convert what is written"
PLAIN_FILES: tuple[type, ...] = (io.FileIO, io.BufferedReader, io.BufferedRandom)
NAMES = {"readonly": "r", "copyonwrite": "c", "readwrite": "r+", "write": "w+"}
FLAGS = {"r": os.O_RDONLY, "c": os.O_RDONLY, "r+": os.O_RDWR, "w+": os.O_RDWR | os.O_CREAT}
NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # else opening a pipe would wait for its other end
BINARY = getattr(os, "O_BINARY", 0)
WRITE: dict[str, Any] = {"access": mmap.ACCESS_WRITE}
MAPPINGS = {"r": {"access": mmap.ACCESS_READ}, "c": {"access": mmap.ACCESS_COPY}, "r+": WRITE, "w+": WRITE}
if sys.platform == "linux":
    # Without MAP_NORESERVE Linux refuses copy-on-write of more than its memory, as if each page was to be written.
    # Python has its number from 3.13 on.
    MAPPINGS["c"] = {"flags": mmap.MAP_PRIVATE | 0x4000, "prot": mmap.PROT_READ | mmap.PROT_WRITE}
if sys.version_info >= (3, 13) and sys.platform != "win32":
    for each in MAPPINGS.values():
        each["trackfd"] = False  # else the mapping keeps a descriptor, for resize


def memmap(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    dtype: object,
    shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    offset: SupportsIndex = 0,
    mode: Mode = "c",
) -> DLPackObject:
    """Map a file into memory, as numpy.memmap does, as a DLPackObject of any data type. Nothing is read or copied.

    path: the file's name.
    dtype, shape: as in frombuffer. shape=None takes all items from offset to the end of the file.
    offset: bytes from the beginning of the file.
    mode: "c", copy-on-write: consumers may write, and the file does not change. "r": read-only; torch, paddle
    and tvm-ffi ignore that, and a write crashes the process. "r+": what is written goes to the file; x.obj, the
    mmap.mmap, has flush(). "w+": the same for a new file of zeros, which replaces the content of an old one; it needs a
    shape, without -1. numpy's long names ("readonly", "copyonwrite", "readwrite", "write") mean the same.

    The mapping stays until the DLPackObject and everything exported from it are gone. Before Python 3.13, and on
    Windows, it keeps the file open until then.

    Raises OSError if the file can't be opened or mapped, ValueError if it is too short (no mode but "w+" makes it
    longer), BufferError for another byte order or an offset that is not a multiple of the item, and MemoryError if
    there is no room for the mapping.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.bin")
    >>> with open(path, "wb") as file:
    ...     size = file.write(b"header: " + bytes(6))
    >>> x = memmap(path, "bfloat16", offset=8)
    >>> x.shape, x.dtype, x.readonly
    ((3,), 'bfloat16', False)
    """
    name, short = file_name(path), short_name(mode)
    if isinstance(shape, str) and (shape in FLAGS or shape in NAMES):
        raise TypeError(f"shape: {shape!r} is a mode (pass mode={shape!r})")
    start = integer(offset, OFFSET, 0, 2**63)
    if isinstance(start, Exception):
        raise start
    # Before the open: arguments that are refused leave a file that is there as it is.
    wanted = lay_out(name, None, dtype, shape, start, short) if short == "w+" else None
    descriptor = open_file(name, FLAGS[short])
    try:
        size = file_size(descriptor)
        if wanted is None:
            wanted = lay_out(name, size, dtype, shape, start, short)
        else:
            end = min(start + wanted.nbytes, 2**63 - 1)
            for size in end, 0, end:  # a system that refuses this size refuses it at once, before content is lost
                os.ftruncate(descriptor, size)
        memory, begin = map_part(descriptor, start, wanted.nbytes, short)
    except OSError as error:
        if is_memory_out(error):
            raise MemoryError(f"dlpack.memmap: {short_repr(name)} can't be mapped: {error.strerror}") from None
        raise OSError(error.errno, error.strerror, name) from None
    finally:
        os.close(descriptor)
    return frombuffer(memory, wanted.dtype, wanted.shape, offset=start - begin)


def is_memory_out(error: OSError) -> bool:
    """True if the system has no room for a mapping. Windows says so by ERROR_COMMITMENT_LIMIT, which has no errno."""
    return error.errno == errno.ENOMEM or getattr(error, "winerror", None) == 1455


def file_name(path: Any) -> str | bytes:
    try:
        return os.fspath(path)  # type: ignore[no-any-return]
    except TypeError:
        has_name = isinstance(path, PLAIN_FILES) and isinstance(getattr(path, "name", None), str)
        raise TypeError(unexpected(PATH, path) + " (pass path.name)" * has_name) from None


def short_name(mode: object) -> str:
    short = NAMES.get(mode, mode) if isinstance(mode, str) else None
    if short not in FLAGS:
        raise (TypeError if short is None else ValueError)(unexpected(MODE, mode))
    return short


def open_file(name: str | bytes, flags: int) -> int:
    try:
        return os.open(name, flags | NONBLOCK | BINARY, 0o666)
    except BlockingIOError:  # a file server has a lease of the file, and gives it back meanwhile
        return os.open(name, flags | BINARY, 0o666)


def file_size(descriptor: int) -> int:
    """Returns the size of a file, if it can be mapped."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENODEV, "Only a regular file can be mapped; read this one")
    if status.st_size == 0 and os.read(descriptor, 1):  # a file of /proc
        raise OSError(errno.ENODEV, "A file without a size can't be mapped; read it")
    return status.st_size


def lay_out(name: str | bytes, size: int | None, dtype: object, shape: Any, start: int, mode: str) -> DLPackObject:
    """Returns the items wanted of a file of that size, or of a new one (None), at an address that nothing reads."""
    page = mmap.ALLOCATIONGRANULARITY
    try:
        if size is None:
            if shape is None:
                raise ValueError("shape: expected an int, or a sequence of ints, since mode 'w+' makes a new file")
            return from_pointer(page + start % page, shape, dtype)
        content = from_pointer(page, size, "uint8") if size else b""  # no address is kept of no items
        return frombuffer(content, dtype, shape, offset=start)
    except (BufferError, ValueError) as error:
        raise about_file(error, short_repr(name), start, CONVERT if mode in "rc" else CONVERT_IN_FILE) from None


def about_file(error: Exception, name: str, start: int, cure: str) -> Exception:
    """Returns an error about memory as one about a file."""
    old = as_refusal(error)
    if old.reason == "byte-order":
        return reworded(error, cure=cure)
    if old.reason == "misaligned":
        step = old.details["alignment"]
        said = f"offset {start}: expected a multiple of {step}, the alignment of the items"
        return refusal(BufferError, "misaligned", said, cure, offset=start, alignment=step)
    if old.reason == "out-of-bounds":
        said = f"{name} has {old.details['span']} bytes; shape and offset need "
        said += "bytes {from} to {to}".format_map(old.details) if "to" in old.details else f"bytes from {start} on"
        return reworded(error, said, "offset counts bytes, shape items")
    return error


def map_part(descriptor: int, start: int, size: int, mode: str) -> tuple[mmap.mmap | bytes | bytearray, int]:
    """Maps size bytes from start on, and those before it in its page; returns the memory and its place in the file."""
    if size == 0:  # no system maps 0 bytes
        return b"" if mode == "r" else bytearray(), start
    begin = start - start % mmap.ALLOCATIONGRANULARITY
    return mmap.mmap(descriptor, start + size - begin, offset=begin, **MAPPINGS[mode]), begin
