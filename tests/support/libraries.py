"""The C files of this folder, each as a library of its own."""

import contextlib
import sysconfig
import tempfile
from pathlib import Path

from support.alone import ROOT, SUPPORT, run


@contextlib.contextmanager
def library(name):
    """The path of the library that name.c becomes."""
    includes = [f"-I{sysconfig.get_paths()['include']}", f"-I{ROOT / 'pyext' / 'core'}"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.so")
        flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror"]
        result = run("cc", *flags, *includes, "-o", path, SUPPORT / f"{name}.c")
        assert result.returncode == 0, result.stderr
        yield path
