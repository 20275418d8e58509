"""Shared settings and fixtures. Tests that need large libraries or build the package run with --all, or if named.
Each proof has two forms: a short one, and a long one with --long, which prints its counts."""

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

pytest.register_assert_rewrite("support")
import support.abi  # noqa: E402, F401 (before pytest_dlpack)

# The same examples every time: what fails once fails again.
hypothesis.settings.register_profile("dlpack", deadline=None, derandomize=True)
hypothesis.settings.load_profile("dlpack")

FIGURES = pytest.StashKey[dict]()
TESTS = Path(__file__).parent
CONFORMANCE = TESTS.parent / "conformance" / "tests"
NEED_MORE = [
    *(TESTS / name for name in ("libraries", "packaging", "tool/test_tool_libraries.py", "tool/test_tool_catches.py")),
    *(CONFORMANCE / name for name in ("test_libraries.py", "test_distribution.py", "test_reports.py")),
]
# The slowest folders first: pytest-xdist gives whole files to its workers.
FIRST = ["packaging", CONFORMANCE.name, "tool", "processes", "faults"]


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run what needs large libraries or builds the package, too")
    parser.addoption("--long", action="store_true", help="run the long forms of the proofs")
    parser.addoption(
        "--cpu",
        type=int,
        metavar="N",
        help="run on one CPU, the Nth of those that may be used; with -n each worker on its own",
    )
    parser.addoption("--figures", type=Path, metavar="FILE", help="add what the proofs count to this JSON file")


def pytest_configure(config):
    config.stash[FIGURES] = {}
    number, worker = config.getoption("cpu"), getattr(config, "workerinput", {}).get("workerid", "")
    if number is not None and (worker or not config.getoption("numprocesses", None)):
        number += int(worker.removeprefix("gw") or 0)
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {usable[number % len(usable)]})  # inherited by the processes that tests start
    # Processes that tests start inherit ignored signals (nohup and shells ignore some), but not handlers.
    given_back = "SIGPIPE", "SIGXFSZ"  # which Python ignores
    for each in signal.valid_signals():
        if signal.getsignal(each) is signal.SIG_IGN and getattr(each, "name", "") not in given_back:
            signal.signal(each, lambda *_: None)
    if not config.getoption("all"):  # a hook for collection would see the files below this one alone
        named = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
        unnamed = [str(path) for path in NEED_MORE if not any(name.is_relative_to(path) for name in named)]
        config.option.ignore = [*(config.option.ignore or []), *unnamed]


def pytest_generate_tests(metafunc):
    if "cuda_of" in metafunc.fixturenames:
        from support.cuda_driver import gpus

        metafunc.parametrize("cuda_of", ["fake", "GPU"] if gpus() else ["fake"])


def pytest_collection_modifyitems(config, items):
    if config.pluginmanager.hasplugin("xdist"):
        items.sort(key=lambda item: (FIRST + [item.path.parent.name]).index(item.path.parent.name))
    if not config.getoption("long"):
        long = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in long]
        config.hook.pytest_deselected(items=long)


def pytest_collection_finish():
    gc.freeze()  # each collection of a test would go through all modules and tests


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture
def effort(request):
    """effort(short, long): the amount of work in the form that runs."""
    return lambda short, long: long if request.config.getoption("long") else short


@pytest.fixture
def figure(request):
    """figure("children forked", 10_000): what the test did or saw, for the summary and docs/proofs.md."""
    figures = request.config.stash[FIGURES].setdefault(f"{request.path.name}::{request.node.name}", {})
    return figures.__setitem__


@pytest.fixture
def package():
    """A copy of the installed package that every user can read."""
    import dlpack

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        installed = Path(dlpack.__file__).parent
        yield shutil.copytree(installed, Path(folder) / "dlpack", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture
def quick_switches():
    """Threads take turns often, so that more of their orders are met."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(scope="session")
def faulty(tmp_path_factory):
    """A build of the package in which calls can be made to fail, and Go functions to panic: faults.py runs it."""
    from support import faults

    return faults.build_faulty(tmp_path_factory.mktemp("faulty"))


def pytest_terminal_summary(terminalreporter, config):
    figures = {test: counts for test, counts in config.stash[FIGURES].items() if counts}
    if not config.getoption("long") or not figures:
        return
    terminalreporter.section("figures")
    for test, counts in figures.items():
        terminalreporter.line(f"{test}: " + ", ".join(f"{what} {value}" for what, value in counts.items()))
    if file := config.getoption("figures"):
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | figures, indent=1) + "\n")
