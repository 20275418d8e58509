"""Objects that come back to themselves, chains without end, and garbage that is cleared in a bad order."""

import ctypes
import functools
import gc
import mmap
import os
import resource
import sys
import threading
import weakref

import numpy as np
import pytest

from dlpack import asdlpack, from_pointer, frombuffer
from dlpack.structs import DELETER, DLManagedTensor, DLManagedTensorVersioned
from support.alone import TESTS, alone, run
from support.capi import Managed, Speaks, address, capsule_new
from support.chains import (
    CHAINS,
    count_callbacks,
    give_callbacks_back,
    give_chain_back,
    nest,
    refuse_bound_circle,
    refuse_circle,
)
from support.exchange_api import delete, from_object
from support.forks import fork_and_join
from support.refusals import refused
from support.threads import FREE

CASES = {
    "a circle of one": lambda: refuse_circle(1),
    "a circle of three": lambda: refuse_circle(3),
    "a circle whose capsule can't be taken": lambda: refuse_circle(2, Managed(0, shape=(1,), version=(2, 0)).capsule()),
    "a circle of bound methods": refuse_bound_circle,
    "a chain by callbacks of weak references": give_callbacks_back,
    "callbacks in Python of a long chain, which are all called": count_callbacks,
    **{f"a chain by {longer}": functools.partial(give_chain_back, longer) for longer in CHAINS},
}


@alone
@pytest.mark.parametrize("case", CASES)
def test_a_circle_is_an_error_and_a_chain_is_given_back(case):
    CASES[case]()


@alone
def test_a_chain_is_given_back_after_the_limit_of_the_stack_is_lowered():
    give_chain_back("frombuffer", 10)
    resource.setrlimit(resource.RLIMIT_STACK, (512 << 10, resource.RLIM_INFINITY))
    give_chain_back("frombuffer")
    refuse_circle(3)


# From 3.14 on Python raises a RecursionError itself in stacks of 64 KiB, once 28 are used; debug builds also in 256.
SMALL_STACKS = [max(64 << 10, os.sysconf("SC_THREAD_STACK_MIN")), 256 << 10, 2 << 20]  # 128 KiB on aarch64
if sys.version_info >= (3, 14):
    SMALL_STACKS = [1 << 20, 2 << 20] if hasattr(sys, "gettotalrefcount") else [256 << 10, 2 << 20]


@alone
@pytest.mark.parametrize("size", SMALL_STACKS)
def test_circles_and_chains_end_in_threads_with_small_stacks(size):
    """And in children that are forked there."""
    threading.stack_size(size)
    for use in nest, lambda: fork_and_join(nest):
        done = []
        thread = threading.Thread(target=lambda use=use, done=done: done.append(use()))
        thread.start()
        thread.join()
        assert done


@pytest.mark.parametrize("limit", [SMALL_STACKS[-2], "unlimited"])
def test_circles_and_chains_end_whatever_the_limit_of_the_stack(limit):
    code = f"import sys; sys.path.append({str(TESTS)!r}); from support import chains; chains.nest()"
    result = run("prlimit", f"--stack={limit}:", sys.executable, "-c", code)
    assert (result.returncode, result.stderr) == (0, "")


class Garbage:
    """Whose deleter, in Python, takes what it can of an object that may be in the same garbage, and keeps it."""

    def __init__(self, take):
        self.taken = []
        self.take = take
        self.memory = (ctypes.c_uint8 * 1)()
        self.producer = Managed(address(self.memory), name=b"dltensor", shape=(1,), dtype=(1, 8, 1))
        self.producer.struct.deleter = self.deleter = DELETER(self.delete)

    def delete(self, managed):
        used = ctypes.cast(self.producer.struct.manager_ctx, ctypes.py_object).value
        self.taken.append(self.take(used))

    def reader(self):
        """Returns an object that calls the deleter when it is freed."""
        return asdlpack(ctypes.pointer(self.producer.struct))

    def use(self, obj):
        """The deleter is to take it. It has to be there then, although no reference is held here."""
        self.producer.struct.manager_ctx = id(obj)


def pages():
    """Memory that is gone when it is freed, which a heap's need not be."""
    items = mmap.mmap(-1, 10_000_000)
    items[5_000_000:5_000_002] = b"ab"
    return items


def middle(view):
    return bytes(view[5_000_000:5_000_002])


@alone
@pytest.mark.skipif(FREE, reason="a free-threaded Python releases memoryviews in garbage first")
@pytest.mark.parametrize("delegate", [False, True])
def test_a_view_in_garbage_reads_memory_of_what_its_object_was_made_of(delegate):
    garbage = Garbage(middle)
    gc.disable()
    items = pages()
    source = asdlpack(np.frombuffer(items, "u1") if delegate else items)
    x = frombuffer(source, "uint8")
    cycle = []  # made before the view, so cleared before it: CPython crashes if a cleared view is read
    view = memoryview(x)
    garbage.use(view)
    cycle.append((cycle, x, view, garbage.reader()))  # a tuple is never cleared, and drops its last item first
    del items, source, x, view, cycle
    gc.collect()
    assert garbage.taken == [b"ab"]


TAKES = {
    "numpy": np.from_dlpack,
    "a view": memoryview,
    "a capsule": lambda x: asdlpack(x.__dlpack__()),
    "the interface": lambda x: np.asarray(Speaks(__array_interface__=x.__array_interface__, keep=x)),
    "Arrow": lambda x: asdlpack(Speaks(__arrow_c_array__=x.__arrow_c_array__)),
    "the exchange API": from_object,
    "itself": lambda x: x,
}
SOURCES = {
    "buffer": asdlpack,
    "delegate": lambda items: asdlpack(np.frombuffer(items, "u1")),
    "import": lambda items: asdlpack(np.frombuffer(items, "u1").__dlpack__()),
    "another": lambda items: frombuffer(asdlpack(items), "uint8"),
    "structure": lambda items: asdlpack(Speaks(__array_struct__=np.frombuffer(items, "u1").__array_struct__)),
}


def check_and_drop(taken):
    one = taken.pop()
    assert not taken
    if isinstance(one, DLManagedTensorVersioned):
        assert ctypes.string_at(one.dl_tensor.data + 5_000_000, 2) == b"ab"
        delete(one)
    else:
        assert middle(memoryview(one)) == b"ab"
    del one
    gc.collect()


@alone
@pytest.mark.parametrize("first", ["the object", "the reader"])
@pytest.mark.parametrize("source", SOURCES)
def test_an_export_made_while_its_cycle_is_collected_stays_valid(source, first):
    """By any way out. The memory is freed with the last export."""
    for take in TAKES.values():
        items = pages()
        alive = weakref.ref(items)
        garbage = Garbage(take)
        gc.disable()
        if first == "the object":  # what is made first would be cleared first
            x = SOURCES[source](items)
            reader = garbage.reader()
        else:
            reader = garbage.reader()
            x = SOURCES[source](items)
        garbage.use(x)
        cycle = []
        cycle.append((cycle, x, reader))  # a tuple is never cleared, and drops its last item first
        del items, x, reader, cycle
        gc.collect()
        check_and_drop(garbage.taken)
        assert alive() is None


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("source", SOURCES)
def test_an_export_made_in_a_destructor_of_garbage_stays_valid(source, take):
    class Finalised:
        def __del__(self):
            taken.append(TAKES[take](self.x))

    items, taken = pages(), []
    alive = weakref.ref(items)
    one = Finalised()
    one.itself, one.x = one, SOURCES[source](items)
    del one, items
    gc.collect()
    check_and_drop(taken)
    assert alive() is None


@alone(timeout=20)
def test_a_thread_in_the_producer_of_garbage_that_is_collected_gets_memory():
    class Waiting:
        def __dlpack__(self, **arguments):
            entered.set()
            collected.wait()
            raise BufferError("not today")

        @property
        def __array_interface__(self):
            return items.__array_interface__

    def use(x):
        thread = threading.Thread(target=lambda: taken.append(asdlpack(x.__dlpack__())))
        thread.start()
        entered.wait()
        return thread

    items = np.frombuffer(pages(), "u1")
    entered, collected, taken = threading.Event(), threading.Event(), []
    garbage = Garbage(use)
    gc.disable()
    reader = garbage.reader()
    x = asdlpack(Waiting())
    garbage.use(x)
    cycle = []
    cycle.append((cycle, x, reader))  # a tuple is never cleared, and drops its last item first
    del x, reader, cycle
    gc.collect()
    collected.set()
    garbage.taken[0].join()
    assert middle(memoryview(taken[0])) == b"ab"


@alone
def test_the_structure_and_its_deleter_outlive_the_tensor_in_garbage():
    """ctypes frees what it clears, and it may be cleared before the object that took the structure over."""
    deleted = []
    memory, shape = (ctypes.c_uint8 * 1)(), (ctypes.c_int64 * 1)(1)

    def make():
        deleter = DELETER(lambda managed: deleted.append(managed))
        tensor = DLManagedTensor(deleter=deleter)
        tensor.dl_tensor.data, tensor.dl_tensor.shape, tensor.dl_tensor.ndim = address(memory), shape, 1
        tensor.dl_tensor.device, tensor.dl_tensor.dtype = (1, 0), (1, 8, 1)
        cycle = [asdlpack(ctypes.pointer(tensor))]
        cycle.append(cycle)
        return weakref.ref(tensor), weakref.ref(deleter)

    gc.disable()
    alive = make()
    gc.collect()
    assert len(deleted) == 1
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


def test_a_device_id_of_any_length_is_quoted_in_the_error():
    refused(lambda: from_pointer(4096, 1, "int8", device="cuda:" + 5000 * "1"), "unknown-device", ValueError)


class Makes:
    """Its interface is made anew at each look."""

    def __init__(self, make):
        self.make = make

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (4,), "typestr": "<f4", "data": (4096, False), **self.make()}


class Empties:
    """Its interface loses its fields while it is read."""

    def __init__(self, capsule):
        fields = {"version": 3, "shape": (4,), "typestr": "<V2", "data": (4096, False)}
        self.__array_interface__ = {**fields, "mask": capsule}

    @property
    def dtype(self):
        self.__array_interface__.clear()
        raise KeyError("its own")


ENDED = {
    "an interface": (lambda make: asdlpack(Makes(lambda: {"data": ("wrong", False), "owner": make()})), ValueError),
    "a field": (lambda make: asdlpack(Empties(make())), KeyError),
    "a device": (lambda make: asdlpack(Speaks(__dlpack__=0, __dlpack_device__=lambda: (make(), 0))).shape, ValueError),
}


@pytest.mark.parametrize("destroy", [DELETER(id), ctypes.pythonapi.PyErr_NoMemory], ids=["in Python", "that fails"])
@pytest.mark.parametrize("case", ENDED)
def test_an_error_outlives_the_destructor_of_a_capsule_in_what_is_refused(case, destroy):
    call, kind = ENDED[case]

    def make():
        return capsule_new(4096, b"foreign", ctypes.cast(destroy, ctypes.c_void_p).value)

    with pytest.raises(kind):
        call(make)
    assert asdlpack(Makes(lambda: {"owner": make()})).pointer == 4096


def test_a_producer_too_deep_is_asked_once_if_its_capsule_ends_in_python():
    managed, asked, destroy = Managed(4096, shape=(4,), byte_offset=8), [], DELETER(id)

    def last(**arguments):
        asked.append(arguments)
        return capsule_new(address(managed.struct), managed.name, ctypes.cast(destroy, ctypes.c_void_p).value)

    def producer(export):
        return asdlpack(Speaks(__dlpack__=export, __dlpack_device__=lambda: (1, 0)))

    x = producer(last)
    for _ in range(120):
        x = producer(lambda x=x, **arguments: x.__dlpack__(max_version=(1, 0)))
    with pytest.raises(RecursionError, match="producers in a row"):
        x.__dlpack__(max_version=(1, 0))
    assert len(asked) == 1
