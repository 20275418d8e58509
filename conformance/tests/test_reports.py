"""The reports in docs/reports: each still shows what it says, and none is missing."""

import ast
import json
import re
import sys

import pytest

from dlpack._libraries import installed
from pytest_dlpack.rules import RULES
from support.alone import ROOT, run

REPORTS = sorted((ROOT / "docs" / "reports").glob("*.py"))


def rules_and_libraries(path):
    rules, libraries = re.search(
        r"\nRules: ([^(]+) \((.*)\)\.", ast.get_docstring(ast.parse(path.read_text()))
    ).groups()
    return {(library, rule) for library in libraries.split(", ") for rule in rules.split(", ")}


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_report_of_a_library_shows_what_it_says(path, tmp_path):
    """If this fails, the library may have fixed it: then delete the report."""
    assert "dlpack" not in re.findall(r"^ *(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
    result = run(sys.executable, path, cwd=tmp_path, timeout=240)
    assert result.returncode < 0 or "\nAssertionError" in result.stderr, f"no longer broken: {result.stdout}"


def test_reports_cover_each_must_that_is_broken():
    """Looks at installed versions alone; docs/conformance.json has the rules they broke."""
    versions = {(library.name, version) for library, version in installed()}
    found = json.loads((ROOT / "docs" / "conformance.json").read_text())
    broken = {
        (each["name"], rule)
        for each in found
        if (each["name"], each["version"]) in versions
        for rule, (outcome, _) in each["rules"].items()
        if outcome == "broken" and RULES[rule].severity == "must"
    }
    assert broken <= set().union(*map(rules_and_libraries, REPORTS))
