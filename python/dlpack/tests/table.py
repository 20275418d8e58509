"""The report as a table, for all that show it: a row for each object, a column for each consumer."""

from collections import Counter
from typing import NamedTuple

from .results import Exchange, Outcome, Report

Row = tuple[str, str]  # section, provider


class Cause(NamedTuple):
    """What exchanges that are shown together have in common."""

    refused_by: str
    text: str
    reason: str
    copy: str


class Table:
    """The exchanges of a report by consumer and row, in the report's order. A section's rows stay together."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.cells: dict[tuple[str, str, str], Exchange] = {
            (cell.consumer, cell.section, cell.provider): cell for cell in report.exchanges
        }
        self.consumers: list[str] = list(dict.fromkeys(cell.consumer for cell in report.exchanges))
        sections = list(dict.fromkeys(cell.section for cell in report.exchanges))
        rows = dict.fromkeys((cell.section, cell.provider) for cell in report.exchanges)
        self.rows: list[Row] = sorted(rows, key=lambda row: sections.index(row[0]))

    def cell(self, consumer: str, section: str, provider: str) -> Exchange | None:
        return self.cells.get((consumer, section, provider))

    def grouped(self, consumer: str, outcome: Outcome) -> dict[Cause, list[Row]]:
        """The rows that had this outcome with the consumer, by cause."""
        groups: dict[Cause, list[Row]] = {}
        for section, provider in self.rows:
            cell = self.cell(consumer, section, provider)
            if cell and cell.outcome == outcome:
                cause = Cause(cell.refused_by, cell.text, cell.reason, cell.copy)
                groups.setdefault(cause, []).append((section, provider))
        return groups

    @property
    def news(self) -> list[Exchange]:
        return [cell for cell in self.report.exchanges if cell.news]

    def counts(self) -> dict[str, int]:
        """How many exchanges there are of each word; of news; and of all failures, checks and problems included."""
        found = Counter(word(cell).rstrip(" *") for cell in self.report.exchanges)
        return {
            **{name: found[name] for name in ("shared", "copied", "by copy", "refused", "skipped")},
            "news": len(self.news),
            "failed": len(self.report.failures),
        }


def word(cell: Exchange) -> str:
    """The outcome in a word of at most seven letters, and a star where it is news."""
    if cell.failed:
        return "FAILED"
    name = "by copy" if cell.outcome == "refused" and cell.copy == "works" else str(cell.outcome)
    return f"{name} *" if cell.news else name


def summary(table: Table) -> str:
    """The counts as a line of text. What is nowhere is left out, but for what is shared and what failed."""
    counts = table.counts()
    return ", ".join(f"{n} {name}" for name, n in counts.items() if n or name in ("shared", "failed"))
