"""Memory to exchange: objects that own some, and what is known of it without dlpack."""

import ctypes
import math
import sys
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import dlpack

from .._abi import compact, gather, python_api


@dataclass
class Memory:
    """An object that owns memory, and what its library says of that memory."""

    obj: Any
    dtype: str
    shape: tuple[int, ...]
    values: bytes  # the items in row-major order
    address: int | None = None  # of the first item; None where the library does not tell
    strides: tuple[int, ...] = ()  # in elements; row-major where they are left out
    readonly: bool | None = False  # None where the library can't say: it exports the legacy structure alone
    resize: Callable[[], object] | None = None  # moves or closes the memory: a BufferError while it is shared
    references: Callable[[], int] | None = None  # how many hold the memory: more while it is shared
    share: Callable[..., dlpack.DLPackObject] = dlpack.asdlpack  # called with obj and copy
    withheld: str = ""  # why asdlpack refuses it
    converted: str = ""  # why asdlpack shares it as a copy alone, with copy=None
    gpu: bool = False  # the address is one of a GPU

    def __post_init__(self) -> None:
        self.strides = self.strides or compact(self.shape)

    @property
    def copy(self) -> bool | None:
        """The copy that share is called with."""
        return None if self.converted else False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def packed(self) -> bool:
        """True if the items lie in row-major order without gaps. A dimension of size 1 may have any stride."""
        pairs = zip(self.shape, self.strides, compact(self.shape), strict=True)
        return self.size == 0 or all(stride == needed for extent, stride, needed in pairs if extent != 1)


def references_of(obj: Any) -> Callable[[], int]:
    """Counts the references to an object, but for its caller's."""
    return lambda: sys.getrefcount(obj)


class Py_buffer(ctypes.Structure):
    """PEP 3118's structure."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", POINTER(c_ssize_t)),
        ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


PyBUF_STRIDES = 0x18
get_buffer: Callable[..., Any] = python_api("PyObject_GetBuffer", c_int, py_object, POINTER(Py_buffer), c_int)
release_buffer: Callable[..., Any] = python_api("PyBuffer_Release", None, POINTER(Py_buffer))


def buffer_address(obj: Any) -> int:
    """The address of the first item of an object's buffer."""
    view = Py_buffer()
    get_buffer(obj, view, PyBUF_STRIDES)
    address = view.buf
    release_buffer(view)
    return address or 0


def of_buffer(obj: Any, dtype: str = "uint8", resize: Callable[[], object] | None = None) -> Memory:
    """Describes the object as Python's own memoryview does."""
    with memoryview(obj) as view:
        assert view.shape is not None and view.strides is not None
        shape, strides = view.shape, tuple(stride // view.itemsize for stride in view.strides)
        return Memory(
            obj, dtype, shape, view.tobytes(), buffer_address(view), strides, view.readonly, resize, references_of(obj)
        )


class Array:
    """Memory at a multiple of 64 bytes, plus an offset, that speaks the array interface and nothing else."""

    def __init__(self, typestr: str, dtype: str, data: bytes, offset: int = 0) -> None:
        self.room: Any = (ctypes.c_char * (len(data) + 64 + offset))()
        self.address: int = ctypes.addressof(self.room)
        self.address += -self.address % 64 + offset
        ctypes.memmove(self.address, data, len(data))
        self.typestr = typestr
        self.dtype: SimpleNamespace = SimpleNamespace(name=dtype)  # tells apart what a typestr can't

    def memory(
        self, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, first: int = 0, readonly: bool = False
    ) -> Memory:
        """A view of it; strides, and first, the place of the view's first item, count elements."""
        itemsize = int(self.typestr[2:])
        strides = compact(shape) if strides is None else strides
        address = self.address + first * itemsize
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": self.typestr,
            "shape": shape,
            "strides": tuple(stride * itemsize for stride in strides),
            "data": (address, readonly),
        }
        values = gather(address, shape, strides, itemsize)
        return Memory(self, self.dtype.name, shape, values, address, strides, readonly, references=references_of(self))
