"""What the core's start takes: the first description of a process, and of a forked child, in fresh processes that take
turns with one that loads a Go library with an empty function in it. Less than that no Go library takes."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from timing import Row, Table

GOALS = {"first": 1.5e6, "child": 2.0e6, "threads": 8, "MB of addresses": 1000}  # of the first two in ns

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

taken = timed(asdlpack, bytearray(64))
taken["child"] = in_child(asdlpack, array.array("d", [1]))  # of a kind that is not remembered
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


def tables(rounds: int) -> Iterator[Table]:
    least: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        programs = {"ours": [OURS], "of Go": [OF_GO, str(empty_library(Path(scratch)))]}
        for _ in range(rounds):
            for name, (program, *arguments) in programs.items():
                command = [sys.executable, "-c", CLOCK + program, *arguments]
                taken = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
                best = least.setdefault(name, taken)
                best |= {what: min(value, best[what]) for what, value in taken.items()}
    ours, of_go = least["ours"], least["of Go"]
    yield Table(
        "the core's start",
        "ns",
        [
            Row("the first description", ours["first"], "the goal", GOALS["first"], 1.0),
            Row("the first description", ours["first"], "an empty Go library", of_go["first"]),
            Row("the first in a forked child", ours["child"], "the goal", GOALS["child"], 1.0),
        ],
    )
    for what in "threads", "MB of addresses":
        rows = [
            Row(f"{what} after it", ours[what], "the goal", GOALS[what], 1.0),
            Row(f"{what} after it", ours[what], "an empty Go library", of_go[what]),
        ]
        yield Table(f"the core's {what}", "", rows)
