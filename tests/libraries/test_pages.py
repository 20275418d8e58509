"""The examples of the README and of the pages of the site print what they say."""

import codeop
import re

import jax
import ml_dtypes
import numpy
import pytest
import torch

import dlpack
from support.alone import ROOT
from support.documents import check, examples

# These need a compiler or engines: test_guide.py runs them.
ELSEWHERE = "guide.md", "processes.md"
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE)]
EXAMPLES = [
    pytest.param(*example.values, id=f"{page.name} {example.id}") for page in PAGES for example in examples(page)
]
# A row of the README's table: code that makes an object; a call and its error; a call and its result.
ROW = re.compile(r"^\| `(.+?)`.*? \| `(.+?)` → `(\w+): (.+?)` \| `(.+?)` → `(.+?)`(.*) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "README.md").read_text())


def test_the_examples_of_the_pages_are_found():
    found = {example.id.split()[0] for example in EXAMPLES}
    assert found >= {"README.md", "faq.md", "index.md", "libraries.md", "pydlpack.md"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_a_page_prints_what_its_comments_say(example, tmp_path):
    check(example, cwd=tmp_path)


@pytest.mark.parametrize(
    "example", [*EXAMPLES, *(each for page in ELSEWHERE for each in examples(ROOT / "docs" / page))]
)
def test_an_example_pastes_into_the_repl(example):
    statement = ""
    for line in example.splitlines():
        statement += f"{line}\n"
        if codeop.compile_command(statement.removesuffix("\n")):  # raises if a blank line is missing
            statement = ""


def test_the_guide_begins_with_a_link_to_each_recipe():
    before, recipes = (ROOT / "docs" / "guide.md").read_text().split("## Start here")
    links = re.findall(r"\]\(#(\S+)\)", before)
    headings = re.findall(r"^### (.+)", recipes, re.MULTILINE)
    assert sorted(links) == sorted(re.sub(r"[^\w -]", "", it.lower()).replace(" ", "-") for it in headings)


def test_the_rows_of_the_readme_are_found():
    assert len(ROWS) == 5


@pytest.mark.parametrize(("made", "without", "error", "text", "call", "result", "remark"), ROWS)
def test_a_row_of_the_readme_shows_the_error_and_the_result(made, without, error, text, call, result, remark):
    known = {"dlpack": dlpack, "jax": jax, "ml_dtypes": ml_dtypes, "numpy": numpy, "torch": torch}
    exec(made, known)
    with pytest.raises(Exception, match=re.escape(text)) as raised:
        eval(without, known)
    assert raised.type.__name__ == error
    assert repr(eval(call, known)) == result
    if remark == ", shared":
        eval(call.replace(")", ", copy=False)"), known)
