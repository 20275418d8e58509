"""The recipes of docs/guide.md and docs/processes.md print what they say, and the guide's C works."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import safetensors.torch
import torch

from support.alone import ROOT
from support.documents import blocks, check, examples
from support.engines import SETTINGS, mpiexec

GUIDE = ROOT / "docs" / "guide.md"
PROCESSES = ROOT / "docs" / "processes.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns the recipes' working folder, with a file of tensors and the guide's C code, compiled."""
    folder = tmp_path_factory.mktemp("guide")
    weights = torch.ones(2, 3, dtype=torch.bfloat16)
    safetensors.torch.save_file({"weights": weights, "bias": torch.ones(3)}, folder / "model.safetensors")
    sources, commands = ([code for _, code in blocks(GUIDE, language)] for language in ("c", "sh"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for source, command in zip(sources, commands, strict=True):
        name = re.search(r"\w+\.c\b", command)[0]
        (folder / name).write_text(source)
        subprocess.run(command, shell=True, cwd=folder, env=os.environ | {"PATH": path}, check=True)
    return folder


@pytest.mark.parametrize("example", examples(GUIDE))
def test_a_recipe_prints_what_its_comments_say(example, folder):
    check(example, cwd=folder)


@pytest.fixture
def engines(monkeypatch):
    """Has engines leave their files in a folder; its path is short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in "DASK_TEMPORARY_DIRECTORY", "RAY_TMPDIR", "TMPDIR":
            monkeypatch.setenv(name, folder)
        for name, value in SETTINGS.items():
            monkeypatch.setenv(name, value)
        yield folder


@pytest.mark.parametrize(
    ("before", "example"),
    [pytest.param([], *each.values, id=each.id) for each in examples(PROCESSES)]
    + [pytest.param([mpiexec(), "-n", "2"], *each.values, id=each.id) for each in examples(PROCESSES, "python mpi")],
)
def test_a_recipe_for_an_engine_prints_what_its_comments_say(before, example, engines):
    recipe = Path(engines, "recipe.py")
    recipe.write_text(example)
    check(example, *before, sys.executable, recipe, cwd=engines)
