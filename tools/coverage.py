"""Counts the lines of Go, C and Python that the tests run: `make coverage`. Arguments are pytest's.

All are of one build of the package, in a folder of its own; C's also of the one in which calls fail. Go's counters are
written when a process ends, by files that only this build has; gcc's too. A process that ends by os._exit or by a
signal counts nothing of these. Code that Windows alone runs is not counted. A few tests fail in this build: they look
at open files, at time, or at frames, which the tracer keeps.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.builds import build, seed  # noqa: E402

LEAST = 95  # percent

WRITE_GO = """package main

import "C"

import (
	"os"
	"runtime/coverage"
)

//export dlpackWriteCoverage
func dlpackWriteCoverage() {
	folder := os.Getenv("GOCOVERDIR")
	coverage.WriteMetaDir(folder)
	coverage.WriteCountersDir(folder)
}
"""

# A forked child has a core of its own, and must not enter the one that it inherited.
WRITE_C = """#include <unistd.h>
extern void dlpackWriteCoverage(void);
static pid_t process;
__attribute__((constructor)) static void begin(void) { process = getpid(); }
__attribute__((destructor)) static void end(void) { if (process == getpid()) dlpackWriteCoverage(); }
"""

COVERAGE = """[run]
parallel = true
patch =
    subprocess
    _exit
source_pkgs = dlpack
data_file = {folder}/python

[paths]
package =
    {folder}/package/python/dlpack
    */dlpack

[report]
ignore_errors = true
exclude_also = if sys.platform == "win32":
"""


def instrument(folder):
    core = folder / "pyext" / "core"
    (core / "coverage.go").write_text(WRITE_GO)
    (core / "coverage.c").write_text(WRITE_C)
    hides = 'strncmp(*variable, "GO", 2) == 0'
    shows = f'{hides} && strncmp(*variable, "GOCOVERDIR", 10) != 0'
    seed(("pyext/platform/posix.c", hides, shows))(folder)


def call(*command, check=True, **environ):
    return subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **environ}, check=check)


def run_tests(scratch, arguments):
    """Runs all tests; what they ran lies in the scratch folder."""
    for name in "go", "c", "package":
        (scratch / name).mkdir()
    mode = ["-covermode=atomic", "-coverpkg=./pkg/...,./pyext/core"]
    gcov = f"--coverage -O0 -fno-lto -dumpdir {scratch}/c/"
    package = build(scratch / "package", "-cover", *mode, cflags=gcov, edit=instrument)
    (scratch / "coverage.ini").write_text(COVERAGE.format(folder=scratch))
    call("go", "test", *mode, "./...", "-args", f"-test.gocoverdir={scratch / 'go'}")
    tests = call(
        *(sys.executable, "-m", "coverage", "run", f"--rcfile={scratch / 'coverage.ini'}", "-m", "pytest", *arguments),
        PYTHONPATH=str(package),
        GOCOVERDIR=str(scratch / "go"),
        FAULTS_CFLAGS=gcov + "faulty-",
        check=False,
    )
    if tests.returncode not in (0, 1):  # 1: some failed
        sys.exit(f"pytest ended with status {tests.returncode}: what its process ran is not counted")


def lines_of_go(scratch):
    """{file: {line: whether it ran}}"""
    profile = scratch / "go.txt"
    call("go", "tool", "covdata", "textfmt", f"-i={scratch / 'go'}", f"-o={profile}")
    lines = defaultdict(dict)
    for entry in profile.read_text().splitlines()[1:]:
        place, _, count = entry.split()
        name, _, span = place.rpartition(":")
        name = name.removeprefix("dlpack/")
        first, last = (int(end.split(".")[0]) for end in span.split(","))
        if not (ROOT / name).exists():
            continue  # this build's own
        for line in range(first, last + 1):
            lines[name][line] = lines[name].get(line, False) or count != "0"
    for name, found in lines.items():
        for number, text in enumerate((ROOT / name).read_text().splitlines(), 1):
            if not re.match(r"\s*(?!//)\S*\w", text):
                found.pop(number, None)  # no code
    return lines


def lines_of_c(scratch):
    notes = sorted((scratch / "c").glob("*.gcno"))
    result = subprocess.run(
        ["gcov", "--json-format", "--stdout", *notes], cwd=scratch / "c", capture_output=True, check=True, text=True
    )
    lines = defaultdict(dict)
    for report in map(json.loads, result.stdout.splitlines()):
        for file in report["files"]:
            path = Path(file["file"])
            if path.parent.parent.name == "pyext":
                found = lines["/".join(path.parts[-3:])]
                for line in file["lines"]:
                    found[line["line_number"]] = found.get(line["line_number"], False) or line["count"] > 0
    return lines


def lines_of_python(scratch):
    report = scratch / "python.json"
    settings = f"--rcfile={scratch / 'coverage.ini'}"
    call(sys.executable, "-m", "coverage", "combine", "--quiet", settings)
    call(sys.executable, "-m", "coverage", "json", "--quiet", settings, "-o", report)
    lines = {}
    for name, file in json.loads(report.read_text())["files"].items():
        if not (path := Path(name).resolve()).is_relative_to(scratch / "package"):
            continue  # a test's own package of that name
        relative = path.relative_to(scratch / "package")
        unused = relative.parent.name == "libraries" and not file["executed_lines"]
        if unused and importlib.util.find_spec(relative.stem) is None:
            print(f"{relative}: the library is not installed")
            continue
        lines[str(relative)] = dict.fromkeys(file["executed_lines"], True) | dict.fromkeys(file["missing_lines"], False)
    return lines


def ranges(numbers):
    """ "3, 5-7" """
    spans = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        run_tests(scratch, sys.argv[1:])
        languages = {"Go": lines_of_go(scratch), "C": lines_of_c(scratch), "Python": lines_of_python(scratch)}
    enough = True
    for language, files in languages.items():
        for name, lines in sorted(files.items()):
            if missed := [line for line, ran in lines.items() if not ran]:
                print(f"{name}: {100 - 100 * len(missed) / len(lines):.0f} %, without {ranges(missed)}")
        ran = sum(sum(lines.values()) for lines in files.values())
        count = sum(map(len, files.values()))
        enough = enough and 100 * ran >= LEAST * count
        print(f"{language}: {ran} of {count} lines, {100 * ran / count:.1f} %")
    if not enough:
        sys.exit(f"expected {LEAST} % of each")


if __name__ == "__main__":
    main()
