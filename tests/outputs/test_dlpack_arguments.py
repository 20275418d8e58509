"""__dlpack__: its arguments, and rules of the array API standard beyond those that test_conformance.py tries.
Here asdlpack wraps other producers, and memory that says it is on a device. Nothing reads that memory.

https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.array.__dlpack__.html
"""

import enum
import inspect
import sys

import pytest

from dlpack import DLDeviceType, asdlpack
from support.capi import IS_COPIED, Managed, Speaks, look, on_device
from support.producers import Producer, refusing
from support.refusals import refused

CPU = (1, 0)
SWAPPED = ">" if sys.byteorder == "little" else "<"


def capsule_on(device):
    return Managed(4096, shape=(3,), device=device).capsule()


def test_every_argument_may_be_left_out_and_is_none_then():
    _, *parameters = inspect.signature(type(asdlpack(b"")).__dlpack__).parameters.values()
    assert [parameter.name for parameter in parameters] == ["stream", "max_version", "dl_device", "copy"]
    assert [parameter.default for parameter in parameters] == [None] * 4
    # Older consumers give the stream by position.
    assert [parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters] == [False, True, True, True]


# stream


@pytest.mark.xfail(strict=True, reason="the producer's own __dlpack__ decides; torch's takes -1 on the CPU")
def test_a_careless_producer_gets_no_stream_on_the_cpu():
    careless = Producer(lambda stream=None, **others: asdlpack(b"abc").__dlpack__(**others))
    with pytest.raises((ValueError, TypeError, BufferError)):
        asdlpack(careless).__dlpack__(stream=-1)


@pytest.mark.parametrize(("device", "stream"), [(2, 1), (10, 0)])
def test_the_default_stream_is_served_by_its_number(device, stream):
    assert look(on_device((device, 0)).__dlpack__(stream=stream)).dl_tensor.data == 4096


@pytest.mark.parametrize("stream", [None, -1, 1, 2, 3, 1 << 62])
def test_the_stream_reaches_the_producer(stream):
    producer = Producer(lambda **_: capsule_on((2, 0)), (2, 0))
    asdlpack(producer).__dlpack__(stream=stream, max_version=(1, 0))
    assert producer.asked[-1].get("stream") == (1 if stream is None else stream)  # None is the legacy default stream


def test_the_stream_stays_the_consumers():
    stream = int("100000")  # an integer that nothing else refers to
    x = on_device((10, 0))
    before = sys.getrefcount(stream)
    with pytest.raises(BufferError, match="stream 100000"):
        x.__dlpack__(stream=stream)
    assert sys.getrefcount(stream) == before


def test_a_queue_of_another_kind_reaches_the_producer_that_agreed_on_it():
    queue = object()
    producer = Producer(lambda **_: capsule_on((14, 0)), (14, 0))
    asdlpack(producer).__dlpack__(stream=queue, max_version=(1, 0))
    assert producer.asked[0]["stream"] is queue


@pytest.mark.parametrize("stream", [-1, 0, 1, 2, 4096])
def test_with_dl_device_cpu_a_stream_of_cuda_must_be_none(stream):
    refused(lambda: on_device((2, 0)).__dlpack__(dl_device=CPU, stream=stream), "stream", ValueError, stream=stream)


# max_version


@pytest.mark.parametrize("max_version", [1, 1.5, "1.0", (), (1,), (1, 0, 0), ("1", "0"), (1.0, 0)])
def test_max_version_of_another_form_is_a_type_error(max_version):
    with pytest.raises(TypeError, match="max_version"):
        asdlpack(b"abc").__dlpack__(max_version=max_version)


def test_a_version_is_not_kept_after_another_was_given():
    x, first = asdlpack(b"abc"), tuple(map(int, "10"))  # which no other test has
    before = sys.getrefcount(first)
    x.__dlpack__(max_version=first)
    x.__dlpack__(max_version=(1, 2))
    assert sys.getrefcount(first) == before


@pytest.mark.parametrize("known", [set(), {"stream"}, {"max_version"}, {"max_version", "copy"}])
def test_a_producer_without_the_newer_keywords_is_asked_again_without_them(known):
    source = asdlpack(bytearray(12))

    def older(**keywords):
        if not keywords.keys() <= known:
            raise TypeError(f"unexpected keyword arguments {keywords.keys() - known}")
        return source.__dlpack__(**keywords)

    x = asdlpack(Producer(older))
    assert (x.shape, x.dtype) == ((12,), "uint8")
    managed = look(x.__dlpack__(max_version=(1, 0), dl_device=CPU, copy=False))
    assert (managed.version.major, managed.flags & IS_COPIED) == (1, 0)
    assert managed.dl_tensor.data == source.pointer


# dl_device, __dlpack_device__


@pytest.mark.parametrize("device_type", DLDeviceType, ids=lambda each: each.name)
def test_every_device_is_told_and_taken(device_type):
    device = (int(device_type), 3 * (device_type != 1))  # there is one CPU
    for x in on_device(device), asdlpack(Producer(lambda **_: capsule_on(device), device)):
        assert x.__dlpack_device__() == device
        for keywords in {}, {"dl_device": device}:
            told = look(x.__dlpack__(**keywords)).dl_tensor.device
            assert (told.device_type, told.device_id) == device


@pytest.mark.parametrize("kind", [enum.IntEnum, enum.Enum])
def test_the_device_type_in_dl_device_may_be_a_member_of_an_enum(kind):
    for device in kind("Device", "CPU").CPU, DLDeviceType.kDLCPU:
        assert asdlpack(b"abc").__dlpack__(dl_device=(device, 0))


@pytest.mark.xfail(strict=True, reason="the device type is a plain integer, as numpy's; x.device has the enum's member")
def test_the_device_type_is_a_member_of_an_enum():
    assert isinstance(asdlpack(b"abc").__dlpack_device__()[0], enum.Enum)


@pytest.mark.parametrize("device", [1, "cpu", "kDLCPU", (), (1,), (1, 0, 0), ("cpu", 0), (1.0, 0)])
def test_dl_device_of_another_form_is_a_type_error(device):
    with pytest.raises(TypeError, match="dl_device"):
        asdlpack(b"abc").__dlpack__(dl_device=device)


@pytest.mark.parametrize("device", [(2, 99), (10, 3), (1 << 30, 9)])
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_device_that_cannot_be_served_is_a_buffer_error(device, copy, max_version):
    with pytest.raises(BufferError):
        asdlpack(b"abc").__dlpack__(dl_device=device, copy=copy, max_version=max_version)


def test_a_producer_that_offers_its_memory_to_the_cpu_is_asked_for_it():
    producer = Producer(lambda dl_device=None, **others: capsule_on(dl_device or (2, 0)), (2, 0))
    device = look(asdlpack(producer).__dlpack__(dl_device=CPU, max_version=(1, 0))).dl_tensor.device
    assert (device.device_type, device.device_id) == CPU


# copy


def swapped():
    """An object that refuses to export its big-endian memory, as numpy's arrays do."""

    interface = {"version": 3, "typestr": f"{SWAPPED}i4", "shape": (2,), "data": bytes(8)}
    return refusing(BufferError("only native byte order"), __array_interface__=interface)


@pytest.mark.xfail(
    strict=True, reason="asdlpack(copy=None) converts; __dlpack__(copy=None) of what asdlpack(copy=False) took does not"
)
def test_with_copy_none_memory_that_has_to_be_copied_is_copied():
    assert look(asdlpack(swapped()).__dlpack__(max_version=(1, 0), copy=None)).flags & IS_COPIED


@pytest.mark.parametrize("copy", [None, True])
def test_a_copy_that_several_exports_share_is_not_flagged(copy):
    """dlpack.h: DLPACK_FLAG_BITMASK_IS_COPIED: "solely owned throughout its lifetime by the consumer"."""
    x = asdlpack(swapped(), copy=copy)
    one, other = (look(x.__dlpack__(max_version=(1, 0))) for _ in range(2))
    assert one.dl_tensor.data == other.dl_tensor.data
    assert not (one.flags | other.flags) & IS_COPIED


@pytest.mark.xfail(strict=True, reason="a producer's capsule is handed on as it is; torch's copy is not flagged")
def test_a_copy_is_flagged_whatever_the_producer_forgot():
    source = asdlpack(bytearray(3), copy=True)

    def forgetful(copy=None, **others):
        capsule = source.__dlpack__(copy=copy, **others)
        look(capsule).flags = 0
        return capsule

    assert look(asdlpack(Producer(forgetful)).__dlpack__(max_version=(1, 0), copy=True)).flags & IS_COPIED


@pytest.mark.parametrize("copy", [1.5, "yes", 2, ()])
def test_copy_of_another_form_is_a_type_error(copy):
    with pytest.raises(TypeError, match="copy"):
        asdlpack(b"abc").__dlpack__(copy=copy)


# Errors


@pytest.mark.parametrize("error", [BufferError, MemoryError, ZeroDivisionError])
def test_an_error_of_the_producers_dlpack_device_is_raised(error):
    class Sparse(Producer):
        def __dlpack_device__(self):
            raise error("a sparse array")

    with pytest.raises(error, match="a sparse array"):
        asdlpack(Sparse(lambda **_: capsule_on((2, 0)))).__dlpack_device__()


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_export_that_fails_for_want_of_memory_is_a_memory_error(max_version):
    shown = {"version": 3, "typestr": "|u1", "shape": (1 << 60,), "strides": (0,), "data": bytes(1)}
    with pytest.raises(MemoryError):
        asdlpack(Speaks(__array_interface__=shown)).__dlpack__(max_version=max_version, copy=True)
