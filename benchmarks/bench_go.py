"""Go's own benchmarks of parsing and layout, summed up by benchstat.

    python benchmarks/bench_go.py BENCHSTAT

BENCHSTAT is its module path with a version.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["./pkg/dlpack", "./pkg/protocol", "./pyext/core"]
ROUNDS = 6  # benchstat wants as many for its confidence


def compare(trees: dict[str, Path], benchstat: str) -> None:
    """Runs the benchmarks of all trees in turn, and prints what benchstat makes of them."""
    with tempfile.TemporaryDirectory() as scratch:
        programs = {}
        for name, tree in trees.items():
            folder = Path(scratch, name)
            folder.mkdir()
            subprocess.run(["go", "test", "-c", "-o", f"{folder}/", *PACKAGES], cwd=tree, check=True)
            programs[name] = sorted(folder.iterdir())
        for _ in range(ROUNDS):
            for name, tests in programs.items():
                with open(Path(scratch, f"{name}.txt"), "a") as file:
                    for test in tests:
                        command = [str(test), "-test.run=^$", "-test.bench=.", "-test.benchtime=20ms"]
                        subprocess.run(command, stdout=file, check=True)
        inputs = [f"{name}={scratch}/{name}.txt" for name in programs]
        print(flush=True)
        subprocess.run(["go", "run", benchstat, "-filter", ".unit:sec/op", *inputs], check=True)


if __name__ == "__main__":
    compare({"here": ROOT}, sys.argv[1])
