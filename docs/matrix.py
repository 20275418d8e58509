"""Runs the exchange tests in several environments, and prints the results. With --write it also writes matrix.md,
exchanges.html, and the table of consumers in libraries.md. `make matrix` makes the environments and calls this with
their interpreters."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matrix_page
from section import write_section

from dlpack._abi import FLOAT8
from dlpack._foreign import printable
from dlpack.tests import Report
from dlpack.tests.expectations import PADDED
from dlpack.tests.table import Row, Table, summary
from dlpack.tests.text import listed

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
TESTS = ROOT / "tests"


def try_out(python: str) -> Report:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    result = subprocess.run([python, TESTS / "exchanges", "--json"], env=environment, stdout=subprocess.PIPE)
    if result.returncode not in (0, 1):
        sys.exit(f"{python} {TESTS / 'exchanges'} ended with status {result.returncode}")
    return Report.from_dict(json.loads(result.stdout))


def library_of(consumer: str) -> str:
    name = re.match(r"\w+", consumer)
    assert name is not None
    return name[0]


def merge(first: Report, other: Report) -> None:
    """Adds what the other environment has beyond the first, and what failed there. Where both have a library, in two
    versions, the other's is named with its version."""

    def name(consumer: str) -> str:
        library = library_of(consumer)
        version = other.libraries.get(library, "")
        return consumer if first.libraries.get(library, version) == version else f"{consumer} {version}"

    known = {(cell.consumer, cell.section, cell.provider) for cell in first.exchanges}
    for cell in other.exchanges:
        cell.consumer = name(cell.consumer)
        if cell.failed or (cell.consumer, cell.section, cell.provider) not in known:
            first.exchanges.append(cell)
    known_checks = {(check.library, check.name) for check in first.checks}
    for check in other.checks:
        check.library = name(check.library)
        if check.failed or (check.library, check.name) not in known_checks:
            first.checks.append(check)
    for consumer, readonly in other.consumers.items():
        first.consumers.setdefault(name(consumer), readonly)
    for library, version in other.libraries.items():
        first.libraries.setdefault(name(library), "" if library in first.libraries else version)
    first.problems += other.problems


def libraries_first(report: Report) -> None:
    """Moves the objects of libraries before those of Python and the made ones, and libraries before bare protocols."""
    report.exchanges.sort(
        key=lambda cell: (
            cell.section in ("standard library", "layouts", "data types"),
            cell.consumer.startswith(("C, ", "memoryview", "numpy, ")),
        )
    )


def markdown(report: Report) -> Iterator[str]:
    table = Table(report)
    yield "# The matrix of exchanges"
    yield ""
    yield '<a href="exchanges.html"><b>The coloured matrix</b></a>: a row for each object, a column for each library.'
    yield "Click on a cell to see what happened, and why. This page has only the reasons."
    yield ""
    yield f"{summary(report)}."
    yield from folded(
        "Versions", [", ".join(f"{name} {it}".rstrip() for name, it in {**report.about, **report.libraries}.items())]
    )
    yield ""
    yield "## What each library does not share, and why"
    yield ""
    yield "A copied object was accepted as a copy. Many refused ones work with `asdlpack(..., copy=True)`: the coloured"
    yield "matrix says which. A skipped one can't be tried here."
    for consumer in table.consumers:
        told = []
        lines = []
        for outcome in "refused", "copied", "skipped":
            found = by_reason(table, consumer, outcome)
            if found:
                told.append(f"{outcome} {sum(map(len, found.values()))}")
            lines += [f"- {outcome}: {reason} ({listed(rows)})" for reason, rows in found.items()]
        if lines:
            yield from folded(f"{consumer}: {', '.join(told)}", list(map(escaped, lines)))
    yield ""
    yield "## What else was checked"
    checks: dict[str, list[str]] = {}
    for check in report.checks:
        why = f": {check.text}" if check.text else ""
        checks.setdefault(check.library, []).append(f"- {check.name}: {check.outcome}{why}")
    for library, lines in checks.items():
        yield from folded(f"{library}: {len(lines)}", list(map(escaped, lines)))


def folded(title: str, lines: list[str]) -> Iterator[str]:
    """Markdown that a click shows."""
    yield from ("", f"<details><summary>{matrix_page.escape(title)}</summary>", "", *lines, "", "</details>")


def by_reason(table: Table, consumer: str, outcome: str) -> dict[str, list[Row]]:
    """The rows that came out so, by the reason that is known."""
    found: dict[str, list[Row]] = {}
    for section, provider in table.rows:
        cell = table.cells.get((consumer, section, provider))
        if cell and cell.outcome == outcome:
            found.setdefault(cell.reason, []).append((section, provider))
    return found


def consumers_table(report: Report) -> Iterator[str]:
    """For libraries.md: what each consumer does not share of the data types and the layouts, and why. A C program takes
    everything, and numpy by its own interfaces what it takes by numpy.asarray."""
    table = Table(report)
    yield f"{', '.join(f'{name} {value}' for name, value in report.about.items())}:"
    yield ""
    yield from row("consumer", "refuses", "copies", "read-only memory")
    yield from row("---", "---", "---", "---")
    for consumer, readonly in report.consumers.items():
        if not consumer.startswith(("C, ", "numpy, ")):
            named = re.search(r" \d", consumer)  # with the version, where another environment has another
            version = "" if named else report.libraries.get(library_of(consumer), "")
            columns = ["; ".join(kinds(table, consumer, outcome)) for outcome in ("refused", "copied")]
            yield from row(f"{consumer} {version}".rstrip(), *columns, readonly)


def kinds(table: Table, consumer: str, outcome: str) -> Iterator[str]:
    """The reasons for this outcome; of data types, also their names. Left out is what even a C program does not share,
    and the types that no library has."""
    for reason, providers in by_reason(table, consumer, outcome).items():
        own = [
            (section, provider)
            for section, provider in providers
            if section in ("layouts", "data types") and provider not in PADDED
            if (cell := table.cells.get(("C, versioned", section, provider))) and cell.outcome == "shared"
        ]
        if own:
            types = [provider for section, provider in own if section == "data types"]
            float8 = [name for name in types if name.startswith("float8_")]
            if len(float8) == len(FLOAT8):
                types = [name for name in types if name not in float8] + ["float8"]
            yield f"{reason}: {', '.join(types)}" if len(types) == len(own) or float8 else reason


def row(*cells: str) -> Iterator[str]:
    yield "| " + " | ".join(map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """As Markdown's plain text: what looks like HTML would be left out, and what is between __ would be bold."""
    return printable(text).replace("|", "\\|").replace("<", "\\<").replace("__", "\\_\\_")


def main(pythons: list[str], write: bool) -> None:
    reports = []
    for python in pythons:
        print(python, flush=True)
        reports.append(try_out(python))
    report, *others = reports
    for other in others:
        merge(report, other)
    if write:
        libraries_first(report)
        (DOCS / "exchanges.html").write_text(matrix_page.page(report), encoding="utf-8")
        (DOCS / "matrix.md").write_text("\n".join(markdown(report)) + "\n", encoding="utf-8")
        write_section(DOCS / "libraries.md", "matrix", consumers_table(report))
    print(summary(report))
    for failure in report.failures:
        print(printable(str(failure)))
    sys.exit(not report.ok)


if __name__ == "__main__":
    main([argument for argument in sys.argv[1:] if argument != "--write"], write="--write" in sys.argv)
