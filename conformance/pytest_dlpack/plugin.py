"""pytest's plugin: one test for each rule of DLPack, for the library that the options or the fixtures name.

A test with the fixture dlpack_rule runs once for each rule, as in pytest_dlpack.test_rules:

    def test_rule(dlpack_rule):
        dlpack_rule()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .judge import Judge
    from .rules import Rule

MARKERS = {"must": "a rule that a text states", "should": "a rule that a text recommends, leaves open or leaves out"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dlpack", "the rules of DLPack: pytest --pyargs pytest_dlpack")
    group.addoption(
        "--dlpack-producer", metavar="MODULE:NAME", help="a function that makes a library's array of a numpy array"
    )
    group.addoption(
        "--dlpack-consumer", metavar="MODULE:NAME", help="one that makes a library's array of an object with __dlpack__"
    )
    parser.addini("dlpack_xfail", "rules that are known to be broken, one a line: RULE: REASON", "linelist", [])


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dlpack_rule" in metafunc.fixturenames:
        try:
            metafunc.parametrize("dlpack_rule", parameters(metafunc), indirect=True)
        except (ImportError, ValueError) as error:
            raise pytest.Collector.CollectError(f"dlpack_rule: {error}") from None  # shown without a traceback


def parameters(metafunc: pytest.Metafunc) -> list[Any]:
    """Returns the rules for the sides that an option or a fixture names."""
    from .judge import specs
    from .rules import RULES

    options = [metafunc.config.getoption(f"dlpack_{side}") for side in ("producer", "consumer")]
    # pytest has no public name for this; without it, the rules of both sides are collected, and some skipped. There is
    # one definition if nothing overrides the plugin's own, none for a parameter.
    fixtures = getattr(metafunc, "_arg2fixturedefs", {})
    sides = {side for side in ("producer", "consumer") if len(fixtures.get(f"dlpack_{side}", ())) != 1}
    if any(options) or not sides:
        sides |= set(specs(*options))
    broken = dict(line.partition(":")[::2] for line in metafunc.config.getini("dlpack_xfail"))
    for rule, reason in broken.items():
        if rule not in RULES or not reason.strip():
            raise ValueError(f"dlpack_xfail = {rule}:{reason}: expected RULE: REASON")
    return [pytest.param(rule, id=rule.id, marks=marks(rule, broken)) for rule in RULES.values() if rule.side in sides]


def marks(rule: Rule, broken: dict[str, str]) -> list[pytest.MarkDecorator]:
    found = [getattr(pytest.mark, rule.severity)]
    if rule.id in broken:
        found.append(pytest.mark.xfail(reason=broken[rule.id].strip(), strict=True))
    return found


@pytest.fixture(scope="session")
def dlpack_producer(request: pytest.FixtureRequest) -> Any:
    """A function that makes the library's array of a numpy array, or its MODULE:NAME. None: there is none.

    A conftest.py or a test file may override it. The function is imported in another process, by its name.
    """
    return request.config.getoption("dlpack_producer")


@pytest.fixture(scope="session")
def dlpack_consumer(request: pytest.FixtureRequest) -> Any:
    """A function that makes the library's array of an object with __dlpack__, or its MODULE:NAME. None: there is none.

    A conftest.py or a test file may override it. The function is imported in another process, by its name.
    """
    return request.config.getoption("dlpack_consumer")


@pytest.fixture(scope="module")
def dlpack_judges() -> Iterator[dict[str, Judge]]:
    """The judge of each library; each has a process in which the rules run."""
    judges: dict[str, Judge] = {}
    yield judges
    for judge in judges.values():
        judge.end()
    if problems := [problem for judge in judges.values() for problem in judge.problems]:
        pytest.fail(printable("; ".join(problems)), pytrace=False)


@pytest.fixture
def dlpack_rule(
    request: pytest.FixtureRequest, dlpack_judges: dict[str, Judge], dlpack_producer: Any, dlpack_consumer: Any
) -> Callable[[], None]:
    """A function that fails if the library breaks the rule. If the rule is a should, the test xfails instead."""
    from .judge import Judge, specs

    rule: Rule = request.param
    try:
        named = specs(dlpack_producer, dlpack_consumer)
    except ValueError as error:
        pytest.fail(str(error), pytrace=False)
    judge = dlpack_judges.setdefault(str(named), Judge(named))

    def check() -> None:
        if rule.side not in named:
            pytest.skip(f"no {rule.side} is named")
        found = judge.verdict(rule)
        if found.outcome == "skipped":
            pytest.skip(printable(found.text))
        if found.outcome == "broken":
            text = f"{rule.gist}\nseen: {printable(found.text)}\nsource: {rule.source}"
            if rule.severity == "should":
                pytest.xfail(text)
            pytest.fail(text, pytrace=False)

    return check


def printable(text: str) -> str:
    """Escapes what a terminal would obey and XML can't hold."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
