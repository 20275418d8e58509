"""Times a look-up in Go's table of types, with the layout: lookup.c is compiled, and run."""

import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from timing import Row, Table

GOAL = 15.0  # ns
SOURCE = Path(__file__).with_name("lookup.c")
PYEXT = SOURCE.parents[1] / "pyext"


def table() -> Table:
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "lookup")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        folders = PYEXT, PYEXT.parent / "python" / "dlpack" / "include", sysconfig.get_path("include")
        flags = ["-std=gnu11", "-O3", "-DPy_LIMITED_API=0x030b0000", *(f"-I{folder}" for folder in folders)]
        subprocess.run([*compiler, *flags, str(SOURCE), "-o", str(program)], check=True)
        lines = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    rows = []
    for line in lines:
        ndim, strides, least = line.split()
        name = f"a look-up of {ndim}-d memory{' with strides' if strides == '1' else ''}"
        rows.append(Row(name, float(least), "the goal", GOAL, 1.0))
    return Table("looking up", "ns", rows)
