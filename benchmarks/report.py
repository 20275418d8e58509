"""Writes what run.py measured as charts, docs/speed.svg and docs/bandwidth.svg, and as the README's table.

python benchmarks/report.py docs/speed.json
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from timing import UNITS, Row, Table, amount

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs"))

from section import write_section  # noqa: E402

CALLS = ["wrapping", "exporting", "handing on"]
LEAST = "beside the least that C can do"
SIZES = ["copying compact memory", "copying transposed memory"]
NAMES = {"some_array": "array.array", "some_view": "memoryview", "some_": "", "wrapped": "x", "exchanged": "x"}

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.quiet { fill: #59636e } .end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #d1d9e0 } .pair { stroke: #9198a1; stroke-width: 2 }
.line { fill: none; stroke-width: 2 }
.dlpack { fill: #0550ae } .line.dlpack { fill: none; stroke: #0550ae }
.numpy { fill: #bf5700 } .line.numpy { fill: none; stroke: #bf5700 }
.torch { fill: #8250df } .line.torch { fill: none; stroke: #8250df }
.peer { fill: #59636e } .pydlpack { fill: #cf222e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d }
  .dlpack { fill: #8cc8ff } .line.dlpack { stroke: #8cc8ff }
  .numpy { fill: #f0a35e } .line.numpy { stroke: #f0a35e }
  .torch { fill: #c297ff } .line.torch { stroke: #c297ff }
  .peer { fill: #9198a1 } .pydlpack { fill: #ff7b72 }
}
"""


class Drawing:
    """An SVG, written by hand: what is drawn the same way gives the same file."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = width, height
        self.title = title
        self.shapes: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        self.shapes.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.shapes.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" class="{kind}"/>')

    def path(self, points: list[tuple[float, float]], kind: str) -> None:
        d = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.shapes.append(f'<path d="M{d}" class="line {kind}"/>')

    def dot(self, x: float, y: float, kind: str) -> None:
        self.shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>')

    def legend(self, x: float, y: float, names: dict[str, str]) -> None:
        for kind, name in names.items():
            self.dot(x, y - 4, kind)
            self.text(x + 10, y, name)
            x += 34 + 6.5 * len(name)

    def write(self, path: Path) -> None:
        width, height = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        parts = [head, f"<title>{escape(self.title)}</title>", f"<style>{STYLE}</style>", *self.shapes, "</svg>"]
        path.write_text("\n".join(parts) + "\n")


class Scale:
    """Where a value is, on a logarithmic axis."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = math.log(low), math.log(high), start, end

    def __call__(self, value: float) -> float:
        return self.start + (math.log(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def powers(low: float, high: float) -> list[float]:
    """The powers of 10 from one at or below low to one at or above high."""
    return [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def plain(statement: str) -> str:
    for name, replacement in NAMES.items():
        statement = re.sub(rf"\b{name}", replacement, statement)
    return statement.replace("_64MiB", "")


def calls(tables: list[Table]) -> Drawing:
    """A line for each pair with a goal: dlpack, what stands beside it, and pydlpack where it takes the same."""
    rows = [row for table in tables if table.title in CALLS for row in table.rows if row.goal]
    pydlpack = {row.what: row.other for table in tables if "pydlpack" in table.title for row in table.rows}
    shown = [value for row in rows for value in (row.value, row.other, pydlpack.get(row.what, row.value))]
    bottom = 50 + 40 * len(rows)
    drawing = Drawing(900, bottom + 30, "Time of a call")
    drawing.legend(16, 24, {"dlpack": "dlpack", "peer": "the call in the second line", "pydlpack": "pydlpack"})
    ticks = powers(min(shown), max(shown))
    x = Scale(ticks[0], ticks[-1], 400, 860)
    for tick in ticks:
        drawing.line(x(tick), 40, x(tick), bottom, "grid")
        drawing.text(x(tick), bottom + 18, amount(tick, "ns"), "quiet middle")
    for y, row in zip(range(60, bottom, 40), rows, strict=True):
        drawing.text(16, y, plain(row.what))
        drawing.text(16, y + 17, plain(row.beside), "quiet")
        dots = {"pydlpack": pydlpack.get(row.what), "peer": row.other, "dlpack": row.value}
        places = {kind: x(value) for kind, value in dots.items() if value}
        drawing.line(min(places.values()), y + 4, max(places.values()), y + 4, "pair")
        for kind, place in places.items():
            drawing.dot(place, y + 4, kind)
    return drawing


def bandwidth(tables: list[Table]) -> Drawing:
    """GB/s by size, of compact and of transposed memory."""
    panels = {table.title: speeds(table) for table in tables if table.title in SIZES}
    shown = [speed for lines in panels.values() for line in lines.values() for _, speed in line]
    drawing = Drawing(900, 350, "Speed of copies by size, in GB/s")
    drawing.legend(16, 24, {kind: kind for kind in ("dlpack", "numpy", "torch")})
    ticks = powers(min(shown), max(shown))
    y = Scale(ticks[0], ticks[-1], 310, 60)
    for left, (title, lines) in zip((60, 500), panels.items(), strict=True):
        x = Scale(1 << 12, 1 << 30, left, left + 370)
        drawing.text(left, 48, f"{title}, GB/s")
        for tick in ticks:
            drawing.line(left, y(tick), left + 370, y(tick), "grid")
            drawing.text(left - 6, y(tick) + 4, f"{tick:g}", "quiet end")
        for size in ("4KiB", "256KiB", "16MiB", "1GiB"):
            drawing.text(x(nbytes(size)), 330, size, "quiet middle")
        for kind, line in lines.items():
            drawing.path([(x(size), y(speed)) for size, speed in line], kind)
    return drawing


def speeds(table: Table) -> dict[str, list[tuple[int, float]]]:
    """Of dlpack, numpy and torch: bytes and GB/s."""
    lines: dict[str, list[tuple[int, float]]] = {"dlpack": [], "numpy": [], "torch": []}
    for row in table.rows:
        size = nbytes(row.what)
        peer = "torch" if "torch" in row.beside else "numpy"
        lines[peer].append((size, size / row.other))
        if peer == "numpy":
            lines["dlpack"].append((size, size / row.value))
    return lines


def nbytes(text: str) -> int:
    """Of the size that stands in it, such as 4KiB."""
    found = re.search(r"(\d+)([KMG]iB)", text)
    assert found is not None
    return int(found[1]) * UNITS[found[2]]


def readme_table(tables: list[Table], about: dict[str, str]) -> Iterator[str]:
    yield ", ".join(f"{name} {value}" for name, value in about.items()) + ":"
    yield ""
    yield "| call | | beside | | ratio | goal | least |"
    yield "|---|---:|---|---:|---:|---:|---:|"
    least = {row.what: row.other for table in tables if table.title == LEAST for row in table.rows}
    for table in tables:
        if table.title in (*CALLS, "importing", "copying"):
            yield from (markdown(row, least.get(row.what)) for row in table.rows if row.goal)
    yield ""
    for table in tables:
        if table.title == "after 1 ms of sleep" or "pydlpack" in table.title:
            ratios = [row.ratio for row in table.rows]
            goal = table.rows[0].goal
            yield f"{len(ratios)} calls {table.title}: ratios of {min(ratios):.3f} to {max(ratios):.3f} (goal {goal})."
    if by_threads := [table for table in tables if table.title.startswith("by threads")]:
        yield f"Calls of 2 threads beside those of 1: {', '.join(map(more_calls, by_threads))}."


def more_calls(table: Table) -> str:
    """How many times as many 2 threads make as 1 makes meanwhile."""
    one, two = table.rows[:2]
    return f"{one.value / two.value:.2f} times as many in {table.title.removeprefix('by threads, ')}"


def markdown(row: Row, least: float | None) -> str:
    """One line; least is what floor.c takes for the same."""
    ours, peer = amount(row.value, "ns"), amount(row.other, "ns")
    floor = "" if least is None else f"{least / row.other:.2f}"
    return f"| `{plain(row.what)}` | {ours} | `{plain(row.beside)}` | {peer} | {row.ratio:.2f} | {row.goal} | {floor} |"


def main(file: str) -> None:
    results: dict[str, Any] = json.loads(Path(file).read_text())
    tables = [
        Table(table["title"], table["unit"], [Row(**row) for row in table["rows"]]) for table in results["tables"]
    ]
    calls(tables).write(ROOT / "docs" / "speed.svg")
    bandwidth(tables).write(ROOT / "docs" / "bandwidth.svg")
    write_section(ROOT / "README.md", "bench", readme_table(tables, results["about"]))


if __name__ == "__main__":
    main(sys.argv[1])
