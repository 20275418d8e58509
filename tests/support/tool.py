"""The command `python -m dlpack.tests`."""

import re
import sys

from support.alone import run


def exchange(*arguments, python=sys.executable, status=0, **options):
    """Runs the command; gives what it prints."""
    result = run(python, "-m", "dlpack.tests", *arguments, **options)
    assert result.returncode == status, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def library_of(consumer):
    return re.match(r"\w+", consumer)[0]
