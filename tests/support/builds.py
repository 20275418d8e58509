"""Other builds of the package: with sanitizers, hooks, another interpreter."""

import shutil
import sys

from support.alone import ROOT, run


def c_sources(pyext):
    """The extension's on Linux; the core's are compiled with its Go."""
    elsewhere = {pyext / "platform" / name for name in ("darwin.c", "no_check.c", "windows.c")}
    return sorted({path for path in pyext.glob("*/*.c") if path.parent.name != "core"} - elsewhere)


C_SOURCES = c_sources(ROOT / "pyext")
SOURCES = ["build.py", "go.mod", "pkg", "pyext", "pyproject.toml", "python"]


def copy_sources(folder, edit=None):
    """edit(folder) changes the copy."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    for library in (folder / "python" / "dlpack").glob("*.so"):
        library.unlink()
    if edit:
        edit(folder)


def build(folder, *go_flags, cflags="", ldflags="", python=sys.executable, edit=None):
    """Builds a copy of the sources, with flags of `go build` and of gcc; returns what belongs in PYTHONPATH."""
    copy_sources(folder, edit)
    environ = {"CC": "gcc", "CFLAGS": cflags, "LDFLAGS": ldflags}
    result = run(python, "build.py", *go_flags, cwd=folder, environ=environ, timeout=300)
    assert result.returncode == 0, result.stderr
    return folder / "python"


def seed(*faults):
    """An edit: each is a file, what stands in it once, and what takes its place."""

    def edit(folder):
        for name, code, fault in faults:
            text = (folder / name).read_text()
            assert text.count(code) == 1, f"{name} has another code now; expected once\n{code}"
            (folder / name).write_text(text.replace(code, fault))

    return edit
