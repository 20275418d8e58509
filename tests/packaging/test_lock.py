"""tools/wheels.txt locks the tools that build a release."""

import re
import shutil
import sys
import tomllib
from pathlib import Path

from support.alone import ROOT, run

LOCK = ROOT / "tools" / "wheels.txt"


def pinned(requirements):
    """The version of each name."""
    found = (re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", line).groups() for line in requirements)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_lock_of_wheels_has_a_hash_for_each_requirement():
    blocks = re.findall(r"^(\w.*(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+)$", LOCK.read_text(), re.MULTILINE)
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["wheels"]
    locked = pinned(blocks)
    assert len(blocks) == len(re.findall(r"^\w", LOCK.read_text(), re.MULTILINE))
    assert pinned(group).items() <= locked.items()
    assert "://" not in LOCK.read_text()


def test_make_lock_changes_nothing(tmp_path):
    """It resolves the group again: nothing is missing, nothing is left over."""
    for path in ROOT / "Makefile", ROOT / "pyproject.toml", LOCK:
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    uv = tmp_path / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.symlink_to(Path(sys.executable).with_name("uv"))
    result = run("make", "--assume-old=.venv/python", "lock", cwd=tmp_path, environ={"VIRTUAL_ENV": ""})
    assert result.returncode == 0, result.stderr
    assert (tmp_path / LOCK.relative_to(ROOT)).read_text() == LOCK.read_text()


def test_make_wheels_installs_nothing_without_a_hash():
    recipes = run("make", "--dry-run", "--always-make", "wheels", cwd=ROOT).stdout
    installs = re.findall(r".*\binstall\b.*", recipes)
    assert len(installs) == 1
    assert "--only-binary :all: --require-hashes --requirement tools/wheels.txt" in installs[0]
