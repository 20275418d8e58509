"""The recipes of docs/guide.md print what they say, and its C works."""

import os
import shlex
import subprocess
from importlib.util import find_spec
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
    include = Path(find_spec("tvm_ffi").origin).parent / "include"  # the standard's header
    compiler = [*shlex.split(os.environ.get("CC", "cc")), "-Wall", "-Wextra", "-Werror", f"-I{include}"]
    subprocess.run([*compiler, "-shared", "-fPIC", "ramp.c", "-o", "ramp.so"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("example", examples(GUIDE))
def test_a_recipe_prints_what_its_comments_say(example, folder):
    check(example, cwd=folder)
