"""Tensors that no honest producer gives, some of which end the process in numpy and torch: each is refused by every way
in, by the name of what is wrong, and its deleter is called once: by whoever owns it then."""

import ctypes
import re
import sys

import numpy as np
import pytest

from dlpack import asdlpack, describe, frombuffer
from support.abi import LEGACY, MALFORMED, VERSIONED, Tensor, owned, strays
from support.capi import Speaks, capsule_name
from support.exchange_api import from_object, to_object
from support.refusals import refused

# Go's TestARefusedDescriptionSaysWhatIsWrong has the others.
REFUSED: dict[str, tuple[type[Exception], str]] = {
    "NULL shape": (ValueError, "shape is NULL; expected 1 dimensions"),
    "NULL shape of 64 dimensions": (ValueError, "shape is NULL; expected 64 dimensions"),
    "NULL shape of too many": (ValueError, "ndim is 2000000000; expected 0 to"),
    "ndim 65": (ValueError, "ndim is 65; expected 0 to 64"),
    "ndim 2^31 - 1": (ValueError, "ndim is 2147483647"),
    "ndim 2^20": (ValueError, "ndim is 1048576"),
    "ndim -2^31": (ValueError, "ndim is -2147483648"),
    "NULL data": (ValueError, r"data is NULL; expected an address, since shape \(3,\) has items"),
    "NULL data and an offset": (ValueError, "data is NULL"),
    "byte_offset 2^63": (ValueError, "offset 9223372036854775808 is beyond"),
    "stride 2^60": (ValueError, "strides dimension 0 is 1152921504606846976 el"),
    "a negative length": (ValueError, "shape dimension 1 is negative: -3"),
    "2^62 items": (ValueError, "is too large; expected at most 9223372036854775807 bytes"),
    "lanes 0": (ValueError, "lanes 0: no lanes; expected 1 or more"),
    "code 255": (ValueError, "dtype code 255, bits 32, lanes 1: unknown code"),
    "device -1": (ValueError, "device type is -2147483648"),
    "device id -1": (ValueError, "device id is negative: -1"),
    "padded lanes": (BufferError, "padded items of 2 lanes"),
    "version 0.8": (BufferError, "DLPack version 0.8: expected 1.x"),
    "version 2.0 and nothing else": (BufferError, "version 2.0: exp"),
    "the largest version": (BufferError, "version 4294967295.4294967295: exp"),
}
OF_VERSIONED = {"version", "flags"}  # fields

of_versioned_alone = [fault for fault, fields in MALFORMED.items() if OF_VERSIONED & set(fields)]
every_fault = pytest.mark.parametrize(
    ("fault", "name"),
    [
        (fault, name)
        for fault in MALFORMED
        for name in (LEGACY, VERSIONED)
        if name == VERSIONED or fault not in of_versioned_alone
    ],
)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = owned()
    yield
    assert (owned(), strays) == (before, [])


def malformed(fault, name):
    return Tensor(name, **MALFORMED[fault]), *REFUSED[fault]


@every_fault
def test_a_capsule_is_refused_and_stays_its_owners(fault, name):
    tensor, exception, message = malformed(fault, name)
    capsule = tensor.capsule()
    before = sys.getrefcount(capsule)
    for copy in False, None, True:
        for device in None, "cpu":
            with pytest.raises(exception, match=message):
                asdlpack(capsule, copy=copy, device=device)
    assert re.search(message, describe(capsule)["refused"])
    assert (capsule_name(capsule), sys.getrefcount(capsule), tensor.deleted) == (name, before, 0)
    del capsule
    assert tensor.deleted == 1


@every_fault
def test_a_structure_is_refused_and_deleted(fault, name):
    for copy in False, None, True:
        tensor, exception, message = malformed(fault, name)
        pointer = ctypes.pointer(tensor.owned())
        before = sys.getrefcount(pointer)
        assert re.search(message, describe(pointer)["refused"])
        assert (tensor.deleted, bool(pointer)) == (0, True)
        with pytest.raises(exception, match=message):
            asdlpack(pointer, copy=copy)
        assert (tensor.deleted, bool(pointer), sys.getrefcount(pointer)) == (1, False, before)


@pytest.mark.parametrize("name", [LEGACY, VERSIONED])
@pytest.mark.parametrize("fault", [fault for fault in MALFORMED if fault not in of_versioned_alone])
def test_a_borrowed_tensor_is_refused_and_its_owner_let_go(fault, name):
    tensor, exception, message = malformed(fault, name)
    owner = Speaks()
    before = sys.getrefcount(owner)
    with pytest.raises(exception, match=message):
        asdlpack(ctypes.pointer(tensor.struct.dl_tensor), owner=owner)
    assert (sys.getrefcount(owner), tensor.deleted) == (before, 0)


LOOKS = {
    "shape": lambda x: x.shape,
    "pointer": lambda x: x.pointer,
    "memoryview": memoryview,
    "bytes": bytes,
    "numpy.asarray": np.asarray,
    "frombuffer": lambda x: frombuffer(x, "uint8"),
    "Arrow": lambda x: x.__arrow_c_array__(),
    "a copy": lambda x: x.__dlpack__(copy=True),
    "another device": lambda x: x.__dlpack__(dl_device=(2, 0), copy=False),
    "asdlpack, copied": lambda x: asdlpack(x, copy=True),
}


@every_fault
def test_a_producers_malformed_tensor_is_refused_when_read(fault, name):
    """It may be asked more than once, and gives a tensor each time."""
    _, exception, message = malformed(fault, name)
    made = []

    def dlpack(**arguments):
        if arguments.get("copy") or arguments.get("dl_device") not in (None, (1, 0)):
            raise BufferError("never copied, never moved")
        made.append(malformed(fault, name)[0])
        return made[-1].capsule()

    producer = Speaks(__dlpack__=dlpack, __dlpack_device__=lambda: (1, 0))
    before = sys.getrefcount(producer)
    for look in LOOKS:
        made.clear()
        with pytest.raises(exception, match=message):
            LOOKS[look](asdlpack(producer))
        assert {tensor.deleted for tensor in made} == {1}, look
        assert sys.getrefcount(producer) == before, look


@every_fault
def test_a_producers_malformed_tensor_passes_through_unread(fault, name):
    """As it would without this package: the consumer has to check it. Read here are tensors with an offset or without
    memory, and capsules of another kind than is asked for."""
    tensor, exception, message = malformed(fault, name)
    producer = Speaks(capsule=tensor.capsule())
    producer.__dlpack__ = lambda **_: producer.capsule
    x = asdlpack(producer)
    if tensor.struct.dl_tensor.byte_offset or fault == "NULL data":
        with pytest.raises(exception, match=message):
            x.__dlpack__(max_version=(1, 3) if name == VERSIONED else None)
    else:
        assert x.__dlpack__(max_version=(1, 3) if name == VERSIONED else None) is producer.capsule
    with pytest.raises(exception, match=message):
        x.__dlpack__(max_version=(1, 3) if name == LEGACY else None)
    assert (capsule_name(producer.capsule), tensor.deleted) == (name, 0)
    del producer.capsule
    assert tensor.deleted == 1


@pytest.mark.parametrize("fault", MALFORMED)
def test_the_exchange_api_refuses_it_and_leaves_it_to_its_caller(fault):
    tensor, exception, message = malformed(fault, VERSIONED)
    with pytest.raises(exception, match=message):
        to_object(tensor.struct)
    assert tensor.deleted == 0


@pytest.mark.parametrize("version", [(0, 8), (2, 0)])
def test_the_exchange_api_passes_on_no_tensor_of_another_major_version(version):
    tensor = Tensor(version=version, shape=None, ndim=-5)
    held = [tensor.capsule()]
    obj = asdlpack(Speaks(__dlpack__=lambda **_: held[0]))
    refused(lambda: from_object(obj), "dlpack-version", hint="which a producer", major=version[0], minor=version[1])
    assert (capsule_name(held[0]), tensor.deleted) == (VERSIONED, 0)
    held.clear()
    assert tensor.deleted == 1
