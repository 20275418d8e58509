"""Not a library: the rules of DLPack, which this package keeps."""

import importlib.util
from typing import Any

import dlpack

from ..exchange import expect
from ..memory import Skip


def make(array: Any) -> dlpack.DLPackObject:
    """numpy's array without numpy's __dlpack__, whose answers would be handed on."""
    return dlpack.asdlpack(memoryview(array))


def take(obj: Any) -> dlpack.DLPackObject:
    """asdlpack alone asks for nothing yet; the first attribute does."""
    x = dlpack.asdlpack(obj)
    assert x.ndim >= 0
    return x


def the_rules_are_kept() -> None:
    if importlib.util.find_spec("numpy") is None:
        raise Skip("numpy not installed")
    from ..suite import conformance

    found = conformance(producer=f"{__name__}:make", consumer=f"{__name__}:take", name="dlpack")
    failures = [f"{each.rule}: {each.text}" for each in found.broken("must")] + found.problems
    expect(found.ok, "; ".join(failures))


CHECKS = {"the rules of DLPack are kept": the_rules_are_kept}
