"""The floor: whatever pydlpack 0.2.1 exchanges, this does. Its import name is dlpack too, so it has an environment and
processes of its own."""

import json
import sys
import venv

import numpy as np
import pytest

from support.alone import SUPPORT, run

PEER = "pydlpack==0.2.1"


def outcomes(python, **environ):
    """Returns the results by name of the case. After the first line the peer reports leaks."""
    result = run(python, SUPPORT / "peer_cases.py", timeout=120, environ=environ)
    assert result.stdout, result.stderr
    cases = json.loads(result.stdout.splitlines()[0])
    return {name: case for name, case in cases.items() if case is not None}


@pytest.fixture(scope="session")
def peer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peer")
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "-q", PEER, f"numpy=={np.__version__}", timeout=300)
    assert installed.returncode == 0, installed.stderr
    return outcomes(python, PYTHONPATH="")  # it could lead to ours


@pytest.fixture(scope="session")
def ours():
    return outcomes(sys.executable)


def right(case):
    return case.get("is") == case["should"]


def test_cases_that_the_peer_gets_right_are_right_here(peer, ours):
    given = [name for name in peer if right(peer[name])]
    assert len(given) > 50, peer
    assert {name: ours[name] for name in given if not right(ours[name])} == {}


def test_wrong_values_of_the_peer_are_right_or_refused_here(peer, ours):
    wrong = [name for name in peer if "is" in peer[name] and not right(peer[name])]
    assert any("big-endian" in name for name in wrong)
    assert any("strides of 5 bytes" in name for name in wrong)
    for name in wrong:
        assert right(ours[name]) or ours[name]["error"].startswith("BufferError"), (name, ours[name])


def test_nothing_that_arrives_here_is_wrong(ours):
    assert {name: case for name, case in ours.items() if "is" in case and not right(case)} == {}


def test_this_gives_more_than_the_peer(peer, ours):
    more = [name for name in ours if right(ours[name]) and not right(peer[name])]
    for name in ("read-only as asarray", "matrix as struct", "interface version 2"):
        assert name in more
