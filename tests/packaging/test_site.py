"""Parts of the site: links that are checked, figures with readable names, and drawings that are up to date."""

import json
import sys
from importlib import import_module

import pytest

from support.alone import ROOT, run


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("nowhere.html", "no such file"),
        ("other.html#nowhere", "no such anchor"),
        ("#nowhere", "no such anchor"),
        ("page.html", "leads to its own page"),
        ("http://github.com", "not https"),
        ("https://gihtub.com/dmlc/dlpack", "a host that links.py does not know"),
    ],
)
def test_a_broken_link_of_the_site_is_found(tmp_path, link, why):
    check = sys.executable, ROOT / "docs" / "links.py", tmp_path
    (tmp_path / "other.html").write_text('<p id="here">')
    page = tmp_path / "page.html"
    good = '<a href="other.html#here"></a> <a href="https://github.com/dmlc/dlpack"></a>'
    page.write_text(good)
    assert run(*check).returncode == 0
    page.write_text(f'{good} <a href="{link}"></a>')
    found = run(*check)
    assert found.returncode == 1
    assert found.stderr.startswith(f"page.html: {link}: ")
    assert why in found.stderr


def test_a_page_that_sphinx_wrote_over_is_found(tmp_path):
    check = sys.executable, ROOT / "docs" / "links.py", tmp_path
    page = tmp_path / "exchanges.html"
    page.write_bytes((ROOT / "docs" / "exchanges.html").read_bytes())
    assert run(*check).returncode == 0
    page.write_text("<p>")
    found = run(*check)
    assert found.returncode == 1
    assert found.stderr == "exchanges.html: Sphinx wrote another page of this name over it\n"


def test_the_matrix_leads_to_the_page_with_its_colours():
    assert '<a href="exchanges.html">' in (ROOT / "docs" / "matrix.md").read_text()


def test_the_figures_of_a_proof_have_its_name_as_people_write_it(module):
    test = "test_signals.py::test_ctrl_c_in_a_copy_by_go_on_a_gpu"
    lines = list(module("figures").table({f"{test}[one]": {"interrupts": 1000}, f"{test}[two]": {"interrupts": 500}}))
    assert lines[2:] == ["| Ctrl-C in a copy by Go on a GPU (`test_signals.py`) | interrupts: 1,500 |"]


def test_each_figure_is_of_a_test_that_exists():
    tests = {file.name: file.read_text() for file in ROOT.glob("tests/**/test_*.py")}
    figures = json.loads((ROOT / "docs" / "proofs.json").read_text())
    for file, _, test in (it.partition("[")[0].partition("::") for it in figures):
        assert f"def {test}(" in tests[file]


def test_the_drawing_of_the_rooms_is_up_to_date(module, tmp_path):
    rooms, charts = module("rooms"), module("charts")
    assert set(rooms.ROOMS) == {folder.name for folder in (ROOT / "pyext").iterdir()}
    with charts.settings():
        charts.write(rooms.drawing(), tmp_path / "rooms.svg", rooms.TITLE)
    assert (tmp_path / "rooms.svg").read_bytes() == (ROOT / "docs" / "rooms.svg").read_bytes()
