"""The libraries that are installed here break the musts that docs/conformance.json has for their versions, and no
others: each is a strict xfail. If this fails, make conformance WRITE=1 says what changed."""

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

from pytest_dlpack.judge import Judge
from pytest_dlpack.rules import RULES

CONFORMANCE = Path(__file__).parents[1]
LIBRARIES = "numpy torch jax tvm_ffi pyarrow paddle mlx".split()


def known(library):
    """The musts that the library breaks, each with what was seen."""
    title = library, version(packages_distributions()[library][0])
    results = json.loads((CONFORMANCE.parent / "docs" / "conformance.json").read_text())
    [rules] = [each["rules"] for each in results if (each["name"], each["version"]) == title]
    broken = {rule: text for rule, (outcome, text) in rules.items() if outcome == "broken"}
    return [f"{rule}: {text}" for rule, text in broken.items() if RULES[rule].severity == "must"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_musts_that_a_library_breaks_are_those_that_are_known(library):
    options = [f"--dlpack-producer=libraries:{library}_make", f"--dlpack-consumer=libraries:{library}_take"]
    options += ["-o", "dlpack_xfail=" + "\n".join(known(library))]
    command = [sys.executable, "-m", "pytest", "--pyargs", "pytest_dlpack", "-q", "-p", "no:cacheprovider", *options]
    result = subprocess.run(command, cwd=CONFORMANCE, env=os.environ | {"PYTHONPATH": "."}, capture_output=True)
    assert result.returncode == 0, result.stdout.decode()


def test_a_read_only_tensor_of_torch_gives_a_bare_call_a_versioned_capsule(tmp_path, monkeypatch):
    (tmp_path / "library.py").write_text(
        "import torch\nfrom torch.utils.dlpack import ReadOnlyTensorWrapper\n"
        "def make(array): return ReadOnlyTensorWrapper(torch.from_numpy(array))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Judge({"producer": "library:make"}) as judge:
        found = judge.verdict(RULES["producer-legacy-name"])
    assert found == ("broken", "the capsule's name is b'dltensor_versioned', expected b'dltensor'")
