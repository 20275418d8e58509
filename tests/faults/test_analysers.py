"""gcc's analyser and clang's, over the C files. The symbols of the libraries are checked by test_packaging.py."""

import re
import shutil
import sysconfig

import pytest

from support.alone import ROOT, run
from support.builds import C_SOURCES

FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-fPIC", "-DPy_LIMITED_API=0x030b0000", '-DDLPACK_GO_VERSION="0"']
FLAGS += [f"-I{ROOT / 'pyext'}", f"-I{sysconfig.get_path('include')}"]


# gcc 12 takes a count that was changed atomically for what it was before, so that its block seems to be freed twice.
FALSE = {"export_arrow.c": ["-Wno-analyzer-double-free"]}


@pytest.mark.long
def test_gccs_analyser_finds_nothing(tmp_path, figure):
    for source in C_SOURCES:
        flags = [*FLAGS, "-O2", "-fanalyzer", *FALSE.get(source.name, ())]
        result = run("gcc", *flags, "-c", source, "-o", tmp_path / "object.o", timeout=300)
        assert (result.returncode, result.stderr) == (0, "")
    figure("files", len(C_SOURCES))


def unity(folder):
    """Joins all sources into one file, so that the analyser sees into functions of other files. Names that two files
    define get a prefix."""
    sources = {path: path.read_text() for path in C_SOURCES}
    names = re.compile(r"^(?:[HOT ]*static [\w *]*?([a-z]\w*)\(|struct (\w+) \{)", re.M)
    own = {path: {"".join(found) for found in names.findall(text)} for path, text in sources.items()}
    file = folder / "unity.c"
    with file.open("w") as out:
        for path in sources:
            others = set().union(*(own[other] for other in sources if other != path))
            twice = sorted(own[path] & others)
            out.writelines(f"#define {name} {path.stem}_{name}\n" for name in twice)
            out.write(sources[path])
            out.writelines(f"#undef {name}\n" for name in twice)
    return file


@pytest.mark.long
def test_clangs_analyser_finds_nothing(tmp_path, figure):
    program = shutil.which("clang-tidy", path=sysconfig.get_path("scripts")) or shutil.which("clang-tidy")
    assert program, "no clang-tidy: install it (PyPI: clang-tidy)"
    # Off is the check that wants memcpy_s and its like, which glibc has not, and that of the order of Python's fields.
    off = "security.insecureAPI.DeprecatedOrUnsafeBufferHandling", "optin.performance.Padding"
    checks = ",-clang-analyzer-".join(("-*,clang-analyzer-*", *off))
    result = run(program, "--quiet", f"--checks={checks}", unity(tmp_path), "--", *FLAGS, timeout=1500)
    assert not re.findall(r": (?:warning|error): ", result.stdout), result.stdout + result.stderr
    figure("files", len(C_SOURCES))
