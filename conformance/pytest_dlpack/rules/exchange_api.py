"""Rules of producers that offer __dlpack_c_exchange_api__. A producer without it breaks none of them."""

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from typing import Any

from .. import tensors
from .._abi import READ_ONLY, capsule_name, capsule_pointer, data_type, is_capsule
from ..exchange_api import (
    ExchangeAPI,
    Refused,
    allocate,
    api_of,
    borrow,
    delete,
    from_object,
    stream_of,
    to_object,
)
from ..findings import Skip, expect, one_line
from ..tensors import VERSIONED, Tensor
from .producer import Managed, Producer, export, leaks, on, refuses_indescribable, tried, zeros
from .rule import HEADER, dtype_of, numbers, producer, soon, strides_of

NAME, CAPSULE = "__dlpack_c_exchange_api__", b"dlpack_exchange_api"
API = f"{HEADER}, DLPackExchangeAPI"
EXPORT = f"{HEADER}, DLPackManagedTensorFromPyObjectNoSync"
BORROW = f"{HEADER}, DLPackDLTensorFromPyObjectNoSync"
IMPORT = f"{HEADER}, DLPackManagedTensorToPyObjectNoSync"
ALLOCATOR = f"{HEADER}, DLPackManagedTensorAllocator"
STREAM = f"{HEADER}, DLPackCurrentWorkStream"


def kind_of(producer: Producer) -> Any:
    """Returns the type of its objects, if that has the table."""
    kind = type(producer.one())
    if not hasattr(kind, NAME):
        raise Skip(f"its type has no {NAME}")
    return kind


def table(producer: Producer) -> Any:
    """Returns the table, if it is in the right capsule."""
    kind = kind_of(producer)
    capsule = getattr(kind, NAME)
    if not is_capsule(capsule) or capsule_name(capsule) != CAPSULE:
        raise Skip("producer-exchange-api-capsule is not kept")
    return api_of(kind)


def api(producer: Producer, function: str = "") -> Any:
    """Returns the table, if its layout is known and this function is in it."""
    found = table(producer)
    if found.header.version.major != 1:
        raise Skip("its version is not 1.x")
    if function and not getattr(found, function):
        raise Skip(f"{function} is NULL")
    return found


@contextlib.contextmanager
def deleted(managed: Any) -> Iterator[Managed]:
    """Calls the deleter afterwards."""
    try:
        yield Managed(managed)
    finally:
        delete(managed)


def tensor_of(array: Any, **fields: Any) -> Tensor:
    """Describes the array's memory, but for the fields."""
    described = {"data": array.ctypes.data, "shape": array.shape}
    described |= {"strides": strides_of(array), "dtype": dtype_of(array)}
    tensor = Tensor(**described | fields)
    tensor.struct.manager_ctx = tensor.address
    tensor.keeps = array
    return tensor


@producer(f"{API}: the attribute must be set on the type")
def exchange_api_on_type(producer: Producer) -> None:
    """An object with __dlpack_c_exchange_api__ has it by its type."""
    obj = producer.one()
    if not hasattr(obj, NAME):
        raise Skip(f"it has no {NAME}")
    expect(hasattr(type(obj), NAME), "the object has it, and its type does not")


@producer(API)
def exchange_api_capsule(producer: Producer) -> None:
    """__dlpack_c_exchange_api__ of the type is a capsule named "dlpack_exchange_api"."""
    capsule = getattr(kind_of(producer), NAME)
    expect(is_capsule(capsule), f"it is a {type(capsule).__name__}")
    expect(capsule_name(capsule) == CAPSULE, f"its name is {capsule_name(capsule)!r}")


@producer(f"{API}: libraries should statically create it, it must stay alive", should=True)
def exchange_api_static(producer: Producer) -> None:
    """The table is static: each capsule leads to the same one."""
    table(producer)
    kind = kind_of(producer)
    capsules = [getattr(kind, NAME) for _ in range(2)]  # both alive: an address may be used again
    first, second = (capsule_pointer(each, CAPSULE) for each in capsules)
    expect(first == second, f"it is at {first:#x}, and then at {second:#x}")


@producer(f"{API}Header")
def exchange_api_version(producer: Producer) -> None:
    """The table has version 1.x, and prev_api leads to none or to an older one."""
    header = table(producer).header
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


@producer(f"{API}: looked up on the type; {EXPORT}: must have the same type", should=True)
def exchange_api_subclass(producer: Producer) -> None:
    """A subclass that inherits the table can use it."""
    api(producer, "managed_tensor_from_py_object_no_sync")
    obj = producer.one()
    try:
        obj.__class__ = type("Subclass", (type(obj),), {"__slots__": ()})
    except Exception as error:
        raise Skip(f"no subclass can be made: {one_line(error)}") from None
    with deleted(from_object(obj, api_of(type(obj)))) as own:
        own.check(producer.numbers(), "an object of a subclass")


@producer(EXPORT)
def exchange_api_export(producer: Producer) -> None:
    """The exported tensor has the values of the array, even if the object is gone."""
    array, functions = producer.numbers(), api(producer, "managed_tensor_from_py_object_no_sync")
    with deleted(from_object(producer.make(array.copy()), functions)) as own:
        gc.collect()
        others = zeros(producer)
        own.check(array, "after the object is gone")
    del others


@producer(f"{EXPORT}; {HEADER}, DLTensor")
def exchange_api_export_layouts(producer: Producer) -> None:
    """The exported tensor has the data type and the values of the array, in every layout."""
    functions = api(producer, "managed_tensor_from_py_object_no_sync")
    for name, array, obj, _ in producer.each(producer.arrays()):
        try:
            own = from_object(obj, functions)
        except Exception:  # another rule judges how it refuses
            continue
        with deleted(own) as tensor:
            tensor.check(array, name)


@producer(f"{EXPORT}: this should be a BufferError if possible", should=True)
def exchange_api_export_error(producer: Producer) -> None:
    """An array that DLPack can't describe is a BufferError: foreign byte order, strides of part of an item."""
    functions = api(producer, "managed_tensor_from_py_object_no_sync")
    refuses_indescribable(producer, lambda obj: delete(from_object(obj, functions)))


@producer(f"{EXPORT}; {HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY", should=True)
def exchange_api_export_read_only(producer: Producer) -> None:
    """Memory that __dlpack__ flags as read-only is flagged so by the table."""
    functions = api(producer, "managed_tensor_from_py_object_no_sync")
    array = producer.numbers()
    array.flags.writeable = False
    obj = producer.make(array)
    if not tried(obj).flags & READ_ONLY:
        raise Skip("__dlpack__ flags nothing as read-only")
    with contextlib.suppress(BufferError), deleted(from_object(obj, functions)) as own:
        expect(bool(own.flags & READ_ONLY), f"flags are {own.flags:#x}")


@producer(f"{EXPORT}; {HEADER}, deleter")
def exchange_api_export_release(producer: Producer) -> None:
    """The deleter of an exported tensor gives the array's memory back."""
    functions = api(producer, "managed_tensor_from_py_object_no_sync")
    array = numbers(producer.dtype, (1 << 20,))
    kept = leaks(lambda: delete(from_object(producer.make(array.copy()), functions)), 8, 4 << 20)
    expect(not kept, "the memory of exported arrays is not given back")


@producer(BORROW)
def exchange_api_borrow(producer: Producer) -> None:
    """The borrowed tensor has the exported one's memory, data type and shape."""
    functions, obj = api(producer, "dltensor_from_py_object_no_sync"), producer.one()
    own, exported = borrow(obj, functions), export(obj)
    expect((own.data or 0) + own.byte_offset == exported.address, "it leads to other memory")
    told, expected = data_type(own), data_type(exported.tensor)
    expect(told == expected, f"its dtype is {told}, expected {expected}")
    expect(tuple(own.shape[: own.ndim]) == producer.numbers().shape, f"its shape is {own.shape[: own.ndim]}")


@producer(f"{BORROW}: non-owning exchange")
def exchange_api_borrow_release(producer: Producer) -> None:
    """A borrowed tensor does not keep the object's memory."""
    functions = api(producer, "dltensor_from_py_object_no_sync")
    array = numbers(producer.dtype, (1 << 20,))
    kept = leaks(lambda: borrow(producer.make(array.copy()), functions), 8, 4 << 20)
    expect(not kept, "the memory of arrays that were borrowed is not given back")


@producer(f"{HEADER}, DLTensor.strides")
def exchange_api_strides_not_null(producer: Producer) -> None:
    """No tensor of the table has NULL strides: exported, borrowed or allocated."""
    functions, obj = api(producer), producer.one()
    if not producer.shape:
        raise Skip("it holds scalars alone")
    if functions.managed_tensor_from_py_object_no_sync:
        with deleted(from_object(obj, functions)) as own:
            expect(bool(own.tensor.strides), "the exported tensor has NULL strides")
    if functions.dltensor_from_py_object_no_sync:
        expect(bool(borrow(obj, functions).strides), "the borrowed tensor has NULL strides")
    if functions.managed_tensor_allocator:
        with deleted(allocated(producer)) as own:
            expect(bool(own.tensor.strides), "the allocated tensor has NULL strides")


@producer(IMPORT)
def exchange_api_import(producer: Producer) -> None:
    """A managed tensor becomes an object, which owns it and calls its deleter once."""
    on((1,), producer.one())
    array, functions = producer.numbers(), api(producer, "managed_tensor_to_py_object_no_sync")
    tensor = tensor_of(array)
    obj = to_object(tensor.owned(), functions)
    expect(tensor.deleted == 0 or export(obj).address != array.ctypes.data, "the deleter is called too early")
    export(obj).check(array, "the object")
    del obj
    gc.collect()
    expect(soon(lambda: tensor.deleted == 1), f"the deleter was called {tensor.deleted} times, expected once")


@producer(f"{IMPORT}; {HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY", should=True)
def exchange_api_import_read_only(producer: Producer) -> None:
    """An object that shares read-only memory does not say that it may be written."""
    array, functions = producer.numbers(), api(producer, "managed_tensor_to_py_object_no_sync")
    tensor = tensor_of(array, flags=READ_ONLY)
    try:
        obj = to_object(tensor.owned(), functions)
    except Exception:
        raise Skip("it refuses read-only memory") from None
    own = tried(obj)
    if own.name != VERSIONED:
        raise Skip("it gives no versioned capsule")
    expect(bool(own.flags & READ_ONLY) or own.address != array.ctypes.data, f"its flags are {own.flags:#x}")


def try_import(producer: Producer, **fields: Any) -> Any:
    """Returns the object that is made of such a tensor, or None if that is a Python exception."""
    functions = api(producer, "managed_tensor_to_py_object_no_sync")
    tensor = tensor_of(producer.numbers(), **fields)
    tensors.strays.clear()
    try:
        return to_object(tensor.owned(), functions)
    except Exception:  # of whatever type
        expect(not tensors.strays, "the deleter was called twice")
        return None


@producer(f"{IMPORT}: -1 on failure with a Python exception set")
def exchange_api_import_error(producer: Producer) -> None:
    """A tensor of a data type that dlpack.h does not have is an exception, or becomes an object of that data type."""
    if (obj := try_import(producer, dtype=(200, 32, 1))) is not None:
        told = data_type(tried(obj).tensor)
        expect(told == (200, 32, 1), f"data type (200, 32, 1) became {told}")


@producer(f"{HEADER}, DLPackVersion: it is not safe to access any other fields; a caller may have to look", should=True)
def exchange_api_import_newer_major(producer: Producer) -> None:
    """A tensor of version 2.0 is an exception, and nothing else of it is read."""
    for fields in {}, {"data": None, "shape": None, "strides": None, "ndim": -5}:
        expect(try_import(producer, version=(2, 0), **fields) is None, "a tensor of version 2.0 is taken")


def allocated(producer: Producer, **fields: Any) -> Any:
    """Allocates a tensor that the library can hold, but for the fields."""
    on((1,), producer.one())
    functions = api(producer, "managed_tensor_allocator")
    return allocate(api=functions, **{"shape": producer.shape, "dtype": dtype_of(producer.numbers())} | fields)


@producer(ALLOCATOR)
def exchange_api_allocator(producer: Producer) -> None:
    """The allocator makes a tensor of the prototype's shape, data type and device, which may be written."""
    array = producer.numbers()
    with deleted(allocated(producer)) as own:
        tensor = own.tensor
        expect(tuple(tensor.shape[: tensor.ndim]) == array.shape, f"its shape is {tensor.shape[: tensor.ndim]}")
        told, expected = data_type(tensor), dtype_of(array)
        expect(told == expected, f"its dtype is {told}, expected {expected}")
        expect(tensor.device.device_type == 1, f"its device type is {tensor.device.device_type}, expected 1")
        expect(not own.flags & READ_ONLY, f"its flags are {own.flags:#x}, which says that it is read-only")
        ctypes.memset(own.address, 1, array.nbytes)


@producer(f"{HEADER}, DLTensor.data: always aligned to 256 bytes, not to be relied on", should=True)
def exchange_api_allocator_alignment(producer: Producer) -> None:
    """The allocated memory begins at a multiple of 256 bytes."""
    with contextlib.ExitStack() as stack:
        data = [stack.enter_context(deleted(allocated(producer))).tensor.data or 0 for _ in range(16)]
    odd = [hex(each) for each in data if each % 256]
    expect(not odd, f"data is {', '.join(odd[:1])}")


@producer(f"{ALLOCATOR}; {HEADER}, deleter")
def exchange_api_allocator_release(producer: Producer) -> None:
    """The deleter of an allocated tensor gives its memory back."""
    array = numbers(producer.dtype, (1 << 20,))
    producer.make(array)

    def use() -> None:
        with deleted(allocated(producer, shape=array.shape)) as own:
            ctypes.memset(own.address, 1, array.nbytes)

    expect(not leaks(use, 8, 4 << 20), "the memory of allocated tensors is not given back")


@producer(f"{ALLOCATOR}, SetError")
def exchange_api_allocator_error(producer: Producer) -> None:
    """The allocator returns -1 and calls SetError for a data type that it does not have."""
    with contextlib.suppress(Refused), deleted(allocated(producer, dtype=(200, 32, 1))):
        expect(False, "it allocated a tensor of data type code 200")


@producer(f"{ALLOCATOR}: the device field is used")
def exchange_api_allocator_device(producer: Producer) -> None:
    """For a device that it does not have the allocator calls SetError, and does not take another device."""
    with contextlib.suppress(Refused), deleted(allocated(producer, device=(16, 0))) as own:
        told = own.tensor.device.device_type
        expect(told == 16, f"it allocated on device type {told}, asked for 16")


@producer(f"{STREAM}: the producer can simply return NULL", should=True)
def exchange_api_stream(producer: Producer) -> None:
    """The CPU has no stream: the function returns 0 and NULL."""
    stream = stream_of(1, api=api(producer, "current_work_stream"))
    expect(stream is None, f"it gives stream {stream}")


@producer(f"{STREAM}: -1 on failure with a Python exception set")
def exchange_api_stream_error(producer: Producer) -> None:
    """For a device that it does not have the function returns 0, or -1 with an exception."""
    functions = api(producer, "current_work_stream")
    for device in (2, 99), (16, 0):
        with contextlib.suppress(Exception):  # of whatever type
            stream_of(*device, api=functions)
