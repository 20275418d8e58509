"""What the core's start takes: the first description of a process, and of a forked child, in fresh processes that take
turns with two others. One loads a Go library with an empty function in it: less than that no Go library takes. The
other is this package with a core that knows nothing: less than that no Go library takes that is started with all the
checks of docs/reliability.md, and anew in a child."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from objects import ROOT
from timing import Row, Table

GOALS = {"first": 1.5e6, "child": 2.0e6, "threads": 8, "MB of addresses": 1000}  # of the first two in ns

EMPTY_CORE = """package main

// #cgo CFLAGS: -I${SRCDIR}/../../python/dlpack/include
// #include "core.h"
// extern void dlpackDescribe(struct request *, struct answer *);
import "C"

import "dlpack/pkg/stack"

var version string

//export dlpackStart
func dlpackStart(core *C.struct_core) {
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
    return {"first": took, "MB of addresses": (status("VmSize") - before) * 1.024e-3, "threads": status("Threads")}

def in_child(function, *arguments):
    source, target = os.pipe()
    if os.fork() == 0:
        os.write(target, json.dumps(timed(function, *arguments)["first"]).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(source, 100))
"""

OURS = """
import array
from dlpack import asdlpack

def describe(memory):
    try:
        asdlpack(memory)
    except BufferError:
        pass  # of the core that knows nothing

taken = timed(describe, bytearray(64))
taken["child"] = in_child(describe, array.array("d", [1]))  # of a kind that is not remembered
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
    """Where the package lies that has it."""
    for part in "pkg", "pyext", "python", "build.py", "go.mod", "pyproject.toml":
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    for source in (folder / "pyext" / "core").glob("*.go"):
        if source.name != "threads.go":
            source.unlink()
    (folder / "pyext" / "core" / "main.go").write_text(EMPTY_CORE)
    subprocess.run([sys.executable, str(folder / "build.py")], check=True)
    return folder / "python"


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
                run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
                taken = json.loads(run.stdout)
                best = least.setdefault(name, taken)
                best |= {what: min(value, best[what]) for what, value in taken.items()}
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
