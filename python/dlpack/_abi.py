"""DLPack's ABI for ctypes: the structures of dlpack.h under its names, capsules, and what a tensor's memory holds.

https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h

It imports nothing of this package: pytest-dlpack is built with a copy of this file.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any, NamedTuple

# void (*deleter)(DLManagedTensor* self); likewise for DLManagedTensorVersioned. Calling it releases the GIL.
DELETER = CFUNCTYPE(None, c_void_p)


class DLPackVersion(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    """shape and strides have ndim items each. strides count elements; byte_offset counts bytes from data."""

    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(Structure):
    """For a capsule named "dltensor". Its consumer calls the deleter once, with its address."""

    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", DELETER)]


class DLManagedTensorVersioned(Structure):
    """For a capsule named "dltensor_versioned". Its consumer calls the deleter once, with its address."""

    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", c_void_p),
        ("deleter", DELETER),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


STRUCTS: dict[bytes, Any] = {b"dltensor": DLManagedTensor, b"dltensor_versioned": DLManagedTensorVersioned}
USED = {name: b"used_" + name for name in STRUCTS}  # a capsule keeps the pointer: these live as long as the process

READ_ONLY, IS_COPIED, SUBBYTE_TYPE_PADDED = 1, 2, 4


def python_api(name: str, result: Any, *arguments: Any) -> Any:
    """A function of CPython with argument types of its own: those of ctypes.pythonapi belong to the whole process."""
    return PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


capsule_new = python_api("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
capsule_name = python_api("PyCapsule_GetName", c_char_p, py_object)
capsule_pointer = python_api("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
capsule_rename = python_api("PyCapsule_SetName", c_int, py_object, c_char_p)


def is_capsule(obj: Any) -> bool:
    return type(obj).__name__ == "PyCapsule"


def data_type(tensor: Any) -> tuple[int, int, int]:
    return tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes


def look(capsule: Any) -> Any:
    """The structure in a capsule that nobody has consumed. It keeps the capsule alive, and so itself."""
    name = capsule_name(capsule)
    managed = STRUCTS[name].from_address(capsule_pointer(capsule, name))
    managed.capsule = capsule
    return managed


def consume(capsule: Any) -> Any:
    """Takes the structure over, as a consumer does, who then calls managed.deleter(ctypes.addressof(managed))."""
    managed = look(capsule)
    capsule_rename(capsule, USED[capsule_name(capsule)])
    del managed.capsule
    return managed


FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}  # DLDataTypeCode: what the bits follow
WHOLE = {6: "bool"} | {7 + i: f"float8_{kind}" for i, kind in enumerate(FLOAT8)}
WHOLE |= {15: "float6_e2m3fn", 16: "float6_e3m2fn", 17: "float4_e2m1fn", 18: "bcomplex32"}


class Seen(NamedTuple):
    """Memory as a consumer has it."""

    dtype: str
    shape: tuple[int, ...]
    values: bytes  # the items in row-major order
    address: int | None  # of the first item; None if the consumer does not tell
    readonly: bool | None = None  # None if the consumer does not know


def export(obj: Any) -> Any:
    """Exports an object by its own __dlpack__, versioned if it can."""
    try:
        return look(obj.__dlpack__(max_version=(1, 3)))
    except TypeError:
        return look(obj.__dlpack__())


def read(obj: Any) -> Seen:
    """Reads what an object exports, but not whether it is read-only."""
    return read_managed(export(obj))._replace(readonly=None)


def read_managed(managed: Any) -> Seen:
    tensor = managed.dl_tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else compact(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    flags = getattr(managed, "flags", None)
    code, bits, lanes = data_type(tensor)
    name = WHOLE.get(code) or f"{NAMES[code]}{bits}"
    if lanes != 1:
        name += f"x{lanes}"
    padded = bits < 8 and bool((flags or 0) & SUBBYTE_TYPE_PADDED)
    itemsize = 1 if padded else bits * lanes / 8
    values = gather(address, shape, strides, itemsize)
    return Seen(name, shape, values, address, None if flags is None else bool(flags & READ_ONLY))


def gather(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: float) -> bytes:
    """The items in row-major order. Items that share a byte must be compact."""
    size = math.prod(shape)
    if size == 0:
        return b""
    if strides == compact(shape):
        return ctypes.string_at(address, math.ceil(size * itemsize))
    width = int(itemsize)
    items = itertools.product(*map(range, shape))
    return b"".join(ctypes.string_at(address + width * sum(map(int.__mul__, index, strides)), width) for index in items)


def compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a row-major array without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
