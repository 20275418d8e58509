"""Settings that the tests share. Their shared helpers are in capi.py."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest

# The same examples every time: what fails once fails again.
hypothesis.settings.register_profile("dlpack", deadline=None, derandomize=True)
hypothesis.settings.load_profile("dlpack")


def pytest_addoption(parser):
    parser.addoption("--torture", action="store_true", help="run the long forms of tests/torture")
    parser.addoption("--cpu", type=int, metavar="N", help="run on one CPU alone, the Nth of those that may be used")
    parser.addoption("--figures", type=Path, metavar="FILE", help="add what tests/torture counts to this JSON file")


def pytest_configure(config):
    if (number := config.getoption("cpu")) is not None:
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {usable[number % len(usable)]})  # of the processes that tests start, too
    # What nohup or a shell has ignored stays ignored in the processes that tests start; what is caught does not.
    for each in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # these Python ignores, and gives back
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, lambda *_: None)


@pytest.fixture
def package():
    """A copy of the installed package that every user can read."""
    import dlpack

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        installed = Path(dlpack.__file__).parent
        yield shutil.copytree(installed, Path(folder) / "dlpack", ignore=shutil.ignore_patterns("__pycache__"))
