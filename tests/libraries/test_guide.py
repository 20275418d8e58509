"""The recipes of docs/guide.md print what they say, and its C works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.alone import ROOT
from support.documents import blocks, check, examples

GUIDE = ROOT / "docs" / "guide.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the recipes run: what the guide compiles is there."""
    folder = tmp_path_factory.mktemp("guide")
    [(_, source)] = blocks(GUIDE, "c")
    (folder / "ramp.c").write_text(source)
    [command] = [each for _, each in blocks(GUIDE, "sh") if "ramp.c" in each]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(command, shell=True, cwd=folder, env=os.environ | {"PATH": path}, check=True)
    return folder


@pytest.mark.parametrize("example", examples(GUIDE))
def test_a_recipe_prints_what_its_comments_say(example, folder):
    check(example, cwd=folder)
