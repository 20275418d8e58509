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
    def row(what, value, beside, other, goal=None):
        return report.Row(what, value, beside, other, goal)

    copies = [
        row(f"asdlpack(compact_{size}, copy=True)", 100.0, f"{library}(compact_{size})", 200.0)
        for size in ("4KiB", "1MiB", "1GiB")
        for library in ("numpys", "torch.clone")
    ]
    return [
        report.Table("wrapping", "ns", [row("asdlpack(some_array)", 150.0, "memoryview(some_array)", 100.0, 1.4)]),
        report.Table(report.LEAST, "ns", [row("asdlpack(some_array)", 150.0, "floor.hold(some_array)", 50.0)]),
        report.Table(report.LOOKING_UP, "ns", [row("asdlpack(some_array)", 150.0, "floor.describe(some_array)", 75.0)]),
        report.Table(
            "after 1 ms of sleep", "ns", [row("asdlpack(some_array)", 30.0, "memoryview(some_array)", 20.0, 2)]
        ),
        report.Table("beside pydlpack 0.2.1", "ns", [row("asdlpack(some_array)", 150.0, "pydlpack's", 15000.0, 0.02)]),
        report.Table(
            "by threads, Python 3.13.15 without the GIL",
            "ns",
            [row(f"asdlpack(some_array) in {n}", 120.0 / n, f"memoryview(some_array) in {n}", 100.0) for n in (1, 2)],
        ),
        report.Table("copying compact memory", "ns", copies),
        report.Table("copying transposed memory", "ns", copies),
    ]


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


def test_the_chart_of_calls_has_a_point_for_each_package(report, tables):
    axes = report.calls(tables).axes[0]
    assert [text.get_text() for text in axes.texts] == ["asdlpack(array.array)", "memoryview(array.array)"]
    points = {line.get_color(): line.get_xdata()[0] for line in axes.lines}
    assert points == {report.charts.DLPACK: 150, report.charts.QUIET: 100, report.charts.PYDLPACK: 15000}


def test_the_chart_of_copies_has_a_line_for_each_package(report, tables):
    for axes in report.bandwidth(tables).axes:
        assert [line.get_label() for line in axes.lines] == ["dlpack", "numpy", "torch"]
        assert list(axes.lines[0].get_xdata()) == [4 << 10, 1 << 20, 1 << 30]


def test_pairs_of_unlike_memory_stay_out_of_the_chart(report):
    title, result = "handing on", "torch.from_dlpack(asdlpack(some_bytearray))"
    unlike = report.Row(result, 2.0, "torch.from_dlpack(ndarray)", 1.0, 1.1)
    alike = report.Row(result, 2.0, "torch.frombuffer(some_bytearray, dtype=torch.uint8)", 1.0, 2.0)
    assert report.pairs([report.Table(title, "ns", [unlike, alike])], report.TO_ANOTHER) == [alike]


def test_the_page_of_goals_gets_what_has_a_goal(report, tables):
    lines = list(report.page_of_goals(tables, {"machine": "two CPUs"}))
    assert lines[0] == "machine two CPUs:"
    assert (
        "| `asdlpack(array.array)` | 150 ns | `memoryview(array.array)` | 100 ns | 1.50 | 1.4 | 0.50 | 0.75 |" in lines
    )
    assert "1 calls compared with pydlpack 0.2.1: ratios of 0.010 to 0.010 (goal 0.02)." in lines
    assert "Calls of 2 threads compared with those of 1: 2.00 times as many in Python 3.13.15 without the GIL." in lines


def test_the_page_of_users_has_tables_of_four_columns(report, tables):
    lines = list(report.page_of_users(tables, {"machine": "two CPUs"}))
    assert "| `asdlpack(array.array)`<br>`memoryview(array.array)` | 150 ns | 100 ns | 1.50 |" in lines
    assert {line.count(" | ") for line in lines if line.startswith("| ")} == {3}


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
