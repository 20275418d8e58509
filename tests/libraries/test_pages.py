"""The examples of the README and of the pages of the site print what they say."""

import pytest

from support.alone import ROOT
from support.documents import check, examples

# What needs a compiler or engines: test_guide.py runs it.
ELSEWHERE = "guide.md", "processes.md"
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE)]
EXAMPLES = [
    pytest.param(*example.values, id=f"{page.name} {example.id}") for page in PAGES for example in examples(page)
]


def test_the_examples_of_the_pages_are_found():
    assert {example.id.split()[0] for example in EXAMPLES} >= {"README.md", "libraries.md", "pydlpack.md"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_a_page_prints_what_its_comments_say(example, tmp_path):
    check(example, cwd=tmp_path)
