"""Other builds of the package: with sanitizers, hooks, another interpreter."""

import shutil
import sys
from pathlib import Path

from alone import run

ROOT = Path(__file__).resolve().parents[2]


SOURCES = ["build.py", "go.mod", "pkg", "pyext", "pyproject.toml", "python"]


def build(folder, *go_flags, cflags="", ldflags="", python=sys.executable, edit=None):
    """Builds a copy of the sources, with flags of `go build` and the C compiler; returns what belongs in PYTHONPATH.
    edit(folder) changes the copy first."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    for library in (folder / "python" / "dlpack").glob("*.so"):
        library.unlink()
    if edit:
        edit(folder)
    result = run(python, "build.py", *go_flags, cwd=folder, environ={"CFLAGS": cflags, "LDFLAGS": ldflags}, timeout=300)
    assert result.returncode == 0, result.stderr
    return folder / "python"
