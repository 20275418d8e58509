"""Runs the exchange tests in several environments, and writes what came out: matrix.md and matrix.html beside this
file, and the table of consumers in the README. `make matrix` makes the environments and calls this with their
interpreters."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dlpack.tests import Report, html
from dlpack.tests.table import Table, summary, word

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
BEGIN, END = "<!-- make matrix writes this -->\n", "<!-- up to here -->\n"


def try_out(python: str) -> Report:
    with tempfile.NamedTemporaryFile() as results:
        command = [python, "-m", "dlpack.tests", "--json", results.name]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        return Report.from_dict(json.load(results))


def merge(first: Report, other: Report) -> None:
    """Adds what the other environment has beyond the first. Where both have a library, in two versions, the other's is
    named with its version."""

    def name(consumer: str) -> str:
        library = consumer.split(".")[0]
        version = other.libraries.get(library, "")
        return consumer if first.libraries.get(library, version) == version else f"{consumer} {version}"

    known = {(cell.consumer, cell.section, cell.provider) for cell in first.exchanges}
    for cell in other.exchanges:
        cell.consumer = name(cell.consumer)
        if (cell.consumer, cell.section, cell.provider) not in known:
            first.exchanges.append(cell)
    known_checks = {(check.library, check.name) for check in first.checks}
    for check in other.checks:
        check.library = name(check.library)
        if (check.library, check.name) not in known_checks:
            first.checks.append(check)
    first.consumers = {name(consumer): readonly for consumer, readonly in other.consumers.items()} | first.consumers
    first.libraries |= {name(library): version for library, version in other.libraries.items()}
    first.problems += other.problems


def markdown(report: Report) -> Iterator[str]:
    table = Table(report)
    yield "# What exchanges with what"
    yield ""
    yield f"{len(report.exchanges)} exchanges: {summary(table)}. [The same as a page](matrix.html), with every detail."
    yield ""
    yield ", ".join(f"{name} {value}" for name, value in report.about.items()) + "; "
    yield ", ".join(f"{name} {version}" for name, version in report.libraries.items()) + "."
    yield ""
    yield "shared: the same memory. copied: taken, as a copy. by copy: refused as it is, taken with"
    yield "`asdlpack(..., copy=True)`. refused, skipped: for the reasons below. Empty: never in one environment."
    yield ""
    yield from row("", *table.consumers)
    yield from row("---", *[":---:"] * len(table.consumers))
    section = ""
    for row_section, provider in table.rows:
        if row_section != section:
            section = row_section
            yield from row(f"**{section}**", *[""] * len(table.consumers))
        cells = [table.cell(consumer, section, provider) for consumer in table.consumers]
        yield from row(provider, *(word(cell) if cell else "" for cell in cells))
    for consumer in table.consumers:
        yield from reasons(table, consumer)
    yield ""
    yield "## What else was checked"
    yield ""
    for check in report.checks:
        why = f": {check.text}" if check.text else ""
        yield f"- {check.library} {check.name}: {check.outcome}{why}"


def reasons(table: Table, consumer: str) -> Iterator[str]:
    lines = []
    for outcome in "refused", "copied", "skipped":
        for reason, providers in by_reason(table, consumer, outcome).items():
            lines.append(f"- {outcome}: {reason} ({', '.join(providers)})")
    if lines:
        yield from ("", f"## {consumer}", "", *lines)


def by_reason(table: Table, consumer: str, *outcomes: str) -> dict[str, list[str]]:
    """The names of the rows that came out so, by the reason that is known."""
    found: dict[str, list[str]] = {}
    for section, provider in table.rows:
        cell = table.cell(consumer, section, provider)
        if cell and cell.outcome in outcomes:
            found.setdefault(cell.reason, []).append(provider)
    return found


def consumers_table(report: Report) -> Iterator[str]:
    """For the README: what each consumer does not share of the data types and the layouts, and why."""
    chosen = [cell for cell in report.exchanges if cell.section in ("data types", "layouts")]
    table = Table(Report(exchanges=[cell for cell in chosen if not cell.consumer.startswith("C, ")]))
    yield from row("consumer", "refuses", "copies", "read-only memory")
    yield from row("---", "---", "---", "---")
    for consumer in table.consumers:
        version = report.libraries.get(consumer) or report.libraries.get(consumer.split(".")[0], "")
        name = consumer if version in consumer else f"{consumer} {version}"
        columns = []
        for outcome in "refused", "copied":
            causes = by_reason(table, consumer, outcome)
            columns.append("; ".join(f"{reason}: {', '.join(names)}" for reason, names in causes.items()))
        yield from row(name, *columns, report.consumers[consumer])


def row(*cells: str) -> Iterator[str]:
    yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(pythons: list[str]) -> None:
    reports = []
    for python in pythons:
        print(python, flush=True)
        reports.append(try_out(python))
    report, *others = reports
    for other in others:
        merge(report, other)
    (DOCS / "matrix.html").write_text(html.page(report))
    (DOCS / "matrix.md").write_text("\n".join(markdown(report)) + "\n")
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    readme.write_text("".join((before, BEGIN, *(f"{line}\n" for line in consumers_table(report)), END, after)))
    print(f"{len(report.exchanges)} exchanges: {summary(Table(report))}")
    for failure in report.failures:
        print(failure)
    sys.exit(not report.ok)


if __name__ == "__main__":
    main(sys.argv[1:])
