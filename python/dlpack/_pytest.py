"""pytest's plugin: tests the library that --dlpack-producer and --dlpack-consumer name by the rules of DLPack.

A test with the fixture dlpack_rule runs once for each rule, as in dlpack.tests.test_conformance:

    def test_rule(dlpack_rule):
        dlpack_rule()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ._foreign import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .tests.judge import Judge


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dlpack", "the rules of DLPack: pytest --pyargs dlpack.tests")
    group.addoption(
        "--dlpack-producer", metavar="MODULE:NAME", help="a function that makes a library's own object of a numpy array"
    )
    group.addoption(
        "--dlpack-consumer", metavar="MODULE:NAME", help="one that makes a library's own object of one with __dlpack__"
    )
    group.addoption(
        "--dlpack-skip", metavar="RULE=REASON", action="append", default=[], help="a rule that is not tried; repeatable"
    )


def specs(config: pytest.Config) -> dict[str, str]:
    from .tests.suite import validated

    try:
        return validated(config.getoption("dlpack_producer"), config.getoption("dlpack_consumer"))
    except ValueError as error:
        raise pytest.UsageError(f"--dlpack-producer, --dlpack-consumer: {error}") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dlpack_rule" in metafunc.fixturenames:
        try:
            metafunc.parametrize("dlpack_rule", rules(metafunc.config), indirect=True)
        except (ImportError, pytest.UsageError) as error:
            raise pytest.Collector.CollectError(f"dlpack_rule: {error}") from None  # shown without a traceback


def rules(config: pytest.Config) -> list[Any]:
    """Returns the parameters of dlpack_rule: the rules for the sides that are named."""
    from .tests.rules import RULES

    sides = specs(config)
    skipped = dict(each.partition("=")[::2] for each in config.getoption("dlpack_skip"))
    for name, reason in skipped.items():
        if name not in RULES or not reason:
            raise pytest.UsageError(f"--dlpack-skip {name}={reason}: expected a rule and a reason")
    return [
        pytest.param(each, id=each, marks=[pytest.mark.skip(skipped[each])] if each in skipped else [])
        for each, rule in RULES.items()
        if rule.side in sides
    ]


@pytest.fixture(scope="session")
def dlpack_judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """The process in which the rules run."""
    from .tests.judge import Judge

    with Judge(specs(request.config)) as judge:
        yield judge
    if judge.problems:
        pytest.fail(printable("; ".join(judge.problems)), pytrace=False)


@pytest.fixture
def dlpack_rule(request: pytest.FixtureRequest, dlpack_judge: Judge) -> Callable[[], None]:
    """A function that fails if the library breaks the rule; xfails if the rule is a recommendation."""
    from .tests.rules import RULES

    def check() -> None:
        found = dlpack_judge.verdict(RULES[request.param])
        if found.outcome == "skipped":
            pytest.skip(printable(found.text))
        if found.outcome == "broken":
            text = f"{found.gist}\nseen: {printable(found.text)}\nsource: {found.source}"
            if found.severity == "should":
                pytest.xfail(text)
            pytest.fail(text, pytrace=False)

    return check
