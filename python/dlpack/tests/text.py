"""The report as lines of text, with styles for those who see colours."""

import itertools
import shutil
import textwrap
from collections.abc import Iterable, Iterator

from .results import Report
from .table import Row, Table, summary, word

Line = list[tuple[str, str]]  # pieces of text, each with its style: a colour of rich, or ""

STYLES = {
    "shared": "green",
    "copied": "yellow",
    "by copy": "cyan",
    "refused": "dim",
    "skipped": "dim",
    "FAILED": "bold red",
}

LEGEND = """\
shared: the same memory, by its address or by a write seen on the other side. copied: taken, as a copy. by copy: refused
as it is, taken with asdlpack(..., copy=True). refused: by dlpack or by the consumer, as told below. skipped: not tried,
for the reason told below. FAILED: not what is expected. *: news, it went better than was known."""


def lines(report: Report, width: int = 0) -> Iterator[Line]:
    """The whole report; width is in columns, and that of the terminal where it is 0."""
    width = width or shutil.get_terminal_size((120, 24)).columns
    table = Table(report)
    yield from heading(report, width)
    for consumers in blocks(table, width):
        yield []
        yield from block(table, consumers)
    if table.rows:
        yield []
        yield from wrapped(LEGEND, width)
    yield from refusals(table, width)
    yield from skipped(table, width)
    yield from checks(report, width)
    yield from failures(report, width)
    yield []
    total = f"{len(report.exchanges)} exchanges: {summary(table)}"
    yield [(total, "bold" if report.ok else "bold red")]


def heading(report: Report, width: int) -> Iterator[Line]:
    yield [(", ".join(f"{name} {value}" for name, value in report.about.items()), "bold")]
    libraries = ", ".join(f"{name} {version}" for name, version in report.libraries.items())
    yield from wrapped(libraries or "no library takes part", width)


def name_width(table: Table) -> int:
    return max((len(provider) + 2 for _, provider in table.rows), default=0)


def blocks(table: Table, width: int) -> Iterator[list[str]]:
    """The consumers, as many at a time as have room beside the providers' names."""
    block: list[str] = []
    used = start = name_width(table)
    for consumer in table.consumers:
        needed = column_width(consumer)
        if block and used + needed > width:
            yield block
            block, used = [], start
        block.append(consumer)
        used += needed
    if block:
        yield block


def column_width(consumer: str) -> int:
    return 2 + max(len(consumer), len("shared *"))


def block(table: Table, consumers: list[str]) -> Iterator[Line]:
    start = name_width(table)
    yield [(" " * start + "".join("  " + name.ljust(column_width(name) - 2) for name in consumers).rstrip(), "bold")]
    section = ""
    for row_section, provider in table.rows:
        if row_section != section:
            section = row_section
            yield [(section, "bold")]
        line = [(f"  {provider}".ljust(start), "")]
        for consumer in consumers:
            cell = table.cell(consumer, section, provider)
            text = word(cell) if cell else ""
            last = consumer == consumers[-1]
            padded = text if last else text.ljust(column_width(consumer) - 2)
            line.append(("  " + padded, STYLES.get(text.rstrip(" *"), "")))
        yield line


def refusals(table: Table, width: int) -> Iterator[Line]:
    """By who refuses, and by cause: of each cause, the words of one refusal."""
    for refused_by in ("dlpack", *table.consumers):
        groups: dict[tuple[str, str], tuple[str, dict[Row, None]]] = {}
        for cell in table.report.exchanges:
            if cell.outcome == "refused" and cell.refused_by == refused_by:
                _, rows = groups.setdefault((cell.reason, cell.copy), (cell.text, {}))
                rows[cell.section, cell.provider] = None
        if groups:
            yield []
            yield [(f"What {refused_by} refuses", "bold")]
        for (reason, copy), (text, rows) in groups.items():
            yield from wrapped(f"{reason}{' (copy=True works)' * (copy == 'works')}", width, 1)
            yield from wrapped(listed(rows), width, 2)
            yield from wrapped(text, width, 2, "dim")


def skipped(table: Table, width: int) -> Iterator[Line]:
    groups: dict[str, dict[str, None]] = {}
    for cell in table.report.exchanges:
        if cell.outcome == "skipped":
            groups.setdefault(cell.reason, {})[f"{cell.consumer} takes {cell.section}: {cell.provider}"] = None
    if groups:
        yield []
        yield [("Skipped", "bold")]
    for reason, names in groups.items():
        yield from wrapped(reason, width, 1)
        yield from wrapped(few(list(names)), width, 2, "dim")


def checks(report: Report, width: int) -> Iterator[Line]:
    passed = sum(check.outcome == "passed" for check in report.checks)
    skipped = [check for check in report.checks if check.outcome == "skipped"]
    yield []
    yield [(f"Checks of what else the libraries do: {passed} passed, {len(skipped)} skipped", "bold")]
    for check in skipped:
        yield from wrapped(f"{check.library} {check.name}: skipped, {check.text}", width, 1, "dim")


def failures(report: Report, width: int) -> Iterator[Line]:
    """News, and what is wrong. The same text of many exchanges is told once."""
    news: dict[str, list[str]] = {}
    wrong: dict[str, list[str]] = {}
    for cell in report.exchanges:
        name = f"{cell.consumer} takes {cell.section}: {cell.provider}"
        if cell.news:
            news.setdefault(f"{cell.outcome}; expected {cell.expected}, since {cell.reason}", []).append(name)
        elif cell.failed:
            wrong.setdefault(cell.text, []).append(name)
    for check in report.checks:
        if check.failed:
            wrong.setdefault(check.text, []).append(f"{check.library} {check.name}")
    for problem in report.problems:
        wrong.setdefault(problem, [])
    for title, groups, style in ("News", news, "green"), ("FAILED", wrong, "bold red"):
        if groups:
            yield []
            yield [(title, style)]
        for text, names in groups.items():
            yield from wrapped(text, width, 1, style)
            yield from wrapped(few(names), width, 2)


def listed(rows: Iterable[Row]) -> str:
    """Each section named once."""
    sections = itertools.groupby(rows, key=lambda row: row[0])
    return "; ".join(f"{section}: {'; '.join(name for _, name in group)}" for section, group in sections)


def few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'; '.join(names[:3])}{more}"


def wrapped(text: str, width: int, indent: int = 0, style: str = "") -> Iterator[Line]:
    for line in textwrap.wrap(text, max(width - 2 * indent, 10), break_on_hyphens=False):
        yield [("  " * indent + line, style)]
