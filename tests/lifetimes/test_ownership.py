"""Memory lives until its last holder is gone, and not a moment longer."""

import ctypes
import gc
import itertools
import sys
import weakref

import numpy as np
import pytest

import dlpack
from dlpack import DLPackObject, asdlpack, from_pointer, frombuffer
from support.arrow_c import Column
from support.capi import Exporter, Managed, Memory, Speaks, address, consume
from support.cuda_driver import with_driver
from support.producers import Producer

KEYS = {"version": 3, "shape": (4,), "typestr": "<f4"}


def array_interface():
    array = np.zeros(4, "f4")
    return Speaks(__array_interface__=array.__array_interface__, keep=array)


SOURCES = {
    "buffer": lambda: Exporter(bytes(8)),
    "array": lambda: np.zeros(4, "f4"),
    "__array_interface__": array_interface,
    "__array_interface__ of a buffer": lambda: Speaks(
        __array_interface__={**KEYS, "data": Exporter(bytes(16), shape=(16,))}
    ),
    "__array_struct__": lambda: Speaks(__array_struct__=np.zeros(4, "f4").__array_struct__),
}
USES = {
    "wrapped": lambda x: None,
    "described": lambda x: (x.shape, x.strides, x.device, x.obj, repr(x), x.protocol, x.dtype),
    "exported, legacy": lambda x: x.__dlpack__(),
    "exported, versioned": lambda x: x.__dlpack__(max_version=(1, 0)),
    "exported often": lambda x: [x.__dlpack__(max_version=version) for version in (None, (1, 0)) * 5],
    "consumed": lambda x: [release(consume(x.__dlpack__(max_version=version))) for version in (None, (1, 0))],
    "wrapped again": lambda x: (asdlpack(x), asdlpack(x.__dlpack__()), asdlpack(x.__dlpack__(max_version=(1, 0)))),
    "refused": lambda x: refused(lambda: x.__dlpack__(dl_device=(99, 0)), lambda: x.__dlpack__(max_version="1")),
}


def release(managed):
    managed.deleter(address(managed))


def refused(*calls):
    for call in calls:
        try:
            call()
        except (BufferError, TypeError, ValueError):
            continue
        raise AssertionError("not refused")


def check_reference_counts(obj, use):
    before = sys.getrefcount(obj)
    for _ in range(3):
        USES[use](asdlpack(obj))
        assert sys.getrefcount(obj) == before


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("source", SOURCES)
def test_reference_counts_are_exact_after_every_use(source, use):
    check_reference_counts(SOURCES[source](), use)


@with_driver
def test_reference_counts_of_memory_of_cuda_are_exact_after_every_use(driver):
    array = driver.allocate(16).array((4,), "<f4")
    for use in USES:
        check_reference_counts(array, use)


def test_an_object_is_held_by_its_exports_and_nothing_else():
    obj = Exporter(bytes(8))
    before = sys.getrefcount(obj)
    x = asdlpack(obj)
    assert obj.exports == 1
    alone, held = sys.getrefcount(x), sys.getrefcount(obj)
    capsules = [x.__dlpack__(max_version=version) for version in (None, (1, 0)) * 3]
    assert (sys.getrefcount(x), sys.getrefcount(obj), obj.exports) == (alone + len(capsules), held, 1)
    del x
    assert obj.exports == 1
    while capsules:
        assert obj.exports == 1
        capsules.pop()
    assert (sys.getrefcount(obj), obj.exports) == (before, 0)


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_the_last_of_several_holders_frees_the_memory_in_any_order(order):
    obj = Exporter(bytes(8))
    died = weakref.ref(obj)
    x = asdlpack(obj)
    holders = [x, np.from_dlpack(x), asdlpack(x.__dlpack__()), memoryview(x), np.from_dlpack(asdlpack(memoryview(x)))]
    del obj, x
    for holder in order:
        assert died() is not None
        assert died().exports == 1
        holders[holder] = None
    assert died() is None


def test_a_memoryview_may_be_released_before_its_consumers():
    data = bytearray(8)
    view = memoryview(data)
    out = np.from_dlpack(asdlpack(view))
    view.release()
    with pytest.raises(BufferError):
        data.append(0)
    out[7] = 1
    assert data[7] == 1
    del out
    data.append(0)


@pytest.mark.parametrize("source", SOURCES)
def test_the_source_lives_exactly_as_long_as_its_holders(source):
    obj = SOURCES[source]()
    alive = weakref.ref(obj)
    x = asdlpack(obj)
    del obj
    assert alive() is x.obj
    capsules = [x.__dlpack__(max_version=(1, 0))]
    del x
    assert alive() is not None
    capsules.clear()
    assert alive() is None


def test_errors_leave_no_reference_behind():
    keys = {**KEYS, "data": Exporter(bytes(8), shape=(8,))}
    managed = Managed(4096, shape=(-1,))
    cases = {
        "a buffer that is too small": Speaks(__array_interface__=keys),
        "a format that DLPack cannot say": Exporter(bytes(16), b"g", 16, (1,)),
        "an object that speaks nothing": Speaks(),
        "an attribute that is nonsense": Speaks(__array_struct__=5),
        "a producer that refuses": Speaks(__dlpack__=lambda **_: 5, __dlpack_device__=lambda: 5),
        "a malformed capsule": managed.capsule(),
    }
    for what, obj in cases.items():
        before = sys.getrefcount(obj)
        for wanted in False, None, True:
            refused(lambda: asdlpack(obj, copy=wanted).__dlpack__())  # noqa: B023
        assert sys.getrefcount(obj) == before, what
    assert keys["data"].exports == 0
    assert managed.deleted == 0


def test_a_producer_is_released_after_refusals_and_re_exports():
    array = np.arange(3.0)
    array.flags.writeable = False
    before = sys.getrefcount(array)
    x = asdlpack(array)
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), x.shape, asdlpack(array, copy=True)]
    assert sys.getrefcount(array) > before
    del x, capsules
    assert sys.getrefcount(array) == before


def test_the_object_is_weakly_referable():
    x = asdlpack(bytearray(3))
    seen = []
    reference = weakref.ref(x, seen.append)
    assert reference() is x
    capsule = x.__dlpack__()
    del x
    assert (reference() is not None, seen) == (True, [])
    del capsule
    assert (reference(), seen) == (None, [reference])


MEMORY = (ctypes.c_uint8 * 8)()
BYTES = {"version": 3, "shape": (1,), "typestr": "|u1"}


class Structure(ctypes.Structure):
    _fields_ = [("kept", ctypes.py_object)]


def slot_of(x):
    class Slots:
        __slots__ = ("kept",)

    slots = Slots()
    slots.kept = x
    return slots


HOLDERS = {
    "itself": lambda x: x,
    "itself, described": lambda x: (x.shape, x)[1],
    "itself, consumed": lambda x: (np.from_dlpack(x), x)[1],
    "list": lambda x: [x],
    "tuple": lambda x: (x,),
    "dict": lambda x: {x: x},
    "closure": lambda x: lambda: x,
    "default": lambda x: lambda y=x: y,
    "generator": lambda x: (each for each in [x]),
    "slot": slot_of,
    "structure": lambda x: Structure(x),
    "bound method": lambda x: x.__dlpack__,
    "memoryview": memoryview,
    "part of a memoryview": lambda x: memoryview(x)[:1],
    "another": lambda x: frombuffer(x, "uint8"),
    "owned": lambda x: from_pointer(x.pointer, 1, "uint8", owner=x),
    "another of a memoryview": lambda x: asdlpack(memoryview(x)),
    "interface": lambda x: asdlpack(Speaks(__array_interface__={**BYTES, "data": memoryview(x)})),
}
HOLDINGS = {
    "buffer": (lambda: Memory(8), asdlpack),
    "buffer of C": (Exporter, asdlpack),
    "memoryview": (lambda: Memory(8), lambda obj: asdlpack(memoryview(obj))),
    "producer": (lambda: Producer(lambda **words: np.zeros(3).__dlpack__(**words)), asdlpack),
    "interface": (Speaks, lambda obj: asdlpack(with_interface(obj))),
    "bytes": (lambda: Memory(8), lambda obj: frombuffer(obj, "uint8")),
    "Arrow": (Speaks, lambda obj: asdlpack(with_arrow(obj))),
    "owner": (Speaks, lambda obj: from_pointer(address(MEMORY), 8, "uint8", owner=obj)),
    "owner beside": (Speaks, lambda obj: asdlpack(MEMORY, owner=obj)),
    "read-only": (lambda: Memory(8), lambda obj: asdlpack(obj, readonly=True)),
}


def with_interface(obj):
    obj.data = bytearray(8)
    obj.__array_interface__ = {**BYTES, "data": obj.data}
    return obj


def with_arrow(obj):
    obj.__arrow_c_array__ = Column(b"C", np.zeros(8, "u1")).capsules
    return obj


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("holding", HOLDINGS)
def test_a_cycle_of_any_holding_and_holder_is_collected(holding, holder):
    make, wrap = HOLDINGS[holding]
    obj = make()
    obj.kept = HOLDERS[holder](wrap(obj))
    alive = weakref.ref(obj)
    del obj
    assert alive() is not None
    gc.collect()
    assert alive() is None


def test_garbage_with_a_memoryview_is_collected():
    """CPython clears a memoryview in garbage though its buffer is held, and crashes when it is released then."""

    class Holder:
        pass

    source = Memory(16)
    alive = weakref.ref(source)
    views = memoryview(source), memoryview(source)  # made first, they are cleared first
    wrapped = asdlpack(views[0]), asdlpack(Speaks(__array_interface__={**KEYS, "data": views[1]}))
    holder = Holder()
    holder.itself = holder, views, wrapped
    del holder, views, wrapped, source
    gc.collect()
    assert alive() is None


def test_a_cycle_lives_as_long_as_a_consumer_holds_its_memory():
    obj = Memory(b"abc")
    obj.x = asdlpack(obj)
    out = np.from_dlpack(obj.x)
    alive = weakref.ref(obj)
    del obj
    gc.collect()
    assert alive() is not None
    assert bytes(out) == b"abc"
    del out
    gc.collect()
    assert alive() is None


def test_a_cycle_through_a_copy_or_an_imported_tensor_is_collected():
    class Holder:
        pass

    holder = Holder()
    source = Managed(4096, shape=(1,))
    holder.imported = asdlpack(source.capsule())
    holder.copied = asdlpack(b"abc", copy=True)
    holder.itself = holder
    del holder
    gc.collect()
    assert source.deleted == 1


@pytest.mark.parametrize("name", ["shape", "__dlpack__", "__dlpack_c_exchange_api__", "new"])
def test_the_type_is_immutable(name):
    with pytest.raises(TypeError, match="immutable type"):
        setattr(DLPackObject, name, 7)
    with pytest.raises(TypeError, match="immutable type"):
        delattr(DLPackObject, name)


def test_the_object_has_no_dict_and_its_attributes_are_fixed():
    x = asdlpack(bytearray(3))
    assert not hasattr(x, "__dict__")
    for name in "shape", "obj", "pointer", "readonly", "new":
        with pytest.raises(AttributeError):
            setattr(x, name, None)
        with pytest.raises(AttributeError):
            delattr(x, name)


@pytest.mark.parametrize("arguments", [(), (bytearray(3),)])
def test_the_class_cannot_be_instantiated(arguments):
    with pytest.raises(TypeError, match="DLPackObject"):
        DLPackObject(*arguments)
    with pytest.raises(TypeError, match="DLPackObject"):
        DLPackObject.__new__(DLPackObject)
    with pytest.raises(TypeError, match="DLPackObject"):
        object.__new__(DLPackObject)


def test_the_class_cannot_be_subclassed():
    with pytest.raises(TypeError):
        type("Sub", (DLPackObject,), {})


def test_the_class_is_of_the_package():
    assert (DLPackObject.__module__, DLPackObject.__qualname__) == ("dlpack", "DLPackObject")
    assert isinstance(dlpack.__version__, str)


def test_errors_that_python_words_leave_no_block_behind():
    """Python's cache of attributes goes by a name's address, and keeps the names that it meets, up to 4096."""

    def fail(count):
        """Each time with other free addresses."""
        kept = []
        for number in range(count):
            kept.append(f"{number:07}")
            refused(lambda: asdlpack(1))

    fail(10)
    before = sys.getallocatedblocks()
    fail(1000)
    assert sys.getallocatedblocks() - before < 100
