"""pytest --pyargs dlpack.tests --dlpack-producer MODULE:NAME --dlpack-consumer MODULE:NAME: the rules of DLPack."""

from collections.abc import Callable


def test_rule(dlpack_rule: Callable[[], None]) -> None:
    dlpack_rule()
