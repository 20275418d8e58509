"""Cached answers about types are never wrong, even if a type changes, is a subclass, or reuses another's address."""

import array
import ctypes
import gc
import importlib
import mmap
import sys
import weakref
from functools import partial
from unittest import mock

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, describe, frombuffer
from support.alone import WINDOWS, alone
from support.capi import Managed, Speaks, immutable_type
from support.refusals import refused

INTERFACE = np.arange(3, dtype="f4").__array_interface__
NUMBERS = np.arange(3.0)


def protocol(obj):
    """As asdlpack finds it, time and again."""
    [found] = {asdlpack(obj).protocol for _ in range(3)}
    return found


ARGUMENTS = {array.array: ("f", [1, 2, 3]), bytearray: (12,), bytes: (12,), mmap.mmap: (-1, 12), np.ndarray: (3,)}


@pytest.mark.parametrize("base", ARGUMENTS)
def test_a_subclass_with_a_protocol_of_its_own_speaks_that(base):
    expected = protocol(base(*ARGUMENTS[base]))

    class Plain(base):
        pass

    class Own(base):
        __array_interface__ = INTERFACE
        __dlpack__ = None

    assert protocol(Plain(*ARGUMENTS[base])) == expected
    assert protocol(Own(*ARGUMENTS[base])) == "__array_interface__"
    assert protocol(base(*ARGUMENTS[base])) == expected


@pytest.mark.parametrize("base", ARGUMENTS)
def test_attributes_added_to_a_subclass_after_its_use_are_seen(base):
    class Later(base):
        __dlpack__ = None
        __array_interface__ = None
        __array_struct__ = None

    obj = Later(*ARGUMENTS[base])
    assert protocol(obj) == "buffer"
    Later.__array_interface__ = INTERFACE
    assert protocol(obj) == "__array_interface__"
    Later.__dlpack__ = NUMBERS.__dlpack__
    Later.__dlpack_device__ = NUMBERS.__dlpack_device__
    assert protocol(obj) == "__dlpack__"
    Later.__dlpack__ = None
    assert protocol(obj) == "__array_interface__"


@pytest.mark.parametrize("kind", [np.float64, np.int16, np.bool_, np.complex64])
def test_an_array_interface_that_leads_to_a_buffer_stays_the_protocol(kind):
    assert protocol(kind(1)) == "__array_interface__"


@pytest.mark.parametrize("name", ["__dlpack__", "__array_interface__", "__array_struct__"])
@pytest.mark.parametrize("first", ["with", "without"])
@pytest.mark.parametrize("slot", [True, False])
def test_attribute_that_some_objects_of_a_type_lack_is_looked_for_in_each(name, first, slot):
    kind = immutable_type(name if slot else "__dict__")
    objects = {"with": kind(), "without": kind()}
    setattr(objects["with"], name, getattr(NUMBERS, name))
    expected = {"with": name, "without": "buffer"}
    assert protocol(objects[first]) == expected[first]
    assert {which: protocol(obj) for which, obj in objects.items()} == expected


@pytest.mark.filterwarnings("ignore:builtin type WithoutModule has no __module__")
@pytest.mark.parametrize("name", [b"capi.Immutable", b"WithoutModule"])
def test_copies_come_from_dlpack_if_the_buffer_is_other_memory(name):
    obj = immutable_type("_", has_dlpack=True, name=name)()
    for _ in range(2):
        for copied in False, True:
            assert np.from_dlpack(asdlpack(obj, copy=copied)).tolist() == [0, 1, 2]
        target = np.zeros(3, "u2")
        copy_into(obj, target)
        assert target.tolist() == [0, 1, 2]


def test_an_array_whose_dtype_names_its_bytes_is_copied_alike_each_time():
    image = NUMBERS.view([("a", "f4"), ("b", "f4")]).view(np.dtype((np.int64, [("a", "f4"), ("b", "f4")])))
    for _ in range(2):
        target = np.zeros(3, "i8")
        copy_into(image, target)
        assert target.tolist() == NUMBERS.view("i8").tolist()


@pytest.mark.parametrize("numpy", [None, mock.MagicMock()], ids=["hidden", "mocked"])
def test_numpy_types_are_known_without_the_numpy_module(numpy):
    """The memory that a scalar's interface names is gone at once."""
    big_endian = np.dtype(">i4")
    with mock.patch.dict(sys.modules, {"numpy": numpy}):
        x = asdlpack(np.float64(123.5))
        assert (memoryview(x)[()], x.readonly) == (123.5, True)
        assert memoryview(frombuffer(b"\0\0\0\1", big_endian, copy=None)).tolist() == [1]


@alone
def test_a_pointer_to_a_structure_is_known_without_the_modules():
    from dlpack.structs import DLManagedTensor

    managed = Managed(4096, name=b"dltensor", shape=(1,))
    pointer = ctypes.pointer(DLManagedTensor.from_address(ctypes.addressof(managed.struct)))
    with mock.patch.dict(sys.modules):
        del sys.modules["dlpack.structs"], sys.modules["ctypes"]
        assert describe(pointer)["shape"] == (1,)
        refused(lambda: frombuffer(ctypes.pointer(ctypes.c_int()), "uint8"), "no-memory-of-its-own", TypeError)
    assert managed.deleted == 0
    asdlpack(pointer)
    assert managed.deleted == 1


def test_a_metaclass_decides_nothing():
    class Meta(type):
        __array_interface__ = INTERFACE

    class Own(bytearray, metaclass=Meta):
        pass

    assert protocol(Own(12)) == "buffer"


def test_a_class_that_finds_attributes_itself_is_asked_each_time():
    class Finds(bytearray):
        found = {}

        def __getattr__(self, name):
            try:
                return self.found[name]
            except KeyError:
                raise AttributeError(name) from None

    obj = Finds(12)
    assert protocol(obj) == "buffer"
    Finds.found["__array_interface__"] = INTERFACE
    assert protocol(obj) == "__array_interface__"


@alone
def test_types_that_come_and_go_are_never_mistaken_and_few_are_kept():
    """A type that can't change is remembered, and kept, while there is room; after that, one that goes leaves its
    address to the next."""
    types = []
    for _ in range(300):
        sys.modules.pop("array", None)
        fresh = importlib.import_module("array")
        assert protocol(fresh.array("f", [1, 2, 3])) == "buffer"
        types.append(weakref.ref(fresh.array))
        del sys.modules["array"], fresh
        gc.collect()
        Own = type("Own", (bytearray,), {"__array_interface__": INTERFACE})
        assert protocol(Own(12)) == "__array_interface__"
    assert 1 < sum(type() is not None for type in types) <= 64
    assert types[-1]() is None


def test_objects_that_speak_nothing_are_refused_each_time():
    for _ in range(3):
        for obj in 1.5, "text", {}, Speaks():
            refused(partial(asdlpack, obj), "no-protocol", TypeError)


@pytest.mark.skipif(WINDOWS, reason="Windows has no mprotect")
@alone
def test_memory_without_an_owner_is_not_taken_for_pythons_own():
    """PyMemoryView_FromMemory makes such a memoryview."""
    PyBUF_WRITE = 0x200
    api, libc, size = ctypes.pythonapi, ctypes.CDLL(None), mmap.PAGESIZE
    api.PyMemoryView_FromMemory.restype = ctypes.py_object
    api.PyMemoryView_FromMemory.argtypes = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
    pages = mmap.mmap(-1, size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    view = api.PyMemoryView_FromMemory(start, size, PyBUF_WRITE)
    array = np.frombuffer(view, "u1")
    target, room = bytearray(size), np.zeros(size, "u1")
    copy_into(view, target)
    copy_into(array, target)
    assert libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), 0) == 0
    for source in view, array, array[::2]:
        with pytest.raises(BufferError, match="can't be read"):
            asdlpack(source, copy=True)
        refused(partial(copy_into, source, room[: len(source)]), "unreadable")
