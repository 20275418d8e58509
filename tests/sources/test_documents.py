"""The documents are true: the demo works, and the commands and linked files exist."""

import re
import sys

import pytest

import dlpack
from dlpack._dlpack import _newest_version
from dlpack._foreign import PROTOCOLS
from pytest_dlpack.rules.rule import HEADER
from support.alone import ROOT, run

DEMO = ROOT / "examples" / "demo.py"


def test_the_demo_shows_that_every_source_is_shared(tmp_path):
    result = run(sys.executable, DEMO, environ={"TMPDIR": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    assert len(re.findall(r" yes ", result.stdout)) == 6
    assert not list(tmp_path.iterdir())  # what it wrote is gone


def test_the_demo_fails_if_memory_is_copied():
    copying = f"""
import dlpack, functools, runpy
dlpack.asdlpack = functools.partial(dlpack.asdlpack, copy=True)
runpy.run_path({str(DEMO)!r}, run_name="__main__")
"""
    result = run(sys.executable, "-c", copying)
    assert result.returncode == 1
    assert "6 of the sources did not share their memory" in result.stderr


@pytest.mark.parametrize(
    "document",
    [str(path.relative_to(ROOT)) for folder in (ROOT, ROOT / "docs") for path in sorted(folder.glob("*.md"))],
)
def test_targets_and_paths_that_a_document_names_exist(document):
    text = (ROOT / document).read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    layout = re.findall(r"^    (\w+(?:/\S*|\.\w+))  ", text, re.MULTILINE)
    for path in links + layout:
        assert list((ROOT / document).parent.glob(path)), path


def test_the_words_name_protocols_in_the_order_in_which_c_tries_them():
    """Errors, help() and what is remembered of a type go by PROTOCOLS."""
    table = re.findall(
        r'^ +{(?:\.name = )?"(\w+)", ', (ROOT / "pyext" / "read" / "protocols.c").read_text(), re.MULTILINE
    )
    assert ("__dlpack__", *dict.fromkeys(table)) == PROTOCOLS


def test_the_version_of_dlpack_stands_in_its_header_alone():
    """The rules of pytest-dlpack and the pages on them quote it. Each report has the version that it was written of."""
    folders = "*", "docs/*", "pkg/**/*", "pyext/**/*", "python/**/*", "tests/**/*"
    found = {
        str(path.relative_to(ROOT)): set(re.findall(r"\b(?:DLPack|dlpack\.h)\s+v?(\d+\.\d+)\b", path.read_text()))
        for folder in folders
        for path in ROOT.glob(folder)
        if path.suffix in (".c", ".go", ".h", ".md", ".py", ".pyi", ".toml")
    }
    version = "{}.{}".format(*_newest_version)
    pages = {"docs/conformance.md", "docs/conformance_rules.md"}
    assert {path: versions for path, versions in found.items() if versions} == dict.fromkeys(pages, {version})
    assert HEADER == f"dlpack.h {version}"


def test_the_notes_of_a_release_are_what_the_changelog_says_of_it(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from notes import notes

    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", text, re.MULTILINE)[1] == dlpack.__version__
    assert "### Added" in notes(text, dlpack.__version__)
    text = "# Changelog\n\n## 2.0 (unreleased)\n\n- New.\n\n## 1.0 (2026-01-31)\n\n### Fixed\n\n- Two\n  lines.\n"
    assert notes(text, "1.0", "v1.0") == "### Fixed\n\n- Two lines."
    assert notes(text, "2.0") == "- New."
    for version, tag, message in [
        ("2.0", "v2.0", r"## 2\.0 \(unreleased\); expected the day of the release"),
        ("1.0", "v2.0", r"tag 'v2\.0': pyproject\.toml has version 1\.0; expected v1\.0"),
        ("1.1", "v1.1", r"no section of 1\.1"),
    ]:
        with pytest.raises(SystemExit, match=message):
            notes(text, version, tag)


@pytest.mark.parametrize("code", ["$(touch {})", "`touch {}`", "'; touch {}; '", '"; touch {}; "', "$(shell touch {})"])
def test_notes_of_a_tag_with_shell_code_run_nothing(tmp_path, code):
    """The release workflow runs `make notes` for whatever tag is pushed."""
    tag = f"v{dlpack.__version__}{code.format(tmp_path / 'made')}"
    if "shell" in code:  # of make, which would expand an argument
        result = run("make", "--silent", "notes", f"TAG={tag}", cwd=ROOT)
    else:
        result = run("make", "--silent", "notes", cwd=ROOT, environ={"TAG": tag})
    assert result.returncode != 0
    assert f"tag {tag!r}: " in result.stderr
    assert not list(tmp_path.iterdir())


def test_no_recipe_holds_a_value_from_outside(tmp_path):
    """Such a value would be code of the shell, or of make."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    code = f"$(shell touch {tmp_path / 'by-make'})$(touch {tmp_path / 'by-a-shell'})"
    values = [f"{name}={code}" for name in ("REF", "ONLY", "TAG", "LINKS", "WRITE")]
    show = "make", "--dry-run", "--always-make", "--warn-undefined-variables"
    result = run(*show, *targets, *values, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert "benchmarks/compare.py" in result.stdout
    assert str(tmp_path) not in result.stdout
    assert not list(tmp_path.iterdir())
    assert "undefined variable" not in run(*show, *targets, cwd=ROOT).stderr  # another that comes from outside
