"""The rules of DLPack, tried on a library that this package need not know."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

from .._foreign import printable
from .expression import Expression
from .results import Conformance, Verdict
from .session import about, validate
from .text import Line, few, wrapped

Progress = Callable[[int, int, str], None]  # rules done, rules in all, what begins


def conformance(
    *,
    producer: str | None = None,
    consumer: str | None = None,
    name: str = "",
    expression: str = "",
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Conformance:
    """Tries the rules of DLPack on a library: those of producers, of consumers, or both.

    producer is MODULE:NAME of a function that gets a numpy array and returns the library's own object with the same
    values; it raises NotImplementedError for what the library can't hold. consumer is that of a function that gets an
    object with __dlpack__ and returns the library's own. expression chooses rules by their ids, as pytest's -k does.
    timeout is in seconds, for one rule; without one, the first has 30, and the others what fits the time that the first
    took. Raises ValueError for an argument of no use, and OSError where no process can be had.
    """
    from .judge import Judge  # with numpy
    from .rules import Rule

    specs = validated(producer, consumer)
    validate((), expression, timeout, None)
    wanted = Expression(expression)
    found = Conformance(name or [*specs.values()][0].partition(":")[0].partition(".")[0], producer, consumer, about())
    judges = [Judge({side: spec}, timeout) for side, spec in specs.items()]
    chosen = [[rule for rule in judge.rules() if wanted(f"{rule.id} {rule.severity}")] for judge in judges]
    done, total, stopped = 0, sum(map(len, chosen)), False

    def work(judge: Judge, rules: list[Rule]) -> None:
        nonlocal done
        with judge:
            for rule in rules:
                if stopped:
                    break
                if progress:
                    progress(done, total, rule.id)
                judge.verdict(rule)
                done += 1

    with ThreadPoolExecutor() as pool:
        try:
            list(pool.map(work, judges, chosen))
        except BaseException:  # Ctrl-C, say: what runs is of no use any more
            stopped = True
            for judge in judges:
                judge.stop()
            raise
    for judge, rules in zip(judges, chosen, strict=True):
        ids = {rule.id for rule in rules}
        verdicts = judge.verdicts.values()
        found.verdicts += [each for each in verdicts if each.rule in ids or each.outcome != "kept"]
        found.problems += judge.problems
    if not total:
        found.problems.append(f"-k {expression!r}: chooses nothing")
    return found


def validated(producer: str | None, consumer: str | None) -> dict[str, str]:
    """MODULE:NAME by side. Raises for what is none."""
    specs = {side: spec for side, spec in (("producer", producer), ("consumer", consumer)) if spec is not None}
    for side, spec in specs.items():
        if not isinstance(spec, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", spec):
            raise ValueError(f"{side} {spec!r}: expected MODULE:NAME of a function")
    if not specs:
        raise ValueError("expected a producer, a consumer or both")
    return specs


def lines(found: Conformance, width: int) -> Iterator[Line]:
    """What people read first: the verdict, what is broken, and what was not tried."""
    yield [(str(found), "bold green" if found.ok else "bold red")]
    for problem in found.problems:
        yield from wrapped(problem, width, 1, "bold red")
    for severity, title, style in ("must", "Broken", "bold red"), ("should", "Recommended, and not followed", "yellow"):
        if broken := found.broken(severity):
            yield []
            yield [(title, style)]
        for each in broken:
            yield from wrapped(f"{each.rule}: {each.gist}", width, 1)
            yield from wrapped(f"seen: {each.text}", width, 2, style)
            yield from wrapped(f"source: {each.source}", width, 2, "dim")
    reasons: dict[str, list[str]] = {}
    for each in found.verdicts:
        if each.outcome == "skipped":
            reasons.setdefault(each.text, []).append(each.rule)
    if reasons:
        yield []
        yield [("Skipped", "bold")]
    for reason, names in reasons.items():
        yield from wrapped(reason, width, 1)
        yield from wrapped(few(names), width, 2, "dim")


def junitxml(found: Conformance) -> str:
    """As pytest's --junitxml: what is recommended and not followed is skipped, as an expected failure is there. XML has
    no control characters."""
    name = printable(found.name)
    suite = ElementTree.Element("testsuite", name=f"dlpack: {name}")
    counts = dict.fromkeys(("failure", "skipped"), 0)
    problems = [Verdict("process", "", "", "must", "broken", problem) for problem in found.problems]
    for each in [*found.verdicts, *problems]:
        case = ElementTree.SubElement(suite, "testcase", classname=f"dlpack.{name}", name=each.rule)
        if each.outcome != "kept":
            tag = "failure" if each.outcome == "broken" and each.severity == "must" else "skipped"
            counts[tag] += 1
            ElementTree.SubElement(case, tag, message=printable(each.text)).text = f"{each.gist}\n{each.source}"
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(counts["failure"]))
    suite.set("skipped", str(counts["skipped"]))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
