"""pytest --pyargs pytest_dlpack --dlpack-producer MODULE:NAME --dlpack-consumer MODULE:NAME"""

from collections.abc import Callable


def test_rule(dlpack_rule: Callable[[], None]) -> None:
    dlpack_rule()
