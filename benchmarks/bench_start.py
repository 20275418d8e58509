"""Times what comes first, in fresh processes that take turns: an ordinary program's first use, which starts nothing,
and the core's start, which comes with the first unusual request.

The start is compared with two others. One loads a Go library with an empty function in it: less than that no Go library
takes. The other is this package with a core that knows nothing: less than that no Go library takes that is started with
all the checks of docs/reliability.md, and anew in a child."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from objects import ROOT
from timing import Row, Table

FIRST_USE = {"first": 20e3, "child": 300e3}  # ns
FIRST_CALLS = {"first": "the first asdlpack", "child": "the first in a forked child"}
GOALS = {"first": 1.5e6, "child": 2.0e6, "threads": 8, "MB of addresses": 1000}  # of the first two in ns

EMPTY_CORE = """package main

// #cgo CFLAGS: -I${SRCDIR}/../../python/dlpack/include
// #include "core.h"
// extern void dlpackDescribe(struct request *, struct answer *);
import "C"

import "dlpack/pkg/stack"

var version string

//export dlpack_core
func dlpack_core(core *C.struct_core) {
	stack.Reserve()
	startRuntime(C.FIRST_CPUS)
	core.describe = (*[0]byte)(C.dlpackDescribe)
}

//export dlpackDescribe
func dlpackDescribe(_ *C.struct_request, answer *C.struct_answer) {
	stack.Reserve()
	answer.status = C.STATUS_BUFFER_ERROR
	answer.message[0] = 0
}

func main() {}
"""

LEAST = """package main

import "C"

//export call
func call() {}

func main() {}
"""

CLOCK = """
import ctypes, json, os, sys, time

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

def timed(function, *arguments):
    before, start = status("VmSize"), time.perf_counter_ns()
    function(*arguments)
    took = time.perf_counter_ns() - start
    return {
        "first": took,
        "MB of addresses": (status("VmSize") - before) * 1.024e-3,
        "threads": status("Threads"),
    }

def in_child(function, *arguments):
    source, target = os.pipe()
    if os.fork() == 0:
        os.write(target, json.dumps(timed(function, *arguments)["first"]).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(source, 100))
"""

# An ordinary program's sources, after its first call.
ORDINARY = """
import array, mmap
memory = bytearray(64)
sources = bytes(64), array.array("f", [1, 2]), mmap.mmap(-1, 64), memoryview(memory).cast("f", (4, 4))[::2], bytearray()

def use():
    for source in sources:
        wrap(source)

first = timed(wrap, memory)["first"]
taken = timed(use)
taken |= {"first": first, "child": in_child(use)}
print(json.dumps(taken))
"""
OF_DLPACK, OF_NUMPY = "from dlpack import asdlpack as wrap", "from numpy import asarray as wrap"

OURS = """
from dlpack import frombuffer

def describe(memory):
    try:
        frombuffer(memory, "int4")  # which only Go describes
    except Exception:
        pass  # the core that knows nothing refuses it without a word

taken = timed(describe, bytearray(64))
taken["child"] = in_child(describe, bytearray(64))
print(json.dumps(taken))
"""

OF_GO = """
print(json.dumps(timed(lambda: ctypes.CDLL(sys.argv[1]).call())))
"""


def empty_library(folder: Path) -> Path:
    source, library = folder / "empty.go", folder / "empty.so"
    source.write_text(LEAST)
    environment = os.environ | {"GOWORK": "off", "GO111MODULE": "off", "CGO_ENABLED": "1"}
    command = ["go", "build", "-buildmode=c-shared", "-trimpath", "-o", str(library), str(source)]
    subprocess.run(command, env=environment, check=True)
    return library


def empty_core(folder: Path) -> Path:
    """Builds the package with an empty core, and returns the folder to import it from."""
    for part in "pkg", "pyext", "python", "build.py", "go.mod", "pyproject.toml":
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    for source in (folder / "pyext" / "core").glob("*.go"):
        if source.name != "threads.go":
            source.unlink()
    (folder / "pyext" / "core" / "main.go").write_text(EMPTY_CORE)
    subprocess.run([sys.executable, str(folder / "build.py")], check=True)
    return folder / "python"


def ordinary(rounds: int, pydlpack: str | None) -> Iterator[Table]:
    """An ordinary program's first use, compared with numpy's and pydlpack's."""
    here = dict(os.environ)
    programs = {"ours": (sys.executable, here, OF_DLPACK), "numpy": (sys.executable, here, OF_NUMPY)}
    if pydlpack:
        programs["pydlpack"] = (pydlpack, {**os.environ, "PYTHONPATH": ""}, OF_DLPACK)  # PYTHONPATH may lead to ours
    least: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, (python, environment, wrap) in programs.items():
            keep_least(least, name, [python, "-c", f"{wrap}\n{CLOCK}{ORDINARY}"], environment)
    ours = least["ours"]
    rows = [Row(call, ours[what], "the goal", FIRST_USE[what], 1.0) for what, call in FIRST_CALLS.items()]
    rows += [Row(FIRST_CALLS[what], ours[what], name, least[name][what]) for what in FIRST_CALLS for name in least]
    yield Table("an ordinary program's first use", "ns", [row for row in rows if row.beside != "ours"])
    for what, goal in {"threads": 1, "MB of addresses": 1}.items():
        yield Table(f"an ordinary program's {what}", "", [Row(f"{what} after it", ours[what], "the goal", goal, 1.0)])


def keep_least(
    least: dict[str, dict[str, float]], name: str, command: list[str], environment: Mapping[str, str]
) -> None:
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    taken = json.loads(run.stdout.partition(b"\n")[0])  # behind it pydlpack says that it leaks
    best = least.setdefault(name, taken)
    best |= {what: min(value, best[what]) for what, value in taken.items()}


def tables(rounds: int) -> Iterator[Table]:
    least: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as package:
        empty = os.environ | {"PYTHONPATH": str(empty_core(Path(package)))}
        programs = {
            "ours": (os.environ, [OURS]),
            "of Go": (os.environ, [OF_GO, str(empty_library(Path(scratch)))]),
            "of an empty core": (empty, [OURS]),
        }
        for _ in range(rounds):
            for name, (environment, (program, *arguments)) in programs.items():
                command = [sys.executable, "-c", CLOCK + program, *arguments]
                keep_least(least, name, command, environment)
    ours, of_go, of_empty = least["ours"], least["of Go"], least["of an empty core"]
    yield Table(
        "the core's start",
        "ns",
        [
            Row("the first description", ours["first"], "the goal", GOALS["first"], 1.0),
            Row("the first description", ours["first"], "an empty Go library", of_go["first"]),
            Row("the first description", ours["first"], "an empty core", of_empty["first"]),
            Row("the first in a forked child", ours["child"], "the goal", GOALS["child"], 1.0),
            Row("the first in a forked child", ours["child"], "an empty core", of_empty["child"]),
        ],
    )
    for what in "threads", "MB of addresses":
        rows = [
            Row(f"{what} after it", ours[what], "the goal", GOALS[what], 1.0),
            Row(f"{what} after it", ours[what], "an empty Go library", of_go[what]),
        ]
        yield Table(f"the core's {what}", "", rows)
