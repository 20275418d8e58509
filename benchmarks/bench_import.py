"""Times imports, in fresh processes that take turns.

The interpreter starts isolated (-I) and without the site module (-S), imports what site always does, and gets the
folder of the package. An environment's .pth files would import some of the same modules, untimed."""

import subprocess
import sys
from pathlib import Path

from timing import Row, Table, Worker

ALLOWANCE = 5e6  # ns that the import may take beyond that of array

PROGRAM = """
import os, sys, time
sys.path.append(sys.argv[1])
start = time.perf_counter_ns()
import {module}
print(time.perf_counter_ns() - start)
"""


def time_import(python: str, module: str, folder: Path) -> int:
    command = [python, "-I", "-S", "-c", PROGRAM.format(module=module), str(folder)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines()[0])


def folder(worker: Worker) -> Path:
    with worker:
        return Path(worker.about["file"]).parents[1]


def table(pydlpack: str | None, rounds: int) -> Table:
    ours = folder(Worker())
    imports = {"dlpack": (sys.executable, "dlpack", ours), "array": (sys.executable, "array", ours)}
    if pydlpack:
        imports["pydlpack"] = (pydlpack, "dlpack", folder(Worker(pydlpack, path="")))
    samples: dict[str, list[int]] = {name: [] for name in imports}
    for _ in range(rounds):
        for name, arguments in imports.items():
            samples[name].append(time_import(*arguments))
    least = {name: min(times) for name, times in samples.items()}
    rows = [Row("import dlpack", least["dlpack"], "import array (and 5 ms)", least["array"] + ALLOWANCE, 1.0)]
    if pydlpack:
        rows.append(Row("import dlpack", least["dlpack"], "import dlpack (pydlpack's)", least["pydlpack"], 1.0))
    return Table("importing", "ns", rows)
