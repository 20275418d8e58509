"""The C files of this folder, each as a library of its own."""

import contextlib
import sysconfig
import tempfile
from pathlib import Path

from support.alone import INCLUDE, ROOT, SUPPORT, run


def build_library(name, folder, *flags):
    """The path of the library that name.c becomes in a folder."""
    path = Path(folder, f"{name}.so")
    includes = [f"-I{include}" for include in (sysconfig.get_paths()["include"], ROOT / "pyext" / "core", INCLUDE)]
    usual = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror"]
    result = run("cc", *usual, *includes, *flags, "-o", path, SUPPORT / f"{name}.c")
    assert result.returncode == 0, result.stderr
    return path


@contextlib.contextmanager
def library(name):
    with tempfile.TemporaryDirectory() as folder:
        yield build_library(name, folder)
