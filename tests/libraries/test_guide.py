"""The recipes of docs/guide.md print what they say, and its C works."""

import os
import re
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
