"""Writes what `make proofs` counted into reliability.md.

python docs/figures.py docs/proofs.json
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from section import write_section


def table(figures: dict[str, dict[str, int]]) -> Iterator[str]:
    """A line for each test: of one with parameters the sums."""
    tests: dict[str, Counter[str]] = {}
    for test, counts in figures.items():
        tests.setdefault(test.partition("[")[0], Counter()).update(counts)
    yield "| proof | what was counted |"
    yield "|---|---|"
    for test, counts in sorted(tests.items()):
        file, _, name = test.partition("::test_")
        counted = ", ".join(f"{what}: {value:,}" for what, value in counts.items())
        yield f"| {name.replace('_', ' ')} (`{file}`) | {counted} |"


if __name__ == "__main__":
    counted = json.loads(Path(sys.argv[1]).read_text())
    write_section(Path(__file__).with_name("reliability.md"), "proofs", table(counted))
