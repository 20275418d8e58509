"""A consumer written in C of __dlpack_c_exchange_api__, with ctypes."""

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int32, c_int64, c_void_p, py_object
from typing import Any

from ._abi import DLManagedTensorVersioned, DLPackVersion, DLTensor, capsule_pointer, python_api

ManagedPointer: Any = POINTER(DLManagedTensorVersioned)
SetError: Any = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)


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


def api_of(kind: Any) -> ExchangeAPI:
    return ExchangeAPI.from_address(capsule_pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


class Silent(BaseException):  # so that `except Exception` catches what the function raises alone
    """A function failed without a Python exception."""


def call(function: Any, *arguments: Any) -> None:
    if (status := function(*arguments)) != 0:
        raise Silent(f"it returned {status} without a Python exception")


def from_object(obj: Any, api: ExchangeAPI) -> Any:
    """Exports an object as a managed tensor, which the caller deletes."""
    managed = ManagedPointer()
    call(api.managed_tensor_from_py_object_no_sync, obj, managed)
    return managed.contents


def delete(managed: Any) -> None:
    if managed.deleter:
        managed.deleter(ctypes.addressof(managed))


_decref = python_api("Py_DecRef", None, py_object)


def to_object(managed: Any, api: ExchangeAPI) -> Any:
    """Makes an object of a managed tensor, which the object then owns."""
    out = c_void_p()
    call(api.managed_tensor_to_py_object_no_sync, managed, out)
    obj = ctypes.cast(out, py_object).value
    _decref(obj)
    return obj


def borrow(obj: Any, api: ExchangeAPI) -> DLTensor:
    """Describes an object, which owns the tensor's memory, shape and strides."""
    tensor = DLTensor()
    call(api.dltensor_from_py_object_no_sync, obj, tensor)
    return tensor


class Refused(Exception):
    """An allocator called SetError; the arguments are its kind and message."""


def allocate(
    shape: Sequence[int] | None,
    dtype: tuple[int, int, int] = (2, 32, 1),
    device: tuple[int, int] = (1, 0),
    *,
    api: ExchangeAPI,
    ndim: int | None = None,
) -> Any:
    prototype = DLTensor(device=device, dtype=dtype, ndim=len(shape or ()) if ndim is None else ndim)
    if shape is not None:
        prototype.shape = (c_int64 * len(shape))(*shape)
    errors: list[tuple[int, str, str]] = []
    managed = ManagedPointer()
    set_error = SetError(lambda context, kind, message: errors.append((context, kind.decode(), message.decode())))
    result = api.managed_tensor_allocator(prototype, managed, 7, set_error)
    if result == 0:
        assert errors == [], f"it returned 0 and called SetError with {errors}"
        return managed.contents
    assert len(errors) == 1, f"it returned {result} and called SetError {len(errors)} times"
    [(context, kind, message)] = errors
    assert (result, bool(managed), context) == (-1, False, 7), (
        f"it failed and returned {result}, error_ctx {context}, expected -1, 7 and no tensor"
    )
    raise Refused(kind, message)


def stream_of(device_type: int, device_id: int = 0, *, api: ExchangeAPI) -> int | None:
    stream = c_void_p(99)
    call(api.current_work_stream, device_type, device_id, stream)
    return stream.value
