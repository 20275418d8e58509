"""Rules of producers that offer __dlpack_c_exchange_api__. Who offers none breaks none of them."""

import ctypes
import gc
from typing import Any

from .._abi import DLTensor, capsule_name, data_type, is_capsule, read_managed
from ..exchange_api import ExchangeAPI, Refused, allocate, api_of, borrow, delete, from_object, stream_of, to_object
from ..tensors import Tensor
from .producer import Producer, export, zeros
from .rule import HEADER, Skip, dtype_of, expect, producer, soon, strides_of

API = f"{HEADER}, DLPackExchangeAPI"


def kind_of(producer: Producer) -> Any:
    """The type of its objects, if that has the table."""
    kind = type(producer.one())
    if not hasattr(kind, "__dlpack_c_exchange_api__"):
        raise Skip("it has no __dlpack_c_exchange_api__")
    return kind


def api(producer: Producer, function: str = "") -> Any:
    """The table of functions, if this function is in it."""
    found = api_of(kind_of(producer))
    if function and not getattr(found, function):
        raise Skip(f"{function} is NULL")
    return found


@producer(API)
def exchange_api_capsule(producer: Producer) -> None:
    """__dlpack_c_exchange_api__ of the type is a capsule named "dlpack_exchange_api"."""
    capsule = kind_of(producer).__dlpack_c_exchange_api__
    expect(is_capsule(capsule), f"it is a {type(capsule).__name__}")
    expect(capsule_name(capsule) == b"dlpack_exchange_api", f"its name is {capsule_name(capsule)!r}")


@producer(f"{API}Header")
def exchange_api_version(producer: Producer) -> None:
    """The table has version 1.x, and prev_api leads to none or to an older one."""
    header = api(producer).header
    expect(header.version.major == 1, f"its version is {header.version.major}.{header.version.minor}")
    if header.prev_api:
        older = ExchangeAPI.from_address(header.prev_api).header.version
        expect((older.major, older.minor) < (header.version.major, header.version.minor), "prev_api is not older")


@producer(API)
def exchange_api_functions(producer: Producer) -> None:
    """No function but dltensor_from_py_object_no_sync is NULL."""
    found = api(producer)
    for name, *_ in ExchangeAPI._fields_[1:]:
        expect(bool(getattr(found, name)) or name.startswith("dltensor"), f"{name} is NULL")


@producer(f"{HEADER}, DLPackManagedTensorFromPyObjectNoSync")
def exchange_api_export(producer: Producer) -> None:
    """The exported tensor has the values of the array, also when the object is gone."""
    array, functions = producer.numbers(), api(producer, "managed_tensor_from_py_object_no_sync")
    managed = from_object(producer.make(array.copy()), functions)
    gc.collect()
    others = zeros(producer)
    seen = read_managed(managed)
    delete(managed)
    expect((seen.shape, seen.values) == (array.shape, array.tobytes()), f"shape {seen.shape}, values {seen.values!r}")
    del others


@producer(f"{HEADER}, DLPackDLTensorFromPyObjectNoSync")
def exchange_api_borrow(producer: Producer) -> None:
    """The borrowed tensor is that of the exported one."""
    functions, obj = api(producer, "dltensor_from_py_object_no_sync"), producer.one()
    own, exported = borrow(obj, functions), export(obj)
    expect((own.data or 0) + own.byte_offset == exported.address, "it leads to other memory")
    expect(tuple(own.shape[: own.ndim]) == producer.numbers().shape, f"its shape is {own.shape[: own.ndim]}")


@producer(f"{HEADER}, DLPackManagedTensorToPyObjectNoSync")
def exchange_api_import(producer: Producer) -> None:
    """A managed tensor becomes an object, which owns it and calls its deleter once."""
    array, functions = producer.numbers(), api(producer, "managed_tensor_to_py_object_no_sync")
    tensor = Tensor(data=array.ctypes.data, shape=array.shape, strides=strides_of(array), dtype=dtype_of(array))
    tensor.struct.manager_ctx = tensor.address
    obj = to_object(tensor.owned(), functions)
    expect(tensor.deleted == 0 or export(obj).address != array.ctypes.data, "the deleter is called too early")
    export(obj).check(array, "the object")
    del obj
    gc.collect()
    expect(soon(lambda: tensor.deleted == 1), f"the deleter was called {tensor.deleted} times, expected once")


@producer(f"{HEADER}, DLPackManagedTensorAllocator")
def exchange_api_allocator(producer: Producer) -> None:
    """The allocator makes a tensor of the prototype's shape and data type."""
    dtype = dtype_of(producer.numbers())
    managed = allocate(producer.shape, dtype, api=api(producer, "managed_tensor_allocator"))
    tensor: DLTensor = managed.dl_tensor
    expect(tuple(tensor.shape[: tensor.ndim]) == producer.shape, f"its shape is {tensor.shape[: tensor.ndim]}")
    told = data_type(tensor)
    expect(told == dtype, f"its dtype is {told}, expected {dtype}")
    ctypes.memset((tensor.data or 0) + tensor.byte_offset, 1, 6 * dtype[1] // 8)
    delete(managed)


@producer(f"{HEADER}, DLPackManagedTensorAllocator, SetError")
def exchange_api_allocator_error(producer: Producer) -> None:
    """The allocator returns -1 and calls SetError for a data type that it does not have."""
    functions = api(producer, "managed_tensor_allocator")
    try:
        delete(allocate(producer.shape, (200, 32, 1), api=functions))
    except Refused:
        return
    expect(False, "it allocated a tensor of data type code 200")


@producer(f"{HEADER}, DLPackCurrentWorkStream: the producer can simply return NULL", should=True)
def exchange_api_stream(producer: Producer) -> None:
    """The CPU has no stream: the function returns 0 and NULL."""
    stream = stream_of(1, api=api(producer, "current_work_stream"))
    expect(stream is None, f"it gives stream {stream}")
