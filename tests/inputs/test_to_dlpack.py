"""Objects with to_dlpack() alone, such as decord's and quadrants' arrays: their capsule is taken over."""

import gc
import sys
from unittest.mock import Mock

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, describe, frombuffer
from support.capi import READ_ONLY, Managed, capsule_name, look
from support.refusals import refused

LEGACY, VERSIONED = NAMES = b"dltensor", b"dltensor_versioned"
NUMBERS = np.arange(6, dtype="f4")


class ToDLPack:
    """Gives the memory of NUMBERS anew at each call, and counts the deleters that ran."""

    def __init__(self, name=LEGACY, data=NUMBERS.ctypes.data, **fields):
        self.name, self.data, self.fields, self.made = name, data, {"shape": (2, 3), **fields}, []

    def to_dlpack(self):
        self.made.append(Managed(self.data, name=self.name, **self.fields))
        return self.made[-1].capsule()

    @property
    def deleted(self):
        return [managed.deleted for managed in self.made]


@pytest.mark.parametrize("name", NAMES)
def test_to_dlpack_is_shared_until_the_last_holder_is_gone(name):
    producer = ToDLPack(name)
    x = asdlpack(producer)
    assert (x.protocol, x.obj, x.shape, x.pointer) == ("to_dlpack", producer, (2, 3), NUMBERS.ctypes.data)
    assert x.readonly == (name == LEGACY)  # which can't say so, and counts as read-only
    array = np.from_dlpack(x)
    del x
    gc.collect()
    assert (array.tolist(), producer.deleted) == ([[0, 1, 2], [3, 4, 5]], [0])
    del array
    assert producer.deleted == [1]


def test_to_dlpack_is_copied_and_read_as_bytes():
    producer = ToDLPack()
    x = asdlpack(producer, copy=True)
    assert (producer.deleted, x.readonly, x.pointer == NUMBERS.ctypes.data) == ([1], False, False)
    assert np.from_dlpack(x).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert asdlpack(producer, device="cpu").pointer == NUMBERS.ctypes.data
    assert frombuffer(producer, "uint8").nbytes == 24
    assert describe(producer)["protocol"] == "to_dlpack"
    target = np.zeros((2, 3), "f4")
    copy_into(producer, target)
    assert target.tolist() == [[0, 1, 2], [3, 4, 5]]
    gc.collect()
    assert producer.deleted == [1] * 5


def test_to_dlpack_comes_last_of_all_protocols():
    class Both(ToDLPack):
        __array_interface__ = np.arange(2).__array_interface__

    class Bytes(ToDLPack, bytearray):
        def __init__(self):
            super().__init__()

    producers = Both(), Bytes()
    assert [asdlpack(producer).protocol for producer in producers] == ["__array_interface__", "buffer"]
    assert [producer.made for producer in producers] == [[], []]


def test_to_dlpack_serves_when_the_object_refuses():
    class Refuses(ToDLPack):
        def __dlpack__(self, **_):
            raise BufferError("no")

    producer = Refuses()
    x = asdlpack(producer)
    assert (x.shape, x._tensor.protocol) == ((2, 3), "to_dlpack")
    del x
    gc.collect()
    assert producer.deleted == [1]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"name": VERSIONED, "version": (2, 0)}, BufferError, "DLPack version 2.0: expected 1.x"),
        ({"shape": (-1,)}, ValueError, "shape dimension 0 is negative"),
        ({"data": 0}, ValueError, "data is NULL"),
    ],
)
def test_refused_to_dlpack_is_deleted_once(fields, error, message):
    producer = ToDLPack(**fields)
    with pytest.raises(error, match=message):
        asdlpack(producer)
    gc.collect()
    assert producer.deleted == [1]


def test_to_dlpack_that_gives_a_used_capsule_is_refused():
    class Cached(ToDLPack):
        capsule = None

        def to_dlpack(self):
            self.capsule = self.capsule or super().to_dlpack()
            return self.capsule

    producer = Cached()
    x = asdlpack(producer)
    refused(lambda: asdlpack(producer), "consumed-capsule", ValueError, name="used_dltensor")
    assert capsule_name(producer.capsule) == b"used_dltensor"
    assert (x.shape, producer.deleted) == ((2, 3), [0])
    del x
    gc.collect()
    assert producer.deleted == [1]


@pytest.mark.parametrize("answer", [None, 7, b"dltensor"])
def test_to_dlpack_without_a_capsule_is_a_value_error(answer):
    class Says:
        def to_dlpack(self):
            return answer

    producer, count = Says(), sys.getrefcount(answer)
    refused(lambda: asdlpack(producer), "wrong-answer", ValueError, method="to_dlpack", protocol="to_dlpack")
    assert answer is None or sys.getrefcount(answer) == count


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, TypeError])
def test_to_dlpack_that_raises_passes_its_error_on(error):
    class Raises:
        def to_dlpack(self):
            raise error("of its own")

    with pytest.raises(error, match="of its own"):
        asdlpack(Raises())


def test_to_dlpack_of_an_instance_alone_is_not_asked():
    """Proxies have an attribute of any name."""
    proxy = Mock()
    refused(lambda: asdlpack(proxy), "no-protocol", TypeError)
    assert not proxy.to_dlpack.called


def test_copy_into_refuses_to_dlpack_that_copies():
    class Copies:
        def to_dlpack(self):
            self.memory = np.zeros(3)
            return self.memory.__dlpack__(max_version=(1, 0))

    refused(lambda: copy_into(np.ones(3), Copies()), "writes-lost", protocol="to_dlpack")
    shares = ToDLPack(VERSIONED, data=np.zeros(6, "f4").ctypes.data)
    memory = np.zeros(6, "f4")
    shares.data = memory.ctypes.data
    copy_into(NUMBERS.reshape(2, 3), shares)
    assert memory.tolist() == NUMBERS.tolist()
    refused(
        lambda: copy_into(np.ones((2, 3), "f4"), ToDLPack(VERSIONED, flags=READ_ONLY)),
        "read-only-target",
        side="target",
    )


def test_to_dlpack_exports_to_every_version():
    x = asdlpack(ToDLPack())
    assert look(x.__dlpack__()).dl_tensor.data == NUMBERS.ctypes.data
    assert look(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
