"""The commands `python -m dlpack.tests` and `python tests/exchanges`, which has the adapters of this repository."""

import json
import re
import sys

from dlpack.tests import Report
from support.alone import ROOT, TESTS, run

DLPACK_TESTS = "-m", "dlpack.tests"
EXCHANGES = (TESTS / "exchanges",)


def modules(folder):
    """Returns an environment that finds modules in this folder first."""
    return {"PYTHONPATH": f"{folder}:{ROOT / 'python'}:{TESTS}"}


def exchange(*arguments, command=DLPACK_TESTS, python=sys.executable, status=0, **options):
    """Runs the command; gives what it prints."""
    result = run(python, *command, *arguments, **options)
    assert result.returncode == status, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def report(*arguments, **options):
    """Runs the command; gives what it found."""
    return Report.from_dict(json.loads(exchange("--json", *arguments, **options)))


def library_of(consumer):
    return re.match(r"\w+", consumer)[0]
