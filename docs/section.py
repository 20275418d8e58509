"""The part of a document that a program writes."""

import sys
from collections.abc import Iterable
from pathlib import Path


def write_section(document: Path, target: str, lines: Iterable[str]) -> None:
    """Puts the lines where `make target` writes."""
    begin, end = f"<!-- make {target} writes this -->\n", "<!-- up to here -->\n"
    before, mark, rest = document.read_text().partition(begin)
    if not mark:
        sys.exit(f"{document.name}: no line {begin.strip()}, so what belongs there has no place")
    after = rest.partition(end)[2]
    document.write_text("".join((before, begin, *(f"{line}\n" for line in lines), end, after)))
