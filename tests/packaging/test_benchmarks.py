"""That the benchmarks run, and what is made of their numbers. No time is asserted."""

import json
import sys
from importlib import import_module
from xml.etree import ElementTree

import pytest

from support.alone import ROOT, run

SVG = "{http://www.w3.org/2000/svg}"


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
        report.Table(
            "beside the least that C can do", "ns", [row("asdlpack(some_array)", 150.0, "floor.hold(some_array)", 50.0)]
        ),
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


def test_every_statement_of_a_subject_is_timed_beside_its_peer(tmp_path):
    results = tmp_path / "speed.json"
    result = benchmark("calls", "lookup", "imports", "dimensions", "--rounds", 1, "--json", results)
    assert result.returncode == 0, result.stderr
    written = json.loads(results.read_text())
    rows = [row for table in written["tables"] if "sleep" not in table["title"] for row in table["rows"]]
    assert {"asdlpack(some_bytearray)", "torch.from_dlpack(asdlpack(some_bytearray))", "import dlpack"} <= {
        row["what"] for row in rows
    }
    assert "tvm_ffi.from_dlpack(floor_exchanged)" in {row["beside"] for row in rows}
    assert all(row["value"] > 0 and row["other"] > 0 for row in rows)


def test_a_row_is_left_out_where_a_statement_raises(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    timing = import_module("timing")
    pairs = [("wrapped.__dlpack__()", "ndarray.__dlpack__()", None), ("asdlpack(0)", "ndarray.__dlpack__()", 1.0)]
    with timing.Worker() as worker:
        table = timing.beside("", worker, pairs, 2)
    assert [row.what for row in table.rows] == ["wrapped.__dlpack__()"]
    assert capsys.readouterr().err.startswith("asdlpack(0) is left out: TypeError: ")


def test_a_program_is_measured_by_its_calls_into_go():
    result = run(sys.executable, ROOT / "benchmarks" / "bench_programs.py", "windows")
    assert 1 <= int(result.stdout) < 10, result.stderr


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


def test_the_same_numbers_give_the_same_charts(report, tables, tmp_path):
    for draw in report.calls, report.bandwidth:
        once, again = tmp_path / "once.svg", tmp_path / "again.svg"
        draw(tables).write(once)
        draw(tables).write(again)
        assert once.read_bytes() == again.read_bytes()


def test_the_chart_of_calls_has_a_point_for_each_package(report, tables, tmp_path):
    report.calls(tables).write(tmp_path / "speed.svg")
    drawn = ElementTree.parse(tmp_path / "speed.svg").getroot()
    assert "asdlpack(array.array)" in [text.text for text in drawn.iter(f"{SVG}text")]
    points = {dot.get("class"): float(dot.get("cx")) for dot in drawn.iter(f"{SVG}circle") if dot.get("cy") != "20.0"}
    assert points["peer"] < points["dlpack"] < points["pydlpack"]


def test_the_chart_of_copies_has_a_line_for_each_package(report, tables, tmp_path):
    report.bandwidth(tables).write(tmp_path / "bandwidth.svg")
    drawn = ElementTree.parse(tmp_path / "bandwidth.svg").getroot()
    lines = [path.get("class") for path in drawn.iter(f"{SVG}path") if path.get("class").startswith("line")]
    assert lines == ["line dlpack", "line numpy", "line torch"] * 2


def test_the_readme_gets_what_has_a_goal(report, tables):
    lines = list(report.readme_table(tables, {"machine": "two CPUs"}))
    assert lines[0] == "machine two CPUs:"
    assert "| `asdlpack(array.array)` | 150 ns | `memoryview(array.array)` | 100 ns | 1.50 | 1.4 | 0.50 |" in lines
    assert "1 calls beside pydlpack 0.2.1: ratios of 0.010 to 0.010 (goal 0.02)." in lines
    assert "Calls of 2 threads beside those of 1: 2.00 times as many in Python 3.13.15 without the GIL." in lines
