"""What the rules say of one library, as one HTML page that loads nothing and runs nothing."""

from collections.abc import Iterator

from .html import escape, facts, mark, page_of
from .results import Conformance, Verdict

MARKS = {  # what became of a rule: class, symbol, and what it means
    "kept": ("shared", "✓", "the library does what the rule says"),
    "broken": ("failed", "✖", "a must that the library breaks"),
    "not followed": ("copied", "○", "a recommendation, or what can be read in two ways"),
    "skipped": ("refused", "/", "can't be tried here"),
}


def page(found: Conformance) -> str:
    """One self-contained HTML page. The same results give the same page."""
    body = [*heading(found), *broken(found), *skipped(found), *rules(found), FOOTER]
    return page_of(str(found), body)


def word(verdict: Verdict) -> str:
    return "not followed" if (verdict.outcome, verdict.severity) == ("broken", "should") else verdict.outcome


def heading(found: Conformance) -> Iterator[str]:
    kind, symbol, _ = MARKS["kept" if found.ok else "broken"]
    yield f"<header><h1>Does {escape(found.name)} keep the rules of DLPack?</h1>"
    yield f"<p class='verdict {kind}'>{symbol} {escape(str(found))}</p>"
    sides = {"producer": found.producer, "consumer": found.consumer}
    yield facts({side: spec for side, spec in sides.items() if spec} | found.about)
    yield "</header>"


def broken(found: Conformance) -> Iterator[str]:
    if found.problems:
        yield "<section><h2>Beside the rules</h2><ul class='cards'>"
        yield from (f"<li class='failure'><b>{escape(problem)}</b></li>" for problem in found.problems)
        yield "</ul></section>"
    for severity, title, kind in ("must", "Broken", "failure"), ("should", "Recommended, and not followed", "less"):
        verdicts = found.broken(severity)
        if verdicts:
            yield f"<section><h2>{title}</h2><ul class='cards'>"
        for each in verdicts:
            yield f"<li class='{kind}'><b>{escape(each.rule)}</b>: {escape(each.gist)}"
            yield f"<div>seen: <code>{escape(each.text)}</code></div><small>source: {escape(each.source)}</small></li>"
        if verdicts:
            yield "</ul></section>"


def skipped(found: Conformance) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for each in found.verdicts:
        if each.outcome == "skipped":
            reasons.setdefault(each.text, []).append(each.rule)
    if reasons:
        yield "<section><h2>Skipped</h2><ul class='cards'>"
    for reason, names in reasons.items():
        yield f"<li><b>{escape(reason)}</b><div><small>{escape(', '.join(names))}</small></div></li>"
    if reasons:
        yield "</ul></section>"


def rules(found: Conformance) -> Iterator[str]:
    words = [word(each) for each in found.verdicts]
    yield "<section><h2>All rules</h2><ul class='legend'>"
    for name, (kind, symbol, meaning) in MARKS.items():
        if name in words:
            yield f"<li>{mark(kind, symbol)}<b>{words.count(name)} {name}</b> {meaning}</li>"
    yield "</ul>"
    for side in "producer", "consumer":
        verdicts = [each for each in found.verdicts if each.rule.startswith(side)]
        if verdicts:
            yield f"<h3>As a {side}</h3><ul class='rules'>"
        for each in verdicts:
            kind, symbol, _ = MARKS[word(each)]
            yield f"<li>{mark(kind, symbol)}<b>{escape(each.rule)}</b> <span>{each.severity}, {word(each)}</span>"
            yield f"<p>{escape(each.gist)} <small>{escape(each.source)}</small></p></li>"
        if verdicts:
            yield "</ul>"
    yield "</section>"


FOOTER = """<footer>Made by <code>python -m dlpack.tests --producer MODULE:NAME --consumer MODULE:NAME
--html FILE</code> (<code>pip install dlpack-go</code>).</footer>"""
