"""Times another commit's build compared with this one: both in turn, each in its own process.

    python benchmarks/compare.py REF BENCHSTAT

REF is built in a temporary clone. The statements are those of `make bench`, as they are here: a statement
that REF does not support has no row.
"""

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_calls
import bench_copies
import bench_go
from run import ROUNDS
from timing import Pairs, Row, Table, Worker, in_turn, print_table

CALLS = bench_calls.WRAPPING + bench_calls.EXPORTING + bench_calls.HANDING_ON
TABLES: list[tuple[str, Pairs, int, str]] = [
    ("calls", CALLS, ROUNDS["calls"], "loop"),
    ("calls after 1 ms of sleep", bench_calls.AFTER_A_GAP, ROUNDS["calls"] // 4, "gap"),
    ("copying", bench_copies.BESIDE_NUMPY, ROUNDS["copies"], "loop"),
]


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


def main(ref: str, benchstat: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "clone")
        build(ref, folder)
        compare(ref, folder)
        bench_go.compare({"there": folder, "here": bench_go.ROOT}, benchstat)


if __name__ == "__main__":
    main(*sys.argv[1:])
