"""The report as a table, for all that show it: a row for each object, a column for each consumer."""

from collections import Counter

from .results import Exchange, Report

Row = tuple[str, str]  # section, provider


class Table:
    """The exchanges of a report by consumer and row, in the report's order. A section's rows stay together."""

    def __init__(self, report: Report) -> None:
        self.cells: dict[tuple[str, str, str], Exchange] = {
            (cell.consumer, cell.section, cell.provider): cell for cell in report.exchanges
        }
        self.consumers: list[str] = list(dict.fromkeys(cell.consumer for cell in report.exchanges))
        sections = list(dict.fromkeys(cell.section for cell in report.exchanges))
        rows = dict.fromkeys((cell.section, cell.provider) for cell in report.exchanges)
        self.rows: list[Row] = sorted(rows, key=lambda row: sections.index(row[0]))


def word(cell: Exchange) -> str:
    """The outcome in a word of at most seven letters, and a star where it is news."""
    if cell.failed:
        return "FAILED"
    name = "by copy" if cell.outcome == "refused" and cell.copy == "works" else str(cell.outcome)
    return f"{name} *" if cell.news else name


def counts(report: Report) -> dict[str, int]:
    """Counts the exchanges of each word, the news, and all failures, checks and problems included."""
    found = Counter(word(cell).rstrip(" *") for cell in report.exchanges)
    return {
        **{name: found[name] for name in ("shared", "copied", "by copy", "refused", "skipped")},
        "news": sum(cell.news for cell in report.exchanges),
        "failed": len(report.failures),
    }


def summary(report: Report) -> str:
    """The counts as a line of text. What is nowhere is left out, but for what is shared and what failed."""
    checks = f" and {len(report.checks)} checks" if report.checks else ""
    words = ", ".join(f"{n} {name}" for name, n in counts(report).items() if n or name in ("shared", "failed"))
    return f"{len(report.exchanges)} exchanges{checks}: {words}"
