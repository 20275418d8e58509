"""The report as one HTML page. It loads nothing and runs nothing, so that it can be sent as it is."""

import itertools
from collections.abc import Iterator
from html import escape as escape_markup
from pathlib import Path
from string import Template
from typing import NamedTuple

from dlpack._foreign import printable
from dlpack.tests import Check, Exchange, Report
from dlpack.tests.results import Outcome
from dlpack.tests.table import Row, Table, counts, summary, word

# The words of table.word(): class, symbol, and what it means.
MARKS = {
    "shared": ("shared", "●", "the same memory, by its address or by a write that the other side sees"),
    "copied": ("copied", "◐", "taken, as a copy"),
    "by copy": ("bycopy", "○", "refused as it is, taken with asdlpack(x, copy=True)"),
    "refused": ("refused", "–", "by dlpack or by the consumer, as is known; with copy=True too"),
    "skipped": ("skipped", "/", "can't be tried here"),
    "FAILED": ("failed", "✖", "not what is expected"),
}
VERBS: dict[Outcome, str] = {
    "shared": "shares",
    "copied": "copies",
    "refused": "refuses",
    "skipped": "skipped",
    "failed": "fails with",
}
NEWS = ("news", "★", "went better than was known")
PROOFS = {
    "address": "by its address",
    "write": "by a write that the other side sees",
    "empty": "there is no item to share",
}
CHECKS = {"passed": ("shared", "✓"), "skipped": ("skipped", "/"), "failed": ("failed", "✖")}


def page(report: Report) -> str:
    """One self-contained HTML page. The same report gives the same page."""
    table = Table(report)
    title = "What exchanges memory with what"
    body = [
        *heading(report, title),
        *failures(report),
        *matrix(report, table),
        *consumers(report, table),
        *checks(report),
        *news(report),
        "<footer>Made by <code>make matrix</code>.</footer>",
    ]
    verdict = "" if report.ok else f"{len(report.failures)} failed: "
    return PAGE.substitute(title=escape(verdict + title), style=style(), body="\n".join(body))


def escape(text: str) -> str:
    return escape_markup(printable(text))


def facts(named: dict[str, str]) -> str:
    return "<p>" + " · ".join(f"{escape(name)} <b>{escape(value)}</b>" for name, value in named.items()) + "</p>"


def heading(report: Report, title: str) -> Iterator[str]:
    yield f"<header><h1>{title}</h1>"
    yield facts(report.about)
    yield "<ul class='libraries'>"
    for name, version in report.libraries.items():
        yield f"<li>{escape(name)} <b>{escape(version)}</b></li>"
    yield "</ul>" if report.libraries else "<li>no library takes part</li></ul>"
    kind, symbol = CHECKS["passed" if report.ok else "failed"]
    yield f"<p class='verdict {kind}'>{symbol} {summary(report)}</p></header>"


def failures(report: Report) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for failure in report.failures:
        match failure:
            case Exchange():
                groups.setdefault(failure.text, []).append(arrow(failure))
            case Check():
                groups.setdefault(failure.text, []).append(f"{failure.library}: {failure.name}")
            case _:
                groups.setdefault(failure, [])
    yield from cards("Failures", "failure", groups)


def news(report: Report) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for cell in filter(lambda cell: cell.news, report.exchanges):
        known = f"{cell.expected}: {cell.reason}" if cell.reason else cell.expected
        groups.setdefault(f"{cell.outcome}; known until now as {known}", []).append(arrow(cell))
    yield from cards("News", "better", groups)


def cards(title: str, kind: str, groups: dict[str, list[str]]) -> Iterator[str]:
    """Lists texts, each with the names that it applies to; folds more than 10 names."""
    if groups:
        yield f"<section><h2>{title}</h2><ul class='cards'>"
        for text, names in groups.items():
            where = "".join(f"<span>{escape(name)}</span>" for name in names)
            if len(names) > 10:
                where = f"<details><summary>{len(names)} times</summary><p>{where}</p></details>"
            elif names:
                where = f"<p>{where}</p>"
            yield f"<li class='{kind}'><b>{escape(text)}</b>{where}</li>"
        yield "</ul></section>"


def arrow(cell: Exchange) -> str:
    return f"{cell.section}: {cell.provider} → {cell.consumer}"


def matrix(report: Report, table: Table) -> Iterator[str]:
    if not table.rows:
        return
    found = counts(report) | {"FAILED": sum(cell.failed for cell in report.exchanges)}
    yield "<section><h2>Who takes what</h2><ul class='legend'>"
    for name, (kind, symbol, meaning) in {**MARKS, "news": NEWS}.items():
        if found[name]:
            yield f"<li>{mark(kind, symbol)}<b>{found[name]} {name}</b> {meaning}</li>"
    yield "<li><i class='mark blank'></i><b>blank</b> not tried</li></ul>"
    yield "<p>Each row is an object, each column takes it through asdlpack. Point at a cell, or tap it.</p>"
    yield "<div class='box' tabindex='0' role='region' aria-label='Who takes what'>"
    yield f"<table style='--columns: {len(table.consumers)}'>"
    yield "<caption>Objects by consumer</caption>"
    yield "<thead><tr><td></td>"
    yield from (f"<th scope='col'><span>{escape(consumer)}</span></th>" for consumer in table.consumers)
    yield "</tr></thead>"
    for section, rows in itertools.groupby(table.rows, key=lambda row: row[0]):
        width = len(table.consumers) + 1
        yield f"<tbody><tr><th scope='rowgroup' colspan='{width}'><span>{escape(section)}</span></th>"
        for row in rows:
            yield f"</tr><tr><th scope='row'>{escape(row[1])}</th>"
            yield "".join(table_cell(table.cells.get((consumer, *row))) for consumer in table.consumers)
        yield "</tr></tbody>"
    yield "</table></div></section>"


def mark(kind: str, symbol: str) -> str:
    return f"<i class='mark {kind}' aria-hidden='true'>{symbol}</i>"


def table_cell(cell: Exchange | None) -> str:
    if not cell:
        return "<td></td>"
    kind = MARKS[word(cell).rstrip(" *")][0] + (" news" if cell.news else "")
    return f"<td class='{kind}' tabindex='-1'><span>{detail(cell)}</span></td>"


def detail(cell: Exchange) -> str:
    """Returns all details of the exchange. Screen readers read it; pointing at the cell shows it."""
    parts = [f"<b>{word(cell)}</b> {escape(arrow(cell))}"]
    if cell.proof:
        parts.append(PROOFS.get(cell.proof, escape(cell.proof)))
    if cell.text:
        said = f"<code>{escape(cell.text)}</code>"
        parts.append(f"{escape(cell.refused_by)} says {said}" if cell.refused_by else said)
    if cell.reason:
        parts.append(("news, known until now: " if cell.news else "") + escape(cell.reason))
    if cell.copy:
        parts.append("copy=True works" if cell.copy == "works" else "copy=True is refused too")
    return "; ".join(parts)


def consumers(report: Report, table: Table) -> Iterator[str]:
    """Lists what each consumer does not share, and why: grouped texts of the table's tooltips."""
    if table.consumers:
        yield "<section><h2>What is not shared, and why</h2>"
    for consumer in table.consumers:
        told: list[str] = []
        body: list[str] = []
        for outcome, verb in VERBS.items():
            groups = grouped(table, consumer, outcome)
            if groups:
                told.append(f"{verb} {sum(map(len, groups.values()))}")
            if outcome not in ("shared", "failed"):
                body += causes(groups, outcome, len(table.rows))
        readonly = report.consumers.get(consumer)
        known = f"{', '.join(told)}. Read-only memory: {readonly}." if readonly else ", ".join(told)
        title = f"<b>{escape(consumer)}</b> <small>{escape(known)}</small>"
        yield f"<details><summary>{title}</summary>" if body else f"<p class='all'>{title}</p>"
        yield from body
        yield "</details>" if body else ""
    if table.consumers:
        yield "</section>"


class Cause(NamedTuple):
    """The facts shared by the exchanges of a group."""

    refused_by: str
    text: str
    reason: str
    copy: str


def grouped(table: Table, consumer: str, outcome: Outcome) -> dict[Cause, list[Row]]:
    """The rows that had this outcome with the consumer, by cause."""
    groups: dict[Cause, list[Row]] = {}
    for row in table.rows:
        cell = table.cells.get((consumer, *row))
        if cell and cell.outcome == outcome:
            groups.setdefault(Cause(cell.refused_by, cell.text, cell.reason, cell.copy), []).append(row)
    return groups


def causes(groups: dict[Cause, list[Row]], outcome: Outcome, total: int) -> Iterator[str]:
    # A text may tell of one object alone, say its shape: it stands below what the cause has in common with others.
    def key(item: tuple[Cause, list[Row]]) -> tuple[str, str, str]:
        return item[0].reason, item[0].refused_by, item[0].copy

    for (reason, refused_by, copy), items in itertools.groupby(sorted(groups.items(), key=key), key):
        kind, symbol, _ = MARKS["by copy" if copy == "works" else outcome]
        what = f"{outcome} by {refused_by}" if refused_by else outcome
        what += {"works": "; copy=True works", "refused": "; with copy=True too", "": ""}[copy]
        yield f"<h3>{mark(kind, symbol)}{escape(reason or what)} <small>{escape(what)}</small></h3><ul>"
        for cause, rows in items:
            said = f"<code>{escape(cause.text)}</code>" if cause.text else ""
            yield f"<li>{'everything' if len(rows) == total else names(rows)}{said}</li>"
        yield "</ul>"


def names(rows: list[Row]) -> str:
    sections = itertools.groupby(rows, key=lambda row: row[0])
    return "<br>".join(
        f"<small>{escape(section)}:</small> {' · '.join(escape(provider) for _, provider in group)}"
        for section, group in sections
    )


def checks(report: Report) -> Iterator[str]:
    if not report.checks:
        return
    yield "<section><h2>What else was checked</h2><div class='columns'>"
    for library, group in itertools.groupby(report.checks, key=lambda check: check.library):
        yield f"<div><h3>{escape(library)}</h3><ul>"
        for check in group:
            kind, symbol = CHECKS[check.outcome]
            said = f" <small>{check.outcome}: {escape(check.text)}</small>" if check.text else ""
            sign = f"<i class='mark {kind}' role='img' title='{check.outcome}'>{symbol}</i>"
            yield f"<li>{sign}{escape(check.name)}{said}</li>"
        yield "</ul></div>"
    yield "</div></section>"


def style() -> str:
    # The symbol, and that it is not to be read aloud: the words of the cell are.
    symbol = "td.{0}::before {{ content: '{1}'; content: '{1}' / ''; }}\n"
    rules = Path(__file__).with_suffix(".css").read_text()
    return rules + "".join(symbol.format(kind, text) for kind, text, _ in MARKS.values())


PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
$style</style>
</head>
<body>
$body
</body>
</html>
""")
