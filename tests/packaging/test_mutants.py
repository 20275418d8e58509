"""`make mutants`, with three mutants: it finds which of them a test kills."""

import json
import sys

from support.alone import ROOT, run

TOOL = ROOT / "tools" / "mutants.py"
MUTANTS = [
    ("c", "pyext/read/capsule.c", "comparison", "strcmp(name, capsule_legacy) != 0"),
    ("c", "pyext/read/capsule.c", "arguments", "strcmp(name, capsule_versioned)"),  # equivalent
    ("python", "python/dlpack/_errors.py", "comparison", 'text in (f"used_{legacy}", f"used_{versioned}")'),
]


def test_mutants_are_killed_but_for_the_equivalent_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(TOOL.parent)
    from mutants import mutants_of

    earlier, results = tmp_path / "earlier.json", tmp_path / "results.json"
    with earlier.open("w") as file:
        for language, path, *known in MUTANTS:
            (mutant,) = (it for it in mutants_of(language, path) if [it.kind, it.code] == known)
            print(json.dumps({"id": mutant.id, "killed_by": "a test"}), file=file)
    options = "--again", earlier, "--results", results, "--tests", "tests/inputs/test_capsules.py"
    result = run(sys.executable, TOOL, *options, timeout=280)
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in results.read_text().splitlines()]
    lived = [result["code"] for result in found if not result["killed_by"]]
    assert (len(found), lived) == (3, ["strcmp(name, capsule_versioned)"]), result.stdout
