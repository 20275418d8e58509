"""Wraps, exports, imports, consumes, drops, writes and forks in any order, and compares with a model of the holders.
Memory is locked as long as there is a holder, and not a moment longer. Deleters run exactly when they are due. All
holders see the same values."""

import ctypes
import gc
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from dlpack import DLPackObject, asdlpack, frombuffer
from dlpack._abi import READ_ONLY, capsule_name, consume
from support.abi import LEGACY, VERSIONED, Tensor, strays
from support.alone import JOBS, alone
from support.capi import Speaks
from support.forks import fork_and_join
from support.threads import ForeignThreads

PROCESSES = 2
numbers = st.integers(0, 1 << 16)  # of a holder, a source, an index: modulo how many there are
VERSIONS = st.sampled_from([None, (1, 0), (1, 3)])


@dataclass(eq=False)
class Source:
    """Memory, and what should be in it."""

    owner: Any  # a bytearray, a Tensor; None for a copy, which lives by its holders alone
    values: bytearray

    def is_free(self):
        """Whether the package has let go of it."""
        if isinstance(self.owner, Tensor):
            return self.owner.deleted == 1
        try:
            self.owner.append(0)
        except BufferError:
            return False
        self.owner.pop()
        return True


@dataclass(eq=False)
class Holder:
    """Holds a source's memory: `object` is the machine's only reference to it."""

    object: Any
    source: Source
    readonly: bool
    read: Any  # gives the values
    write: Any = None


def read_managed(managed):
    return ctypes.string_at(managed.dl_tensor.data, managed.dl_tensor.shape[0])


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        if next(begun) % 100 == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()  # a collection looks at what this run has made, and at no more
        self.sources: list[Source] = []
        self.holders: list[Holder] = []
        self.garbage: list[Source] = []  # what garbage holds, which nobody has collected yet

    def hold(self, object, source, readonly):
        """A holder, by the kind of the object."""
        read, write = bytes, None
        if type(object) is DLPackObject:
            assert object.readonly == readonly
        elif isinstance(object, memoryview | np.ndarray):
            read = np.ndarray.tobytes if isinstance(object, np.ndarray) else bytes
            write = type(object).__setitem__
            is_readonly = object.readonly if isinstance(object, memoryview) else not object.flags.writeable
            assert is_readonly == readonly
        elif isinstance(object, ctypes.Structure):
            read = read_managed
            assert not hasattr(object, "flags") or bool(object.flags & READ_ONLY) == readonly
        else:
            read = None  # a capsule, a pair of capsules
        self.holders.append(Holder(object, source, readonly, read, write))

    def of(self, number, *kinds):
        """Returns one of the holders of these kinds, picked by number, or None."""
        some = [holder for holder in self.holders if isinstance(holder.object, kinds)]
        return some[number % len(some)] if some else None

    # Sources.

    @rule(values=st.binary(min_size=1, max_size=9), how=st.sampled_from(["itself", "memoryview", "interface"]))
    def wrap_a_bytearray(self, values, how):
        owner = bytearray(values)
        keys = {"version": 3, "typestr": "|u1", "shape": (len(owner),), "data": owner}
        obj = {"itself": owner, "memoryview": memoryview(owner), "interface": Speaks(__array_interface__=keys)}[how]
        self.sources.append(Source(owner, bytearray(values)))
        self.hold(asdlpack(obj), self.sources[-1], False)

    @rule(name=st.sampled_from([LEGACY, VERSIONED]), way=st.sampled_from(["capsule", "pointer", "producer"]))
    def import_a_tensor(self, name, way):
        values = (ctypes.c_uint8 * 5)(*b"dlpak")
        tensor = Tensor(name, data=ctypes.addressof(values), shape=(5,), dtype=(1, 8, 1))
        tensor.memory = values  # the deleter keeps nothing: this does
        self.sources.append(Source(tensor, bytearray(values)))
        if way == "pointer":
            obj = ctypes.pointer(tensor.owned())
        else:
            obj = tensor.capsule()
            if way == "producer":
                capsules = [obj]
                obj = Speaks(__dlpack__=lambda **_: capsules.pop())
        x = asdlpack(obj)
        assert x.shape == (5,)
        self.hold(x, self.sources[-1], name == LEGACY and way != "pointer")
        tensor.asks = way == "producer"  # it is asked anew at an export, and has nothing more to give

    # Holders of holders.

    def exportable(self, number):
        holder = self.of(number, DLPackObject)
        return None if holder is None or getattr(holder.source.owner, "asks", False) else holder

    @rule(number=numbers, version=VERSIONS)
    def export(self, number, version):
        if holder := self.exportable(number):
            self.hold(holder.object.__dlpack__(max_version=version), holder.source, holder.readonly)

    @rule(number=numbers)
    def import_a_capsule(self, number):
        if holder := self.of(number, type(asdlpack(b"a").__dlpack__())):
            x = asdlpack(holder.object)
            self.hold(x, holder.source, holder.readonly or capsule_name(holder.object) == b"used_dltensor")
            self.holders.remove(holder)

    @rule(number=numbers)
    def consume(self, number):
        if holder := self.of(number, type(asdlpack(b"a").__dlpack__())):
            self.hold(consume(holder.object), holder.source, holder.readonly)
            self.holders.remove(holder)

    @rule(number=numbers)
    def take_a_structure_over(self, number):
        if holder := self.of(number, ctypes.Structure):
            readonly = hasattr(holder.object, "flags") and holder.readonly
            self.hold(asdlpack(ctypes.pointer(holder.object)), holder.source, readonly)
            self.holders.remove(holder)

    @rule(number=numbers, how=st.sampled_from([memoryview, np.asarray, frombuffer, asdlpack, "memoryview", "numpy"]))
    def share(self, number, how):
        if holder := self.exportable(number) if how in ("numpy", np.asarray) else self.of(number, DLPackObject):
            ways = {
                frombuffer: lambda x: frombuffer(x, "uint8"),
                "memoryview": lambda x: asdlpack(memoryview(x)),
                "numpy": np.from_dlpack,
            }
            self.hold(ways.get(how, how)(holder.object), holder.source, holder.readonly)

    @rule(number=numbers)
    def share_by_arrow(self, number):
        if holder := self.of(number, DLPackObject):
            self.hold(holder.object.__arrow_c_array__(), holder.source, holder.readonly)

    @rule(number=numbers)
    def copy(self, number):
        if holder := self.of(number, DLPackObject):
            x = asdlpack(holder.object, copy=True)
            self.hold(x, Source(None, bytearray(holder.source.values)), False)

    # Ends.

    def let_go(self, number):
        holder = self.holders.pop(number % len(self.holders))
        if isinstance(holder.object, ctypes.Structure):
            holder.object.deleter(ctypes.addressof(holder.object))

    @precondition(lambda self: self.holders)
    @rule(number=numbers)
    def drop(self, number):
        self.let_go(number)

    @rule(number=numbers)
    def delete_on_a_foreign_thread(self, number):
        if holder := self.of(number, ctypes.Structure):
            threads = ForeignThreads()
            threads.start(ctypes.cast(holder.object.deleter, ctypes.c_void_p), ctypes.addressof(holder.object))
            threads.join()
            self.holders.remove(holder)

    @precondition(lambda self: self.holders)
    @rule(number=numbers)
    def become_garbage(self, number):
        holder = self.holders[number % len(self.holders)]
        if not isinstance(holder.object, ctypes.Structure):
            self.garbage.append(holder.source)
            cycle = [holder.object]
            cycle.append(cycle)
            self.holders.remove(holder)

    @rule()
    def collect(self):
        gc.collect()
        self.garbage.clear()

    # Writes and forks.

    @precondition(lambda self: self.holders)
    @rule(number=numbers, index=numbers, value=st.integers(0, 255))
    def write(self, number, index, value):
        holder = self.holders[number % len(self.holders)]
        index %= len(holder.source.values)
        if holder.write is not None and not holder.readonly:
            holder.write(holder.object, index, value)
        elif isinstance(holder.source.owner, bytearray):
            holder.source.owner[index] = value
        elif isinstance(holder.source.owner, Tensor):
            holder.source.owner.memory[index] = value
        else:
            return
        holder.source.values[index] = value

    @precondition(lambda self: self.holders)
    @rule(number=numbers, seldom=st.integers(0, 3))
    def fork(self, number, seldom):
        """A child has all that its parent has, and lets it go in another order."""

        def child():
            self.check()
            while self.holders:
                self.let_go(number)
                self.check()
            self.collect()
            self.check()

        if seldom == 3:
            fork_and_join(child)

    @invariant()
    def check(self):
        held = {id(holder.source) for holder in self.holders} | {id(source) for source in self.garbage}
        for source in self.sources:
            assert source.is_free() == (id(source) not in held)
        for holder in self.holders:
            if holder.read is not None:
                assert holder.read(holder.object) == holder.source.values
        assert strays == []

    def teardown(self):
        while self.holders:
            self.let_go(0)
            self.check()
        self.collect()
        self.check()


begun = itertools.count()


@alone(timeout=900)
def run_machine(number, count):
    gc.disable()  # garbage is collected when the machine says so
    run_state_machine_as_test(
        seed(number)(Machine),
        settings=settings(
            max_examples=count, stateful_step_count=15, database=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert next(begun) >= count


def test_memory_is_held_exactly_as_long_as_there_is_a_holder(effort, figure):
    count = effort(60, 10_000)
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda number: run_machine(number=number, count=count // PROCESSES), range(PROCESSES)))
    figure("state-machine runs", count)
