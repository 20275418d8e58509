"""Objects that come back to themselves, and chains without end."""

import weakref

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, describe, frombuffer


class Circle:
    """A producer that refuses, or whose capsule can't be taken, and that says that its memory is that of the
    DLPackObject made of it, or of another such."""

    def __init__(self, capsule=None):
        self.capsule = capsule

    def __dlpack__(self, **arguments):
        if self.capsule is None:
            raise BufferError("not today")
        return self.capsule

    def points_to(self, other):
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (1,), "data": asdlpack(other)}


def refuse_circle(count, capsule=None):
    circle = [Circle(capsule) for _ in range(count)]
    for i, producer in enumerate(circle):
        producer.points_to(circle[i - 1])
    message = "[0-9]+ producers in a row name another one's memory; expected one at the end that has some"
    takes = [memoryview, bytes, lambda x: x.shape]
    if capsule is None:
        takes.append(np.from_dlpack)  # it gets the capsule as it is
    for take in takes:
        with pytest.raises(RecursionError, match=message):
            take(asdlpack(circle[0]))
    with pytest.raises(RecursionError, match=message):
        asdlpack(circle[0], copy=True)


INTERFACES = "array_interface", "array_struct", "cuda_array_interface", "arrow_c_array", "arrow_c_stream"


def refuse_circles_of_interfaces():
    """Expects a RecursionError if a producer without __dlpack__ asks for itself."""
    for name in INTERFACES:
        for ask in asdlpack, lambda self: frombuffer(self, "uint8"), lambda self: copy_into(self, bytearray(1)):
            with pytest.raises(RecursionError):
                asdlpack(type("Asks", (), {f"__{name}__": property(ask)})())


class Bound:
    """An object that gets the bound methods of a DLPackObject made of it: no Python function is on the stack."""

    def __dlpack__(self, **arguments):
        raise AssertionError("it is replaced")

    __dlpack_device__ = __dlpack__


def refuse_bound_circle():
    for names in ["__dlpack__"], ["__dlpack__", "__dlpack_device__"]:
        producer = Bound()
        producer.__dlpack_device__ = lambda: (1, 0)
        x = asdlpack(producer)
        for name in names:
            setattr(producer, name, getattr(x, name))
        for take in memoryview, np.from_dlpack, lambda x: x.shape, lambda x: x.__dlpack__():
            with pytest.raises(RecursionError):
                take(x)
        assert "RecursionError" in repr(x)
        assert "RecursionError" in str(describe(x))
        with pytest.raises(RecursionError):
            asdlpack(producer, copy=True)
        vars(producer).clear()


CHAINS = {
    "frombuffer": lambda x: frombuffer(x, "uint8"),
    "memoryview": lambda x: asdlpack(memoryview(x)),
    "capsule": lambda x: asdlpack(x.__dlpack__(max_version=(1, 0))),
}


def give_chain_back(longer, length=100_000):
    source = bytearray(8)
    x = asdlpack(source)
    for _ in range(length):
        x = CHAINS[longer](x)
    del x
    source.append(0)


def give_callbacks_back():
    source = bytearray(8)
    x, following = None, {}
    for _ in range(100_000):
        previous, x = x, asdlpack(source)
        following[weakref.ref(x, following.pop)] = previous
    del previous, x
    assert not following
    source.append(0)


def count_callbacks():
    """Callbacks in Python, each of which drops the next object within its own frame."""
    source = bytearray(8)
    x, following, called = None, {}, 0

    def drop_next(reference):
        nonlocal called
        called += 1
        value = following.pop(reference)
        del value

    for _ in range(5000):
        previous, x = x, asdlpack(source)
        following[weakref.ref(x, drop_next)] = previous
    del previous, x
    assert called == 5000
    source.append(0)


def nest():
    refuse_circle(3)
    refuse_bound_circle()
    refuse_circles_of_interfaces()
    count_callbacks()
    give_chain_back("frombuffer")
    give_callbacks_back()
