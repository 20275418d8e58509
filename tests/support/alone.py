"""Runs tests alone, each in a process of its own that has not imported this package yet. Changes to that process
harm no other test. A crash or a hang is one failed test, which shows what was printed."""

import atexit
import ctypes
import functools
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
INCLUDE = ROOT / "python" / "dlpack" / "include"
WINDOWS = sys.platform == "win32"
# A CPython that was built on an old glibc lacks it.
pidfd_open = getattr(os, "pidfd_open", None) or (lambda pid: ctypes.CDLL(None).syscall(434, pid, 0))
# How many processes a test may start at once.
JOBS = 1 if "PYTEST_XDIST_WORKER" in os.environ or WINDOWS else len(os.sched_getaffinity(0))

uses_dev_shm = pytest.mark.skipif(
    sys.platform == "linux" and not os.path.isdir("/dev/shm"), reason="multiprocessing needs /dev/shm"
)


def is_gone(pid, timeout):
    """Whether a process, given by a text, has ended, or does so in that time."""
    try:
        return ends(int(pid), timeout)
    except ProcessLookupError:
        return True


def ends(pid, timeout):
    """Waits for the end of a process, and leaves it to be waited for; says whether it came."""
    if WINDOWS:
        import _winapi

        process = _winapi.OpenProcess(_winapi.SYNCHRONIZE, False, pid)
        try:
            return _winapi.WaitForSingleObject(process, timeout * 1000) == _winapi.WAIT_OBJECT_0
        finally:
            _winapi.CloseHandle(process)
    process = pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(process)


def run(*command, timeout=60, environ=None, cwd=None):
    """Runs a program for at most `timeout` seconds; then kills all that it started, unless that left the session.

    The output goes to files: a process that left the session would hold a pipe open.
    """
    arguments = [str(argument) for argument in command]

    def start(stdout, stderr):
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **(environ or {})},
            cwd=cwd,
            start_new_session=True,
        )

    return finish(start, timeout)


def finish(start, timeout):
    """Returns the output and status of the process that start returns, which leads a session of its own."""
    with (
        tempfile.NamedTemporaryFile("r", errors="backslashreplace") as stdout,
        tempfile.NamedTemporaryFile("r", errors="backslashreplace") as stderr,
    ):
        process = start(stdout, stderr)
        try:
            ended = ends(process.pid, timeout)
        finally:  # pytest-timeout and Ctrl-C raise in there
            if WINDOWS:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)  # before the wait, after which the number may be another's
            process.wait()
        for file in stdout, stderr:
            file.seek(0)
        result = subprocess.CompletedProcess(process.args, process.returncode, stdout.read(), stderr.read())
    if not ended:
        pytest.fail(f"still running after {timeout} s\n{result.stdout}\n{result.stderr}", pytrace=False)
    return result


def python(code, **options):
    return run(sys.executable, "-c", code, **options)


# A failed assertion shows its values, as in pytest's own process. Most tests take less time than the import of pytest.
BEGIN = """
import pytest
from _pytest.assertion import install_importhook
from _pytest.config import get_config
hook = install_importhook(get_config())
"""


class Forked:
    """A process that a fork server starts, with what subprocess.Popen has."""

    def __init__(self, code, environ, stdout, stderr):
        self.args = code
        environ = {**os.environ, **(environ or {})}
        environ.pop("PYTEST_CURRENT_TEST", None)
        self.server = fork_server(threading.get_ident(), tuple(sorted(environ.items())))
        self.pid = self.ask("pid", json.dumps([code, stdout.name, stderr.name]))

    def wait(self):
        self.returncode = self.ask("status", "")

    def ask(self, name, line):
        print(line, file=self.server.stdin, flush=True)
        answered, number = self.server.stdout.readline().split()
        assert answered == name
        return int(number)


@functools.cache
def fork_server(thread, environ):
    """One for each thread, which waits for its answers, and environment, which a loader reads as a process begins."""
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [sys.executable, SUPPORT / "fork_server.py", BEGIN],
        env=dict(environ),
        stdin=pipe,
        stdout=pipe,
        text=True,
        start_new_session=True,
    )
    atexit.register(server.communicate)
    return server


CHILD = """
import json, sys
sys.path[:0] = {folders!r}
hook.mark_rewrite("support", {module!r})
import {module} as tests
def effort(short, long):
    return long if {long} else short
def figure(*counted):
    with open({figures!r}, "a") as file:
        print(json.dumps(counted), file=file)
tests.{name}.__wrapped__(**{parameters!r}, **{{name: globals()[name] for name in {fixtures!r}}})
"""


def alone(test=None, *, timeout=60, status=0, stdout=None, stderr=None, environ=None):
    """Decorates a test function: its body runs in a process of its own, with its parameters (by their repr) and the
    fixtures effort and figure.

    It has to end with the status, and to have printed what is given.
    """
    if test is None:
        return functools.partial(alone, timeout=timeout, status=status, stdout=stdout, stderr=stderr, environ=environ)

    @pytest.mark.timeout(timeout + 30)
    @functools.wraps(test)
    def run_alone(effort=None, figure=None, **parameters):
        fixtures = {name: value for name, value in {"effort": effort, "figure": figure}.items() if value is not None}
        with tempfile.NamedTemporaryFile("r") as figures:
            code = CHILD.format(
                folders=[str(Path(inspect.unwrap(test).__code__.co_filename).parent), str(TESTS)],
                module=test.__module__,
                name=test.__name__,
                parameters=parameters,
                fixtures=list(fixtures),
                long=effort is not None and effort(False, True),
                figures=figures.name,
            )
            if WINDOWS:
                result = python(BEGIN + code, timeout=timeout, environ=environ)
            else:
                result = finish(functools.partial(Forked, code, environ), timeout)
            printed = result.stdout if stdout is None else stdout, result.stderr if stderr is None else stderr
            if (result.returncode, result.stdout, result.stderr) != (status, *printed):
                pytest.fail(f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}", pytrace=False)
            counted = [json.loads(line) for line in figures]
        assert (figure is None) == (not counted)
        for each in counted:
            figure(*each)

    return run_alone
