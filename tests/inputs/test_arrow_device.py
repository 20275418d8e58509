"""Arrow data on a device, by __arrow_c_device_array__ and __arrow_c_device_stream__, of a producer in C: of the CPU,
and of devices whose memory nobody reads. tests/cuda/test_cuda_arrow.py has the events."""

import ctypes
import errno
import gc
import weakref
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack, copy_into, describe
from dlpack._dlpack import _core_calls
from support.alone import alone
from support.arrow_c import ArrowDeviceArrayStream, ArrowSchema, Column, DeviceColumn, DeviceStream, bits
from support.capi import Speaks, capsule_new, look
from support.refusals import refused as call_refused

CPU, CUDA, CUDA_HOST, METAL, ROCM = 1, 2, 3, 8, 10
UNMAPPED = 64  # an address


def numbers():
    return np.arange(12, dtype="i4")


def at(values, address=4096, **fields):
    """A column whose items lie at an address that nobody reads."""
    column = DeviceColumn(items=values, **fields)
    column.array.buffers[1] = address
    return column


def refused(reason, obj, kind=ValueError, **options):
    return call_refused(partial(asdlpack, obj, **options), reason, kind)


def test_memory_of_the_cpu_is_shared_and_released_once():
    column = DeviceColumn(items=numbers(), event=UNMAPPED)  # the CPU has no events
    x = asdlpack(column.exporter())
    assert (x.protocol, x.dtype, x.shape, x.device) == ("__arrow_c_device_array__", "int32", (12,), (CPU, 0))
    assert (x.pointer, x.readonly) == (column.items.ctypes.data, True)
    out = np.from_dlpack(x)
    column.items[3] = 77
    assert out[3] == 77
    del x
    gc.collect()
    assert column.released == (0, 0)
    del out
    gc.collect()
    assert column.released == (1, 1)


def test_the_producer_lives_no_longer_than_its_array():
    column = DeviceColumn(items=numbers())
    producer = column.exporter()
    alive = weakref.ref(producer)
    x = asdlpack(producer)
    out = np.from_dlpack(asdlpack(x, copy=True))
    del producer, x
    gc.collect()
    assert (alive(), column.released, out[11]) == (None, (1, 1), 11)


def test_a_device_method_comes_before_the_hosts():
    """pylibcudf's __arrow_c_array__ copies to the host."""

    def copies():
        raise AssertionError("asked for a copy")

    column = at(numbers(), device=(CUDA, 1))
    x = asdlpack(column.exporter(__arrow_c_array__=copies, __arrow_c_stream__=copies))
    assert (x.device, x.pointer) == ((CUDA, 1), 4096)
    stream = DeviceStream(DeviceColumn(items=numbers()))
    x = asdlpack(Speaks(__arrow_c_device_stream__=stream.capsule, __arrow_c_array__=copies, __arrow_c_stream__=copies))
    assert x.protocol == "__arrow_c_device_stream__"


def test_a_method_that_is_none_is_absent():
    column = DeviceColumn(items=numbers())
    absent = {"__arrow_c_device_array__": None, "__arrow_c_device_stream__": None}
    x = asdlpack(Speaks(**absent, __arrow_c_array__=lambda: column.capsules((b"arrow_schema", b"arrow_array"))))
    assert x.protocol == "__arrow_c_array__"


# Streams.


def test_a_stream_of_one_chunk_is_shared():
    chunk = DeviceColumn(items=numbers())
    stream = DeviceStream(DeviceColumn(items=numbers()[:0]), chunk)
    x = asdlpack(stream.exporter())
    assert (x.protocol, x.pointer) == ("__arrow_c_device_stream__", chunk.items.ctypes.data)
    assert (stream.released, chunk.array_released) == (1, 0)
    del x
    assert chunk.array_released == stream.chunks[0].array_released == stream.schema.schema_released == 1


def test_chunks_of_the_cpu_are_joined():
    stream = DeviceStream(DeviceColumn(items=numbers()), DeviceColumn(items=numbers()))
    assert "copy=None" in str(refused("chunks", stream.exporter(), BufferError))
    assert [chunk.array_released for chunk in stream.chunks] == [1, 1]
    stream = DeviceStream(DeviceColumn(items=numbers()), DeviceColumn(items=numbers()))
    x = asdlpack(stream.exporter(), copy=None)
    assert np.asarray(x).tolist() == [*range(12)] * 2
    assert [chunk.array_released for chunk in stream.chunks] == [1, 1]


@pytest.mark.parametrize("copy", [False, None])
def test_chunks_of_a_gpu_are_refused_and_no_more_are_read(copy):
    stream = DeviceStream(*(at(numbers(), device=(CUDA, 0)) for _ in range(4)), device_type=CUDA)
    assert "library" in str(refused("chunks", stream.exporter(), BufferError, copy=copy))
    assert (stream.given, stream.released) == (2, 1)
    assert [chunk.array_released for chunk in stream.chunks] == [1, 1, 0, 0]


def test_one_chunk_of_a_gpu_is_shared_and_none_is_empty():
    stream = DeviceStream(at(numbers(), device=(CUDA, 1)), device_type=CUDA)
    x = asdlpack(stream.exporter())
    assert (x.device, x.pointer, x.shape) == ((CUDA, 1), 4096, (12,))
    stream = DeviceStream(schema=DeviceColumn(items=numbers()), device_type=CUDA)
    x = asdlpack(stream.exporter())
    assert (x.device, x.pointer, x.shape) == ((CUDA, 0), 0, (0,))


def test_callbacks_get_the_whole_stream():
    """Its private_data is behind the device type."""
    seen = []

    class Looking(DeviceStream):
        def _look(self, stream):
            seen.append(self.structure.from_address(stream).private_data)

        def _get_schema(self, stream, out):
            self._look(stream)
            return super()._get_schema(stream, out)

        def _get_next(self, stream, out):
            self._look(stream)
            return super()._get_next(stream, out)

        def _release(self, stream):
            self._look(stream)
            super()._release(stream)

    stream = Looking(DeviceColumn(items=numbers()), stream={"private_data": 4711})
    asdlpack(stream.exporter())
    assert seen == [4711] * 4


def test_a_stream_that_was_read_is_not_read_by_describe():
    stream = DeviceStream(DeviceColumn(items=numbers()))
    about = describe(stream.exporter())
    assert (about["protocol"], stream.released) == ("__arrow_c_device_stream__", 0)


# Devices.


@pytest.mark.parametrize(
    ("given", "device"),
    [
        ((CUDA, 2), (CUDA, 2)),
        ((CUDA_HOST, -1), (CUDA_HOST, 0)),
        ((CUDA_HOST, 1), (CUDA_HOST, 1)),
        ((METAL, -1), (METAL, 0)),
        ((CPU, 7), (CPU, 0)),
        ((99, 3), (99, 3)),
    ],
)
def test_a_device_is_the_arrays(given, device):
    x = asdlpack(at(numbers(), device=given).exporter())
    assert (tuple(map(int, x.device)), x.pointer) == (device, 4096)


@pytest.mark.parametrize("given", [(CUDA, -1), (CUDA, -2), (CUDA, 1 << 40), (METAL, -(1 << 33)), (0, 0), (-3, 0)])
def test_a_device_that_is_none_is_a_value_error(given):
    column = at(numbers(), device=given)
    refused("unknown-device", column.exporter())
    assert column.released == (1, 1)


def test_memory_of_a_gpu_needs_no_driver_without_an_event():
    x = asdlpack(at(numbers(), device=(CUDA, 1)).exporter())
    assert look(x.__dlpack__()).dl_tensor.data == 4096
    assert x.__dlpack_device__() == (CUDA, 1)


def test_nothing_on_a_gpu_is_read():
    validity = bits(1, 0, *[1] * 10)
    for nulls in 1, -1:
        column = at(numbers(), device=(CUDA, 0), validity=validity, array={"null_count": nulls})
        assert "fill" in str(refused("nulls", column.exporter(), BufferError))
        assert column.released == (1, 1)
    unread = at(numbers(), device=(CUDA, 0), validity=validity, array={"null_count": 0})
    unread.array.buffers[0] = UNMAPPED
    assert asdlpack(unread.exporter()).shape == (12,)
    for copy in False, None, True:
        column = at(numbers(), device=(CUDA, 0), format=b"b")
        assert "uint8" in str(refused("bit-packed", column.exporter(), BufferError, copy=copy))


@alone
def test_an_event_needs_the_driver():
    """This process has none."""
    event = ctypes.c_void_p(ctypes.addressof(ctypes.create_string_buffer(8)))
    x = asdlpack(at(numbers(), device=(CUDA, 0), event=ctypes.addressof(event)).exporter())
    assert look(x.__dlpack__(stream=-1)).dl_tensor.data == 4096
    for stream in None, 1, 2:
        call_refused(partial(x.__dlpack__, stream=stream), "no-driver")


def test_events_of_other_devices_are_not_waited_for():
    x = asdlpack(at(numbers(), device=(ROCM, 0), event=UNMAPPED).exporter())
    assert look(x.__dlpack__(stream=-1)).dl_tensor.data == 4096
    for stream in None, 0, 7:
        call_refused(partial(x.__dlpack__, stream=stream), "stream-order")
    assert asdlpack(at(numbers(), device=(ROCM, 0)).exporter()).__dlpack__() is not None


@pytest.mark.parametrize(
    ("handle", "reason"), [(None, "unreadable"), (0, "null-pointer"), (1, "null-pointer"), (1 << 63, "null-pointer")]
)
def test_a_malformed_event_is_a_value_error(handle, reason):
    holder = ctypes.c_uint64(handle or 0)
    event = UNMAPPED if handle is None else ctypes.addressof(holder)
    for copy in False, None:
        column = at(numbers(), device=(CUDA, 0), event=event)
        refused(reason, column.exporter(), copy=copy)
        assert column.released == (1, 1)
    column = at(numbers(), device=(CUDA, 0), event=event)
    call_refused(lambda: copy_into(column.exporter(), np.zeros(12, "i4")), reason, ValueError)


# Malformed answers.


def test_result_other_than_a_pair_is_a_value_error():
    schema, array = (capsule_new(UNMAPPED, name, None) for name in (b"arrow_schema", b"arrow_device_array"))
    host = capsule_new(UNMAPPED, b"arrow_array", None)
    for answer in (None, (), (schema,), [schema, array], (array, schema), (schema, host), (schema, None), (1, 2)):
        error = refused("wrong-answer", Speaks(__arrow_c_device_array__=lambda answer=answer: answer))
        assert '"arrow_device_array"' in str(error)
    for answer in None, 5, array, capsule_new(UNMAPPED, b"arrow_array_stream", None):
        error = refused("wrong-answer", Speaks(__arrow_c_device_stream__=lambda answer=answer: answer))
        assert '"arrow_device_array_stream"' in str(error)


def test_an_error_of_the_producer_passes():
    class Own(ValueError):
        pass

    def fail():
        raise Own

    column = DeviceColumn(items=numbers())
    for name in "__arrow_c_device_array__", "__arrow_c_device_stream__":
        with pytest.raises(Own):
            asdlpack(Speaks(**{name: fail}, __arrow_c_array__=column.capsules))


MALFORMED = {
    "released": {"array": {"release": ArrowSchema().release}},
    "arrow-structure": {"array": {"length": -1}},
    "unreadable": {"schema": {"metadata": UNMAPPED}, "format": b"c"},
    "too-large": {"array": {"offset": (1 << 63) - 5}},
    "data-type": {"format": b"q"},
}


@pytest.mark.parametrize("device", [(CPU, -1), (CUDA, 0)])
@pytest.mark.parametrize("reason", MALFORMED)
def test_malformed_structures_are_released_once(reason, device):
    column = DeviceColumn(items=numbers(), device=device, **MALFORMED[reason])
    refused(reason, column.exporter())
    was_released = reason == "released"
    assert column.released == (1, 0 if was_released else 1)
    again = refused("released", column.exporter())
    assert again.details["field"] == "ArrowSchema.release"
    assert column.released == (1, 0 if was_released else 1)


def test_a_failing_stream_is_released_once():
    for call in "get_schema", "get_next":
        stream = DeviceStream(DeviceColumn(items=numbers()), fails={call: errno.EIO}, said=b"broken")
        error = refused("callback-failed", stream.exporter(), BufferError, copy=None)
        assert (error.details["call"], error.details["errno"]) == (call, errno.EIO)
        assert error.details["protocol"] == "__arrow_c_device_stream__"
        assert "broken" in str(error)
        assert (stream.released, stream.chunks[0].array_released) == (1, call == "get_next")
    for field, reason in {"release": "released", "get_schema": "null-pointer", "get_next": "null-pointer"}.items():
        stream = DeviceStream(DeviceColumn(items=numbers()))
        setattr(stream.stream, field, getattr(ArrowDeviceArrayStream(), field))
        refused(reason, stream.exporter())
        assert stream.released == 0


def test_a_chunk_of_another_device_is_a_value_error():
    """The CPU would read memory of a GPU."""
    for copy in False, None:
        chunks = DeviceColumn(items=numbers()), at(numbers(), device=(CUDA, 0)), DeviceColumn(items=numbers())
        stream = DeviceStream(*chunks)
        error = refused("wrong-answer", stream.exporter(), copy=copy)
        assert (error.details["found"], error.details["expected"]) == ("2", 1)
        assert stream.released == 1
        assert [chunk.array_released for chunk in chunks] == [1, 1, 0]


def test_objects_without_these_methods_need_no_more_calls_into_go():
    before = _core_calls()
    asdlpack(numbers())
    asdlpack(bytearray(8))
    assert _core_calls() == before


def test_a_device_method_that_is_not_implemented_leaves_it_to_the_hosts():
    def refuse(*_, **__):
        raise NotImplementedError

    column = Column(b"i", numbers())
    obj = Speaks(__arrow_c_device_array__=refuse, __arrow_c_device_stream__=refuse, __arrow_c_array__=column.capsules)
    x = asdlpack(obj)
    assert (x.protocol, np.from_dlpack(x).tolist()) == ("__arrow_c_array__", numbers().tolist())
