"""That the benchmarks run, and what is made of their numbers. No time is asserted."""

import json
import sys
from importlib import import_module

import pytest

from support.alone import ROOT, run


def benchmark(*arguments, timeout=200):
    return run(sys.executable, ROOT / "benchmarks" / "run.py", *arguments, timeout=timeout)


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("report")


@pytest.fixture
def tables(report):
    return report.read(ROOT / "docs" / "speed.json")[0]


def test_every_statement_of_a_subject_is_timed_with_its_peer(tmp_path):
    results = tmp_path / "speed.json"
    result = benchmark("calls", "lookup", "imports", "dimensions", "--rounds", 1, "--json", results)
    assert result.returncode == 0, result.stderr
    written = json.loads(results.read_text())
    rows = [row for table in written["tables"] if "sleep" not in table["title"] for row in table["rows"]]
    assert {"asdlpack(some_bytearray)", "torch.from_dlpack(asdlpack(some_bytearray))", "import dlpack"} <= {
        row["what"] for row in rows
    }
    assert "tvm_ffi.from_dlpack(floor_held)" in {row["beside"] for row in rows}
    assert all(row["value"] > 0 and row["other"] > 0 for row in rows)
    assert benchmark("imports", "--rounds", 1, "--json", results).returncode == 0
    again = json.loads(results.read_text())
    assert [table["title"] for table in again["tables"]] == [table["title"] for table in written["tables"]]
    assert again["tables"][0] == written["tables"][0]


def test_a_row_is_left_out_if_a_statement_raises(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    timing = import_module("timing")
    pairs = [("wrapped.__dlpack__()", "ndarray.__dlpack__()", None), ("asdlpack(0)", "ndarray.__dlpack__()", 1.0)]
    with timing.Worker() as worker:
        table = timing.beside("", worker, pairs, 2)
    assert [row.what for row in table.rows] == ["wrapped.__dlpack__()"]
    assert capsys.readouterr().err.startswith("asdlpack(0) is left out: TypeError: ")


def test_the_first_use_of_an_ordinary_program_starts_no_thread(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    first, threads, addresses = import_module("bench_start").ordinary(1, None)
    assert {row.beside for row in first.rows} == {"the goal", "numpy"}
    assert all(row.value > 0 and row.other > 0 for row in first.rows)
    assert [row.value for row in threads.rows] == [1]
    assert [row.value < 1 for row in addresses.rows] == [True]


@pytest.mark.long
def test_the_engines_are_timed_with_what_each_takes():
    """They print on stderr what they like."""
    result = run(sys.executable, ROOT / "benchmarks" / "bench_engines.py", "1KiB", "--rounds", 1, timeout=250)
    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if "1KiB" in line]
    assert {row[0].split(",")[0] for row in rows} >= {"Ray", "dask.distributed", "joblib", "mpi4py.util.pkl5"}
    assert all(len(row) == 6 and row[2] != "-" for row in rows), result.stderr
    assert [row[2].endswith("shared") for row in rows] == [row[0][:3] in ("Ray", "the") for row in rows]


def test_an_unknown_subject_is_refused():
    result = benchmark("everything")
    assert result.returncode == 2
    assert "everything: expected some of calls, " in result.stderr


@pytest.mark.parametrize("name", ["calls", "bandwidth"])
def test_the_same_numbers_give_the_same_chart(report, tables, tmp_path, name):
    once, again = tmp_path / "once.svg", tmp_path / "again.svg"
    for path in once, again:
        with report.charts.settings():
            report.charts.write(getattr(report, name)(tables), path, "")
    assert once.read_bytes() == again.read_bytes()
    assert "(prefers-color-scheme: dark)" in once.read_text()


def test_the_chart_of_copies_has_a_line_for_each_package(report, tables):
    for axes in report.bandwidth(tables).axes:
        assert [line.get_label() for line in axes.lines] == ["dlpack", "numpy", "torch"]
        assert {4 << 10, 1 << 30} <= {*axes.lines[0].get_xdata()}


def test_pairs_of_unlike_memory_stay_out_of_the_chart(report):
    title, result = "handing on", "torch.from_dlpack(asdlpack(some_bytearray))"
    unlike = report.Row(result, 2.0, "torch.from_dlpack(ndarray)", 1.0, 1.1)
    alike = report.Row(result, 2.0, "torch.frombuffer(some_bytearray, dtype=torch.uint8)", 1.0, 2.0)
    assert report.pairs([report.Table(title, "ns", [unlike, alike])], report.TO_ANOTHER) == [alike]


@pytest.mark.parametrize(
    ("document", "written"),
    [
        ("README.md", "table_of_the_readme"),
        ("docs/performance.md", "page_of_users"),
        ("docs/benchmarks.md", "page_of_goals"),
    ],
)
def test_a_document_has_the_numbers_of_the_last_measurement(report, document, written):
    tables, about = report.read(ROOT / "docs" / "speed.json")
    lines = getattr(report, written)(*([tables] if document == "README.md" else [tables, about]))
    assert "\n".join(lines) in (ROOT / document).read_text()


def test_the_readme_gets_six_rows(report):
    tables, _ = report.read(ROOT / "docs" / "speed.json")
    assert len(list(report.table_of_the_readme(tables))[2:]) == len(report.OF_THE_README) == 6
