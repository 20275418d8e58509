"""Settings that the tests share. Their shared helpers are in capi.py."""

from pathlib import Path

import hypothesis

# The same examples every time: what fails once fails again.
hypothesis.settings.register_profile("dlpack", deadline=None, derandomize=True)
hypothesis.settings.load_profile("dlpack")


def pytest_addoption(parser):
    parser.addoption("--torture", action="store_true", help="run the long forms of tests/torture")
    parser.addoption("--figures", type=Path, metavar="FILE", help="add what tests/torture counts to this JSON file")
