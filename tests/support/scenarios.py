"""Each way into the package and out of it, as a pair of functions: what makes an object, and what is done with it,
which gives something that is the same every time, or raises."""

import array
import builtins
import ctypes
import re
import sys
import types
import weakref
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import dlpack
from dlpack import _delegate, structs
from support import arrow_c
from support.arrow_c import Column, DeviceColumn, DeviceStream, Stream
from support.capi import Managed, Memory, PyArrayInterface, Speaks, capsule_name, capsule_new
from support.exchange_api import ExchangeAPI, Refused, allocate, api_of, borrow, delete, from_object, to_object

NUMBERS = np.arange(24, dtype="f4")
BYTES = bytes(range(64))


def bytes_of(x):
    return x.dtype, x.shape, x.strides, x.readonly, x.protocol, bytes(x)


def wrap(obj, **arguments):
    return bytes_of(dlpack.asdlpack(getattr(obj, "given", obj), **arguments))


def seen(outcome):
    """Returns a call's outcome in a form that can be compared."""
    if isinstance(outcome, dlpack.DLPackObject):
        return bytes_of(outcome)
    if isinstance(outcome, memoryview):
        with outcome:
            return outcome.format, outcome.shape, outcome.strides, outcome.readonly
    if isinstance(outcome, str):
        return re.sub("0x[0-9a-f]+", "", outcome)
    if isinstance(outcome, dict):
        return {key: value for key, value in outcome.items() if key != "data"}
    if "capsule object" not in repr(outcome):
        return outcome
    if isinstance(outcome, tuple):
        method = "__arrow_c_device_array__" if "arrow_device_array" in repr(outcome) else "__arrow_c_array__"
        return wrap(Speaks(**{method: lambda: outcome}))
    return wrap(outcome if capsule_name(outcome) else Speaks(__array_struct__=outcome))


def memory():
    return Memory(BYTES)


def matrix():
    return memoryview(Memory(BYTES)).cast("B", (4, 16))


def wrapped(make=memory):
    return lambda: dlpack.asdlpack(make())


def managed(name=b"dltensor_versioned", **fields):
    return Managed(NUMBERS.ctypes.data, name=name, shape=(4, 6), **fields)


def capsule(*args, **fields):
    def make():
        tensor = managed(*args, **fields)
        tensor.given = tensor.capsule()
        return tensor

    return make


def pointer(*args, **fields):
    def make():
        tensor = managed(*args, **fields)
        tensor.given = ctypes.pointer(tensor.struct)
        return tensor

    return make


def given_back(made):
    """Asserts one release if it was taken, and none if not: then its producer still owns it."""
    if isinstance(made, Managed):
        taken = not made.given if isinstance(made.given, ctypes._Pointer) else capsule_name(made.given)[:4] == b"used"
        assert made.deleted == taken
    elif isinstance(made, Column):
        assert made.released in ((1, 1), (0, 0))
    elif isinstance(made, Stream):
        assert made.released <= 1
        assert all(chunk.array_released == (i < made.given) for i, chunk in enumerate(made.chunks))


def forget():
    """Drops the objects that the tests' helpers keep."""
    Managed._all.clear()
    arrow_c._all.clear()


def attempt(make, use):
    """What comes of a scenario: what it gives, or its exception."""
    made = make()
    try:
        outcome = use(made)
    except Exception as error:
        error.__traceback__ = None
        outcome = error
    given_back(made)
    return outcome


def borrow_pointer(owner):
    tensor = structs.DLTensor(data=NUMBERS.ctypes.data, device=(1, 0), ndim=1, dtype=(2, 32, 1))
    tensor.shape = (ctypes.c_int64 * 1)(24)
    return wrap(ctypes.pointer(tensor), owner=owner)


def about(obj):
    found = dlpack.describe(obj)
    return found.get("refused"), sorted(found)


def look(made):
    found = about(made.given)
    assert not made.deleted
    return found


def producer(**methods):
    """Has numpy's __dlpack__, unless another is given."""
    numbers = np.arange(24, dtype="f4").reshape(4, 6)
    return Speaks(**{"__dlpack__": numbers.__dlpack__, "__dlpack_device__": numbers.__dlpack_device__, **methods})


class Tensor(Speaks):
    """Has a C exchange API that is called instead of its methods, since it looks like paddle's type."""

    stop_gradient = True
    __module__ = "paddle"
    __dlpack_c_exchange_api__: Any

    def __dlpack__(self, **arguments):
        return self.given.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.given.__dlpack_device__()


def forward(name):
    """The function of DLPackObject's API, for what a Tensor has been given. ctypes would print an exception."""
    function = getattr(api_of(), name)

    def call(tensor, out):
        try:
            return function(tensor.given, out)
        except (MemoryError, KeyboardInterrupt):
            return -1

    return type(function)(call)


NAME = b"dlpack_exchange_api"  # a capsule keeps only its address
FORWARDED = "managed_tensor_from_py_object_no_sync", "dltensor_from_py_object_no_sync"
API = ExchangeAPI.from_buffer_copy(api_of())
for _name in FORWARDED:
    setattr(API, _name, forward(_name))
Tensor.__dlpack__.__module__ = Tensor.__dlpack_device__.__module__ = "paddle"
Tensor.__dlpack_c_exchange_api__ = capsule_new(ctypes.addressof(API), NAME, None)

_delegate.takers[Tensor] = (Tensor, Tensor.__dlpack_c_exchange_api__, {})  # as dlpack._to does


def exchanged():
    return Tensor(given=dlpack.asdlpack(matrix()), dtype="float32")


def with_paddle(call):
    """Calls with a wrapped Tensor, which the package finds in place of paddle's."""
    framework = types.SimpleNamespace(EagerParamBase=None)
    library = types.SimpleNamespace(Tensor=Tensor, base=types.SimpleNamespace(framework=framework))

    def called(made):
        with patch.dict(sys.modules, paddle=library):
            return call(dlpack.asdlpack(made))

    return called


def legacy_producer():
    return producer(__dlpack__=lambda stream=None: NUMBERS.__dlpack__())


def refusing_producer():
    def refuse(**arguments):
        raise BufferError("not this")

    return producer(__dlpack__=refuse)


def refusing_producer_with_others():
    return producer(
        __dlpack__=refusing_producer().__dlpack__, __array_interface__=NUMBERS.__array_interface__, kept=NUMBERS
    )


def interface(**fields):
    def make():
        kept = Memory(BYTES)
        found = {"version": 3, "typestr": "<f4", "shape": (2, 2), "data": kept, "offset": 8, **fields}
        return Speaks(__array_interface__=found)

    return make


def address_interface():
    found = {"version": 3, "typestr": "<f4", "shape": [2, 2], "strides": (24, 8), "data": (NUMBERS.ctypes.data, True)}
    return Speaks(__array_interface__=found)


def hidden_interface():
    kept = Memory(BYTES)
    found = {"version": 3, "typestr": "<V2", "shape": (4,), "data": kept}
    return Speaks(__array_interface__=found, dtype=Speaks(name="bfloat16"))


def array_struct():
    shape, strides = (ctypes.c_ssize_t * 2)(4, 3), (ctypes.c_ssize_t * 2)(24, 8)
    found = PyArrayInterface(2, 2, b"f", 4, 0x701, shape, strides, NUMBERS.ctypes.data, None)
    capsule = capsule_new(ctypes.addressof(found), None, None)
    return Speaks(__array_struct__=capsule, kept=found)


def cuda_interface():
    found = {"version": 3, "typestr": "<f4", "shape": (2,), "data": (4096, False), "stream": 1}
    return Speaks(__cuda_array_interface__=found)


def column():
    return Column(b"f", NUMBERS)


def device_column():
    return DeviceColumn(b"f", NUMBERS)


def gpu_column():
    return DeviceColumn(b"f", NUMBERS, device=(2, 0), event=64)


def device_chunks(count):
    return lambda: DeviceStream(*(device_column() for _ in range(count)))


def lists():
    return Column(b"+w:6", NUMBERS[:4], children=(column(),))


def tensors():
    extension = (b"arrow.fixed_shape_tensor", b'{"shape": [2, 3], "permutation": [1, 0]}')
    return Column(b"+w:6", NUMBERS[:4], children=(column(),), extension=extension)


def table(*names):
    return Column(b"+s", NUMBERS, children=[column() for _ in names or "a"])


def read(made, **arguments):
    return wrap(made.exporter(), **arguments)


def table_of_other_rows():
    """An array whose table has another length, and no callbacks in Python."""
    import nanoarrow

    column, table = nanoarrow.c_array([1, 2, 3], nanoarrow.int64()), nanoarrow.struct({"a": nanoarrow.int64()})
    batch = nanoarrow.c_array_from_buffers(table, 3, [None], children=[column])
    return Speaks(__arrow_c_array__=batch.__arrow_c_array__, __array__=None, shape=(5,))


def chunks(count):
    return lambda: Stream(*(column() for _ in range(count)))


def export(**arguments):
    return lambda x: wrap(x.__dlpack__(**arguments))


def drop_export(x):
    x.__dlpack__(max_version=(1, 0))
    x.__dlpack__()


def attributes(x):
    return x.shape, x.strides, x.ndim, x.size, x.itemsize, x.nbytes, x.dtype, x.device, x.readonly, x.protocol


def drop_arrow(x):
    x.__arrow_c_array__()
    x.__arrow_c_device_array__()


def view(flags):
    def see(x):
        buffer = (ctypes.c_char * 80)()  # a Py_buffer
        get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
        get.argtypes, release.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], [ctypes.c_void_p]
        get(x, buffer, flags)
        release(buffer)

    return see


def round_trip(x):
    exported = from_object(x)
    try:
        obj = to_object(exported)
    except BaseException:
        delete(exported)
        raise
    return bytes_of(obj)


def borrowed(x):
    tensor = borrow(x)
    return tuple(tensor.shape[: tensor.ndim])


def allocated(shape):
    def use(_):
        try:
            delete(allocate(shape))
        except Refused as refusal:
            kind, message = refusal.args
            raise getattr(builtins, kind)(message) from None

    return use


def nothing():
    return None


def used_capsule():
    capsule = dlpack.asdlpack(BYTES).__dlpack__()
    dlpack.asdlpack(capsule)
    return capsule


unchecked: Any = dlpack.asdlpack
unchecked_copy_into: Any = dlpack.copy_into
unchecked_frombuffer: Any = dlpack.frombuffer
unchecked_from_pointer: Any = dlpack.from_pointer


def of(function, *args, **kwargs):
    """The call of a function with what was made, unless that is nothing."""
    return lambda made: partial(function, *[getattr(made, "given", made)][made is None :], *args, **kwargs)


def attribute(name, *default):
    return lambda x: partial(getattr, x, name, *default)


def exports(**arguments):
    return lambda x: partial(x.__dlpack__, **arguments)


# One C call each: a Python frame would be one more thing that fails.
CALLS: dict[str, Any] = {
    # in
    "bytes": (nothing, of(dlpack.asdlpack, BYTES)),
    "a buffer": (memory, of(dlpack.asdlpack)),
    "a strided memoryview": (lambda: matrix()[1::2], of(dlpack.asdlpack)),
    "6 dimensions": (lambda: memoryview(memory()).cast("B", (1, 2, 2, 2, 2, 4)), of(dlpack.asdlpack)),
    "a copy": (matrix, of(dlpack.asdlpack, copy=True)),
    "an array of numpy": (NUMBERS.copy, of(dlpack.asdlpack, copy=True)),
    "a capsule": (capsule(), of(dlpack.asdlpack)),
    "a malformed capsule": (capsule(strides=(1 << 62, 1)), of(dlpack.asdlpack)),
    "a pointer": (pointer(), of(dlpack.asdlpack)),
    "a legacy pointer": (pointer(b"dltensor"), of(dlpack.asdlpack)),
    "an array interface": (interface(), of(dlpack.asdlpack)),
    "an array interface with an address": (address_interface, of(dlpack.asdlpack)),
    "an array interface of a hidden type": (hidden_interface, of(dlpack.asdlpack)),
    "a mask": (interface(mask=1), of(dlpack.asdlpack)),
    "an array struct": (array_struct, of(dlpack.asdlpack)),
    "an Arrow table of other rows": (table_of_other_rows, of(dlpack.asdlpack)),
    "frombuffer": (memory, of(dlpack.frombuffer, "float32", (2, -1), offset=8)),
    "from_pointer": (
        memory,
        lambda obj: partial(dlpack.from_pointer, NUMBERS.ctypes.data, (2, 3), float, device="cpu", owner=obj),
    ),
    "copy_into": (memory, of(dlpack.copy_into, bytearray(64))),
    "copy_into by strides": (lambda: matrix()[1::2], of(dlpack.copy_into, np.zeros((16, 2), "u1").T)),
    "copy_into of other bytes": (lambda: NUMBERS.astype(">f4"), of(dlpack.copy_into, np.zeros(24, "f4"))),
    "copy_into of another shape": (memory, of(dlpack.copy_into, bytearray(63))),
    "copy_into of nothing": (nothing, of(unchecked_copy_into, bytes, bytearray(63))),
    "copy_into read-only memory": (memory, of(dlpack.copy_into, BYTES)),
    "copy_into of one argument": (nothing, of(unchecked_copy_into, BYTES)),
    "a dtype that is an object": (nothing, of(dlpack.frombuffer, BYTES, NUMBERS.dtype, 7)),
    # out
    "its shape": (wrapped(matrix), attribute("shape")),
    "the shape of a delegate": (wrapped(producer), attribute("shape")),
    "the repr": (wrapped(), lambda x: x.__str__),
    "an export": (wrapped(matrix), exports(max_version=(1, 3))),
    "an export of a copy": (wrapped(matrix), exports(max_version=(1, 0), copy=True, dl_device=(1, 0))),
    "an export for a stream": (wrapped(), exports(stream=1)),
    "an export of a delegate": (wrapped(producer), exports(max_version=(1, 3))),
    "a memoryview of it": (wrapped(interface()), of(memoryview)),
    "its bytes": (wrapped(matrix), lambda x: x.__bytes__),
    "its array interface": (wrapped(matrix), attribute("__array_interface__")),
    "an absent array interface": (wrapped(hidden_interface), attribute("__array_interface__", "absent")),
    "its array struct": (wrapped(matrix), attribute("__array_struct__")),
    "its Arrow array": (wrapped(), lambda x: x.__arrow_c_array__),
    "its Arrow device array": (wrapped(), lambda x: partial(x.__arrow_c_device_array__, None, later=None)),
    "no Arrow device array": (wrapped(), lambda x: partial(x.__arrow_c_device_array__, later=1)),
    "its Arrow tensors": (wrapped(matrix), lambda x: x.__arrow_c_array__),
    "no Arrow array": (wrapped(lambda: matrix()[::2]), lambda x: x.__arrow_c_array__),
    "no Arrow array of no dimension": (wrapped(lambda: NUMBERS[0]), lambda x: x.__arrow_c_array__),
    # what is refused
    "a type": (nothing, of(dlpack.asdlpack, bytes)),
    "an unknown keyword": (nothing, of(unchecked, BYTES, copied=True)),
    "too few arguments": (nothing, of(unchecked_frombuffer, BYTES)),
    "too many arguments": (nothing, of(unchecked, BYTES, True)),
    "a copy that is none": (nothing, of(unchecked, BYTES, copy="yes")),
    "read-only memory that must be writable": (nothing, of(dlpack.asdlpack, BYTES, readonly=False)),
    "a device that is none": (nothing, of(dlpack.asdlpack, BYTES, device="tpu")),
    "a device that is an int": (nothing, of(unchecked, BYTES, device=1)),
    "an unknown type": (nothing, of(dlpack.frombuffer, BYTES, "float33")),
    "a type of another library": (nothing, of(dlpack.frombuffer, BYTES, Speaks())),
    "a dtype that is none": (nothing, of(unchecked_frombuffer, BYTES, None)),
    "a dtype that does not fit": (nothing, of(dlpack.frombuffer, BYTES, NUMBERS.dtype, 70)),
    "a shape that is none": (nothing, of(unchecked_frombuffer, BYTES, "int8", "shape")),
    "a length that is too large": (nothing, of(dlpack.frombuffer, BYTES, "int8", (2**64,))),
    "an offset below 0": (nothing, of(dlpack.frombuffer, BYTES, "int8", offset=-1)),
    "a capsule in frombuffer": (capsule(), of(dlpack.frombuffer, "int8")),
    "a pointer of ctypes in frombuffer": (lambda: ctypes.c_void_p(8), of(dlpack.frombuffer, "int8")),
    "a pointer that is none": (nothing, of(unchecked_from_pointer, "pointer", 1, "int8")),
    "a pickle": (wrapped(), lambda x: lambda: x.__reduce_ex__(4)[1][-1].__reduce__()),
}
if sys.version_info >= (3, 15):
    del CALLS["an Arrow table of other rows"]  # nanoarrow has no wheel for it yet


def scenario_of(call):
    return lambda made: seen(call(made)())


SCENARIOS: dict[str, Any] = {name: (make, scenario_of(call)) for name, (make, call) in CALLS.items()} | {
    # in
    "a memoryview": (matrix, wrap),
    "a buffer with a format": (lambda: array.array("d", [1, 2]), wrap),
    "an array of ctypes": (lambda: (ctypes.c_int16 * 3)(1, 2, 3), wrap),
    "a legacy capsule": (capsule(b"dltensor"), wrap),
    "a capsule of another version": (capsule(version=(2, 0)), wrap),
    "a malformed pointer": (pointer(dtype=(9, 7, 0)), wrap),
    "a borrowed tensor": (memory, borrow_pointer),
    "memory with an owner": (memory, lambda obj: wrap(BYTES, owner=obj)),
    "read-only memory of a producer": (producer, lambda obj: wrap(obj, readonly=True)),
    "a capsule that must be writable": (capsule(), lambda obj: wrap(obj, readonly=False)),
    "a producer": (producer, wrap),
    "a legacy producer": (legacy_producer, wrap),
    "a refusing producer": (refusing_producer, wrap),
    "a refusing producer with other protocols": (refusing_producer_with_others, wrap),
    "a producer of no capsule": (lambda: producer(__dlpack__=lambda **_: 7), wrap),
    "a producer of no device": (lambda: producer(__dlpack_device__=lambda: 7), wrap),
    "a typestr that is none": (interface(typestr="float"), wrap),
    "a typestr of the wrong type": (interface(typestr=4), wrap),
    "an array interface that is no dict": (lambda: Speaks(__array_interface__=[1]), wrap),
    "a CUDA array interface without a driver": (cuda_interface, wrap),
    "an Arrow array": (column, read),
    "Arrow lists": (lists, read),
    "Arrow tensors": (tensors, read),
    "an Arrow table": (table, read),
    "an Arrow table of two columns": (lambda: table("a", "b"), read),
    "a matrix of an Arrow table": (lambda: table("a", "b"), lambda made: read(made, copy=None)),
    "frombuffer of Arrow's bytes": (
        lambda: Speaks(__arrow_c_array__=lambda: Column(b"w:4", NUMBERS).capsules()),
        lambda obj: bytes_of(dlpack.frombuffer(obj, "u2", (-1, 2))),
    ),
    "a released Arrow array": (lambda: Column(b"i", NUMBERS, array={"length": -1}), read),
    "an Arrow stream": (chunks(1), read),
    "an Arrow stream of chunks": (chunks(3), lambda made: read(made, copy=None)),
    "a refused Arrow stream of chunks": (chunks(2), read),
    "an Arrow device array": (device_column, read),
    "an Arrow device array of a malformed event": (gpu_column, read),
    "a stream of an Arrow device array": (device_chunks(1), read),
    "a stream of Arrow device arrays": (device_chunks(3), lambda made: read(made, copy=None)),
    "a refused stream of Arrow device arrays": (lambda: DeviceStream(device_column(), gpu_column()), read),
    "copy_into of a capsule": (capsule(), scenario_of(of(dlpack.copy_into, np.zeros((4, 6), "f4")[::-1]))),
    "copy_into of a producer": (producer, scenario_of(of(dlpack.copy_into, np.zeros((4, 6), "f4")))),
    "copy_into a producer": (producer, lambda made: dlpack.copy_into(np.ones((4, 6), "f4"), made)),
    "copy_into a refusing producer": (refusing_producer, lambda made: dlpack.copy_into(NUMBERS, made)),
    "copy_into of an overlap": (
        lambda: Memory(bytearray(64)),
        lambda made: dlpack.copy_into(memoryview(made)[::-1], dlpack.asdlpack(made)),
    ),
    "copy_into of an Arrow stream of chunks": (
        chunks(3),
        lambda made: dlpack.copy_into(made.exporter(), np.zeros(72, "f4")),
    ),
    "a copy by frombuffer": (memory, scenario_of(of(dlpack.frombuffer, "float32", (2, -1), offset=8, copy=True))),
    "frombuffer of a dtype": (memory, lambda obj: bytes_of(dlpack.frombuffer(obj, np.dtype("<i2"), 8, strides=2))),
    "frombuffer of a tensor": (producer, lambda obj: bytes_of(dlpack.frombuffer(obj, "uint8"))),
    "from_pointer of a ctypes pointer": (
        lambda: ctypes.pointer((ctypes.c_int32 * 4)(1, 2, 3, 4)),
        lambda obj: bytes_of(dlpack.from_pointer(obj, [2, 2], "int32", strides=[1, 2], device=(1, 0))),
    ),
    "a copy that is needed": (lambda: interface(typestr=">f4")(), lambda obj: wrap(obj, copy=None)),
    "a copy of a producer": (producer, lambda obj: wrap(obj, copy=True, device="cpu")),
    "to a device without a driver": (memory, lambda obj: wrap(obj, device="cuda:1", copy=None)),
    # out
    "the attributes": (wrapped(), attributes),
    "the attributes of a delegate": (wrapped(producer), attributes),
    "the repr of a delegate": (wrapped(producer), lambda x: seen(repr(x))),
    "the repr of a copy": (lambda: dlpack.asdlpack(matrix(), copy=True), lambda x: seen(repr(x))),
    "the device": (wrapped(), lambda x: x.__dlpack_device__()),
    "the device of a delegate": (wrapped(producer), lambda x: x.__dlpack_device__()),
    "exports that nobody takes": (wrapped(matrix), drop_export),
    "a legacy export": (wrapped(matrix), export()),
    "an export to a device": (wrapped(), export(dl_device=(2, 0))),
    "an export with wrong arguments": (wrapped(), export(max_version="1.3")),
    "a legacy export of a delegate": (wrapped(producer), export()),
    "an export of a copy of a delegate": (wrapped(producer), export(copy=True, max_version=(1, 3))),
    "an export by a C exchange API": (exchanged, with_paddle(export(max_version=(1, 3)))),
    "a legacy export by a C exchange API": (exchanged, with_paddle(export())),
    "the attributes by a C exchange API": (exchanged, with_paddle(attributes)),
    "the device by a C exchange API": (exchanged, with_paddle(lambda x: x.__dlpack_device__())),
    "to numpy": (memory, lambda made: dlpack.to(made, "numpy").tolist()),
    "to numpy by a C exchange API": (exchanged, with_paddle(lambda x: dlpack.to(x, "numpy").tolist())),
    "an array of a C exchange API": (memory, lambda made: seen(dlpack.to(made, Tensor))),
    "a copy by a C exchange API": (memory, lambda made: seen(dlpack.to(bytes(made), Tensor))),
    "an export of a legacy producer": (wrapped(legacy_producer), export(max_version=(1, 3))),
    "an export of a refusing producer": (wrapped(refusing_producer), export()),
    "an export by other protocols": (wrapped(refusing_producer_with_others), export()),
    "a writable buffer": (lambda: dlpack.asdlpack(BYTES), view(1)),
    "a plain buffer": (wrapped(), view(0)),
    "a buffer with gaps": (wrapped(lambda: matrix()[::2]), view(0)),
    "an absent CUDA array interface": (wrapped(), lambda x: hasattr(x, "__cuda_array_interface__")),
    "its numpy array": (wrapped(matrix), lambda x: x.__array__().tolist()),
    "its numpy array of another type": (wrapped(matrix), lambda x: x.__array__("f8", copy=True).tolist()),
    "Arrow arrays that nobody takes": (wrapped(matrix), drop_arrow),
    "the exchange API": (wrapped(matrix), round_trip),
    "the exchange API of a delegate": (wrapped(producer), round_trip),
    "a tensor by the exchange API": (wrapped(producer), borrowed),
    "the exchange API of another object": (nothing, lambda _: from_object(7)),
    "NULL by the exchange API": (nothing, lambda _: to_object(None)),
    "an allocation": (nothing, allocated((3, 4))),
    "no allocation": (nothing, allocated((1 << 50,))),
    "describe": (memory, about),
    "describe a capsule": (capsule(), look),
    "describe a pointer": (pointer(), look),
    "describe a used capsule": (nothing, lambda _: about(used_capsule())),
    "describe a refusing producer": (refusing_producer, about),
    # what is refused; without memory the way out is not said
    "an int": (nothing, scenario_of(of(unchecked, 1))),
    "a list": (nothing, scenario_of(of(unchecked, [1]))),
    "a weak reference": (memory, lambda obj: dlpack.asdlpack(weakref.proxy(obj))),
}


def of_cuda(driver):
    """Returns scenarios with a CUDA driver. Its memory is allocated once, since no object frees it."""
    numbers = np.arange(24, dtype="i4").reshape(4, 6)
    stream = driver.stream(1)
    on_device, strided = driver.put(numbers, 1), driver.put(numbers[:, ::2], 1)
    written, host = driver.put(numbers, 1, stream=stream), driver.put(numbers, 0, "host")
    managed = driver.put(numbers, 0, "managed")
    room, elsewhere = driver.put(numbers[:, :3].copy(), 1), driver.put(numbers, 2)

    def made(obj):
        return lambda: Speaks(__cuda_array_interface__=obj.__cuda_array_interface__)

    def at(obj):
        return obj.__cuda_array_interface__["data"][0]

    def wrap_here(obj):
        x = dlpack.asdlpack(obj)
        return x.dtype, x.shape, x.strides, x.device

    def to_host(obj):
        return wrap(obj, device="cpu", copy=None)

    def to(device, **arguments):
        def copy(obj):
            x = dlpack.asdlpack(obj, device=device, copy=None)
            return x.dtype, x.shape, x.device, bytes(dlpack.asdlpack(x, device="cpu", copy=None))

        return copy

    def interface_of(obj):
        return sorted(dlpack.asdlpack(obj).__cuda_array_interface__)

    def exported(obj, **arguments):
        return dlpack.asdlpack(dlpack.asdlpack(obj).__dlpack__(max_version=(1, 3), **arguments)).shape

    return {
        "an array on a GPU": (made(on_device), wrap_here),
        "an array on a GPU that is written": (made(written), wrap_here),
        "an array on the host": (made(host), wrap_here),
        "an array on the host for the CPU": (made(host), to_host),
        "managed memory": (made(managed), wrap_here),
        "a pointer": (nothing, lambda _: dlpack.from_pointer(at(on_device), 24, "int32", device="cuda:1").shape),
        "a pointer to elsewhere": (nothing, lambda _: dlpack.from_pointer(at(on_device), 24, "int32", device="cuda:2")),
        "a copy to the host": (made(on_device), to_host),
        "a copy of what is written": (made(written), to_host),
        "a strided copy to the host": (made(strided), to_host),
        "a copy to a GPU": (lambda: dlpack.asdlpack(numbers), to("cuda:1")),
        "a strided copy to a GPU": (lambda: dlpack.asdlpack(numbers[:, ::2]), to("cuda:1")),
        "a copy to another GPU": (made(on_device), to("cuda:2")),
        "a strided copy to another GPU": (made(strided), to("cuda:2")),
        "a copy into a GPU": (made(room), lambda obj: dlpack.copy_into(numbers[:, ::2], obj)),
        "a copy into the host": (made(written), lambda obj: dlpack.copy_into(obj, np.zeros((6, 4), "i4").T)),
        "a copy into a GPU's own memory": (made(room), lambda obj: dlpack.copy_into(obj, room)),
        "a copy into another GPU": (made(on_device), lambda obj: dlpack.copy_into(obj, elsewhere)),
        "its interface": (made(on_device), interface_of),
        "an export for a stream": (made(written), lambda obj: exported(obj, stream=2)),
        "an export for the default stream": (made(written), exported),
        "an export of a copy": (made(on_device), lambda obj: exported(obj, copy=True)),
    }
