"""Thousands of forked children, of parents in every state, each of which uses the whole interface: none hangs, none
dies, nothing is left behind."""

import sys

import pytest

from support.alone import alone, python

SECONDS = 200  # of one long form of children; a slow machine forks fewer

PARENTS = ["right after the import", "idle", "just back from Go", "with threads inside Go"]


@pytest.mark.parametrize("parent", PARENTS)
def test_children_use_everything_and_fork_five_deep(parent, effort, figure):
    result = python(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        f"import test_many_forks as t; t.fork_children({parent!r}, {effort(10, 2500)}, {effort(20, SECONDS)})",
        timeout=280,
    )
    assert result.returncode == 0, result.stderr
    children, deep = map(int, result.stdout.split())
    assert deep > 0
    figure("children", children)
    figure("which forked five deep", deep)


def fork_children(parent, count, seconds):
    """Prints how many there were, and how many of them forked five deep."""
    import contextlib
    import gc
    import itertools
    import os
    import threading
    import time

    import dlpack
    from support import everything, forks, process

    inherited = []
    if parent != "right after the import":
        everything.use()
        inherited.append(everything.Inherited())
    numbers = itertools.count()
    gc.collect()
    gc.freeze()  # collections in the children need not look at all the modules

    def descend(depth):
        everything.use()
        if depth > 0:
            forks.fork_and_join(lambda: descend(depth - 1))
        else:
            os.write(writing, b".")

    def goes_deep(number):
        return number == 3 or number % 25 == 0

    def child():
        number = next(numbers)
        for held in inherited:
            held.drop()
        everything.use()
        if number % 3 == 0:
            forks.use_all_in_threads(2)
        if goes_deep(number):
            descend(5)

    reading, writing = os.pipe()
    end = time.monotonic() + seconds
    done = deep = 0
    with forks.Load(3) if parent == "with threads inside Go" else contextlib.nullcontext():
        while done < count and time.monotonic() < end:
            if parent == "just back from Go":
                dlpack.asdlpack(forks.new_kind())
            deep += 2 * goes_deep(next(numbers) + 1)
            forking = [lambda: forks.fork(child), lambda: process.in_thread(lambda: forks.fork(child))]
            for pid in [fork() for fork in forking]:
                forks.join(pid)
                done += 1
    assert threading.active_count() == 1
    everything.use()
    os.close(writing)
    with open(reading) as leaves:
        assert len(leaves.read()) == deep
    print(done, deep)


@alone(timeout=280)
def forks_leave_nothing(count):
    from support import forks, process

    def mappings():
        with open("/proc/self/maps") as lines:
            return len(list(lines))

    def state():
        return process.open_files(), mappings(), process.address_space()

    def fork_many(times):
        forks.use_all()
        forks.fork_and_join(forks.use_all)
        before = state()
        for _ in range(times):
            forks.fork_and_join(forks.use_all)
        assert state() == before

    def family():
        fork_many(count // 10)

    fork_many(count)
    forks.fork_and_join(family)
    forks.fork_and_join(lambda: (forks.use_all(), forks.fork_and_join(family)))


def test_forks_in_a_row_leave_no_descriptor_and_no_mapping_in_parents_children_and_theirs(effort, figure):
    count = effort(30, 1000)
    forks_leave_nothing(count=count)
    figure("forks", count + 2 * (count // 10))


@alone(timeout=280)
def forks_of_forks(depth):
    from support import forks

    def descend(left):
        forks.use_all()
        if left:
            forks.fork_and_join(lambda: descend(left - 1))

    descend(depth)


def test_every_generation_of_a_long_line_starts_a_core(effort, figure):
    """Each inherits the dead cores of all before it."""
    generations = effort(12, 50)
    forks_of_forks(depth=generations)
    figure("generations", generations)


def test_a_fork_warns_of_nothing_before_the_core_has_started():
    """Python from 3.12 on warns of threads at a fork."""
    result = python(
        "import os, sys, dlpack\nos.wait() if os.fork() else os._exit(0)", environ={"PYTHONWARNINGS": "error"}
    )
    assert (result.returncode, result.stderr) == (0, "")
