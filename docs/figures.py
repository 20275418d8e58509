"""Writes what `make torture` counted into reliability.md.

python docs/figures.py docs/torture.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from section import write_section


def table(figures: dict[str, dict[str, object]]) -> Iterator[str]:
    yield "| proof | what was counted |"
    yield "|---|---|"
    for test, counts in sorted(figures.items()):
        file, _, name = test.partition("::test_")
        counted = ", ".join(f"{what}: {amount(value)}" for what, value in counts.items())
        yield f"| {name.replace('_', ' ').replace('[', ': ').rstrip(']')} (`{file}`) | {counted} |"


def amount(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    counted = json.loads(Path(sys.argv[1]).read_text())
    write_section(Path(__file__).with_name("reliability.md"), "torture", table(counted))
