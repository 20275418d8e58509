"""Charts of what was measured, as SVG. They are narrow, so that a phone shows their text, and have colours of their own
where the reader wants a dark page. The same numbers give the same file."""

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

WIDTH = 5.4  # inches
TEXT, QUIET, LINES = "#1f2328", "#59636e", "#d1d9e0"
DLPACK, NUMPY, TORCH, PYDLPACK = "#0550ae", "#bf5700", "#8250df", "#cf222e"
DARK = {
    TEXT: "#e6edf3",
    QUIET: "#9198a1",
    LINES: "#30363d",
    DLPACK: "#8cc8ff",
    NUMPY: "#f0a35e",
    TORCH: "#c297ff",
    PYDLPACK: "#ff7b72",
}
SETTINGS = {
    "axes.edgecolor": LINES,
    "axes.labelcolor": QUIET,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.size": 8,
    "grid.color": LINES,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "dlpack",
    "text.color": TEXT,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
}


def settings() -> Any:
    """The context in which a chart is made and written."""
    return rc_context(SETTINGS)


def write(figure: Figure, path: Path, title: str) -> None:
    figure.savefig(path, format="svg", transparent=True, metadata={"Title": title, "Date": None})
    rules = [
        f'[style*="{name}: {light}"] {{{name}: {dark} !important}}'
        for light, dark in DARK.items()
        for name in ("fill", "stroke")
    ]
    style = "\n".join(["@media (prefers-color-scheme: dark) {", *rules, "}", "</style>"])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("</style>", style, 1), encoding="utf-8")
