"""Go's table of types, with which C describes ordinary memory: it says the same as Go."""

import sys
from pathlib import Path

import pytest

import dlpack
from support.alone import TESTS, run
from support.builds import build


@pytest.fixture(scope="module")
def without_table(tmp_path_factory):
    return build(tmp_path_factory.mktemp("without"), cflags="-DDLPACK_USES_TABLE=0")


def outcomes(package, seed, count):
    code = f"import sys; sys.path[:0] = [{str(TESTS)!r}]; from support import requests; requests.main({seed}, {count})"
    environ = {"PYTHONPATH": str(package), "PYTHONIOENCODING": "utf-8"}
    result = run(sys.executable, "-c", code, environ=environ, timeout=600)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("seed", range(2))
def test_random_requests_are_answered_as_without_a_table(without_table, seed, effort, figure):
    """Answers, and the texts of refusals, word by word."""
    count = effort(5_000, 50_000)
    installed = Path(dlpack.__file__).parents[1]
    ours, theirs = (outcomes(package, seed, count) for package in (installed, without_table))
    assert len(ours) == len(theirs) == count
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]][:3] == []
    described = sum("Error" not in line.partition(" ")[2][:20] for line in ours)
    assert count / 5 < described < count * 4 / 5
    figure("requests", count)
    figure("described", described)
