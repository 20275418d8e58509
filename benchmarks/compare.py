"""Times another commit's build compared with this one: both in turn, each in its own process.

    python benchmarks/compare.py REF BENCHSTAT
    python benchmarks/compare.py REF instructions

REF is built in a temporary clone. The statements are those of `make bench`, as they are here: a statement
that REF does not support has no row. `instructions` counts those of each hot call by valgrind, and fails if one takes
3 % more. Counts are almost the same in each run, unlike times.
"""

import math
import os
import re
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

import bench_calls
import bench_copies
import bench_go
from run import ROUNDS
from timing import Pairs, Row, Table, Worker, in_turn, known_to, print_table

CALLS = bench_calls.WRAPPING + bench_calls.EXPORTING + bench_calls.HANDING_ON
TABLES: list[tuple[str, Pairs, int, str]] = [
    ("calls", CALLS, ROUNDS["calls"], "loop"),
    ("calls after 1 ms of sleep", bench_calls.AFTER_A_GAP, ROUNDS["calls"] // 4, "gap"),
    ("copying", bench_copies.BESIDE_NUMPY, ROUNDS["copies"], "loop"),
]
EMPTY = "pass"
COUNTED = [EMPTY, *(it for it, _, _ in CALLS if not re.search("torch|tensor|tvm_ffi", it))]  # no large library
LOOPS = 500
MOST_INSTRUCTIONS = 1.03


def build(ref: str, folder: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", bench_go.ROOT, folder], check=True)
    commit = subprocess.run(["git", "rev-parse", ref], cwd=bench_go.ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["git", "checkout", "--quiet", commit.decode().strip()], cwd=folder, check=True)
    subprocess.run([sys.executable, "build.py"], cwd=folder, check=True)


def compare(ref: str, folder: Path) -> None:
    with Worker(path=str(bench_go.ROOT / "python")) as here, Worker(path=str(folder / "python")) as there:
        for title, pairs, rounds, kind in TABLES:
            statements = list(dict.fromkeys(statement for statement, _, _ in pairs))
            least = zip(statements, in_turn([here, there], statements, rounds, kind), strict=True)
            rows = [Row(it, value, ref, other) for it, (value, other) in least]
            print_table(Table(title, "ns", [row for row in rows if not math.isnan(row.ratio)]))


def run_counted() -> None:
    """Prints each statement that runs. callgrind writes what it counted to a new file at each call of getppid."""
    known: dict[str, object] = {}
    for statement in COUNTED:
        try:
            timer = timeit.Timer(statement, globals=known_to(statement, known))
            timer.timeit(LOOPS)  # the first calls set things up
        except Exception as error:
            print(f"{statement} is left out: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        os.getppid()
        timer.timeit(LOOPS)
        os.getppid()
        print(statement)


def count(tree: Path) -> dict[str, float]:
    """Returns the instructions of a call of each statement, with the build in a tree."""
    alike = {"PYTHONPATH": f"{tree}/python", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}  # in each run
    with tempfile.TemporaryDirectory() as scratch:
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--dump-before=getppid"]
        command = [*valgrind, f"--callgrind-out-file={scratch}/out", sys.executable, __file__, "run-counted"]
        ran = subprocess.run(command, env=os.environ | alike, stdout=subprocess.PIPE, text=True, check=True).stdout
        loops = {it: Path(scratch, f"out.{2 * i}").read_text() for i, it in enumerate(ran.splitlines(), 1)}
    counts = {it: int(re.findall(r"^totals: (\d+)", text, re.MULTILINE)[0]) / LOOPS for it, text in loops.items()}
    return {it: each - counts[EMPTY] for it, each in counts.items() if it != EMPTY}


def compare_instructions(ref: str, folder: Path) -> None:
    here, there = count(bench_go.ROOT), count(folder)
    rows = [Row(it, here[it], ref, there[it], MOST_INSTRUCTIONS) for it in here if it in there]
    print_table(Table("instructions a call", "", rows))
    if any(row.verdict == "missed" for row in rows):
        sys.exit(f"A call takes over {MOST_INSTRUCTIONS} times as many instructions as in {ref}.")


def main(ref: str, kind: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "clone")
        build(ref, folder)
        if kind == "instructions":
            compare_instructions(ref, folder)
        else:
            compare(ref, folder)
            bench_go.compare({"there": folder, "here": bench_go.ROOT}, kind)


if __name__ == "__main__":
    if sys.argv[1:] == ["run-counted"]:
        run_counted()
    else:
        main(*sys.argv[1:])
