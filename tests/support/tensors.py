"""Managed tensors of a producer written in C, as capsules and as structures, which count the calls of their deleter.
Nothing of a tensor stays once it was deleted."""

import collections
import ctypes
from ctypes import PYFUNCTYPE, c_char_p, c_void_p

from dlpack.structs import DELETER
from dlpack.tests.capsules import USED, capsule_new, python_api
from support.capi import Managed

LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
MEMORY = (ctypes.c_uint8 * 4096)(*(i % 251 for i in range(4096)))
MIDDLE = ctypes.addressof(MEMORY) + 2048  # a multiple of 8
ROOM = 64  # a shape and strides have so many lengths, whatever ndim says

_owned: dict[int, "Tensor"] = {}  # by address: what somebody has to delete
strays: list[int] = []  # what was deleted that nobody owned, or was deleted before


class Tensor(Managed):
    """Of 3 floats at MIDDLE, unless the test says otherwise."""

    _all = collections.deque[Managed](maxlen=0)

    def __init__(self, name=VERSIONED, *, data=MIDDLE, shape=(3,), strides=None, ndim=None, **fields):
        ndim = len(shape or ()) if ndim is None else ndim
        shape, strides = (
            lengths if lengths is None else (*lengths, *[0] * (ROOM - len(lengths))) for lengths in (shape, strides)
        )
        super().__init__(data, name=name, shape=shape, strides=strides, ndim=ndim, deleter=_delete, **fields)
        self.address = ctypes.addressof(self.struct)
        self.given = False  # so that somebody has to delete it
        self.then = None  # what its deleter does besides

    def owned(self):
        """The structure, which whoever has it deletes once."""
        self.given = True
        _owned[self.address] = self
        return self.struct

    def capsule(self, name=None):
        """A new capsule, which owns the tensor until a consumer renames it."""
        self.owned()
        return capsule_new(self.address, self.name if name is None else name, _destroy)


def owned():
    """How many tensors nobody has deleted yet."""
    return len(_owned)


@DELETER
def _delete(address):
    tensor = _owned.pop(address, None)
    if tensor is None:
        strays.append(address)
        return
    tensor.deleted += 1
    if tensor.then is not None:
        tensor.then()


_name_of = python_api("PyCapsule_GetName", c_char_p, c_void_p)
_pointer_of = python_api("PyCapsule_GetPointer", c_void_p, c_void_p, c_void_p)
_name_pointer_of = python_api("PyCapsule_GetName", c_void_p, c_void_p)


@PYFUNCTYPE(None, c_void_p)  # no py_object: the capsule is dying
def _destroy(capsule):
    if _name_of(capsule) not in USED.values():
        _delete(_pointer_of(capsule, _name_pointer_of(capsule)))
