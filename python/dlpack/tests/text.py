"""The report as lines of text, the summary first."""

import itertools
import shutil
import textwrap
from collections.abc import Iterable, Iterator

from .results import Exchange, Report
from .table import Row, Table, summary, word

LEGEND = """\
shared: the same memory, by its address or by a write seen on the other side. copied: taken, as a copy. by copy: refused
as it is, taken with asdlpack(..., copy=True). refused: by dlpack or by the consumer, as told below. skipped: not tried,
for the reason told below. FAILED: not what is expected. *: news, it went better than was known."""


def lines(report: Report, width: int = 0) -> Iterator[str]:
    """The whole report; width is in columns, and that of the terminal where it is 0."""
    width = width or shutil.get_terminal_size((120, 24)).columns
    table = Table(report)
    yield summary(report)
    yield from told("FAILED", failures(report), width)
    yield from told("News", news(report), width)
    yield ""
    yield from wrapped(", ".join(f"{name} {value}" for name, value in report.about.items()), width)
    libraries = ", ".join(f"{name} {version}" for name, version in report.libraries.items())
    yield from wrapped(libraries or "no library takes part", width)
    for consumers in blocks(table, width):
        yield ""
        yield from block(table, consumers)
    if table.rows:
        yield ""
        yield from wrapped(LEGEND, width)
    for refused_by in "dlpack", *table.consumers:
        yield from told(f"What {refused_by} refuses", refusals(report, refused_by), width)
    yield from told("Skipped", skipped(report), width)


def told(title: str, groups: dict[str, list[str]], width: int) -> Iterator[str]:
    """Texts, and what each is said of; nothing where there are none."""
    if groups:
        yield ""
        yield title
    for text, paragraphs in groups.items():
        yield from wrapped(text, width, 1)
        for paragraph in paragraphs:
            yield from wrapped(paragraph, width, 2)


def failures(report: Report) -> dict[str, list[str]]:
    found = [(cell.text, name(cell)) for cell in report.exchanges if cell.failed]
    found += [(check.text, f"{check.library} {check.name}") for check in report.checks if check.failed]
    return {problem: [] for problem in report.problems} | few(found)


def news(report: Report) -> dict[str, list[str]]:
    known = "{0.outcome}; expected {0.expected}, since {0.reason}"
    return few((known.format(cell), name(cell)) for cell in report.exchanges if cell.news)


def skipped(report: Report) -> dict[str, list[str]]:
    found = [(cell.reason, name(cell)) for cell in report.exchanges if cell.outcome == "skipped"]
    found += [(check.text, f"{check.library} {check.name}") for check in report.checks if check.outcome == "skipped"]
    return few(found)


def refusals(report: Report, refused_by: str) -> dict[str, list[str]]:
    """By cause: the objects, and the words of one refusal."""
    groups: dict[str, tuple[dict[Row, None], str]] = {}
    for cell in report.exchanges:
        if cell.outcome == "refused" and cell.refused_by == refused_by:
            cause = f"{cell.reason}{' (copy=True works)' * (cell.copy == 'works')}"
            groups.setdefault(cause, ({}, cell.text))[0][cell.section, cell.provider] = None
    return {cause: [listed(rows), text] for cause, (rows, text) in groups.items()}


def name(cell: Exchange) -> str:
    return f"{cell.consumer} takes {cell.section}: {cell.provider}"


def few(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names by text: of many, three."""
    groups: dict[str, list[str]] = {}
    for text, named in found:
        groups.setdefault(text, []).append(named)
    more = {text: f" and {len(names) - 3} more" if len(names) > 3 else "" for text, names in groups.items()}
    return {text: ["; ".join(names[:3]) + more[text]] for text, names in groups.items()}


def listed(rows: Iterable[Row]) -> str:
    """Each section named once."""
    sections = itertools.groupby(rows, key=lambda row: row[0])
    return "; ".join(f"{section}: {'; '.join(name for _, name in group)}" for section, group in sections)


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


def block(table: Table, consumers: list[str]) -> Iterator[str]:
    start = name_width(table)
    yield " " * start + "".join(consumer.ljust(column_width(consumer)) for consumer in consumers).rstrip()
    for section, rows in itertools.groupby(table.rows, key=lambda row: row[0]):
        yield section
        for row in rows:
            cells = [table.cells.get((consumer, *row)) for consumer in consumers]
            words = [word(cell) if cell else "" for cell in cells]
            padded = [text.ljust(column_width(consumer)) for text, consumer in zip(words, consumers, strict=True)]
            yield (f"  {row[1]}".ljust(start) + "".join(padded)).rstrip()


def name_width(table: Table) -> int:
    return 2 + max((len(provider) + 2 for _, provider in table.rows), default=0)


def column_width(consumer: str) -> int:
    return 2 + max(len(consumer), len("shared *"))


def wrapped(text: str, width: int, indent: int = 0) -> Iterator[str]:
    for line in textwrap.wrap(text, max(width - 2 * indent, 10), break_on_hyphens=False):
        yield "  " * indent + line
