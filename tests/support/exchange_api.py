"""Inputs, calls and counts for the tests of __dlpack_c_exchange_api__."""

import contextlib
import ctypes
import gc
import sys

import numpy as np

from dlpack import DLPackObject
from support.abi import exchange_api
from support.capi import Speaks

ExchangeAPI, ManagedPointer, Refused = exchange_api.ExchangeAPI, exchange_api.ManagedPointer, exchange_api.Refused
SetError, delete = exchange_api.SetError, exchange_api.delete

# Those of pytest_dlpack, for the functions of this package.


def api_of(kind=DLPackObject):
    return exchange_api.api_of(kind)


def from_object(obj, api=None):
    return exchange_api.from_object(obj, api or api_of())


def to_object(managed, api=None):
    return exchange_api.to_object(managed, api or api_of())


def borrow(obj, api=None):
    return exchange_api.borrow(obj, api or api_of())


def allocate(*arguments, api=None, **fields):
    return exchange_api.allocate(*arguments, api=api or api_of(), **fields)


def stream_of(*device, api=None):
    return exchange_api.stream_of(*device, api=api or api_of())


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
    """Returns the number of DLPackObjects, plus a constant: each holds a reference to its type, even if not GC-tracked
    yet. Without a GIL, and for abi3t, those references are not counted, so it counts the tracked objects."""
    gc.collect()
    references = sys.getrefcount(DLPackObject)
    if "t" in sys.abiflags or references >= 1 << 31:
        return sum(type(it) is DLPackObject for it in gc.get_objects())
    return references


def python_calls(call, is_meant):
    """Returns the names of the Python functions that run during a call, and that is_meant(frame) picks."""
    seen = []

    def note(frame, event, argument):
        if event == "call" and is_meant(frame):
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


@contextlib.contextmanager
def changed_api(kind):
    """Gives the C exchange API of a type, for a test to change; it is restored afterwards."""
    api = api_of(kind)
    before = bytes(api)
    yield api
    ctypes.memmove(ctypes.addressof(api), before, len(before))


def raising(error):
    """A producer whose __dlpack__ raises."""

    def dlpack(**arguments):
        raise error

    return Speaks(__dlpack__=dlpack)
