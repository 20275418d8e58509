"""This package keeps the rules of pytest-dlpack, as a producer of memory that it describes and as a consumer, but for
two recommendations."""

import pytest

from dlpack import asdlpack
from pytest_dlpack.judge import Judge, specs
from pytest_dlpack.rules import RULES
from support.capi import Speaks, on_device

NOT_FOLLOWED = {
    "producer-read-only-legacy",  # no consumer of legacy capsules could take bytes: it can't ask for another
    "producer-exchange-api-allocator-alignment",  # copies begin at multiples of 64 bytes, which all libraries accept
}


def by_buffer(array):
    return asdlpack(memoryview(array))


def by_interface(array):
    return asdlpack(Speaks(__array_interface__=array.__array_interface__, array=array))


def by_capsule(array):
    return asdlpack(by_interface(array).__dlpack__(max_version=(1, 3)))


def by_producer(array):
    inner = by_interface(array)
    return asdlpack(Speaks(__dlpack__=inner.__dlpack__, __dlpack_device__=inner.__dlpack_device__))


def on_cuda(array):
    return on_device((2, 0))


def on_rocm(array):
    return on_device((10, 0))


def taken(obj):
    x = asdlpack(obj)
    assert x.ndim >= 0  # asdlpack asks when it has to
    return x


def broken(side, function, is_chosen=lambda rule: True):
    with Judge(specs(**{"producer": None, "consumer": None, side: function})) as judge:
        for rule in RULES.values():
            if rule.side == side and is_chosen(rule.id):
                judge.verdict(rule)
    found = {rule: verdict.text for rule, verdict in judge.verdicts.items() if verdict.outcome == "broken"}
    return found.keys() - NOT_FOLLOWED, judge.problems


@pytest.mark.parametrize("make", [by_buffer, by_interface, by_capsule, by_producer])
def test_producer_keeps_all_rules(make):
    assert broken("producer", make) == (set(), [])


@pytest.mark.parametrize("make", [on_cuda, on_rocm])
def test_memory_of_gpus_keeps_the_rules_on_streams(make):
    assert broken("producer", make, lambda rule: "stream" in rule or "device" in rule) == (set(), [])


def test_consumer_keeps_all_rules():
    assert broken("consumer", taken) == (set(), [])
