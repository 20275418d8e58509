"""Tests that run alone: each in a fresh interpreter, where what it does to its process harms no other test, and where a
crash or a hang is one failed test, with what was printed."""

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent


def run(*command, timeout=60, environ=None, cwd=None):
    """Runs a program to its end, and ends it with all that it started where it takes longer."""
    arguments = [str(argument) for argument in command]
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        cwd=cwd,
        start_new_session=True,
    )
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            pytest.fail(f"still running after {timeout} s\n{stdout}\n{stderr}", pytrace=False)
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


def python(code, **options):
    return run(sys.executable, "-c", code, **options)


def alone(test=None, **options):
    """Decorates a test function: its body runs in a fresh interpreter, with its parameters (by their repr)."""
    if test is None:
        return functools.partial(alone, **options)

    @functools.wraps(test)
    def run_alone(**parameters):
        result = python(
            f"import sys; sys.path[:0] = {str(Path(test.__code__.co_filename).parent)!r}, {str(TESTS)!r}\n"
            f"import {test.__module__} as tests; tests.{test.__name__}.__wrapped__(**{parameters!r})",
            **options,
        )
        if result.returncode != 0:
            pytest.fail(f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}", pytrace=False)

    return run_alone
