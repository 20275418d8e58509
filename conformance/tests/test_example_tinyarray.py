"""examples/tinyarray: a small library in C, tested by pytest-dlpack. It is built and run as its test file says."""

import ast
import os
import shutil
import sys
from pathlib import Path

from support.alone import ROOT, run

EXAMPLE = ROOT / "examples" / "tinyarray"


def test_tinyarray_tested_as_its_docstring_says_keeps_the_rules(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    commands = ast.get_docstring(ast.parse((EXAMPLE / "test_dlpack.py").read_text())).partition("\n\n")[2]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = run("sh", "-ec", commands, cwd=tmp_path, environ={"PATH": path})
    assert result.returncode == 0, result.stdout + result.stderr
