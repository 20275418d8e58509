"""Writes the counts of `make proofs` into proofs.md, and draws the largest: proofs.svg.

python docs/figures.py docs/proofs.json
"""

import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import charts
from matplotlib.figure import Figure
from section import write_section

DOCS = Path(__file__).resolve().parent
SPELLED = {  # what a test's name can't have
    "ctrl c": "Ctrl-C",
    "arrow": "Arrow",
    "c": "C",
    "clangs": "clang's",
    "cpython": "CPython",
    "gccs": "gcc's",
    "(?<!and )go": "Go",
    "gpu": "GPU",
    "producer does": "producer does,",
    "python": "Python",
    "sa onstack": "SA_ONSTACK",
    "sub interpreter": "sub-interpreter",
}
SHOWN = 16  # proofs in the drawing


def tests(figures: dict[str, dict[str, int]]) -> dict[tuple[str, str], Counter[str]]:
    """The counts of each test, by its name and file: of one with parameters the sums."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for test, counts in figures.items():
        file, _, name = test.partition("[")[0].partition("::test_")
        found.setdefault((readable(name), file), Counter()).update(counts)
    return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0])))


def readable(name: str) -> str:
    words = name.replace("_", " ")
    for word, spelled in SPELLED.items():
        words = re.sub(rf"(?<!-)\b{word}\b", spelled, words)
    return words[0].upper() + words[1:]


def table(figures: dict[str, dict[str, int]]) -> Iterator[str]:
    yield "| proof | what was counted |"
    yield "|---|---|"
    for (name, file), counts in tests(figures).items():
        counted = ", ".join(f"{what}: {value:,}" for what, value in counts.items())
        yield f"| {name} (`{file}`) | {counted} |"


def drawing(figures: dict[str, dict[str, int]]) -> Figure:
    """The largest count of each proof, of those that have the largest."""
    counts = {name: counted.most_common(1)[0] for (name, _), counted in tests(figures).items()}
    largest = sorted(counts.items(), key=lambda item: -item[1][1])[:SHOWN]
    figure = Figure(figsize=(charts.WIDTH, 0.4 + 0.42 * len(largest)), layout="constrained")
    axes = figure.subplots()
    for y, (name, (what, value)) in enumerate(largest):
        axes.barh(y, value, 0.3, color=charts.DLPACK)
        text = textwrap.shorten(f"{name}: {value:,} {what}", 80, placeholder=" ...")
        axes.text(0, y - 0.28, text, transform=axes.get_yaxis_transform(), in_layout=False)
    axes.set_xscale("log")
    axes.set_xlim(left=100)
    axes.set_ylim(len(largest) - 0.6, -0.8)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    return figure


if __name__ == "__main__":
    counted = json.loads(Path(sys.argv[1]).read_text())
    with charts.settings():
        charts.write(drawing(counted), DOCS / "proofs.svg", "The largest numbers of the last proofs")
    write_section(DOCS / "proofs.md", "proofs", table(counted))
