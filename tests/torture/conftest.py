"""Two forms of each proof: a short one in `make test`, a long one in `make torture`, which prints what it counted."""

import json

import pytest

FIGURES = pytest.StashKey()


def pytest_configure(config):
    config.stash[FIGURES] = {}
    config.addinivalue_line("markers", "torture: has a long form alone")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("torture"):
        long = [item for item in items if item.get_closest_marker("torture")]
        items[:] = [item for item in items if item not in long]
        config.hook.pytest_deselected(items=long)


@pytest.fixture
def effort(request):
    """effort(short, long): the amount of work in the form that runs."""
    return lambda short, long: long if request.config.getoption("torture") else short


@pytest.fixture
def figure(request):
    """figure("children forked", 10_000): what the test did or saw, for the summary and docs/reliability.md."""
    figures = request.config.stash[FIGURES].setdefault(request.node.nodeid.removeprefix("tests/torture/"), {})
    return figures.__setitem__


@pytest.fixture(scope="session")
def faulty(tmp_path_factory):
    """A build of the package in which calls can be made to fail, and Go functions to panic: faults.py runs it."""
    import faults

    return faults.build_faulty(tmp_path_factory.mktemp("faulty"))


def pytest_terminal_summary(terminalreporter, config):
    figures = {test: counts for test, counts in config.stash[FIGURES].items() if counts}
    if not config.getoption("torture") or not figures:
        return
    terminalreporter.section("figures")
    for test, counts in figures.items():
        terminalreporter.line(f"{test}: " + ", ".join(f"{what} {value}" for what, value in counts.items()))
    if file := config.getoption("figures"):
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | figures, indent=1) + "\n")
