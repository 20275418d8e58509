"""Builds without a cache that Go can write. Each also compiles Go's library, which takes half a minute."""

import os
import sys
from pathlib import Path

import pytest

from support.alone import ROOT, run
from support.builds import copy_sources
from support.process import HEEDING_PERMISSIONS

CACHES = "HOME", "XDG_CACHE_HOME", "GOCACHE", "ZIG_GLOBAL_CACHE_DIR"


def without(*variables):
    """In front of a command, which then does not have these variables, and heeds permissions."""
    return [*HEEDING_PERMISSIONS, "env", *(f"--unset={variable}" for variable in variables)]


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    copy_sources(folder)
    for name in "README.md", "LICENSE":
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture
def read_only(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    return folder


def build(tree, *command):
    """Builds in place; nothing is left behind but the libraries."""
    before = {*tree.rglob("*")}
    result = run(*command, sys.executable, "-B", tree / "build.py", timeout=600)
    assert result.returncode == 0, result.stderr
    assert {path.name for path in {*tree.rglob("*")} - before} == {"_core.so", "_dlpack.abi3.so"}


def build_wheel(tree, folder, *command):
    result = run(*command, sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, tree, timeout=600)
    assert result.returncode == 0, result.stderr
    assert [path.suffix for path in folder.iterdir()] == [".whl"]


def test_a_read_only_tree_without_home_gives_a_wheel(tree, tmp_path):
    folders = [Path(folder) for folder, _, _ in os.walk(tree)]
    for folder in folders:
        folder.chmod(0o555)
    command = without(*CACHES)
    assert run(*command, "touch", tree / "file").returncode != 0
    build_wheel(tree, tmp_path / "wheels", *command)
    for folder in folders:
        folder.chmod(0o755)  # pytest removes it


def test_a_read_only_tree_is_not_built_in_place_and_says_what_is(tree):
    package = tree / "python" / "dlpack"
    package.chmod(0o555)
    result = run(*without(), sys.executable, "-B", tree / "build.py", timeout=600)
    package.chmod(0o755)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"{package} can't be written (Permission denied): an editable install, as `python build.py`, builds there; "
        f"pip install {tree} without --editable builds elsewhere\n"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "setting", ["HOME={}", "HOME={}/none", "HOME=", "XDG_CACHE_HOME={}", "GOCACHE={}", "GOCACHE=off"]
)
def test_a_cache_that_cannot_be_written_is_not_used(tree, read_only, setting):
    build(tree, *without(*CACHES), setting.format(read_only))


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "cache"),
    [("HOME={}", ".cache/go-build"), ("XDG_CACHE_HOME={}", "go-build"), ("GOCACHE={}/mine", "mine")],
)
def test_the_cache_of_the_user_is_used_if_it_is_writable(tree, tmp_path, setting, cache):
    home = tmp_path / "home"
    home.mkdir()
    build(tree, *without(*CACHES), setting.format(home))
    assert len([*(home / cache).iterdir()]) > 256  # Go's own folders, and what they are for


@pytest.mark.long
def test_go_and_a_compiler_from_pypi_need_no_home(tree, tmp_path):
    """zig also keeps a cache."""
    (tmp_path / "bin").mkdir()
    build_wheel(tree, tmp_path / "wheels", *without(*CACHES), f"PATH={tmp_path / 'bin'}", "CC=")
