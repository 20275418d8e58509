"""Makes dist/: the sdist, and the wheels for all systems of build.py's table. `make wheels`, or this program with the
names of some systems ("linux-aarch64"), which leaves the others' wheels as they are.

PyPI's ziglang compiles them all on one Linux machine. Those for a free-threaded CPython need its headers, which come
from Debian's packages: they differ from those of a CPython with GIL by one line. For Windows and macOS, build.py
replaces their pyconfig.h. Debian has Go's names of processors.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from debian import HOME, ROOT, Archive, call

DIST = ROOT / "dist"
BUILD = runpy.run_path(str(ROOT / "build.py"))
TARGETS = BUILD["TARGETS"]
FREE_THREADED = {"3.14": "cp314-cp314t", "3.15": "cp315-abi3t"}  # the headers' version, and the wheel's tag
WITHOUT = ["win-arm64", "linux-riscv64"]  # zig declares no __getReg, which the headers call; untried


def build(kind, source=ROOT, folder=DIST, **environ):
    """Builds one file with hatchling; returns its path."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", scratch]
        result = subprocess.run(command, cwd=source, env={**os.environ, **environ}, stdout=-1, stderr=-2, text=True)
        if result.returncode != 0:
            sys.exit(f"{result.stdout}the {kind} failed: {environ}")
        (path,) = Path(scratch).iterdir()
        folder.mkdir(exist_ok=True)
        return Path(shutil.copy(path, folder))


def headers(version, target):
    """Returns the folder of a free-threaded CPython's headers for a target, or None if they can't be had."""
    folder = HOME / f"headers-{version}t-{target.goarch}"
    if not (folder / "Python.h").exists():
        unpacked = folder.with_name(f"{folder.name}-package")
        shutil.rmtree(unpacked, ignore_errors=True)
        try:
            archive = Archive(architecture=target.goarch)
            call("dpkg-deb", "--extract", *archive.packages([f"libpython{version}-dev"]), unpacked)
        except (subprocess.CalledProcessError, SystemExit, OSError) as error:
            print(f"no wheel of CPython {version}t for {target.wheel}: {error}", file=sys.stderr)
            return None
        include = unpacked / "usr" / "include"
        (configuration,) = include.glob(f"*-linux-gnu/python{version}/pyconfig.h")
        (include / f"python{version}").rename(folder)
        text, count = re.subn(r"/\* #undef Py_GIL_DISABLED \*/", "#define Py_GIL_DISABLED 1", configuration.read_text())
        assert count == 1, f"{configuration}: expected one line of Py_GIL_DISABLED"
        (folder / "pyconfig.h").write_text(text)
        shutil.rmtree(unpacked)
    return folder


def variants(names):
    """Yields the variables that build.py gets for each wheel."""
    for name in names:
        yield {"DLPACK_TARGET": name}
        for version in FREE_THREADED if name not in WITHOUT else ():
            if folder := headers(version, TARGETS[name]):
                yield {"DLPACK_TARGET": name, "DLPACK_HEADERS": str(folder)}


def show(path):
    print(f"{path.stat().st_size:9,} bytes  {path.relative_to(ROOT)}", flush=True)


def main(names):
    for name in names:
        if name not in TARGETS:
            sys.exit(f'"{name}": unknown target; expected {" or ".join(TARGETS)}')
    if not names:
        shutil.rmtree(DIST, ignore_errors=True)
    show(build("sdist"))
    for environ in variants(names or TARGETS):
        show(build("wheel", **environ))


if __name__ == "__main__":
    main(sys.argv[1:])
