"""Not a library: the array API standard's sentences about DLPack, which test_conformance.py has."""

import importlib.util
import os
import tempfile
from typing import Any

from ..memory import Skip


class Collector:
    """A plugin of pytest that keeps what failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_collectreport(self, report: Any) -> None:
        self.pytest_runtest_logreport(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            lines = str(report.longrepr).splitlines() or [""]
            self.failed.append(f"{report.nodeid.partition('::')[2]}: {lines[-1]}")


def the_sentences_hold() -> None:
    missing = [name for name in ("pytest", "hypothesis") if importlib.util.find_spec(name) is None]
    if missing:
        raise Skip(f"{' and '.join(missing)} not installed (pip install 'dlpack-go[tests]')")
    collector = Collector()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the user's own are about the user's tests
        os.environ.pop("PYTEST_ADDOPTS", None)
        import pytest

        options = ["-q", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull, "--rootdir", folder]
        status = pytest.main([*options, "--pyargs", "dlpack.tests.test_conformance"], [collector])
    if status != 0:
        raise AssertionError("; ".join(collector.failed) or f"pytest ended with status {status}")


CHECKS = {"the sentences of the array API standard hold": the_sentences_hold}
