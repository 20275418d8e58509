"""asdlpack and frombuffer with owner= and readonly=: another object is kept alive, memory is read-only or writable."""

import ctypes
import gc
import weakref
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
import pytest

from dlpack import asdlpack, borrow, frombuffer
from dlpack._dlpack import _core_calls
from support.capi import Managed, Speaks, capsule_name
from support.layouts import PROTOCOLS
from support.refusals import refused

any_asdlpack: Any = asdlpack  # a type checker would refuse the wrong arguments
any_frombuffer: Any = frombuffer

MAKERS = {**PROTOCOLS, "DLPackObject": lambda array: asdlpack(memoryview(array)), "delegate": asdlpack}
WAYS = {
    "asdlpack": asdlpack,
    "with an alignment": lambda obj, **words: asdlpack(obj, align=4, **words),
    "with a device": lambda obj, **words: asdlpack(obj, device="cpu", **words),
    "frombuffer": lambda obj, **words: frombuffer(obj, "float32", **words),
}
KINDS = [(kind, way) for kind in MAKERS for way in WAYS if way != "frombuffer" or not kind.startswith("dltensor")]


class Owner:
    pass


def kept_by(make, *arguments):
    """Makes an object with an owner, and returns it and a weak reference to the owner, which nobody else holds."""
    owner = Owner()
    return make(*arguments, owner=owner), weakref.ref(owner)


@pytest.mark.parametrize(("kind", "way"), KINDS)
def test_owner_lives_until_the_last_consumer_is_gone(kind, way):
    array = np.arange(4, dtype="f4")
    obj = MAKERS[kind](array)
    x, owner = kept_by(WAYS[way], obj)
    assert x.pointer == array.ctypes.data
    assert x.obj is (obj.obj if type(obj) is type(x) else obj) or way == "frombuffer"
    consumers = [np.from_dlpack(x), memoryview(x), x.__dlpack__(), asdlpack(x)]
    array[0] = 7
    assert consumers[0][0] == 7
    del x
    while consumers:
        assert owner() is not None
        consumers.pop()
    assert owner() is None


def test_owner_is_dropped_after_the_memory():
    """A pixmap or a SharedMemory refuses to close while its memory is locked."""

    class Closes:
        def __init__(self):
            self.memory = bytearray(8)

        def __del__(self):
            self.memory.append(0)  # raises BufferError if anybody holds its buffer
            closed.append(self.memory)

    closed = []
    owner = Closes()
    x = asdlpack(owner.memory, owner=owner)
    del owner
    assert not closed
    del x
    assert [len(memory) for memory in closed] == [9]


def test_owner_of_a_copy_is_not_kept():
    x, owner = kept_by(lambda obj, owner: asdlpack(obj, copy=True, owner=owner), b"abc")
    assert (owner(), x.obj, bytes(x)) == (None, None, b"abc")
    x, owner = kept_by(lambda obj, owner: asdlpack(obj, copy=None, owner=owner), np.arange(3, dtype=">i4"))
    assert (owner(), np.from_dlpack(x).tolist()) == (None, [0, 1, 2])


@pytest.mark.parametrize("way", WAYS)
def test_owner_of_an_earlier_copy_is_kept(way):
    """The call copies nothing, so what it shares may need the owner."""
    earlier = asdlpack(bytes(8), copy=True)
    x, owner = kept_by(WAYS[way], earlier)
    assert (x.pointer, owner() is not None) == (earlier.pointer, True)
    del x
    assert owner() is None


@pytest.mark.parametrize("obj", [1, object(), None, str])
def test_owner_of_an_object_without_memory_is_dropped_with_the_error(obj):
    owner = Owner()
    gone = weakref.ref(owner)
    with pytest.raises(TypeError):
        asdlpack(obj, owner=owner)
    del owner
    assert gone() is None


def test_owner_of_a_structure_and_its_deleter():
    memory = np.arange(4, dtype="f4")
    managed = Managed(memory.ctypes.data, shape=(4,))
    borrowed = ctypes.pointer(managed.struct.dl_tensor)
    x, owner = kept_by(asdlpack, borrowed)
    assert (x.pointer, owner() is not None, managed.deleted) == (memory.ctypes.data, True, 0)
    del x
    assert owner() is None
    taken = ctypes.pointer(managed.struct)
    x, owner = kept_by(asdlpack, taken)
    assert (x.pointer, owner() is not None, managed.deleted) == (memory.ctypes.data, True, 0)
    del x, taken
    gc.collect()
    assert (owner(), managed.deleted) == (None, 1)


def test_producer_is_asked_once_and_its_tensor_kept():
    """A producer that gives other memory at each export would be asked anew by each consumer."""
    arrays = []

    def dlpack(**words):
        arrays.append(np.zeros(3))
        return arrays[-1].__dlpack__(**words)

    x = asdlpack(Speaks(__dlpack__=dlpack, __dlpack_device__=lambda: (1, 0)), owner=Owner())
    assert [np.from_dlpack(x).ctypes.data for _ in range(2)] == 2 * [arrays[0].ctypes.data]
    assert len(arrays) == 1


@pytest.mark.parametrize(("kind", "way"), KINDS)
def test_readonly_true_is_read_only_by_every_way_out(kind, way):
    array = np.arange(4, dtype="f4")
    x = WAYS[way](MAKERS[kind](array), readonly=True)
    assert (x.readonly, x.pointer, memoryview(x).readonly) == (True, array.ctypes.data, True)
    assert x.__array_interface__["data"] == (array.ctypes.data, True)
    assert not np.from_dlpack(x).flags.writeable
    assert not np.asarray(x).flags.writeable
    assert not np.asarray(Speaks(__array_struct__=x.__array_struct__)).flags.writeable
    assert asdlpack(x.__dlpack__(max_version=(1, 0))).readonly
    assert capsule_name(x.__dlpack__()) == b"dltensor"  # jax and tensorflow ask for no other
    array[0] = 9
    assert bytes(x) == array.tobytes()


@pytest.mark.parametrize("copy", [None, True])
def test_readonly_true_of_a_copy(copy):
    x = asdlpack(np.arange(3, dtype=">i4"), copy=copy, readonly=True)
    assert (x.readonly, x.obj, np.from_dlpack(x).tolist()) == (True, None, [0, 1, 2])


@pytest.mark.parametrize("way", WAYS)
def test_readonly_false_shares_writable_memory_and_refuses_other(way):
    memory = bytearray(np.arange(4, dtype="f4"))
    error = refused(lambda: WAYS[way](memoryview(memory).toreadonly(), readonly=False), "read-only")
    assert error.details == {"readonly": True}
    x = WAYS[way](memory, readonly=False)
    memoryview(x).cast("B")[0] = 7
    assert (memory[0], x.readonly) == (7, False)
    del x
    for copy in None, True:  # the fix that the error names
        copied = WAYS[way](bytes(memory), readonly=False, copy=copy)
        assert (copied.readonly, bytes(copied), copied.obj) == (False, bytes(memory), None)
    assert WAYS[way](memory, readonly=False, copy=None).obj is not None


def test_readonly_false_refuses_a_capsule_without_consuming_it():
    array = np.arange(3)
    legacy = array.__dlpack__()
    refused(lambda: asdlpack(legacy, readonly=False), "read-only")  # nothing says whether it may be written
    assert capsule_name(legacy) == b"dltensor"
    versioned = array.__dlpack__(max_version=(1, 0))
    assert asdlpack(versioned, readonly=False).pointer == array.ctypes.data
    assert capsule_name(versioned) == b"used_dltensor_versioned"


def test_readonly_false_holds_the_tensor_that_was_writable():
    """A producer may give read-only memory at the next export."""
    array = np.arange(3)

    def dlpack(**words):
        capsule = array.__dlpack__(**words)
        array.flags.writeable = False
        return capsule

    x = asdlpack(Speaks(__dlpack__=dlpack, __dlpack_device__=lambda: (1, 0)), readonly=False)
    assert np.from_dlpack(x).flags.writeable


@pytest.mark.parametrize("readonly", [0, 1, "no", (), np.arange(2)], ids=["0", "1", "str", "tuple", "array"])
def test_readonly_of_the_wrong_type(readonly):
    for call in lambda: any_asdlpack(b"a", readonly=readonly), lambda: any_frombuffer(b"a", "u1", readonly=readonly):
        with pytest.raises(TypeError, match="readonly: expected True, False or None"):
            call()
    with pytest.raises(TypeError, match="readonly"), borrow(b"a", readonly=readonly):
        pass
    assert asdlpack(bytearray(1), readonly=np.bool_(True)).readonly


def test_frombuffer_has_the_device_and_alignment_of_asdlpack():
    memory = np.zeros(128, "u1")
    start = -memory.ctypes.data % 64
    x = frombuffer(memory, "float32", offset=start, align=64, device="cpu")
    assert x.pointer == memory.ctypes.data + start
    refused(lambda: frombuffer(memory, "float32", offset=start + 4, align=64), "alignment")
    assert frombuffer(memory, "float32", offset=start + 4, align=64, copy=None).pointer % 64 == 0
    refused(lambda: frombuffer(memory, "float32", device="gpu"), "unknown-device", ValueError)


def test_frombuffer_with_a_device_copies_once():
    for dtype in "float32", ">f4":
        before = _core_calls()
        x = frombuffer(bytes(64), dtype, copy=True, device="cpu")
        assert (x.obj, _core_calls() - before) == (None, 1)


WORDS = {
    "the offset by its place": (lambda: any_frombuffer(bytes(8), "f4", 1, 4), "offset="),
    "count": (lambda: any_frombuffer(bytes(8), "f4", count=1), "shape"),
    "dtype": (lambda: any_asdlpack(bytes(8), dtype="f4"), "frombuffer(obj, dtype)"),
    "shape": (lambda: any_asdlpack(bytes(8), shape=2), "frombuffer(obj, dtype, shape)"),
    "offset": (lambda: any_asdlpack(bytes(8), offset=2), "frombuffer(obj, dtype, offset=offset)"),
    "read_only": (lambda: any_asdlpack(bytes(8), read_only=True), "(use readonly)"),
    "writable": (lambda: any_frombuffer(bytes(8), "f4", writable=True), "readonly"),
    "writeable": (lambda: any_asdlpack(bytes(8), writeable=True), "readonly"),
    "nothing known": (lambda: any_asdlpack(bytes(8), order="C"), "'order'"),
}


@pytest.mark.parametrize(("call", "named"), WORDS.values(), ids=WORDS)
def test_argument_of_numpy_names_the_one_here(call, named):
    with pytest.raises(TypeError) as caught:
        call()
    assert named in str(caught.value)
    assert frombuffer(bytes(8), "f4", 1, offset=4).shape == (1,)


def test_shared_memory_is_taken_itself_and_kept(capfd):
    memory = SharedMemory(create=True, size=64)
    memory.unlink()
    gone = weakref.ref(memory)
    start = np.frombuffer(memory.buf, "u1").ctypes.data
    x = frombuffer(memory, "float32", (4, 4))
    assert (x.obj is memory, x.pointer, x.protocol) == (True, start, "buffer")
    array = np.from_dlpack(x)
    memory.buf[:4] = b"\0\0\x80?"
    assert array[0, 0] == 1
    with pytest.raises(BufferError):
        memory.close()
    del memory, x
    assert gone() is not None
    del array
    assert gone() is None
    assert "ignored" not in capfd.readouterr().err


def test_closed_shared_memory_is_refused():
    memory = SharedMemory(create=True, size=8)
    memory.unlink()
    memory.close()
    refused(lambda: frombuffer(memory, "uint8"), "closed", ValueError)
