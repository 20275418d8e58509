"""Pointers to the structures of dlpack.structs: a managed tensor is taken over, a DLTensor is borrowed."""

import ctypes
import weakref

import numpy as np
import pytest

from dlpack import asdlpack
from dlpack.structs import DLManagedTensor, DLManagedTensorVersioned, DLTensor
from support.alone import python
from support.capi import Managed, Speaks, address
from support.refusals import refused

KINDS = {"dltensor": DLManagedTensor, "dltensor_versioned": DLManagedTensorVersioned}


def floats(count=6):
    return (ctypes.c_float * count)(*range(count))


def managed(name="dltensor_versioned", **fields):
    """A managed tensor of six floats, and the memory, unless the test says otherwise."""
    memory = floats()
    return Managed(**{"data": address(memory), "shape": (2, 3), "name": name.encode(), **fields}), memory


def tensor_of(memory, **fields):
    shape = (ctypes.c_int64 * 2)(2, 3)
    return DLTensor(
        **{"data": address(memory), "device": (1, 0), "ndim": 2, "dtype": (2, 32, 1), "shape": shape, **fields}
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_managed_tensor_is_taken_over_and_deleted_once(name):
    producer, memory = managed(name)
    pointer = ctypes.pointer(producer.struct)
    x = asdlpack(pointer)
    assert (x.pointer, x.shape, x.dtype, x.protocol, x.readonly) == (
        address(memory),
        (2, 3),
        "float32",
        KINDS[name].__name__,
        False,
    )
    assert not pointer
    first, second = np.from_dlpack(x), np.from_dlpack(x)
    first[1, 2] = 50
    assert (memory[5], second[1, 2], second.ctypes.data) == (50, 50, address(memory))
    del x, first
    assert producer.deleted == 0
    del second
    assert producer.deleted == 1


@pytest.mark.parametrize("name", KINDS)
def test_a_pointer_that_was_taken_over_is_null_and_refused(name):
    producer, _ = managed(name)
    pointer = ctypes.pointer(producer.struct)
    asdlpack(pointer)
    assert producer.deleted == 1
    with pytest.raises(ValueError, match=f"pointer to a {KINDS[name].__name__} is NULL; .* took over is NULL"):
        asdlpack(pointer)
    assert producer.deleted == 1


@pytest.mark.parametrize("copy", [False, None, True])
def test_misaligned_structure_is_copied_or_refused_and_deleted_at_once(copy):
    producer, memory = managed(byte_offset=1, shape=(5,))
    pointer = ctypes.pointer(producer.struct)
    if copy is False:
        refused(lambda: asdlpack(pointer), "misaligned", hint="pass copy=None", alignment=4)
    else:
        x = asdlpack(pointer, copy=copy)
        assert (x.pointer % 64, x.obj) == (0, None)
        assert np.from_dlpack(x).tobytes() == bytes(memory)[1:21]
    assert (producer.deleted, bool(pointer)) == (1, False)


@pytest.mark.parametrize("structure", [DLTensor, *KINDS.values()])
def test_a_null_pointer_is_refused(structure):
    refused(lambda: asdlpack(ctypes.POINTER(structure)()), "null-pointer", ValueError, protocol=structure.__name__)


@pytest.mark.parametrize("structure", [DLTensor, *KINDS.values()])
def test_the_structure_itself_is_refused_with_the_way_out(structure):
    refused(lambda: asdlpack(structure()), "structure", TypeError, type=structure.__name__)


def test_dltensor_is_borrowed_and_its_owner_outlives_all_consumers():
    memory, owner = floats(), Speaks()
    gone = weakref.ref(owner)
    pointer = ctypes.pointer(tensor_of(memory))
    x = asdlpack(pointer, owner=owner)
    assert (x.pointer, x.protocol, x.readonly, bool(pointer)) == (address(memory), "DLTensor", False, True)
    first, second = np.from_dlpack(x), np.from_dlpack(x)
    first[0, 0] = 7
    assert (memory[0], second[0, 0]) == (7, 7)
    del x, owner, first
    assert gone() is not None
    del second
    assert gone() is None


def test_a_dltensor_may_be_borrowed_again_and_without_an_owner():
    memory = floats()
    pointer = ctypes.pointer(tensor_of(memory, byte_offset=4, shape=(ctypes.c_int64 * 2)(1, 5)))
    for _ in range(2):
        assert np.from_dlpack(asdlpack(pointer)).tolist() == [[1, 2, 3, 4, 5]]


def test_a_copy_of_a_dltensor_needs_its_owner_no_more():
    memory, owner = floats(), Speaks()
    gone = weakref.ref(owner)
    x = asdlpack(ctypes.pointer(tensor_of(memory)), copy=True, owner=owner)
    del owner
    assert gone() is None
    memory[0] = 9
    assert np.from_dlpack(x)[0, 0] == 0


def test_another_ctypes_pointer_is_none_of_these():
    refused(lambda: asdlpack(ctypes.pointer(ctypes.c_short(3))), "pointers", field="format", text="&<h")


def test_a_deleter_that_raises_is_printed_and_harms_nothing():
    result = python("""
import ctypes
from dlpack import asdlpack
from dlpack.structs import DELETER, DLManagedTensor
memory = (ctypes.c_float * 2)(1, 2)
shape = (ctypes.c_int64 * 1)(2)
def deleter(address):
    raise ValueError("deleter's own")
managed = DLManagedTensor(deleter=DELETER(deleter))
tensor = managed.dl_tensor
tensor.data, tensor.shape = ctypes.addressof(memory), shape
tensor.device, tensor.ndim, tensor.dtype = (1, 0), 1, (2, 32, 1)
x = asdlpack(ctypes.pointer(managed))
del x
print("on")
""")
    assert (result.returncode, result.stdout) == (0, "on\n")
    assert "deleter's own" in result.stderr
