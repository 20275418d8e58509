"""A consumer written in C of __dlpack_c_exchange_api__, with ctypes; and what tests hand to it."""

import ctypes
import gc
import sys
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int32, c_int64, c_void_p, py_object

import numpy as np

from dlpack import DLPackObject
from dlpack.structs import DLManagedTensorVersioned, DLPackVersion, DLTensor
from dlpack.tests.capsules import capsule_pointer, python_api
from support.capi import Speaks

ManagedPointer = POINTER(DLManagedTensorVersioned)
SetError = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)


class Header(Structure):
    _fields_ = [("version", DLPackVersion), ("prev_api", c_void_p)]


class ExchangeAPI(Structure):
    """The allocator is called without the GIL; an exception that another function sets is raised."""

    _fields_ = [
        ("header", Header),
        ("managed_tensor_allocator", CFUNCTYPE(c_int, POINTER(DLTensor), POINTER(ManagedPointer), c_void_p, SetError)),
        ("managed_tensor_from_py_object_no_sync", PYFUNCTYPE(c_int, py_object, POINTER(ManagedPointer))),
        ("managed_tensor_to_py_object_no_sync", PYFUNCTYPE(c_int, ManagedPointer, POINTER(c_void_p))),
        ("dltensor_from_py_object_no_sync", PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))),
        ("current_work_stream", PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))),
    ]


def api_of(kind=DLPackObject):
    return ExchangeAPI.from_address(capsule_pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def from_object(obj, api=None):
    """The managed tensor that is made of an object; whoever has it calls delete."""
    managed = ManagedPointer()
    assert (api or api_of()).managed_tensor_from_py_object_no_sync(obj, managed) == 0
    return managed.contents


def delete(managed):
    managed.deleter(ctypes.addressof(managed))


_decref = python_api("Py_DecRef", None, py_object)


def to_object(managed, api=None):
    """The object that is made of a managed tensor, which is its from then on."""
    out = c_void_p()
    assert (api or api_of()).managed_tensor_to_py_object_no_sync(managed, out) == 0
    obj = ctypes.cast(out, py_object).value
    _decref(obj)
    return obj


def borrow(obj, api=None):
    """The tensor of an object, which lives as long as the object."""
    tensor = DLTensor()
    assert (api or api_of()).dltensor_from_py_object_no_sync(obj, tensor) == 0
    return tensor


class Refused(Exception):
    """What an allocator said: a kind and a message."""


def allocate(shape, dtype=(2, 32, 1), device=(1, 0), api=None, ndim=None):
    prototype = DLTensor(device=device, dtype=dtype, ndim=len(shape or ()) if ndim is None else ndim)
    if shape is not None:
        prototype.shape = (c_int64 * len(shape))(*shape)
    errors = []
    managed = ManagedPointer()
    set_error = SetError(lambda context, kind, message: errors.append((context, kind.decode(), message.decode())))
    result = (api or api_of()).managed_tensor_allocator(prototype, managed, 7, set_error)
    if result == 0:
        assert errors == []
        return managed.contents
    [(context, kind, message)] = errors
    assert (result, bool(managed), context) == (-1, False, 7)
    raise Refused(kind, message)


def stream_of(device_type, device_id=0, api=None):
    stream = c_void_p(99)
    assert (api or api_of()).current_work_stream(device_type, device_id, stream) == 0
    return stream.value


NUMBERS = np.arange(120, dtype="f4")

ARRAYS = {
    "a vector": NUMBERS,
    "sliced": NUMBERS[3:50:4],
    "reversed": NUMBERS[::-1],
    "a matrix": NUMBERS.reshape(12, 10),
    "transposed": NUMBERS.reshape(2, 3, 20).T,
    "a scalar": NUMBERS[7:8].reshape(()),
    "5 dimensions": NUMBERS.reshape(5, 1, 4, 3, 2),
    "64 dimensions": NUMBERS[:64].reshape((2,) * 6 + (1,) * 58),
}


def facts(tensor):
    return (
        tensor.data,
        (tensor.device.device_type, tensor.device.device_id),
        (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]),
        tensor.byte_offset,
    )


def facts_of(array):
    strides = tuple(stride // 4 for stride in array.strides)
    return array.ctypes.data, (1, 0), (2, 32, 1), array.shape, strides, 0


def objects():
    """How many DLPackObjects there are, and some: each holds a reference to its type, also where the collector does not
    know it yet. Without a GIL these are not counted."""
    gc.collect()
    if "t" in sys.abiflags:
        return sum(type(it) is DLPackObject for it in gc.get_objects())
    return sys.getrefcount(DLPackObject)


class Producer:
    """Says what an array says, and how it was asked; is no array."""

    def __init__(self, array=NUMBERS):
        self.array = array
        self.calls = []

    def __dlpack__(self, **arguments):
        self.calls.append(arguments)
        return self.array.__dlpack__(**{key: value for key, value in arguments.items() if key != "stream"})

    def __dlpack_device__(self):
        return (1, 0)


def raising(error):
    """A producer whose __dlpack__ raises."""

    def dlpack(**arguments):
        raise error

    return Speaks(__dlpack__=dlpack)
