"""The examples of a document: blocks of Python that print what their comments say."""

import doctest
import re
import sys

import pytest

from support.alone import run

PRINT = re.compile(r"^ *print\(.*\)(?:  # (.+)|((?:\n# .*)+))$", re.MULTILINE)


def blocks(document, language):
    """The blocks of a language, with the line that each begins at."""
    text = document.read_text()
    for block in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, block.start()) + 1, block[1]


def examples(document, language="python"):
    return [pytest.param(code, id=f"line {line}") for line, code in blocks(document, language)]


def check(example, *command, **options):
    """Runs the example alone, with a command if given. A comment after a print, or below it, is the expected output;
    "..." stands for anything."""
    said = [beside or below.replace("\n# ", "\n").lstrip() for beside, below in PRINT.findall(example)]
    assert len(said) == example.count("print(") > 0
    result = run(*(command or (sys.executable, "-c", example)), timeout=240, **options)
    assert result.returncode == 0, result.stderr
    expected = "".join(f"{line}\n" for line in said)
    assert doctest.OutputChecker().check_output(expected, result.stdout, doctest.ELLIPSIS), result.stdout
