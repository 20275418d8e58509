"""Tests the page of help(): every function has an example that prints what it says, and functions come first."""

import doctest
import pydoc

import pytest

import dlpack

PARTS = [name for name in dlpack.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", PARTS)
def test_the_example_of_a_docstring_prints_what_it_says(name):
    text = getattr(dlpack, name).__doc__
    names = {part: getattr(dlpack, part) for part in PARTS}
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert example.examples
    wrong: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=wrong.append)
    assert not wrong, "".join(wrong)


def test_help_begins_with_the_functions():
    text = pydoc.plain(pydoc.render_doc(dlpack))
    first = text.index("CLASSES")
    assert "DLDeviceType(" not in text
    assert text.index("These give a DLPackObject") < first
    for name in set(PARTS) - {"DLDeviceType", "DLPackObject"}:
        assert text.index(f" {name}(") < first, name
