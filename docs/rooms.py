"""Draws the rooms of the C extension and a call's way through them: rooms.svg.

python docs/rooms.py
"""

from pathlib import Path

import charts
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

TITLE = "The rooms, and a call's way through them"
ROOMS = {  # from the top, with the step of a call that happens there
    "module": ("asdlpack, frombuffer, from_pointer, copy_into", "1 recognise"),
    "give": ("DLPackObject: __dlpack__, buffers, Arrow, ...", "6 export"),
    "delegate": ("objects that have __dlpack__", ""),
    "object": ("made of a reading; capsules, their deleters", "5 build"),
    "read": ("a file for each other protocol", "2 read"),
    "hold": ("what keeps memory alive", ""),
    "ask": ("the request, Go's table, the call", "3 ask"),
    "runtime": ("the core's start", ""),
    "python": ("CPython: names, arguments, the GIL", ""),
    "platform": ("what differs between systems", ""),
    "core": ("core.h: one request, one answer", ""),
}
GO = "4 describe, validate"
PACKAGES = "protocol, arrow, dlpack, handover, strided, cuda"
LEFT, RIGHT, STEP = 0.02, 0.68, 0.72


def drawing() -> Figure:
    figure = Figure(figsize=(charts.WIDTH, 4.2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 1)
    axes.set_ylim(len(ROOMS) + 1.9, -0.9)
    axes.set_axis_off()
    axes.text(LEFT, -0.35, "pyext/, in C: each room uses only those below it", color=charts.QUIET)
    rooms = [(name, *about, charts.DLPACK) for name, about in ROOMS.items()]
    for y, (name, what, step, colour) in enumerate([*rooms, ("Go", PACKAGES, GO, charts.NUMPY)]):
        floor = y + 0.25 * (name == "Go")
        axes.add_patch(Rectangle((LEFT, floor), RIGHT - LEFT, 0.86, fill=False, edgecolor=colour))
        axes.text(LEFT + 0.02, floor + 0.55, f"{name}/" if name in ROOMS else name, color=colour, weight="bold")
        axes.text(LEFT + 0.14, floor + 0.55, what)
        axes.text(STEP, floor + 0.55, step, color=colour)
    axes.text(LEFT, len(ROOMS) + 1.5, "pkg/, in Go: decides; never calls Python", color=charts.QUIET)
    for begin, end in ((0.1, len(ROOMS) + 0.2), (len(ROOMS) + 0.2, 0.1)):
        down = begin < end
        x = 0.93 if down else 0.97
        axes.add_patch(FancyArrowPatch((x, begin), (x, end), arrowstyle="->", mutation_scale=8, color=charts.QUIET))
    axes.text(0.93, -0.3, "obj", ha="right", color=charts.QUIET)
    axes.text(0.95, -0.3, "x", color=charts.QUIET)
    return figure


if __name__ == "__main__":
    with charts.settings():
        charts.write(drawing(), Path(__file__).with_name("rooms.svg"), TITLE)
