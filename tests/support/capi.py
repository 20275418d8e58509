"""Real capsules and real buffers, made and read with ctypes: what a producer or consumer written in C does."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from typing import Any

import numpy as np

from dlpack import asdlpack
from dlpack._abi import (
    IS_COPIED,
    READ_ONLY,
    SUBBYTE_TYPE_PADDED,
    USED,
    capsule_name,
    capsule_new,
    consume,
    look,
    python_api,
)
from dlpack.tests.memory import Py_buffer
from support.abi import Managed

__all__ = [
    "IS_COPIED",
    "READ_ONLY",
    "SUBBYTE_TYPE_PADDED",
    "USED",
    "Managed",
    "capsule_name",
    "capsule_new",
    "consume",
    "look",
]

address = ctypes.addressof


def on_device(device, dtype=(2, 32, 1), shape=(3,), **fields):
    """A DLPackObject of memory that nobody reads."""
    return asdlpack(Managed(4096, shape=shape, dtype=dtype, device=device, **fields).capsule())


class _Slot(Structure):
    _fields_ = [("slot", c_int), ("function", c_void_p)]


class _Spec(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("basicsize", c_int),
        ("itemsize", c_int),
        ("flags", ctypes.c_uint),
        ("slots", POINTER(_Slot)),
    ]


@CFUNCTYPE(c_int, py_object, POINTER(Py_buffer), c_int)
def _get_buffer(exporter, view, flags):
    ctypes.memmove(view, ctypes.byref(exporter.view), ctypes.sizeof(Py_buffer))
    view.contents.obj = id(exporter)
    _incref(exporter)
    exporter.exports += 1
    return 0


@CFUNCTYPE(None, py_object, POINTER(Py_buffer))
def _release_buffer(exporter, view):
    if hasattr(exporter, "exports"):  # unless the garbage collector has cleared it
        exporter.exports -= 1


_incref = python_api("Py_IncRef", None, py_object)
_slots = (_Slot * 3)(
    _Slot(1, ctypes.cast(_get_buffer, c_void_p)),  # Py_bf_getbuffer
    _Slot(2, ctypes.cast(_release_buffer, c_void_p)),  # Py_bf_releasebuffer
    _Slot(0, None),
)
_spec = _Spec(b"capi.Buffer", 0, 0, 1 << 10, _slots)  # Py_TPFLAGS_BASETYPE
_type_from_spec: Any = python_api("PyType_FromSpec", py_object, c_void_p)
_Buffer: Any = _type_from_spec(ctypes.byref(_spec))


class Exporter(_Buffer):
    """Exports a buffer with every field as the test wants it, true or not; counts the buffers that are not released."""

    def __init__(
        self,
        data=bytes(8),
        format=b"B",
        itemsize=1,
        shape=(8,),
        strides=None,
        suboffsets=None,
        ndim=None,
        readonly=True,
    ):
        self.data = (ctypes.c_char * max(len(data), 1)).from_buffer_copy(data or b"\0")
        self.exports = 0
        self.view = Py_buffer(
            buf=address(self.data), len=len(data), itemsize=itemsize, readonly=readonly, format=format
        )
        self.view.ndim = len(shape or ()) if ndim is None else ndim
        for field, values in ("shape", shape), ("strides", strides), ("suboffsets", suboffsets):
            if values is not None:
                setattr(self.view, field, (c_ssize_t * len(values))(*values))


class _Member(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("offset", c_ssize_t),
        ("flags", c_int),
        ("doc", c_char_p),
    ]


_bytes = ctypes.create_string_buffer(16)
_fill_info = python_api("PyBuffer_FillInfo", c_int, POINTER(Py_buffer), py_object, c_void_p, c_ssize_t, c_int, c_int)


@CFUNCTYPE(c_int, py_object, POINTER(Py_buffer), c_int)
def _get_bytes(exporter, view, flags):
    return _fill_info(view, exporter, address(_bytes), 16, 0, flags)


@CFUNCTYPE(py_object, py_object, py_object, py_object)
def _dlpack_of_numbers(self, args, keywords):
    return np.arange(3, dtype="u2").__dlpack__(**keywords)


class _Method(Structure):
    _fields_ = [("name", c_char_p), ("function", c_void_p), ("flags", c_int), ("doc", c_char_p)]


def immutable_type(attribute, *, has_dlpack=False, name=b"capi.Immutable"):
    """Returns a new immutable C type. Its objects have a buffer of 16 bytes, and the attribute once it is set. The
    attribute __dict__ lets any be set. __dlpack__, if they have it, exports other memory: 0, 1 and 2, of uint16."""
    member = (b"__dictoffset__", 19) if attribute == "__dict__" else (attribute.encode(), 16)  # T_PYSSIZET, T_OBJECT_EX
    members = (_Member * 2)(_Member(*member, object.__basicsize__, 1 if attribute == "__dict__" else 0))  # READONLY
    methods = (_Method * 2)(_Method(b"__dlpack__", ctypes.cast(_dlpack_of_numbers, c_void_p), 3))  # VARARGS | KEYWORDS
    slots = (_Slot * 4)(
        _Slot(1, ctypes.cast(_get_bytes, c_void_p)),  # Py_bf_getbuffer
        _Slot(72, ctypes.cast(members, c_void_p)),  # Py_tp_members
        _Slot(64 if has_dlpack else 0, ctypes.cast(methods, c_void_p)),  # Py_tp_methods
        _Slot(0, None),
    )
    spec = _Spec(name, object.__basicsize__ + 8, 0, 1 << 8, slots)  # Py_TPFLAGS_IMMUTABLETYPE
    made = _type_from_spec(ctypes.byref(spec))
    _kept.extend([members, methods])  # the type borrows them
    return made


_kept: list[Any] = []


class PyArrayInterface(Structure):
    """The struct in an __array_struct__ capsule."""

    _fields_ = [
        ("two", ctypes.c_int),
        ("nd", ctypes.c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("data", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
    ]


class Speaks:
    """An object with these attributes and no other: one that speaks just the protocols a test wants."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def array_at(x, dtype=None):
    """The memory of a DLPackObject as a numpy array, by its attributes and nothing else."""
    interface = {
        "version": 3,
        "typestr": f"|V{x.itemsize}",
        "shape": x.shape,
        "strides": tuple(stride * x.itemsize for stride in x.strides),
        "data": (x.pointer, x.readonly),
    }
    return np.asarray(Speaks(__array_interface__=interface, keep=x)).view(x.dtype if dtype is None else dtype)


class Memory(bytearray):
    """A bytearray that can be referred to weakly."""
