"""Threads that need no GIL: what two of them do to one object at once. With a GIL they take turns often instead."""

import gc
import sys
import sysconfig
import threading
import weakref

import numpy as np
import pytest

import dlpack
from dlpack import structs
from support import capi
from support.alone import alone, python
from support.capi import Memory, Speaks
from support.producers import Producer
from support.threads import THREADS, in_threads

pytestmark = pytest.mark.usefixtures("quick_switches")


def in_step(work, shared):
    """Returns, for each shared object, what work returned in each thread. Threads begin each object together: half
    of the objects with two threads, which spin and so start at the same moment, half with more, which sleep."""
    arrived = [0, 0]
    asleep = threading.Barrier(THREADS)

    def by_two(number):
        try:
            results = []
            for step, thing in enumerate(shared[::2], 1):
                arrived[number] = step
                while arrived[not number] < step:
                    pass
                results.append(work(thing))
            return results
        finally:
            arrived[number] = len(shared)

    def by_many(number):
        return [(asleep.wait(), work(thing))[1] for thing in shared[1::2]]

    return [*zip(*in_threads(by_two, 2), strict=True), *zip(*in_threads(by_many), strict=True)]


TAKEN = {"consumed-capsule", "capsule-name", "null-pointer", "released"}  # what errors say of what another thread took


def taken(thing):
    """Returns asdlpack(thing), or None if another thread took it."""
    try:
        return dlpack.asdlpack(thing)
    except ValueError as error:
        assert error.reason in TAKEN, error  # type: ignore[attr-defined]
        return None


def taken_at_most_once(make, rounds):
    """Has threads take what make(source) gives: at most one gets it, and its source is let go. Returns how many did."""
    sources = [Memory(8) for _ in range(rounds)]
    alive = [weakref.ref(source) for source in sources]
    shared = [make(source) for source in sources]
    sources.clear()
    counts = [sum(x is not None for x in results) for results in in_step(taken, shared)]
    assert max(counts) <= 1
    shared.clear()
    gc.collect()
    assert not [source for source in alive if source() is not None]
    return sum(counts)


def test_the_gil_is_as_it_was_before_the_import():
    result = python("""
import sys
enabled = getattr(sys, "_is_gil_enabled", lambda: True)
before = enabled()
import dlpack
dlpack.asdlpack(bytearray(3)).__dlpack__()
assert enabled() is before
""")
    assert (result.returncode, result.stderr) == (0, "")


def test_threads_do_not_share_a_count_of_objects():
    """Without a GIL each would wait for the others, to count one more or one less."""
    gc.collect()  # of what other tests left
    before = sys.getrefcount(dlpack.DLPackObject)
    kept = [dlpack.asdlpack(bytearray(1)) for _ in range(100)]
    counted = sys.getrefcount(dlpack.DLPackObject) - before
    assert counted == (0 if sysconfig.get_config_var("Py_GIL_DISABLED") else 100)
    del kept


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_a_capsule_is_taken_by_one_of_the_threads(max_version, effort, figure):
    rounds = effort(200, 10_000)
    assert rounds == taken_at_most_once(
        lambda source: dlpack.asdlpack(source).__dlpack__(max_version=max_version), rounds
    )
    figure("capsules", rounds)


@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned"])
def test_a_structure_is_taken_by_one_of_the_threads_through_its_pointer(name, effort, figure):
    rounds = effort(100, 5_000)
    pointer_to = {
        b"dltensor": structs.DLManagedTensor,
        b"dltensor_versioned": structs.DLManagedTensorVersioned,
    }[name]
    data = np.zeros(4, "f4")
    made = [capi.Managed(data.ctypes.data, name=name, shape=(4,), dtype=(2, 32, 1)) for _ in range(rounds)]
    pointers = [structs.POINTER(pointer_to)(managed.struct) for managed in made]
    for results in in_step(taken, pointers):
        assert sum(x is not None for x in results) == 1
    del results
    gc.collect()
    assert {managed.deleted for managed in made} == {1}
    figure("structures", rounds)


def test_arrow_structures_are_taken_by_at_most_one_of_the_threads(effort, figure):
    """A producer gives the same two capsules to all. Two threads may take one each: then both are refused."""
    rounds = effort(100, 5_000)

    def producer(source):
        pair = dlpack.asdlpack(source).__arrow_c_array__()
        return Speaks(__arrow_c_array__=lambda: pair)

    taken_at_most_once(producer, rounds)
    figure("arrays", rounds)


def test_a_refused_capsule_stays_as_it_was(effort):
    """It is renamed while it is looked at, and its name is given back."""
    made = [capi.Managed(None, shape=(4,), version=(2, 0)) for _ in range(effort(100, 2_000))]
    shared = [managed.capsule() for managed in made]

    def look(capsule):
        """A thread may also meet the name that the other one gives it meanwhile."""
        with pytest.raises((BufferError, ValueError)) as caught:
            dlpack.asdlpack(capsule)
        return caught.value.reason  # type: ignore[attr-defined]

    reasons = {reason for results in in_step(look, shared) for reason in results}
    assert "dlpack-version" in reasons and reasons <= {"dlpack-version", *TAKEN}
    assert {capi.capsule_name(capsule) for capsule in shared} == {b"dltensor_versioned"}
    assert {managed.deleted for managed in made} == {0}


def use_in_every_way(x):
    """What does not depend on who else uses it at once."""
    with memoryview(x) as view:
        assert view.nbytes == x.nbytes
    assert dlpack.asdlpack(x) is x
    assert np.from_dlpack(x).ctypes.data == x.pointer
    assert np.from_dlpack(x, copy=True).tolist() == np.asarray(x).tolist()
    assert dlpack.asdlpack(x.__dlpack__()).pointer == x.pointer
    assert dlpack.asdlpack(x.__dlpack__(max_version=(1, 0))).pointer == x.pointer
    assert weakref.ref(x)() is x
    unused = x.__dlpack__(copy=True), x.__arrow_c_array__(), x.__array_struct__, dlpack.describe(x)
    del unused
    return x.shape, x.strides, x.dtype, x.pointer, x.device, x.__dlpack_device__(), repr(x), bytes(x)


@pytest.mark.parametrize("make", [lambda: np.arange(6.0), lambda: bytes(range(48)), lambda: Memory(48)])
def test_one_object_is_used_by_threads_in_every_way(make, effort, figure):
    """The buffers that they took of it are all counted back: else the garbage collector would leave it alone."""
    objects, uses = effort(5, 200), effort(4, 20)
    for _ in range(objects):
        source = make()
        count = sys.getrefcount(source)
        x = dlpack.asdlpack(source)
        cycle = Speaks(x=x)
        cycle.cycle = cycle
        answers = in_threads(lambda number, x=x: [use_in_every_way(x) for _ in range(uses)])
        assert len({answer for of_thread in answers for answer in of_thread}) == 1
        alive = weakref.ref(x)
        del x, cycle
        gc.collect()
        assert alive() is None
        assert sys.getrefcount(source) == count
    figure("uses", objects * uses * THREADS)


def test_a_producer_is_imported_once_for_all_threads(effort, figure):
    """The first import stays, and those of the other threads are given back."""
    rounds = effort(200, 10_000)

    def another(**arguments):
        return dlpack.asdlpack(bytearray(8)).__dlpack__(**arguments)

    for results in in_step(lambda x: x.pointer, [dlpack.asdlpack(Producer(another)) for _ in range(rounds)]):
        assert len(set(results)) == 1
    figure("producers", rounds)


def test_types_are_remembered_while_they_come_and_go(effort, figure):
    """The table has fewer places than there are types; a type that goes leaves its address to another."""
    rounds = effort(20, 1_000)

    def work(number):
        for _ in range(rounds):
            buffers = capi.immutable_type("__array_interface__")
            assert dlpack.asdlpack(buffers()).nbytes == 16
            assert dlpack.asdlpack(buffers()).protocol == "buffer"
            del buffers
            assert dlpack.asdlpack(np.zeros(3)).protocol == "__dlpack__"
            assert dlpack.asdlpack(np.zeros(3).data).protocol == "buffer"

    in_threads(work)
    figure("types", rounds * THREADS)


def test_types_change_while_their_objects_are_wrapped(effort, figure):
    """asdlpack recognises an object by what its type has at that moment."""
    rounds = effort(300, 20_000)

    class Changing(bytearray):
        pass

    def export(self, **arguments):
        return dlpack.asdlpack(bytes(3)).__dlpack__(**arguments)

    source = Changing(5)

    def work(number):
        for _ in range(rounds):
            if number == 0:
                Changing.__dlpack__ = export
                del Changing.__dlpack__
            else:
                try:
                    assert dlpack.asdlpack(source).nbytes in (3, 5)
                except BufferError as refusal:  # it was there when it was looked for, and gone when it was called
                    assert "__dlpack__" in str(refusal)
                except AttributeError as gone:
                    assert "__dlpack__" in str(gone)

    in_threads(work)
    figure("wrapped", rounds * (THREADS - 1))


def test_an_interface_changes_while_it_is_read(effort, figure):
    """Its dict is shared by all threads: each field that is read is one that was there, and lives while it is used."""
    rounds = effort(300, 20_000)
    memory = np.zeros(64, "u1")
    interface = {"version": 3, "typestr": "|u1", "shape": (8,), "data": (memory.ctypes.data, False)}
    source = Speaks(__array_interface__=interface, memory=memory)

    def work(number):
        for i in range(rounds):
            if number == 0:
                length = 8 + i % 8
                interface["shape"] = (length,)
                interface["data"] = (memory.ctypes.data + i % 8, bool(i % 2))
                interface["strides"] = (int("1"),)
                del interface["strides"]
            else:
                assert 8 <= dlpack.asdlpack(source).nbytes < 16

    in_threads(work)
    figure("read", rounds * (THREADS - 1))


@alone
def test_threads_begin_together():
    """The first use makes the core and other things once, whichever thread comes first."""
    import dlpack

    def work(number):
        x, version = dlpack.asdlpack(bytearray(3)), (1, int("0"))  # of which each thread has its own
        assert dlpack.asdlpack(x.__dlpack__(max_version=version)).shape == (3,)
        assert dlpack.asdlpack(dlpack.asdlpack(memoryview(x)), copy=True).nbytes == 3
        from dlpack import structs

        tensor = structs.DLTensor(data=x.pointer, device=(1, 0), dtype=(1, 8, 1))
        assert dlpack.asdlpack(structs.POINTER(structs.DLTensor)(tensor), owner=x).pointer == x.pointer

    in_threads(work)
