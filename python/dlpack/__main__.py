"""`python -m dlpack`: what is installed here, for a bug report; and what a file is as an array."""

import argparse
import ctypes
import json
import math
import mmap
import os
import re
import signal
import stat
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

from . import DLPackObject, __version__, _dlpack, asdlpack
from ._libraries import installed

NAME = re.compile(r"(?:bool|[a-z_]+?([0-9]{1,3})[a-z0-9_]*?)(?:x([0-9]{1,5}))?")  # bits, and lanes
NUMBER = re.compile(r"-1|[0-9]{1,19}")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: the usage, which argparse would print with it, is for --help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: list[str]) -> None:
    parser = Parser(
        prog="python -m dlpack",
        description="Print what a bug report needs: versions, paths, the platform, and the libraries that are "
        "installed. With FILE: map the file into memory, and print what it is as an array. Its bytes are not read.",
        epilog="example: python -m dlpack weights.bin --dtype float32 --shape -1,512",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a file of numbers, in native byte order")
    parser.add_argument(
        "--dtype",
        metavar="NAME",
        help="a data type of DLPack: float32, bfloat16, float8_e4m3fn, float4_e2m1fnx2, ... (default: uint8). Types "
        "below a byte, such as int4, have one item a byte",
    )
    parser.add_argument(
        "--shape",
        metavar="N,N,...",
        help="the items in each dimension; one may be -1: as many as there are (default: -1)",
    )
    parser.add_argument("--offset", metavar="BYTES", type=int, help="where in the file the array begins (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--version", action="version", version=f"dlpack {__version__}")
    options = vars(parser.parse_args(with_shape_attached(arguments)))
    as_json = options.pop("json", False)
    try:
        if "file" in options:
            facts = describe(**options)
            text = description_text
        elif options:
            raise ValueError(f"--{next(iter(options))} describes FILE; expected FILE too")
        else:
            facts = report()
            text = report_text
        output = json.dumps(facts, indent=2) if as_json else text(facts)
    except BufferError as error:
        parser.error(f"asdlpack refuses this: {error}")
    except (MemoryError, OSError, ValueError) as error:
        parser.error(str(error))
    try:
        # A path comes out in the bytes it came in, whatever the locale.
        with open(1, "wb", closefd=False) as stdout:
            stdout.write(os.fsencode(output + "\n"))
    except OSError as error:
        parser.error(f"standard output: {reason(error)}")


def with_shape_attached(arguments: list[str]) -> list[str]:
    """Makes "--shape=-1,3" of "--shape -1,3", where argparse would take "-1,3" for an option."""
    attached: list[str] = []
    for argument in arguments:
        if attached[-1:] == ["--shape"] and argument[1:2].isdigit():
            attached[-1] = f"--shape={argument}"
        else:
            attached.append(argument)
    return attached


def report() -> dict[str, Any]:
    system = os.uname()
    extension = os.path.abspath(_dlpack.__file__)
    package = os.path.dirname(extension)
    return {
        "version": __version__,
        "package": package,
        "extension": extension,
        "core": os.path.join(package, "_core.so"),
        "exports": ["1.3", "legacy"],
        "python": {
            "version": sys.version.split()[0],
            "implementation": sys.implementation.name,
            "free_threaded": "t" in sys.abiflags,
            "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        },
        "platform": {
            "system": system.sysname,
            "release": system.release,
            "libc": os.confstr("CS_GNU_LIBC_VERSION"),
            "machine": system.machine,
        },
        "cuda_driver": cuda_driver(),
        "libraries": [
            {"name": library.name, "version": version or None, "speaks": library.speaks}
            for library, version in installed()
        ],
    }


def cuda_driver() -> str | None:
    """The version of CUDA that the driver is for, or None without a driver. The slow cuInit is not needed for it."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    result = driver.cuDriverGetVersion(ctypes.byref(version))
    if result != 0:
        return f"unknown: cuDriverGetVersion returned {result}"
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def report_text(facts: dict[str, Any]) -> str:
    python, system = facts["python"], facts["platform"]
    gil = "GIL" if not python["free_threaded"] else "free-threaded, GIL on" if python["gil"] else "free-threaded"
    lines = table(
        ("dlpack", facts["version"]),
        ("package", facts["package"]),
        ("extension", facts["extension"]),
        ("core", facts["core"]),
        ("exports", f"DLPack {' and '.join(facts['exports'])}"),
        ("Python", f"{python['version']} {python['implementation']}, {gil}"),
        ("platform", f"{system['system']} {system['release']} {system['machine']}, {system['libc']}"),
        ("CUDA driver", facts["cuda_driver"] or "none"),
        ("libraries", "" if facts["libraries"] else "none"),
    )
    libraries = table(*((f"  {each['name']}", each["version"] or "?", each["speaks"]) for each in facts["libraries"]))
    return "\n".join(lines + libraries)


def describe(file: str, dtype: str = "uint8", shape: str = "-1", offset: int = 0) -> dict[str, Any]:
    memory = map_file(file)
    if not 0 <= offset < len(memory):
        there = f"the file has {count(len(memory), 'byte')}"
        raise ValueError(f"--offset {offset}: out of range; {there}, expected 0 to {len(memory) - 1}")
    itemsize = size_of_item(dtype)
    numbers = fit(shape, len(memory), offset, dtype, itemsize)
    x = asdlpack(FileArray(memory, dtype, itemsize, numbers, offset))
    device_type, device_id = x.device
    return {
        "file": file,
        "file_bytes": len(memory),
        "offset": offset,
        "dtype": x.dtype,
        "shape": x.shape,
        "strides": x.strides,
        "itemsize": x.itemsize,
        "nbytes": x.nbytes,
        "pointer": x.pointer,
        "alignment": x.pointer & -x.pointer,
        "device": {"type": device_type.name, "id": device_id},
        "readonly": x.readonly,
        "contiguous": is_contiguous(x),
        "protocol": x.protocol,
        "repr": repr(x),
    }


class FileArray:
    """Mapped memory with a data type. Types that a typestr can't say go by dtype.name, as those of ml_dtypes do."""

    def __init__(
        self, memory: mmap.mmap | bytes, dtype: str, itemsize: int, shape: tuple[int, ...], offset: int
    ) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{itemsize}",
            "shape": shape,
            "data": memory,
            "offset": offset,
        }
        self.dtype = SimpleNamespace(name=dtype)


def map_file(path: str) -> mmap.mmap:
    try:
        kind = os.stat(path).st_mode  # before the file is opened: a pipe would wait for its writer
        if not stat.S_ISREG(kind):
            found = "a directory" if stat.S_ISDIR(kind) else "no regular file"
            raise ValueError(f"{quote(path)}: is {found}; expected a file that can be mapped into memory")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ValueError(f"{quote(path)}: is empty; expected 1 byte or more")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ValueError(f"{quote(path)}: {reason(error)}") from None


def size_of_item(dtype: str) -> int:
    """The bytes of an item, by the bits in its type's name. Which names there are, asdlpack knows."""
    if match := NAME.fullmatch(dtype):
        bits, lanes = match.groups()
        size = (int(bits or 8) * int(lanes or 1) + 7) // 8
        try:
            asdlpack(FileArray(b"", dtype, size, (0,), 0))
            return size
        except (BufferError, ValueError):
            pass
    raise ValueError(
        f"--dtype {quote(dtype)}: DLPack has no such type; expected a name like int32, bfloat16 or float8_e4m3fn"
    )


def fit(shape: str, memory: int, offset: int, dtype: str, itemsize: int) -> tuple[int, ...]:
    """The shape, with the number that -1 stands for: all the items that are there."""
    texts = shape.split(",")
    if not all(NUMBER.fullmatch(text) for text in texts) or texts.count("-1") > 1:
        raise ValueError(f"--shape {quote(shape)}: expected numbers such as 2,3, of which one may be -1")
    lengths = [int(text) for text in texts]
    size = memory - offset
    items = size // itemsize
    there = f"the file has {count(items, 'item')} of {dtype} in {count(size, 'byte')} from byte {offset} on"
    if -1 not in lengths:
        if math.prod(lengths) > items:
            raise ValueError(f"--shape {shape}: needs {count(math.prod(lengths), 'item')}; {there}")
        return tuple(lengths)
    others = -math.prod(lengths)
    if others == 0:
        raise ValueError(f"--shape {shape}: -1 beside 0 can be any number; expected no 0")
    if size % (others * itemsize) != 0:
        expected = f"expected a multiple of {count(others * itemsize, 'byte')} (pass a shape without -1)"
        raise ValueError(f"--shape {shape}: {there}; {expected}")
    lengths[lengths.index(-1)] = size // (others * itemsize)
    return tuple(lengths)


def is_contiguous(x: DLPackObject) -> bool:
    """Whether the items lie one behind the other, the last dimension's first. A dimension of 1 may have any stride."""
    expected = 1
    for length, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if length > 1 and stride != expected:
            return x.size == 0
        expected *= length
    return True


def description_text(facts: dict[str, Any]) -> str:
    address = (
        f"{facts['pointer']:#x}, a multiple of {facts['alignment']}" if facts["pointer"] else "NULL, without items"
    )
    lines = table(
        ("file", facts["file"]),
        ("dtype", facts["dtype"]),
        ("shape", facts["shape"]),
        ("strides", f"{facts['strides']} in items"),
        ("bytes", f"{facts['nbytes']} of {facts['file_bytes']}, from byte {facts['offset']} on"),
        ("address", address),
        ("device", f"{facts['device']['type']}:{facts['device']['id']}"),
        ("read-only", "yes" if facts["readonly"] else "no"),
        ("contiguous", "yes" if facts["contiguous"] else "no"),
        ("protocol", facts["protocol"]),
        ("repr", facts["repr"]),
    )
    return "\n".join(lines)


def table(*rows: tuple[object, ...]) -> list[str]:
    """Each row as a line, its cells below one another."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell!s:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def reason(error: OSError) -> str:
    return os.strerror(error.errno or 0).lower()


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads one line of it and leaves ends it quietly
    main(sys.argv[1:])
