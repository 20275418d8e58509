"""The whole interface in one call: every protocol in, every way out, copies, what is refused; and what is inherited."""

import ctypes
import gc
import pickle
import weakref

import ml_dtypes
import numpy as np

import dlpack
from dlpack import structs
from dlpack._abi import STRUCTS
from support import arrow_c, capi, exchange_api, forks

NUMBERS = np.arange(6, dtype="i4")
BIG_ENDIAN = {"version": 3, "typestr": ">f4", "shape": (np.int64(4),), "data": bytearray(16)}


def sources():
    """One object of each protocol, each with the numbers 0 to 5."""
    numbers = NUMBERS.copy()
    interface = dict(numbers.__array_interface__)
    x = dlpack.asdlpack(numbers)
    at = {"data": numbers.ctypes.data, "shape": (6,), "dtype": (0, 32, 1)}
    managed = [capi.Managed(name=name, **at).struct for name in STRUCTS for _ in range(2)]
    yield from (numbers, memoryview(numbers), x, x.__dlpack__(), x.__dlpack__(max_version=(1, 3)))
    yield from (capi.Managed(name=name, **at).capsule() for name in STRUCTS)
    yield from (ctypes.pointer(struct) for struct in managed)
    yield capi.Speaks(__array_interface__=interface, keep=numbers)
    yield capi.Speaks(__array_struct__=numbers.__array_struct__, keep=numbers)
    yield arrow_c.Column(items=numbers).exporter()
    yield arrow_c.Stream(arrow_c.Column(items=numbers)).exporter()
    yield arrow_c.DeviceColumn(items=numbers).exporter()
    yield arrow_c.DeviceStream(arrow_c.DeviceColumn(items=numbers)).exporter()


def use_ways_out(x):
    expected = NUMBERS.tolist()
    assert np.from_dlpack(x).tolist() == np.asarray(x).tolist() == memoryview(x).tolist() == expected
    assert np.from_dlpack(x, copy=True).tolist() == expected
    assert np.asarray(dlpack.asdlpack(x, copy=True)).tolist() == expected
    assert np.asarray(dlpack.frombuffer(x, "int32", (2, 3))).tolist() == [expected[:3], expected[3:]]
    assert np.asarray(dlpack.from_pointer(x.pointer, (6,), "int32", owner=x)).tolist() == expected
    for other in ("__array_interface__", "__array_struct__", "__arrow_c_array__", "__arrow_c_device_array__"):
        assert dlpack.asdlpack(capi.Speaks(**{other: getattr(x, other)}, keep=x)).pointer == x.pointer
    exchange_api.borrow(x)
    assert exchange_api.to_object(exchange_api.from_object(x)).pointer == x.pointer
    exchange_api.delete(exchange_api.from_object(x))
    assert dlpack.describe(x)["shape"] == (6,)
    assert x.__dlpack_device__() == (1, 0)
    repr(x)


def use():
    for source in sources():
        use_ways_out(dlpack.asdlpack(source))
    assert np.asarray(dlpack.asdlpack(np.ones(2, ml_dtypes.bfloat16))).tolist() == [1, 1]
    tensor = structs.DLTensor(data=NUMBERS.ctypes.data, device=(1, 0), ndim=1, dtype=(0, 32, 1))
    tensor.shape = (ctypes.c_int64 * 1)(6)
    assert dlpack.asdlpack(ctypes.pointer(tensor), owner=NUMBERS).pointer == NUMBERS.ctypes.data
    on_a_gpu = {"shape": (2,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}
    try:
        dlpack.asdlpack(capi.Speaks(__cuda_array_interface__=on_a_gpu))
    except BufferError:
        forks.use_all()
        return
    raise AssertionError("memory of CUDA without a driver")


def be_refused():
    """Calls with objects that have no memory or are damaged, and for ways out that a type or device lacks."""
    numbers, x = bytearray(16), dlpack.frombuffer(bytearray(16), "bfloat16")
    capsule, of_vulkan = x.__dlpack__(), dlpack.from_pointer(4096, 4, "uint8", device="vulkan")
    dlpack.asdlpack(capsule)
    refused = [
        lambda: dlpack.asdlpack(numbers, align=3),
        lambda: dlpack.asdlpack(object()),
        lambda: dlpack.asdlpack([1, 2]),
        lambda: dlpack.asdlpack("a path"),
        lambda: dlpack.asdlpack(capi.Speaks(__array_interface__=BIG_ENDIAN)),
        lambda: dlpack.asdlpack(capsule),
        lambda: dlpack.copy_into(numbers, b"1234"),
        lambda: dlpack.from_pointer(x.pointer, 4, "int8", device="gpu"),
        lambda: dlpack.frombuffer(numbers, "floot32"),
        lambda: dlpack.frombuffer(numbers, "int8", "(4,)"),
        lambda: memoryview(x),
        lambda: np.asarray(of_vulkan),
        lambda: pickle.dumps(of_vulkan),
        lambda: str(dlpack.describe(x)) + x.clone,
        lambda: x.__arrow_c_array__(),
        lambda: x.__dlpack__(max_version=3),
        lambda: x[0],
    ]
    for each in refused:
        try:
            each()
        except (AttributeError, BufferError, TypeError, ValueError):
            continue
        raise AssertionError("not refused")


class Inherited:
    """Objects, arrays and capsules, used and unused, for a child to drop; it checks that their memory is freed."""

    def __init__(self):
        memory = capi.Memory(64)
        x = dlpack.asdlpack(memory)
        self.alive = [weakref.ref(memory)]
        self.held = [
            x,
            np.from_dlpack(x),
            x.__dlpack__(),
            x.__dlpack__(max_version=(1, 0)),
            dlpack.asdlpack(x.__dlpack__()),
            dlpack.asdlpack(memoryview(memory)[::2], copy=True),
        ]

    def drop(self):
        self.held.clear()
        gc.collect()
        assert not any(memory() for memory in self.alive)
