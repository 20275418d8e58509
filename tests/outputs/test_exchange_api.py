"""__dlpack_c_exchange_api__: tensors between C libraries and DLPackObjects, without capsules."""

import ctypes
import gc
import math
import re
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

from dlpack import DLDeviceType, DLPackObject, asdlpack, from_pointer, frombuffer
from dlpack.structs import DLTensor
from support.alone import alone
from support.capi import READ_ONLY, SUBBYTE_TYPE_PADDED, Managed, Speaks, address, capsule_name
from support.cuda_driver import LEGACY, PER_THREAD, with_driver
from support.exchange_api import (
    ARRAYS,
    NUMBERS,
    ManagedPointer,
    Refused,
    SetError,
    allocate,
    api_of,
    borrow,
    delete,
    facts,
    facts_of,
    from_object,
    objects,
    raising,
    stream_of,
    to_object,
)
from support.forks import core_calls, fork_and_join
from support.process import address_space, in_thread
from support.producers import Producer
from support.refusals import refused
from support.threads import in_threads

# The table.


def test_the_table_is_whole_and_found_on_the_type():
    api = api_of(type(asdlpack(b"abc")))
    assert (api.header.version.major, api.header.version.minor, api.header.prev_api) == (1, 3, None)
    assert all(getattr(api, name) for name, _ in api._fields_)
    capsule = DLPackObject.__dlpack_c_exchange_api__
    assert capsule_name(capsule) == b"dlpack_exchange_api"
    assert asdlpack(b"abc").__dlpack_c_exchange_api__ is capsule


# From an object.


@pytest.mark.parametrize("case", ARRAYS)
def test_a_managed_tensor_is_the_memory_of_the_object(case):
    array = ARRAYS[case]
    managed = from_object(asdlpack(memoryview(array)))
    assert facts(managed.dl_tensor) == facts_of(array)
    assert (managed.version.major, managed.version.minor, managed.flags) == (1, 3, 0)
    delete(managed)


def test_memory_without_items_is_exported_too():
    managed = from_object(asdlpack(np.empty((2, 0, 3), "f4")))
    assert tuple(managed.dl_tensor.shape[:3]) == (2, 0, 3)
    delete(managed)
    x = asdlpack(bytearray())
    assert borrow(x).shape[0] == 0


def test_the_flags_say_what_may_be_done_with_the_memory():
    padded = np.zeros(3, ml_dtypes.int4)
    for x, flags in (
        (asdlpack(b"abc"), READ_ONLY),
        (asdlpack(b"abc", copy=True), 0),
        (asdlpack(bytearray(b"abc")), 0),
        (asdlpack(padded), SUBBYTE_TYPE_PADDED),
    ):
        managed = from_object(x)
        assert managed.flags == flags
        delete(managed)


def test_every_managed_tensor_holds_the_object_until_its_deleter_is_called():
    data = bytearray(8)
    x = asdlpack(data)
    before = sys.getrefcount(x)
    managed = [from_object(x) for _ in range(3)]
    assert len({address(each) for each in managed}) == 3
    assert sys.getrefcount(x) == before + 3
    alive = weakref.ref(x)
    del x
    while managed:
        with pytest.raises(BufferError):
            data.append(0)
        delete(managed.pop())
    assert alive() is None
    data.append(0)


NOT_OBJECTS = [None, 1, b"abc", bytearray(8), NUMBERS, DLPackObject, object(), [np.zeros(3)]]


@pytest.mark.parametrize("obj", NOT_OBJECTS, ids=lambda obj: type(obj).__name__)
@pytest.mark.parametrize("function", [from_object, borrow])
def test_any_other_object_is_a_type_error(function, obj):
    before = sys.getrefcount(obj)
    with pytest.raises(TypeError, match="py_object: expected a DLPackObject, as asdlpack gives, got ") as caught:
        function(obj)
    assert repr(obj)[:20] in str(caught.value)
    del caught
    assert obj is None or sys.getrefcount(obj) == before  # None has other holders


# From an object with __dlpack__.


def test_a_producer_is_asked_at_each_export():
    producer = Producer(NUMBERS)
    x = asdlpack(producer)
    for array in NUMBERS, NUMBERS[::2], NUMBERS.reshape(2, 60):
        producer.answer = array
        managed = from_object(x)
        assert facts(managed.dl_tensor) == facts_of(array)
        delete(managed)
    assert producer.asked == [{"max_version": (1, 3)}] * 3


def test_a_producers_own_deleter_is_called_once():
    produced = Managed(NUMBERS.ctypes.data, shape=(3,))
    capsule = produced.capsule()
    before = sys.getrefcount(capsule)
    x = asdlpack(Speaks(__dlpack__=lambda **_: capsule))
    managed = from_object(x)
    assert address(managed) == address(produced.struct)
    assert (capsule_name(capsule), sys.getrefcount(capsule)) == (b"used_dltensor_versioned", before)
    assert produced.deleted == 0
    delete(managed)
    del x
    gc.collect()
    assert produced.deleted == 1


def test_producer_of_legacy_capsules_gives_read_only_memory():
    x = asdlpack(Speaks(__dlpack__=lambda **_: NUMBERS.__dlpack__()))
    managed = from_object(x)
    assert (facts(managed.dl_tensor), managed.flags) == (facts_of(NUMBERS), READ_ONLY)
    delete(managed)


def test_the_other_protocols_of_a_producer_that_refuses_serve():
    array = np.arange(3, dtype=ml_dtypes.bfloat16)
    managed = from_object(asdlpack(array))
    assert (managed.dl_tensor.data, managed.dl_tensor.dtype.code) == (array.ctypes.data, 4)
    delete(managed)


@pytest.mark.parametrize("function", [from_object, borrow])
def test_a_producers_error_is_raised(function):
    for error in KeyboardInterrupt(), MemoryError("no"), ZeroDivisionError("no"):
        with pytest.raises(type(error)):
            function(asdlpack(raising(error)))
    with pytest.raises(BufferError, match="its only protocol is __dlpack__, which said BufferError: busy"):
        function(asdlpack(raising(BufferError("busy"))))
    refused(lambda: function(asdlpack(Speaks(__dlpack__=lambda **_: 1))), "wrong-answer", ValueError)


# A borrowed tensor.


@pytest.mark.parametrize("case", ARRAYS)
def test_a_borrowed_tensor_is_the_memory_of_the_object(case):
    array = ARRAYS[case]
    x = asdlpack(memoryview(array))
    before = sys.getrefcount(x)
    tensor = borrow(x)
    assert facts(tensor) == facts_of(array)
    if array.ndim:
        assert address(tensor.shape.contents) == address(borrow(x).shape.contents)
    assert sys.getrefcount(x) == before


def test_tensor_borrowed_of_a_producer_is_imported_once_and_held():
    producer = Producer(NUMBERS)
    x = asdlpack(producer)
    assert facts(borrow(x)) == facts(borrow(x)) == facts_of(NUMBERS)
    assert len(producer.asked) == 1
    array = np.arange(3.0)
    alive = weakref.ref(array)
    x = asdlpack(array)
    tensor = borrow(x)
    del array
    assert list((ctypes.c_double * 3).from_address(tensor.data)) == [0, 1, 2]
    del x
    assert alive() is None


def test_a_borrowed_tensor_can_not_say_that_items_are_padded():
    x = asdlpack(np.zeros(3, ml_dtypes.int4))
    refused(lambda: borrow(x), "no-dltensor", dtype="int4")


# To an object.


def test_an_object_is_made_of_a_managed_tensor_and_owns_it():
    produced = Managed(NUMBERS.ctypes.data, shape=(2, 3), strides=(12, -2), byte_offset=16)
    x = to_object(produced.struct)
    assert (x.shape, x.strides, x.pointer) == ((2, 3), (12, -2), NUMBERS.ctypes.data + 16)
    assert (x.dtype, x.readonly, x.obj, x.protocol) == ("float32", False, None, "__dlpack_c_exchange_api__")
    assert re.fullmatch(r"<dlpack\.DLPackObject: float32\[2, 3\] at .* by __dlpack_c_exchange_api__>", repr(x))
    alone = sys.getrefcount(x)
    array = np.from_dlpack(x)
    assert array.tolist() == [[4, 2, 0], [16, 14, 12]]
    assert sys.getrefcount(x) == alone + 1
    del x
    gc.collect()
    assert produced.deleted == 0
    del array
    assert produced.deleted == 1


def test_an_object_may_hold_read_only_memory_without_a_deleter():
    x = to_object(Managed(NUMBERS.ctypes.data, shape=(3,), flags=READ_ONLY, deleter=False).struct)
    assert x.readonly
    assert not np.from_dlpack(x).flags.writeable


def test_what_goes_out_comes_in_again():
    data = bytearray(range(8))
    x = to_object(from_object(asdlpack(data)))
    for _ in range(5):
        x = to_object(from_object(x))
    np.from_dlpack(x)[0] = 7
    assert data[0] == 7
    del x
    data.append(0)


def test_a_misaligned_tensor_stays_the_callers():
    produced = Managed(NUMBERS.ctypes.data, shape=(2, 3), byte_offset=1)
    before = objects()
    refused(lambda: to_object(produced.struct), "misaligned", alignment=4)
    assert (produced.deleted, objects()) == (0, before)


def test_null_is_a_value_error():
    refused(lambda: to_object(None), "null-pointer", ValueError)


# The allocator.


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (), (0,), (5, 0), (1,) * 64, (1 << 20,)])
@pytest.mark.parametrize("dtype", [(1, 8, 1), (2, 64, 1), (4, 16, 1), (5, 128, 1), (6, 8, 1), (17, 4, 2), (2, 32, 4)])
def test_memory_is_allocated_compact_and_aligned(shape, dtype):
    managed = allocate(shape, dtype)
    data, device, found, lengths, strides, offset = facts(managed.dl_tensor)
    assert (device, found, lengths, offset, managed.flags) == ((1, 0), dtype, shape, 0, 0)
    size = math.prod(shape)
    if size == 0:
        assert data is None
    else:
        assert data % 64 == 0
        nbytes = size * dtype[1] * dtype[2] // 8
        ctypes.memset(data, 7, nbytes)
        assert strides == tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        x = to_object(managed)
        assert (x.nbytes, bytes(x)) == (nbytes, bytes([7]) * nbytes)
        return
    delete(managed)


def test_only_type_shape_and_device_of_the_prototype_count():
    lengths, strides, managed = (ctypes.c_int64 * 2)(2, 3), (ctypes.c_int64 * 2)(1, 2), ManagedPointer()
    prototype = DLTensor(1, (1, 0), 2, (2, 32, 1), lengths, strides, byte_offset=3)
    assert api_of().managed_tensor_allocator(prototype, managed, None, SetError(lambda *_: None)) == 0
    tensor = managed.contents.dl_tensor
    assert facts(tensor) == (tensor.data, (1, 0), (2, 32, 1), (2, 3), (3, 1), 0)
    assert tensor.data % 64 == 0
    delete(managed.contents)


def test_items_that_share_bytes_get_the_bytes_that_they_need():
    for count, dtype, nbytes in (3, (0, 4, 1), 2), (5, (1, 1, 1), 1), (4, (15, 6, 1), 3):
        managed = allocate((count,), dtype)
        x = to_object(managed)
        assert x.nbytes == nbytes


@alone
def test_allocated_memory_is_freed_by_its_deleter():
    many = 1 << 28
    delete(allocate((16,), (1, 8, 1)))
    before, count = address_space(), objects()
    managed = allocate((many,), (1, 8, 1))
    assert address_space() >= before + many
    assert objects() == count + 1
    delete(managed)
    assert address_space() < before + many
    assert objects() == count


REFUSED = {  # test_malformed_tensors.py has other prototypes
    "no shape": ({"shape": None, "ndim": 2}, "ValueError", "shape is NULL; expected 2 dimensions"),
    "no lanes": ({"shape": (2,), "dtype": (2, 32, 0)}, "ValueError", "lanes 0"),
    "no memory": ({"shape": (2**60,)}, "MemoryError", f"managed_tensor_allocator: no memory for {2**62} bytes"),
    "a GPU": (
        {"shape": (2,), "device": (2, 1)},
        "BufferError",
        "device kDLCUDA:1: managed_tensor_allocator allocates memory of the CPU",
    ),
    "another device": ({"shape": (2,), "device": (7, 0)}, "BufferError", "device kDLVulkan:0: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_allocated_is_said_to_the_callback(case):
    arguments, kind, message = REFUSED[case]
    before = objects()
    with pytest.raises(Refused) as caught:
        allocate(**arguments)
    assert caught.value.args[0] == kind
    assert message in caught.value.args[1]
    assert objects() == before


def test_memory_is_allocated_on_other_threads():
    x = to_object(in_thread(lambda: allocate((4,), (1, 8, 1))))
    assert x.shape == (4,)


# Streams.


def test_the_current_stream_is_the_default_one_on_every_device():
    assert {stream_of(int(kind), device_id) for kind in DLDeviceType for device_id in range(3)} == {None}


ORDER = ("cuEventRecord", "cuStreamWaitEvent")


def managed_address(x):
    managed = from_object(x)
    data = managed.dl_tensor.data
    delete(managed)
    return data


EXPORTS = {"managed": managed_address, "borrowed": lambda x: borrow(x).data}


def read_on_current_stream(driver, address, device=0):
    """Returns the byte values that a kernel on the current stream of DLPackObjects reads."""
    return driver.read_on(stream_of(2, device) or 0, address, device)


@with_driver
@pytest.mark.parametrize("export", EXPORTS)
def test_memory_of_a_known_stream_is_ordered_before_the_default_stream(export, driver):
    memory = driver.allocate(8, 1)
    for stream in driver.stream(1), driver.stream(1, blocking=True), PER_THREAD:
        for x in (
            asdlpack(memory.array(stream=stream)),
            from_pointer(memory.address, 8, "uint8", device="cuda:1", stream=stream),
        ):
            before = sys.getrefcount(x), objects()
            for _ in range(2):
                memory.bytes[...] = 0
                with driver.current(1):
                    driver.fill(stream, memory, 7)
                driver.clear()
                assert EXPORTS[export](x) == memory.address
                assert [line.split("(")[0] for line in driver.log(*ORDER)] == list(ORDER)
                assert driver.log("cuStreamSynchronize") == []
                assert memory.bytes[0] == 0
                assert read_on_current_stream(driver, memory.address, 1) == {7}
            assert (sys.getrefcount(x), objects()) == before


@with_driver
@pytest.mark.parametrize("export", EXPORTS)
def test_memory_of_no_stream_and_of_the_default_one_needs_no_order(export, driver):
    memory = driver.allocate(8)
    managed = Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(2, 0))
    for x in asdlpack(memory.array()), asdlpack(memory.array(stream=LEGACY)), asdlpack(managed.capsule()):
        driver.clear()
        assert EXPORTS[export](x) == memory.address
        assert driver.log() == []


@with_driver
@pytest.mark.parametrize("export", EXPORTS)
def test_memory_of_cuda_that_the_cpu_can_read_is_waited_for(export, driver):
    memory = driver.allocate(8, kind="host")
    for stream in driver.stream(), LEGACY:
        memory.bytes[...] = 0
        driver.fill(stream, memory, 7)
        EXPORTS[export](asdlpack(memory.array(stream=stream)))
        assert set(memory.bytes.tolist()) == {7}


@with_driver
@pytest.mark.parametrize("export", EXPORTS)
def test_a_stream_that_captures_is_refused_and_nothing_is_held(export, driver):
    memory = driver.allocate(8)
    stream = driver.stream()
    x = asdlpack(memory.array(stream=stream))
    live, before = driver.live(), sys.getrefcount(x)
    driver.begin_capture(stream)
    refused(lambda: EXPORTS[export](x), "capture")
    driver.end_capture(stream)
    assert (driver.live(), sys.getrefcount(x)) == (live, before)


@with_driver
def test_a_producer_of_memory_of_cuda_is_asked_for_the_default_stream(driver):
    memory = driver.allocate(8)
    producer = Producer(
        lambda **_: Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(2, 0)).capsule(), (2, 0)
    )
    x = asdlpack(producer)
    from_object(x)
    assert [arguments.get("stream") for arguments in producer.asked] == [None, LEGACY]  # to see what it is, to order it
    for count in 1, 2:
        producer.asked.clear()
        borrow(x)
        assert [arguments["stream"] for arguments in producer.asked] == ([-1, LEGACY] if count == 1 else [LEGACY])


@with_driver
def test_memory_that_comes_in_is_complete_on_the_default_stream(driver):
    memory = driver.allocate(8)
    consumer = driver.stream()
    x = to_object(Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(2, 0)).struct)
    driver.fill(LEGACY, memory, 7)
    driver.clear()
    from_object(x)
    assert driver.log() == []
    x.__dlpack__(stream=consumer)
    assert driver.read_on(consumer, memory.address) == {7}


# Threads and processes.


def test_threads_export_import_allocate_and_delete_at_once():
    def work(number):
        for _ in range(200):
            delete(from_object(x))
            again = to_object(from_object(x))
            assert again.pointer == x.pointer
            delete(allocate((16,)))
            borrow(x)

    x = asdlpack(bytearray(64))
    before, count = sys.getrefcount(x), objects()
    in_threads(work, 8)
    assert (sys.getrefcount(x), objects()) == (before, count)


@alone
def test_a_forked_child_exchanges_what_its_parent_knows_without_go():
    data = bytearray(range(64))
    x = asdlpack(data)
    held = from_object(x)
    delete(allocate((4, 4)))
    to_object(from_object(x))
    frombuffer(data, "uint8")

    def child():
        before = core_calls()
        assert facts(from_object(x).dl_tensor) == facts(held.dl_tensor) == facts(borrow(x))
        again = to_object(from_object(x))
        assert bytes(again) == bytes(range(64))
        delete(held)
        allocated = allocate((4, 4))
        assert core_calls() == before
        delete(allocated)
        with pytest.raises(Refused):
            allocate((-1,))

    for _ in range(5):
        fork_and_join(child)
    delete(held)
