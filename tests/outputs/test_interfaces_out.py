"""The array interfaces of a DLPackObject, for the CPU and for CUDA: present if they apply, and true."""

import gc
import sys

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack
from dlpack._abi import capsule_pointer
from support.capi import SUBBYTE_TYPE_PADDED, Exporter, Managed, PyArrayInterface, Speaks, address, on_device
from support.exchange_api import raising
from support.layouts import DTYPES, LAYOUTS, PROTOCOLS
from support.producers import Producer
from support.refusals import refused
from support.small_types import ALL, in_numpy

ATTRIBUTES = ["__array_interface__", "__array_struct__", "__cuda_array_interface__"]
CPU, CUDA = (1, 0), (2, 0)
C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE = 0x1, 0x2, 0x400


def struct_of(obj):
    """The fields of an __array_struct__."""
    capsule = obj.__array_struct__
    array = PyArrayInterface.from_address(capsule_pointer(capsule, None))
    fields = {name: getattr(array, name) for name in ("two", "nd", "typekind", "itemsize", "flags", "data", "descr")}
    return fields | {name: tuple(getattr(array, name)[: array.nd]) for name in ("shape", "strides")}


def there(x):
    return [name for name in ATTRIBUTES if hasattr(x, name)]


@pytest.mark.parametrize("wrap", [lambda array: array, PROTOCOLS["__dlpack__"]])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_layout_has_the_interfaces_of_numpys_own_array(dtype, layout, wrap):
    array = LAYOUTS[layout](dtype)
    x = asdlpack(wrap(array))
    interface, expected = x.__array_interface__, array.__array_interface__
    gaps = {} if array.flags.c_contiguous else {"strides": tuple(stride * array.itemsize for stride in x.strides)}
    assert interface == gaps | {
        "version": 3,
        "typestr": expected["typestr"],
        "shape": array.shape,
        "data": (array.ctypes.data if array.size else interface["data"][0], False),
    }
    assert interface["data"][0] != 0  # numpy 1 takes no NULL, not even for an array without items
    found, expected = struct_of(x), struct_of(array)
    assert found.pop("strides") == tuple(stride * array.itemsize for stride in x.strides)
    data = found.pop("data")
    assert data == array.ctypes.data or (array.size == 0 and data)
    assert found == {name: expected[name] for name in found}
    for taken in Speaks(__array_interface__=interface), Speaks(__array_struct__=x.__array_struct__):
        np.testing.assert_array_equal(np.asarray(taken), array, strict=True)


def test_read_only_memory_stays_read_only():
    for x in asdlpack(b"abc"), asdlpack(np.zeros(3).__dlpack__()):
        assert x.__array_interface__["data"] == (x.pointer, True)
        assert struct_of(x)["flags"] & WRITEABLE == 0
        for name in ATTRIBUTES[:2]:
            assert not np.asarray(Speaks(**{name: getattr(x, name)})).flags.writeable
    cuda = on_device(CUDA, flags=1)
    assert cuda.__cuda_array_interface__["data"] == (4096, True)


@pytest.mark.parametrize("name", ATTRIBUTES[:2])
def test_an_array_from_an_interface_writes_the_memory_and_keeps_it(name):
    source = Exporter(bytes(8), readonly=False)
    x = asdlpack(source)
    out = np.asarray(Speaks(**{name: getattr(x, name)}, keep=x))
    del x
    gc.collect()
    assert source.exports == 1
    out[3] = 9
    assert bytes(source.data) == b"\0\0\0\x09\0\0\0\0"
    del out
    assert source.exports == 0


def test_an_array_struct_keeps_the_memory_by_itself():
    source = Exporter(bytes(8), b"h", 2, (2, 2))
    before = sys.getrefcount(source)
    capsule = asdlpack(source).__array_struct__
    gc.collect()
    assert source.exports == 1
    array = PyArrayInterface.from_address(capsule_pointer(capsule, None))
    assert (array.data, array.shape[:2], array.strides[:2]) == (address(source.data), [2, 2], [4, 2])
    del capsule
    assert (source.exports, sys.getrefcount(source)) == (0, before)


def test_an_array_struct_of_a_producer_keeps_its_tensor():
    managed = Managed(4096, shape=(3,))
    asked = Speaks(__dlpack__=lambda **_: managed.capsule(), __dlpack_device__=lambda: CPU)
    capsule = asdlpack(asked).__array_struct__
    gc.collect()
    assert managed.deleted == 0
    del capsule
    assert managed.deleted == 1


HIDDEN = {
    "bfloat16": lambda: asdlpack(np.zeros(3, ml_dtypes.bfloat16)),
    "float8_e5m2": lambda: asdlpack(np.zeros(3, ml_dtypes.float8_e5m2)),
    "int4": lambda: on_device(CPU, (0, 4, 1), flags=SUBBYTE_TYPE_PADDED),
    "float4_e2m1fn": lambda: on_device(CPU, (17, 4, 1)),
    "float32x2": lambda: on_device(CPU, (2, 32, 2)),
    "complex32": lambda: on_device(CPU, (5, 32, 1)),
    "bcomplex32": lambda: on_device(CPU, (18, 32, 1)),
    "float128": lambda: on_device(CPU, (2, 128, 1)),
}


@pytest.mark.parametrize("dtype", HIDDEN)
def test_a_dtype_without_a_typestr_has_no_interface_and_says_why(dtype):
    x = HIDDEN[dtype]()
    assert (x.dtype, there(x)) == (dtype, [])
    for name in ATTRIBUTES[:2]:
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        has_array = "" if dtype == "float4_e2m1fn" else in_numpy(dtype)  # which is packed here
        assert str(caught.value) == (
            f"{name}: BufferError: dtype {dtype}: it has no typestr "
            f'({has_array}dlpack.frombuffer(x, "uint8") shares the bytes)'
        )
    if has_array and dtype in ALL:
        assert np.asarray(x).dtype == getattr(ml_dtypes, dtype)


@pytest.mark.parametrize(
    "wrap", [asdlpack, lambda array: asdlpack(PROTOCOLS["__dlpack__"](array)), lambda array: asdlpack(bytes(3))]
)
def test_memory_of_the_cpu_does_not_look_like_memory_of_cuda(wrap):
    x = wrap(np.zeros(3))
    assert there(x) == ATTRIBUTES[:2]
    with pytest.raises(AttributeError) as caught:
        x.__cuda_array_interface__  # noqa: B018
    assert str(caught.value) == "device kDLCPU:0: expected memory of CUDA for __cuda_array_interface__"


def test_memory_of_cuda_does_not_look_like_memory_of_the_cpu():
    x = on_device((2, 1))
    assert there(x) == ATTRIBUTES[2:]
    for name in ATTRIBUTES[:2]:
        with pytest.raises(
            AttributeError, match=rf"{name}: .*device kDLCUDA:1: the CPU can't read .*copies it to the host"
        ):
            getattr(x, name)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ((3, 0), ATTRIBUTES[:2]),  # kDLCUDAHost
        ((13, 0), ATTRIBUTES),  # kDLCUDAManaged: both sides read it
        ((10, 0), []),  # kDLROCM
        ((8, 0), []),  # kDLMetal
        ((99, 0), []),
    ],
)
def test_every_device_has_the_interfaces_of_those_who_can_read_it(device, expected):
    assert there(on_device(device)) == expected


def test_the_cuda_interface_tells_all_that_its_version_3_asks_for():
    x = on_device(CUDA, shape=(2, 3), strides=(6, 2), dtype=(5, 64, 1))
    assert x.__cuda_array_interface__ == {
        "version": 3,
        "typestr": "<c8",
        "shape": (2, 3),
        "strides": (48, 16),
        "data": (4096, False),
        "stream": 1,
    }
    assert "strides" not in on_device(CUDA, shape=(2, 3)).__cuda_array_interface__
    assert on_device(CUDA, shape=(2, 0)).__cuda_array_interface__["data"] == (0, False)
    assert on_device((13, 0)).__cuda_array_interface__["stream"] == 1


def of_cuda(data=4096):
    return Managed(data, shape=(3,), device=CUDA)


def test_producer_orders_its_work_each_time_its_cuda_interface_is_read():
    given = []
    producer = Producer(lambda **_: given.append(of_cuda()) or given[-1].capsule(), CUDA)
    x = asdlpack(producer)
    assert x.shape == (3,)
    for count in 0, 1, 2:  # to look at the memory, no work need be waited for
        assert [words.get("stream") for words in producer.asked] == [-1] + [1] * count
        assert x.__cuda_array_interface__["stream"] == 1
    assert [managed.deleted for managed in given] == [0, 1, 1, 1]
    del x
    assert given[0].deleted == 1


def test_memory_that_is_another_at_each_export_has_no_cuda_interface():
    addresses = iter([4096, 8192, 8192])
    x = asdlpack(Producer(lambda **_: of_cuda(next(addresses)).capsule(), CUDA))
    refused(lambda: x.__cuda_array_interface__, "other-memory", AttributeError)
    assert x.pointer == 4096


def test_a_producer_that_cannot_order_its_work_has_no_cuda_interface():
    def dlpack(stream=None, **_):
        if stream == 1:
            raise BufferError("no such stream here")
        return of_cuda().capsule()

    x = asdlpack(Producer(dlpack, CUDA))
    assert there(x) == []
    with pytest.raises(AttributeError, match="no such stream here"):
        x.__cuda_array_interface__  # noqa: B018


@pytest.mark.parametrize("error", [BufferError("not today"), RuntimeError("not today"), ValueError("not today")])
def test_interfaces_of_a_refusing_producer_are_absent_for_its_reason(error):
    x = asdlpack(raising(error))
    assert there(x) == []
    for name in ATTRIBUTES:
        with pytest.raises(AttributeError, match=f"{name}: .*not today"):
            getattr(x, name)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit, TimeoutError, ZeroDivisionError])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_errors_other_than_refusals_pass_through_hasattr(name, error):
    with pytest.raises(error):
        hasattr(asdlpack(raising(error())), name)
