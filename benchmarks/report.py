"""Writes what run.py measured: the charts docs/speed.svg and docs/bandwidth.svg; what users want to know into
docs/performance.md, and six of its rows into the README; goals and lower bounds into docs/benchmarks.md.

python benchmarks/report.py docs/speed.json
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from timing import UNITS, Row, Table, amount

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs"))

import charts  # noqa: E402
from section import write_section  # noqa: E402

CALLS = ["wrapping", "exporting", "handing on", "as another library's array"]
LEAST = "beside the least that C can do"
LOOKING_UP = "beside the least with a look-up"
TO_ANOTHER = [  # for users: what, and how the same memory gives the same result without this package
    ("to(tensor, 'numpy')", "tensor.numpy"),
    ("to(ndarray, 'torch')", "torch.from_numpy"),
    ("to(some_bytearray, 'torch')", "torch.frombuffer"),
    ("to(bfloat16_tensor, 'numpy')", "numpy_by_views"),
    ("to(bfloat16_ndarray, 'torch')", "torch_by_views"),
    ("to(tensor, 'paddle')", "paddle.from_dlpack(tensor)"),
    ("numpy.from_dlpack(asdlpack(tensor))", "numpy.from_dlpack(tensor)"),
    ("numpy.from_dlpack(asdlpack(ndarray))", "numpy.from_dlpack(ndarray)"),
    ("numpy.from_dlpack(asdlpack(some_bytearray))", "numpy.frombuffer"),
    ("torch.from_dlpack(asdlpack(tensor))", "torch.from_dlpack(tensor)"),
    ("torch.from_dlpack(asdlpack(some_bytearray))", "torch.frombuffer"),
]
VIEWS = [
    ("asdlpack(ndarray)", "memoryview"),
    ("asdlpack(some_bytearray)", "memoryview"),
    ("asdlpack(some_array)", "memoryview"),
    ("asdlpack(interface)", "numpy.asarray"),
    ("dlpack.frombuffer(some_bytearray, 'float32')", "numpy.frombuffer"),
    ("wrapped_ndarray.__dlpack__(max_version=(1, 1))", "ndarray.__dlpack__"),
]
OF_THE_README = [
    ("numpy.from_dlpack(asdlpack(tensor))", "numpy.from_dlpack(tensor)"),
    ("asdlpack(ndarray)", "memoryview"),
    ("asdlpack(interface)", "numpy.asarray"),
    ("asdlpack(transposed_64MiB, copy=True)", "transposed_64MiB.copy"),
    ("asdlpack(transposed_64MiB, copy=True)", "torch.from_numpy"),
    ("asdlpack(swapped_64MiB, copy=True)", "swapped_64MiB.astype"),
]
SIZES = ["copying compact memory", "copying transposed memory"]
NAMES = {
    r"some_array": "array.array",
    r"some_view": "memoryview",
    r"some_": "",
    r"(?:wrapped_ndarray|wrapped|exchanged)": "x",
    r"numpy_by_views\((\w+)\)": r"\1.view(int16).numpy().view(bfloat16)",
    r"torch_by_views\((\w+)\)": r"from_numpy(\1.view('i2')).view(bfloat16)",
}


def plain(statement: str) -> str:
    for name, replacement in NAMES.items():
        statement = re.sub(rf"\b{name}", replacement, statement)
    return re.sub(r"_(64MiB|1KiB)", "", statement)


def pairs(tables: list[Table], wanted: list[tuple[str, str]]) -> list[Row]:
    rows = [row for table in tables if table.title in (*CALLS, "copying") for row in table.rows]
    return [row for what, beside in wanted for row in rows if row.what == what and row.beside.startswith(beside)]


def calls(tables: list[Table]) -> Figure:
    """A line for each pair that gives the same result: dlpack, the other call, and pydlpack if it accepts the same."""
    rows = pairs(tables, TO_ANOTHER + VIEWS)
    pydlpack = {row.what: row.other for table in tables if "pydlpack" in table.title for row in table.rows}
    figure = Figure(figsize=(charts.WIDTH, 0.6 + 0.56 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    for y, row in enumerate(rows):
        found = [(row.value, charts.DLPACK), (row.other, charts.QUIET), (pydlpack.get(row.what), charts.PYDLPACK)]
        dots = [(value, colour) for value, colour in found if value]
        axes.hlines(y, min(dots)[0], max(dots)[0], charts.LINES, zorder=1)
        for value, colour in dots:
            axes.plot(value, y, "o", color=colour)
        for height, text, colour in ((0.56, row.what, charts.TEXT), (0.28, row.beside, charts.QUIET)):
            axes.text(0, y - height, plain(text), color=colour, transform=axes.get_yaxis_transform(), in_layout=False)
    names = {"dlpack": charts.DLPACK, "without it": charts.QUIET, "pydlpack": charts.PYDLPACK}
    dots_of = [Line2D([], [], color=colour, marker="o", linestyle="", label=name) for name, colour in names.items()]
    figure.legend(handles=dots_of, loc="outside upper left", ncols=len(names))
    axes.set_ylim(len(rows) - 0.6, -0.9)
    axes.yaxis.set_major_locator(NullLocator())
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value, "ns")))
    axes.grid(axis="x")
    return figure


def bandwidth(tables: list[Table]) -> Figure:
    """GB/s by size, of compact and of transposed memory."""
    panels = {table.title: speeds(table) for table in tables if table.title in SIZES}
    figure = Figure(figsize=(charts.WIDTH, 2.8), layout="constrained")
    colours = {"dlpack": charts.DLPACK, "numpy": charts.NUMPY, "torch": charts.TORCH}
    for axes, (title, lines) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        for name, line in lines.items():
            axes.loglog(*zip(*line, strict=True), color=colours[name], label=name)
        sizes = ["4KiB", "256KiB", "16MiB", "1GiB"]
        axes.set_xticks([nbytes(size) for size in sizes], sizes)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_title(f"{title}, GB/s", loc="left")
        axes.grid(axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=len(colours))
    return figure


def speeds(table: Table) -> dict[str, list[tuple[int, float]]]:
    """Maps dlpack, numpy and torch to their pairs of bytes and GB/s."""
    lines: dict[str, list[tuple[int, float]]] = {"dlpack": [], "numpy": [], "torch": []}
    for row in table.rows:
        size = nbytes(row.what)
        peer = "torch" if "torch" in row.beside else "numpy"
        lines[peer].append((size, size / row.other))
        if peer == "numpy":
            lines["dlpack"].append((size, size / row.value))
    return lines


def nbytes(text: str) -> int:
    """Returns the number of bytes for a size in the text, such as 4KiB."""
    found = re.search(r"(\d+)([KMG]iB)", text)
    assert found is not None
    return int(found[1]) * UNITS[found[2]]


def about_line(about: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items()) + ":"


def page_of_users(tables: list[Table], about: dict[str, str]) -> Iterator[str]:
    """Tables of four columns, which a telephone shows."""
    yield about_line(about)
    yield from table_of_users("From one library to another", pairs(tables, TO_ANOTHER))
    yield from table_of_users("Views", pairs(tables, VIEWS))
    imports = [row for table in tables if table.title == "importing" for row in table.rows if "pydlpack" in row.beside]
    yield from table_of_users("Import", imports)
    large = [row for table in tables if table.title == "copying" for row in table.rows if row.goal]
    yield from table_of_users("Copies of 64 MiB", large)
    small = [
        row for table in tables if table.title == "copying each layout" for row in table.rows if "1KiB" in row.what
    ]
    yield from table_of_users("Copies of 1 KiB", small)


def table_of_users(heading: str, rows: list[Row]) -> Iterator[str]:
    if rows:
        yield ""
        yield f"| {heading}, compared with | ours | theirs | ratio |"
        yield "|---|---:|---:|---:|"
    for row in rows:
        ours, peer = amount(row.value, "ns"), amount(row.other, "ns")
        yield f"| {code(row.what)}<br>{code(row.beside)} | {ours} | {peer} | {row.ratio:.2f} |"


def code(statement: str) -> str:
    return f"`{plain(statement)}`" if re.search(r"\W", statement) else statement


def page_of_goals(tables: list[Table], about: dict[str, str]) -> Iterator[str]:
    yield about_line(about)
    yield ""
    yield "| call | | compared with | | ratio | goal | lower bound | with a look-up |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|"
    floors = [
        {row.what: row.other for table in tables if table.title == title for row in table.rows}
        for title in (LEAST, LOOKING_UP)
    ]
    for row in with_goals(tables):
        yield markdown(row, *(floor.get(row.what) for floor in floors))
    yield ""
    for table in tables:
        if table.title == "after 1 ms of sleep" or "pydlpack" in table.title:
            ratios = [row.ratio for row in table.rows]
            title = table.title.replace("beside", "compared with")
            goal = table.rows[0].goal
            yield f"{len(ratios)} calls {title}: ratios of {min(ratios):.3f} to {max(ratios):.3f} (goal {goal})."
    if by_threads := [table for table in tables if table.title.startswith("by threads")]:
        yield f"Calls of 2 threads compared with those of 1: {', '.join(map(more_calls, by_threads))}."
    yield from table_of([table for table in tables if table.title.startswith("the core")], "the core's start")
    yield from table_of([table for table in tables if table.title == "memory of an object"], "bytes of memory")
    for table in tables:
        if table.title.startswith("copying each layout"):
            yield from table_of_layouts(table)


def table_of(tables: list[Table], heading: str) -> Iterator[str]:
    yield ""
    yield f"| {heading} | | compared with | | ratio | goal |"
    yield "|---|---:|---|---:|---:|---:|"
    for table in tables:
        for row in table.rows:
            ours, peer = amount(row.value, table.unit), amount(row.other, table.unit)
            what, beside = (f"`{plain(it)}`" if "(" in it or "[" in it else it for it in (row.what, row.beside))
            yield f"| {what} | {ours} | {beside} | {peer} | {row.ratio:.2f} | {row.goal or ''} |"


def with_goals(tables: list[Table]) -> list[Row]:
    shown = [table for table in tables if table.title in (*CALLS, "importing", "copying")]
    return [row for table in shown for row in table.rows if row.goal]


def table_of_the_readme(tables: list[Table]) -> Iterator[str]:
    yield "| call | time | compared with | time |"
    yield "|---|---:|---|---:|"
    for row in pairs(tables, OF_THE_README):
        yield f"| `{plain(row.what)}` | {amount(row.value, 'ns')} | `{plain(row.beside)}` | {amount(row.other, 'ns')} |"


def table_of_layouts(table: Table) -> Iterator[str]:
    """The ratios, and of large copies in brackets the lower bound: floor.c's, for swapped bytes a plain copy's."""
    rows: dict[str, dict[str, Row]] = {}
    least: dict[tuple[str, str], float] = {}
    for row in table.rows:
        layout, size = re.findall(r"\((\w+)_(\w+)", row.what)[0]
        if row.what.startswith("floor"):
            least[layout, size] = row.value
        else:
            rows.setdefault(layout, {})[size] = row
    sizes = [f"{size} B" if size.isdigit() else size for size in rows["compact"]]
    yield ""
    yield f"| copy=True, {table.title.removeprefix('copying ')} | {' | '.join(sizes)} |"
    yield f"|---|{'---:|' * len(sizes)}"
    for layout, of_size in rows.items():
        cells = []
        for size, row in of_size.items():
            floor = least.get(("compact" if layout == "swapped" else layout, size))
            cells.append(f"{row.ratio:.2f}" if floor is None else f"{row.ratio:.2f} ({floor / row.other:.2f})")
        yield f"| {layout.replace('_', ' ')} | {' | '.join(cells)} |"


def more_calls(table: Table) -> str:
    """How many times as many 2 threads make as 1 makes meanwhile."""
    one, two = table.rows[:2]
    return f"{one.value / two.value:.2f} times as many in {table.title.removeprefix('by threads, ')}"


def markdown(row: Row, *floors: float | None) -> str:
    """One line; a floor is the time of floor.c for the same."""
    ours, peer = amount(row.value, "ns"), amount(row.other, "ns")
    least = " | ".join("" if floor is None else f"{floor / row.other:.2f}" for floor in floors)
    return f"| `{plain(row.what)}` | {ours} | `{plain(row.beside)}` | {peer} | {row.ratio:.2f} | {row.goal} | {least} |"


def read(file: Path) -> tuple[list[Table], dict[str, str]]:
    results: dict[str, Any] = json.loads(file.read_text())
    tables = [
        Table(table["title"], table["unit"], [Row(**row) for row in table["rows"]]) for table in results["tables"]
    ]
    return tables, results["about"]


def main(file: str) -> None:
    tables, about = read(Path(file))
    with charts.settings():
        charts.write(calls(tables), ROOT / "docs" / "speed.svg", "Time of a call")
        charts.write(bandwidth(tables), ROOT / "docs" / "bandwidth.svg", "Speed of copies by size, in GB/s")
    write_section(ROOT / "docs" / "performance.md", "bench", page_of_users(tables, about))
    write_section(ROOT / "docs" / "benchmarks.md", "bench", page_of_goals(tables, about))
    write_section(ROOT / "README.md", "bench", table_of_the_readme(tables))


if __name__ == "__main__":
    main(sys.argv[1])
