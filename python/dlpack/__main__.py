"""`python -m dlpack`: prints what a bug report needs, or describes a file as an array."""

import argparse
import ctypes
import json
import os
import platform
import re
import signal
import sys
import sysconfig
from typing import Any, NoReturn

from ._conflict import conflict
from ._foreign import printable

try:
    from . import __version__, _dlpack, describe, memmap
except ImportError:
    if _found := conflict(os.path.dirname(os.path.abspath(__file__))):
        sys.exit(f"dlpack: {printable(_found)}")
    raise
from ._describe import Description
from ._libraries import installed

NUMBER = re.compile(r"-1|[0-9]{1,19}")


class Parser(argparse.ArgumentParser):
    """Prints an error as one line, without the usage that argparse adds."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message)}\n")


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
        help="a data type of DLPack: float32, bfloat16, float8_e4m3fn, float4_e2m1fnx2, ... (default: uint8)",
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
            facts = about_file(**options)
            text = file_text
        elif options:
            raise ValueError(f"--{next(iter(options))} describes FILE; expected FILE too")
        else:
            facts = report()
            text = report_text
        output = json.dumps(facts, indent=2) if as_json else text(facts)
    except BufferError as error:
        parser.error(f"this can't be shared; in Python, memmap says: {error}")
    except (MemoryError, OSError, RuntimeError, ValueError) as error:
        parser.error(str(error))
    try:
        # Prints a path in its original bytes, whatever the locale.
        with open(1, "wb", closefd=False) as stdout:
            stdout.write(os.fsencode(output + "\n"))
    except OSError as error:
        parser.error(f"standard output: {reason(error)}")


def with_shape_attached(arguments: list[str]) -> list[str]:
    """Turns "--shape -1,3" into "--shape=-1,3", since argparse would take "-1,3" for an option."""
    attached: list[str] = []
    for argument in arguments:
        if attached[-1:] == ["--shape"] and argument[1:2].isdigit():
            attached[-1] = f"--shape={argument}"
        else:
            attached.append(argument)
    return attached


def report() -> dict[str, Any]:
    system = platform.uname()
    extension = os.path.abspath(_dlpack.__file__)
    package = os.path.dirname(extension)
    found = conflict(package)
    return {
        "version": __version__,
        "package": package,
        "extension": extension,
        "core": os.path.join(package, "_core.dll" if sys.platform == "win32" else "_core.so"),
        **({"conflict": found} if found else {}),
        "exports": ["{}.{}".format(*_dlpack._newest_version), "legacy"],
        "python": {
            "version": sys.version.split()[0],
            "implementation": sys.implementation.name,
            "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
            "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        },
        "platform": {
            "system": system.system,
            "release": system.release,
            "libc": os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else None,
            "machine": system.machine,
        },
        "cuda_driver": cuda_driver(),
        "libraries": [
            {"name": library.name, "version": version or None, "speaks": library.speaks}
            for library, version in installed()
        ],
    }


def cuda_driver() -> str | None:
    """Returns the CUDA version that the driver supports, or None without a driver. Needs no slow cuInit."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    result = driver.cuDriverGetVersion(ctypes.byref(version))
    if result != 0:
        return f"unknown: cuDriverGetVersion returned {result}"
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def report_text(facts: dict[str, Any]) -> str:
    python, system = facts["python"], facts["platform"]
    libc = f", {system['libc']}" if system["libc"] else ""
    gil = "GIL" if not python["free_threaded"] else "free-threaded, GIL on" if python["gil"] else "free-threaded"
    lines = table(
        ("dlpack", facts["version"]),
        ("package", facts["package"]),
        ("extension", facts["extension"]),
        ("core", facts["core"] if os.path.exists(facts["core"]) else f"{facts['core']} is missing"),
        *([("conflict", facts["conflict"])] if "conflict" in facts else []),
        ("exports", f"DLPack {' and '.join(facts['exports'])}"),
        ("Python", f"{python['version']} {python['implementation']}, {gil}"),
        ("platform", f"{system['system']} {system['release']} {system['machine']}{libc}"),
        ("CUDA driver", facts["cuda_driver"] or "none"),
        ("libraries", "" if facts["libraries"] else "none"),
    )
    libraries = table(*((f"  {each['name']}", each["version"] or "?", each["speaks"]) for each in facts["libraries"]))
    return "\n".join(lines + libraries)


def about_file(file: str, dtype: str = "uint8", shape: str = "-1", offset: int = 0) -> dict[str, Any]:
    try:
        x = memmap(file, dtype, lengths(shape), offset=offset, mode="r")
        size = os.stat(file).st_size
    except OSError as error:
        raise ValueError(f"{quote(file)}: {reason(error)}") from None
    return {"file": file, "file_bytes": size, "offset": offset, **describe(x), "repr": repr(x)}


def file_text(facts: dict[str, Any]) -> str:
    return str(Description(facts))


def lengths(shape: str) -> tuple[int, ...]:
    texts = shape.split(",")
    if not all(NUMBER.fullmatch(text) for text in texts):
        raise ValueError(f"--shape {quote(shape)}: expected numbers such as 2,3, of which one may be -1")
    return tuple(map(int, texts))


def table(*rows: tuple[object, ...]) -> list[str]:
    """Returns each row as a line, with aligned columns."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in texts]


def reason(error: OSError) -> str:
    return f"{error.strerror}".lower()


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly if the reader closes the pipe
    main(sys.argv[1:])
