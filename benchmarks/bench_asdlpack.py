"""Times wrapping and exporting beside what Python, numpy, torch, tvm-ffi and pydlpack need for the same.

    python benchmarks/bench_asdlpack.py [--rounds N] [--pydlpack PYTHON]

Ratios within one run are what counts, not nanoseconds: every statement is timed once a round, in turn with all the
others, and its least time is taken. A row whose library is not installed is left out.

pydlpack has the same import name, so it needs an environment of its own, with numpy: PYTHON is the interpreter there.
This program starts itself as a worker with each of the two interpreters, and the two take turns.
"""

import argparse
import array
import contextlib
import importlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import timeit
from collections.abc import Iterator, Sequence
from typing import Any

ROUND = 0.002  # seconds that one statement runs in one round

Rows = list[tuple[str, str, float | None]]  # statement, peer, goal: the most that statement / peer should be

WRAPPING: Rows = [
    ("asdlpack(some_bytes)", "memoryview(some_bytes)", None),
    ("asdlpack(some_bytearray)", "memoryview(some_bytearray)", 3.0),
    ("asdlpack(some_array)", "memoryview(some_array)", 3.0),
    ("asdlpack(some_view)", "memoryview(some_view)", None),
    ("asdlpack(ndarray)", "memoryview(ndarray)", None),
    ("asdlpack(interface)", "numpy.asarray(interface)", None),
    ("asdlpack(ndarray.__dlpack__())", "torch.from_dlpack(ndarray.__dlpack__())", None),
]
EXPORTING: Rows = [
    ("wrapped.__dlpack__()", "ndarray.__dlpack__()", None),
    ("wrapped.__dlpack__(max_version=(1, 1))", "ndarray.__dlpack__(max_version=(1, 1))", None),
    ("wrapped_ndarray.__dlpack__(max_version=(1, 1))", "ndarray.__dlpack__(max_version=(1, 1))", None),
]
HANDING_ON: Rows = [
    ("numpy.from_dlpack(asdlpack(some_bytearray))", "numpy.frombuffer(some_bytearray, 'u1')", None),
    ("numpy.from_dlpack(asdlpack(ndarray))", "numpy.from_dlpack(ndarray)", None),
    ("torch.from_dlpack(asdlpack(some_bytearray))", "torch.frombuffer(some_bytearray, dtype=torch.uint8)", None),
    ("torch.from_dlpack(asdlpack(some_bytearray))", "torch.from_dlpack(ndarray)", None),
    ("tvm_ffi.from_dlpack(asdlpack(some_bytearray))", "tvm_ffi.from_dlpack(ndarray)", None),
]
TABLES = {"wrapping": WRAPPING, "exporting": EXPORTING, "handing on": HANDING_ON}
OPTIONAL = ["torch", "tvm_ffi"]
BESIDE_PYDLPACK = [
    f"asdlpack({kind}){export}"
    for kind in ("some_bytes", "some_bytearray", "some_array", "some_view", "ndarray", "interface")
    for export in ("", ".__dlpack__()")
]
PYDLPACK_GOAL = 0.02


class Interface:
    """An array interface as an instance attribute, and no other protocol."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


def objects() -> dict[str, Any]:
    """What the statements name, but for the libraries."""
    import numpy

    from dlpack import asdlpack

    ndarray = numpy.zeros(1024, "f4")
    return {
        "asdlpack": asdlpack,
        "numpy": numpy,
        "ndarray": ndarray,
        "interface": Interface(ndarray),
        "some_bytes": bytes(4096),
        "some_bytearray": bytearray(4096),
        "some_array": array.array("f", bytes(4096)),
        "some_view": memoryview(bytearray(4096)),
    }


class Timing:
    """The least time of a statement, in ns a call."""

    def __init__(self, statement: str, known: dict[str, Any], trial: int = 100) -> None:
        self.timer = timeit.Timer(statement, globals=known)
        self.timer.timeit(trial)  # what a first call sets up is no part of it
        self.number = max(1, round(trial * ROUND / self.timer.timeit(trial)))
        self.calls = 2 * trial
        self.least = math.inf

    def sample(self) -> None:
        self.least = min(self.least, self.timer.timeit(self.number) / self.number * 1e9)
        self.calls += self.number


class Worker:
    """This program in another process, where an interpreter's `dlpack` may be another one."""

    def __init__(self, *python: str) -> None:
        self.process: Any = subprocess.Popen(  # its pipes are optional to a type checker
            [*python, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.file, self.version = self.answer()

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        return json.loads(line) if line else sys.exit(f"the worker of {self.process.args[0]} ended early")

    def sample(self, statement: str) -> Any:
        """Returns the statement's least time so far, or None if it raises."""
        print(statement, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        self.process.communicate()  # pydlpack ends with a report of what leaked


def work() -> None:
    """The other end of Worker: statements come in, times go out."""
    import dlpack

    print(json.dumps([dlpack.__file__, dlpack.__version__]), flush=True)
    known = objects()
    timings: dict[str, Timing] = {}
    for line in sys.stdin:
        statement = line.strip()
        try:
            timing = timings.get(statement) or timings.setdefault(statement, Timing(statement, known))
            timing.sample()
            print(json.dumps(timing.least), flush=True)
        except Exception as error:
            print(f"{statement}: {error!r}", file=sys.stderr)
            print(json.dumps(None), flush=True)


def cpu() -> str:
    with open("/proc/cpuinfo") as lines:
        models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def versions() -> Iterator[str]:
    """The versions of what is timed, as far as it is installed."""
    import dlpack

    yield f"dlpack {dlpack.__version__}"
    for distribution in "numpy", "torch", "apache-tvm-ffi":
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{distribution} {importlib.metadata.version(distribution)}"


def print_table(title: str, rows: Sequence[tuple[str, float, str, float, float | None]]) -> None:
    """Rows of statement, its time, peer, its time, goal."""
    line = "{:<48}  {:>7}  {:<54}  {:>7}  {:>6}  {:>5}  {}".format
    print("\n" + line(title, "ns", "beside", "ns", "ratio", "goal", "").rstrip())
    for statement, time, peer, peer_time, goal in rows:
        ratio = time / peer_time
        verdict = "" if goal is None else "met" if ratio <= goal else "missed"
        print(line(statement, f"{time:.0f}", peer, f"{peer_time:.0f}", f"{ratio:.3f}", goal or "", verdict).rstrip())


def in_one_process(rounds: int) -> None:
    """Times the tables in turn and prints them."""
    from dlpack._dlpack import _core_calls

    calls_before = _core_calls()
    known = objects()
    known["wrapped"] = known["asdlpack"](known["some_bytearray"])
    known["wrapped_ndarray"] = known["asdlpack"](known["ndarray"])
    for library in OPTIONAL:
        try:
            known[library] = importlib.import_module(library)
        except ImportError:
            print(f"{library} is not installed: its rows are left out")

    missing = [library + "." for library in OPTIONAL if library not in known]
    tables = {
        title: [row for row in rows if not any(library in row[0] + row[1] for library in missing)]
        for title, rows in TABLES.items()
    }
    statements = [statement for rows in tables.values() for row in rows for statement in row[:2]]
    timings = {statement: Timing(statement, known) for statement in dict.fromkeys(statements)}
    for _ in range(rounds):
        for timing in timings.values():
            timing.sample()

    for title, rows in tables.items():
        print_table(title, [(s, timings[s].least, peer, timings[peer].least, goal) for s, peer, goal in rows])
    wrapped = sum(timing.calls for statement, timing in timings.items() if "asdlpack(" in statement)
    print(f"\ncalls into Go: {calls_before} before, {_core_calls()} after {wrapped:,} calls of asdlpack")


def beside_pydlpack(python: str, rounds: int) -> None:
    """Times both packages in turn, each in its own process, and prints the table."""
    ours, peer = Worker(sys.executable), Worker(python, "-I")  # -I: PYTHONPATH may lead to ours
    if ours.file == peer.file:
        sys.exit(f"--pydlpack {python}: its dlpack is the one to be timed, not pydlpack")
    for _ in range(rounds):
        times = {statement: (ours.sample(statement), peer.sample(statement)) for statement in BESIDE_PYDLPACK}
    ours.close()
    peer.close()
    rows = [(s, time, "the same", other, PYDLPACK_GOAL) for s, (time, other) in times.items() if time and other]
    print_table(f"beside pydlpack {peer.version}", rows)
    for statement, pair in times.items():
        if None in pair:
            print(f"{statement}: refused by {'dlpack' if pair[0] is None else 'pydlpack'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="how often each statement is timed (default: 30)")
    parser.add_argument("--pydlpack", metavar="PYTHON", help="interpreter of an environment with pydlpack and numpy")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
        return

    print(f"{cpu()}, load {os.getloadavg()[0]:.1f}; {platform.python_implementation()} {platform.python_version()}")
    print(", ".join(versions()))
    in_one_process(arguments.rounds)
    if arguments.pydlpack:
        beside_pydlpack(arguments.pydlpack, arguments.rounds)
    else:
        print("\npydlpack is left out: --pydlpack PYTHON names the interpreter of an environment that has it")


if __name__ == "__main__":
    main()
