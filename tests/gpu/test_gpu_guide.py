"""The guide's recipes for a GPU print what their comments say."""

import pytest

from support.alone import ROOT
from support.documents import check, examples


@pytest.mark.parametrize("example", examples(ROOT / "docs" / "guide.md", "python cuda"))
def test_a_recipe_prints_what_its_comments_say(example):
    check(example)
