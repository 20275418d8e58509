"""An object with __dlpack__ is asked when the consumer asks, with the consumer's arguments."""

import contextlib
import enum
import gc
import sys
import weakref
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest

from dlpack import DLDeviceType, asdlpack, borrow, copy_into, describe, frombuffer
from support.capi import IS_COPIED, READ_ONLY, Managed, Speaks, capsule_name, look
from support.producers import Producer, refusing
from support.refusals import refused

ARRAY = np.arange(6, dtype="f4").reshape(2, 3)
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"


def test_wrapping_calls_nothing_of_the_producer():
    producer = Producer(ARRAY)
    x = asdlpack(producer)
    asdlpack(producer, copy=None)
    assert (producer.asked, producer.asked_for_device) == ([], 0)
    assert (x.protocol, x.obj) == ("__dlpack__", producer)


def test_each_export_is_passed_on_with_the_consumers_arguments():
    producer = Producer(ARRAY)
    x = asdlpack(producer)
    for arguments in (
        {},
        {"max_version": (1, 0)},
        {"max_version": (1, 3), "dl_device": (1, 0), "copy": False},
        {"copy": True},
    ):
        producer.asked.clear()
        x.__dlpack__(**arguments)
        assert (producer.asked, producer.asked_for_device) == ([arguments], 0)


def test_memory_of_the_cpu_is_there_already_by_whatever_id_the_cpu_is_named():
    producer = Producer(ARRAY)
    x = asdlpack(producer)
    assert asdlpack(x, device=(1, 3)) is x
    assert asdlpack(producer, device="cpu:3").obj is producer
    assert (producer.asked, producer.asked_for_device) == ([], 2)


def test_a_producer_of_pinned_memory_is_told_no_stream_where_nobody_named_one():
    """Torch's pinned tensors take none."""
    producer = Producer(lambda **_: Managed(1 << 20, shape=(3,), device=(3, 0)).capsule(), (3, 0))
    x = asdlpack(producer, copy=None)
    assert (x.shape, producer.asked) == ((3,), [{"max_version": (1, 3)}])


def test_a_stream_reaches_a_producer_on_a_device():
    def dlpack(stream=None):
        served.append(stream)
        return Managed(1 << 20, name=LEGACY, shape=(3,), device=(2, 1)).capsule()

    served = []
    x = asdlpack(Producer(dlpack, (2, 1)))
    x.__dlpack__(stream=7)
    x.__dlpack__(7)
    assert served == [7, 7]
    assert x.__dlpack_device__() == (2, 1)
    # It knows no max_version, and is asked again; its capsule is of the other kind.
    managed = look(x.__dlpack__(stream=7, max_version=(1, 0)))
    assert (managed.version.major, managed.dl_tensor.data) == (1, 1 << 20)
    assert served == [7, 7, 7]


@pytest.mark.parametrize("copy", [False, None])
def test_a_capsule_of_another_major_version_is_handed_on_as_it_is(copy):
    capsule = Managed(1 << 20, version=(2, 0)).capsule()
    producer = Speaks(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
    assert asdlpack(producer, copy=copy).__dlpack__(max_version=(2, 0)) is capsule


@pytest.mark.parametrize(("name", "max_version"), [(LEGACY, None), (VERSIONED, (1, 3))])
def test_offset_is_folded_into_the_address_for_careless_consumers(name, max_version):
    made = []

    def dlpack(**arguments):
        managed = Managed(ARRAY.ctypes.data, name=name, shape=(2,), byte_offset=8)
        made.append(managed)
        return managed.capsule()

    x = asdlpack(Producer(dlpack))
    capsule = x.__dlpack__(max_version=max_version)
    tensor = look(capsule).dl_tensor
    assert (tensor.data, tensor.byte_offset) == (ARRAY.ctypes.data + 8, 0)
    del tensor, capsule
    assert [managed.deleted for managed in made] == [1]


@pytest.mark.parametrize(("name", "max_version"), [(LEGACY, None), (VERSIONED, (1, 3))])
def test_a_capsule_with_items_and_data_null_is_refused(name, max_version):
    x = asdlpack(Producer(lambda **_: Managed(0, name=name, shape=(2, 3)).capsule()))
    refused(lambda: x.__dlpack__(max_version=max_version), "data-is-null", ValueError, shape="(2, 3)")
    empty = Managed(0, name=name, shape=(0, 3)).capsule()
    assert asdlpack(Producer(lambda **_: empty)).__dlpack__(max_version=max_version) is empty


@pytest.mark.parametrize(
    ("field", "value", "reason", "details"),
    [
        ("shape", None, "null-pointer", {"ndim": 2}),
        ("ndim", 1 << 30, "dimensions", {"ndim": 1 << 30}),
        ("ndim", -1, "dimensions", {"ndim": -1}),
    ],
)
def test_a_malformed_shape_with_null_data_is_refused(field, value, reason, details):
    def dlpack(**arguments):
        managed = Managed(0, shape=(2, 3))
        setattr(managed.struct.dl_tensor, field, value)
        return managed.capsule()

    refused(lambda: asdlpack(Producer(dlpack)).__dlpack__(max_version=(1, 3)), reason, ValueError, **details)


def test_the_device_is_the_producers_own_and_asked_anew():
    producer = Producer(ARRAY)
    x = asdlpack(producer)
    assert x.__dlpack_device__() == (1, 0)
    producer.device = (2, 3)
    assert x.__dlpack_device__() == (2, 3)
    producer.device = (1, 3)  # there is one CPU, but the producer may call it so
    assert x.__dlpack_device__() == (1, 3)
    producer.device = (1, None)  # as paddle's tensors on the CPU say
    assert x.__dlpack_device__() == (1, 0)
    producer.device = (DLDeviceType.kDLROCM, np.int64(1))
    device = x.__dlpack_device__()
    assert (device, type(device[0]), type(device[1])) == ((10, 1), int, int)


@pytest.mark.parametrize(
    "device", [None, 1, "cpu", (), (1,), (1, 0, 0), ("cpu", 0), (1.0, 0), (None, None), (2**40, 0), (1, 2**40)], ids=str
)
def test_a_device_that_is_nonsense_is_a_value_error(device):
    producer = Producer(ARRAY, device)
    refused(asdlpack(producer).__dlpack_device__, "wrong-answer", ValueError, method="__dlpack_device__")


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize(
    "array", [ARRAY.astype(">f4"), np.frombuffer(bytearray(13), "f4", offset=1), np.zeros(3, "f4,u1")["f0"]], ids=str
)
def test_a_wrapped_object_whose_memory_can_not_be_shared_is_copied(array, imported):
    x = asdlpack(array)
    if imported:
        with pytest.raises(BufferError, match="copy=None"):
            assert x.shape
    target = np.zeros_like(array)
    copy_into(x, target)
    copies = asdlpack(x, copy=None), asdlpack(x, copy=True), asdlpack(x, device="cpu", copy=None)
    for each in *copies, asdlpack(x, align=64, copy=None), deepcopy(x):
        assert np.array_equal(np.asarray(each), array) and each._is_copy
    with borrow(asdlpack(x, copy=None)) as tensor:
        assert tensor.contents.shape[0] == len(array)
    assert np.array_equal(target, array)
    shared = asdlpack(ARRAY)
    assert asdlpack(shared, copy=None).pointer == shared.pointer == ARRAY.ctypes.data


def test_a_wrapped_object_is_asked_once_for_its_copies_and_attributes():
    class Once(Producer):
        def __dlpack__(self, **arguments):
            if self.asked:
                raise BufferError("given already")
            return super().__dlpack__(**arguments)

    uses = [
        lambda x: asdlpack(x, copy=True),
        lambda x: asdlpack(x, copy=None),
        lambda x: asdlpack(x, copy=None, align=1),
        lambda x: deepcopy(x),
        lambda x: copy_into(x, np.zeros_like(ARRAY)),
        lambda x: x.shape,
    ]
    for first in uses:
        x = asdlpack(Once(ARRAY))
        first(x)
        for use in uses:
            use(x)


def test_a_stream_that_a_producer_off_cuda_refuses_is_not_left_out():
    producer = refusing(BufferError("not mine"), (10, 0))
    with pytest.raises(BufferError, match="not mine"):
        asdlpack(producer).__dlpack__(stream=4096)
    assert {arguments["stream"] for arguments in producer.asked} == {4096}


# Attributes.


def test_attributes_import_one_capsule_and_exports_ask_the_producer():
    producer = Producer(ARRAY)
    x = asdlpack(producer)
    assert (x.shape, x.strides, x.dtype) == ((2, 3), (3, 1), "float32")
    [imported] = producer.asked
    assert imported["max_version"][0] == 1
    assert imported.get("stream") is None
    producer.asked.clear()
    assert (x.pointer, x.size, x.nbytes, x.readonly, x.ndim) == (ARRAY.ctypes.data, 6, 24, False, 2)
    assert "float32" in repr(x)
    assert producer.asked == []
    x.__dlpack__(max_version=(1, 0))
    assert producer.asked == [{"max_version": (1, 0)}]


def test_attributes_of_device_memory_order_no_stream():
    producer = Producer(lambda **_: Managed(1 << 20, shape=(3,), device=(2, 1)).capsule(), (2, 1))
    x = asdlpack(producer)
    assert (x.shape, x.pointer, x.device) == ((3,), 1 << 20, (DLDeviceType.kDLCUDA, 1))
    assert [arguments["stream"] for arguments in producer.asked] == [-1]


USES: dict[str, Callable] = {
    "x.shape": lambda x: x.shape,
    "x.__dlpack_device__": lambda x: x.__dlpack_device__(),
    "repr": repr,
    "describe": describe,
    "borrow": lambda x: borrow(x).__enter__(),
    "frombuffer": lambda x: frombuffer(x, "u1").__dlpack__(),
    "align": lambda x: asdlpack(x, align=1).__dlpack__(),
    "to its device": lambda x: asdlpack(x, device=x.device).__dlpack__(),
    "as a device": lambda x: asdlpack(b"", device=x.device, copy=False) if x.device[0] == 1 else None,
}
READS = "borrow", "frombuffer", "align"
READS_ON_CPU: dict[str, Callable] = {"numpy.asarray": np.asarray, "memoryview": memoryview, "bytes": bytes}


@pytest.mark.parametrize("use", USES | READS_ON_CPU)
def test_a_producer_that_has_no_device_is_on_the_cpu(use):
    """And knows no stream, which numpy's __dlpack__ refuses."""
    producer = Speaks(__dlpack__=ARRAY.__dlpack__)
    (USES | READS_ON_CPU)[use](asdlpack(producer))
    assert asdlpack(producer).__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("takes_streams", [True, False])
@pytest.mark.parametrize(
    ("device", "use"), [((14, 0), use) for use in USES] + [((11, 0), use) for use in USES | READS_ON_CPU]
)
def test_work_on_a_device_has_ended_when_its_memory_is_used(device, use, takes_streams):
    """For memory of oneAPI, and of ROCm on the host. Uses that only inspect it need not wait."""
    asked = []

    def dlpack(*, stream=None, **arguments):
        if stream is not None and not takes_streams:
            raise ValueError(f"stream {stream}: this device has none")
        asked.append(stream)
        return Managed(ARRAY.ctypes.data, shape=(6,), device=device).capsule()

    (USES | READS_ON_CPU)[use](asdlpack(Producer(dlpack, device)))
    assert None in asked or use not in (*READS, *READS_ON_CPU)
    assert takes_streams or set(asked) <= {None}


# Producers of other times.


def of_before_version_1(stream=None):
    assert stream is None
    return ARRAY.__dlpack__()


def of_versioned_alone(*, stream=None, max_version=None, dl_device=None, copy=None):
    if max_version is None:
        raise BufferError("versioned only")
    return ARRAY.__dlpack__(max_version=max_version)


def of_legacy_always(*, stream=None, max_version=None, dl_device=None, copy=None):
    """jax and tensorflow take all arguments and answer in the legacy structure."""
    return ARRAY.__dlpack__()


OF_ANY_TIME = {
    "before version 1": of_before_version_1,
    "no arguments": lambda: ARRAY.__dlpack__(),
    "legacy always": of_legacy_always,
    "versioned alone": of_versioned_alone,
    "versioned always": lambda **_: ARRAY.__dlpack__(max_version=(1, 0)),
}


COPIED = np.frombuffer(bytearray(256), "u1")
COPIED = COPIED[-COPIED.ctypes.data % 64 :]
GIVEN = {  # and whether it is what asdlpack promises of a copy
    "its own memory": ({}, False),
    "a copy": ({"flags": IS_COPIED}, True),
    "a copy that is read-only": ({"flags": IS_COPIED | READ_ONLY}, False),
    "a copy in columns": ({"flags": IS_COPIED, "shape": (2, 3), "strides": (1, 2)}, False),
    "a copy that is not aligned": ({"flags": IS_COPIED, "byte_offset": 4}, False),
}


@pytest.mark.parametrize("given", GIVEN)
def test_a_producers_copy_is_kept_if_it_is_as_promised(given):
    fields, is_as_promised = GIVEN[given]
    producer = Speaks(
        __dlpack__=lambda **_: Managed(COPIED.ctypes.data, **{"shape": (6,)} | fields).capsule(),
        __dlpack_device__=lambda: (10, 0),
    )
    x = asdlpack(producer, device="cpu", copy=True)
    assert (x.pointer == COPIED.ctypes.data) == is_as_promised
    assert (x.readonly, x.pointer % 64, describe(x)["contiguous"][0]) == (False, 0, "C")


def test_a_stream_with_dl_device_belongs_to_that_device():
    x = asdlpack(Producer(of_before_version_1))
    refused(lambda: x.__dlpack__(stream=5, dl_device=(1, 0)), "stream", ValueError, stream=5)


@pytest.mark.parametrize("kind", OF_ANY_TIME)
def test_producers_of_any_time_serve_consumers_of_any_time(kind):
    x = asdlpack(Producer(OF_ANY_TIME[kind]))
    assert capsule_name(x.__dlpack__()) == LEGACY
    assert capsule_name(x.__dlpack__(stream=None)) == LEGACY
    assert capsule_name(x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False)) == VERSIONED
    assert capsule_name(x.__dlpack__(max_version=(1, 3))) == VERSIONED
    for arguments in ({}, {"max_version": (1, 0)}):
        assert look(x.__dlpack__(**arguments)).dl_tensor.data == ARRAY.ctypes.data
    out = np.from_dlpack(x)
    assert (out.tolist(), out.ctypes.data) == (ARRAY.tolist(), ARRAY.ctypes.data)
    assert (x.shape, x.dtype, x.pointer) == ((2, 3), "float32", ARRAY.ctypes.data)


@pytest.mark.parametrize("kind", list(OF_ANY_TIME)[:3])
def test_a_copy_is_made_for_producers_that_cannot(kind):
    managed = look(asdlpack(Producer(OF_ANY_TIME[kind])).__dlpack__(max_version=(1, 0), copy=True))
    assert managed.dl_tensor.data != ARRAY.ctypes.data
    assert managed.flags == IS_COPIED


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_re_exported_tensors_keep_their_producers_memory(max_version):
    managed = {
        None: Managed(ARRAY.ctypes.data, shape=(6,)),
        (1, 0): Managed(ARRAY.ctypes.data, name=LEGACY, shape=(6,)),
    }[max_version]
    x = asdlpack(Producer(lambda **_: managed.capsule()))
    capsule = x.__dlpack__(max_version=max_version)
    assert look(capsule).dl_tensor.data == ARRAY.ctypes.data
    del x
    assert managed.deleted == 0
    del capsule
    assert managed.deleted == 1


# Refusals.

REFUSALS = [BufferError, TypeError, ValueError, RuntimeError, NotImplementedError]


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("protocol", ["__array_interface__", "__array_struct__"])
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_when_the_producer_refuses_its_other_protocols_serve(max_version, protocol, refusal):
    producer = refusing(refusal("no"), **{protocol: getattr(ARRAY, protocol)})
    x = asdlpack(producer)
    assert look(x.__dlpack__(max_version=max_version)).dl_tensor.data == ARRAY.ctypes.data
    assert (x.shape, x.pointer) == ((2, 3), ARRAY.ctypes.data)
    assert np.from_dlpack(x).tolist() == ARRAY.tolist()


OTHER_THAN_FLAT_BYTES: dict[str, dict[str, object]] = {
    "nothing": {},
    "no shape": {"itemsize": 1},
    "no item size": {"shape": (8,)},
    "two dimensions": {"shape": (2, 4), "itemsize": 1},
    "larger items": {"shape": (4,), "itemsize": 2},
    "a larger type": {"shape": (8,), "dtype": np.dtype("i2")},
    "an int as shape": {"shape": 8, "itemsize": 1},
    "a text as item size": {"shape": (8,), "itemsize": "1"},
    "a shape that raises": {"shape": property(lambda self: 1 // 0), "itemsize": 1},
    "a text as type": {"shape": (8,), "dtype": "uint8"},
}


@pytest.mark.parametrize("says", OTHER_THAN_FLAT_BYTES.values(), ids=list(OTHER_THAN_FLAT_BYTES))
@pytest.mark.parametrize("copy", [False, None, True])
def test_refusal_is_not_overruled_by_flat_bytes(says, copy):
    """PyAV refuses planes with negative line sizes, whose buffer has other pixels in another order."""

    def dlpack(self, **_):
        raise NotImplementedError("negative linesize")

    producer = type("Plane", (bytearray,), {"__dlpack__": dlpack, **says})(8)
    count = sys.getrefcount(producer)
    for use in (lambda: np.asarray(asdlpack(producer, copy=copy)), lambda: asdlpack(producer, copy=copy).shape):
        with pytest.raises(BufferError, match=r"negative linesize.*buffer said.*8 bytes.*frombuffer\(obj, 'uint8'\)"):
            use()
    with pytest.raises(BufferError, match=r"source: .*negative linesize"):
        copy_into(producer, np.zeros(8, "u1"))
    assert sys.getrefcount(producer) == count
    producer.append(0)  # the buffer is not locked
    assert frombuffer(producer, "uint8").shape == (9,)


@pytest.mark.parametrize("says", [{"itemsize": 1}, {"dtype": np.dtype("u1")}], ids=["item size", "type"])
def test_refusal_lets_bytes_serve_an_array_of_bytes(says):
    """numpy 1.26 refuses to export a read-only array, and its buffer is right."""

    def dlpack(self, **_):
        raise BufferError("read-only")

    data = type("Bytes", (bytearray,), {"shape": (8,), "__dlpack__": dlpack, **says})(b"8 bytes.")
    x = asdlpack(data)
    assert (x.shape, x.dtype, bytes(np.from_dlpack(x))) == ((8,), "uint8", b"8 bytes.")
    del x
    data.append(0)


def test_import_error_of_a_producer_lets_other_protocols_serve():
    producer = refusing(ImportError("No module named 'torch'"), __array_interface__=ARRAY.__array_interface__)
    assert asdlpack(producer).pointer == ARRAY.ctypes.data
    with pytest.raises(BufferError, match="ImportError: No module named 'torch'"):
        asdlpack(refusing(ImportError("No module named 'torch'"))).__dlpack__()


class Kind(enum.Enum):
    CPU = 1
    CUDA = 2
    NAMED = "cpu"


def test_device_type_may_be_a_member_of_a_plain_enum():
    """Open3D's is, and pybind11's native_enum makes such."""
    producer = Producer(ARRAY, (Kind.CPU, 0))
    assert asdlpack(producer).__dlpack_device__() == (1, 0)
    assert np.from_dlpack(asdlpack(producer)).tolist() == ARRAY.tolist()
    assert asdlpack(producer, device="cpu").pointer == ARRAY.ctypes.data
    assert asdlpack(ARRAY, device=(Kind.CPU, 0)).pointer == ARRAY.ctypes.data
    assert asdlpack(Producer(ARRAY, (Kind.CUDA, 3))).__dlpack_device__() == (2, 3)
    with pytest.raises(ValueError, match=r"__dlpack_device__ returned \(<Kind.NAMED: 'cpu'>, 0\); expected"):
        asdlpack(Producer(ARRAY, (Kind.NAMED, 0))).__dlpack_device__()


def test_read_only_numpy_arrays_serve_legacy_consumers():
    array = np.arange(3.0)
    array.flags.writeable = False
    x = asdlpack(array)
    assert look(x.__dlpack__()).dl_tensor.data == array.ctypes.data
    assert x.readonly


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"typestr": "|O8", "shape": (2,), "data": (4096, False)}, 'BufferError: typestr "|O8"'),
        ({"typestr": "?", "shape": ()}, "ValueError: __array_interface__: no 'data'"),
    ],
)
def test_when_nothing_serves_the_error_lists_what_each_said(refusal, keys, said):
    x = asdlpack(refusing(refusal("by the producer"), __array_interface__=keys))
    for ask in (lambda: x.__dlpack__(), lambda: x.__dlpack__(max_version=(1, 0)), lambda: x.shape):
        with pytest.raises(BufferError) as caught:
            ask()
        expected = f"__dlpack__ said {refusal.__name__}: by the producer; __array_interface__ said {said}"
        assert expected in str(caught.value)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, MemoryError, ZeroDivisionError, SystemExit, AttributeError, StopIteration]
)
def test_errors_other_than_refusals_pass_through_unchanged(error):
    raised = error("as it is")
    x = asdlpack(refusing(raised, __array_interface__=ARRAY.__array_interface__))
    for ask in (lambda: x.__dlpack__(), lambda: x.__dlpack__(max_version=(1, 0)), lambda: x.shape):
        with pytest.raises(error) as caught:
            ask()
        assert caught.value is raised


def test_other_protocols_errors_pass_through_unless_refusals():
    def fail(self):
        raise ZeroDivisionError("the interface")

    broken = type("Broken", (Producer,), {"__array_interface__": property(fail)})(refusing(BufferError("no")).answer)
    with pytest.raises(ZeroDivisionError, match="the interface"):
        asdlpack(broken).__dlpack__()


def used_capsule():
    capsule = ARRAY.__dlpack__()
    np.from_dlpack(Producer(lambda **_: capsule))
    return capsule


@pytest.mark.parametrize("answer", [lambda: None, lambda: 5, lambda: b"dltensor", lambda: ARRAY, used_capsule])
def test_answer_that_is_not_a_fresh_capsule_is_an_error(answer):
    x = asdlpack(Producer(lambda **_: answer()))
    for ask in (lambda: x.__dlpack__(), lambda: x.__dlpack__(max_version=(1, 0)), lambda: x.shape):
        refused(ask, "wrong-answer" if answer is not used_capsule else "consumed-capsule", ValueError)


# Objects whose attributes misbehave.


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError, RuntimeError, TypeError])
@pytest.mark.parametrize("name", ["__dlpack__", "__array_interface__", "__array_struct__", "__cuda_array_interface__"])
def test_attribute_that_raises_another_error_is_not_absent(name, error):
    def raises(self):
        raise error("the attribute")

    broken = type("Broken", (), {name: property(raises)})()
    with pytest.raises(error, match="the attribute"):
        asdlpack(broken).__dlpack__()


def test_an_attribute_that_raises_attribute_error_is_absent():
    class Absent(bytearray):
        @property
        def __dlpack__(self):
            raise AttributeError

        __array_interface__ = __array_struct__ = __cuda_array_interface__ = __dlpack__

    assert asdlpack(Absent(b"abc")).protocol == "buffer"


def test_attribute_that_disappears_between_reads_is_an_error():
    class Fickle:
        there = True

        @property
        def __dlpack__(self):
            if not self.there:
                raise AttributeError("gone")
            return ARRAY.__dlpack__

    fickle = Fickle()
    x = asdlpack(fickle)
    fickle.there = False
    for ask in (lambda: x.__dlpack__(), lambda: x.shape):
        with pytest.raises(AttributeError, match="^gone$"):
            ask()


def of_any_stream(stream=None):
    return ARRAY.__dlpack__()


class Meddles:
    """An integer that runs code while it is read."""

    def __init__(self, value, meddle):
        self.value, self.meddle = value, meddle

    def __index__(self):
        self.meddle()
        return self.value


@pytest.mark.parametrize("error", [ZeroDivisionError, TypeError, StopIteration])
@pytest.mark.parametrize("key", ["shape", "strides", "data", "offset"])
def test_errors_raised_while_numbers_are_read_pass_through(key, error):
    def raises():
        raise error("a number")

    number = Meddles(0, raises)
    values = {"shape": (number, 3), "strides": (number, 4), "data": (number, False), "offset": number}
    keys = {**ARRAY.__array_interface__, "data": bytearray(24), key: values[key]}
    with pytest.raises(error, match="a number"):
        asdlpack(Speaks(__array_interface__=keys))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
@pytest.mark.parametrize("producer", [Producer(of_any_stream), refusing(BufferError("not on that stream"))])
def test_errors_raised_while_a_stream_is_read_pass_through(error, producer):
    def raises():
        raise error("a stream")

    with pytest.raises(error, match="a stream"):
        asdlpack(producer).__dlpack__(stream=Meddles(1, raises), max_version=(1, 3))


def test_a_stream_that_is_not_a_number_is_passed_to_the_producer():
    capsule = asdlpack(Producer(of_any_stream)).__dlpack__(stream=object(), max_version=(1, 3))
    assert asdlpack(capsule).shape == ARRAY.shape


@pytest.mark.parametrize("cls", [np.ndarray, bytearray, Producer, Speaks, type, type(asdlpack(b""))])
def test_classes_are_refused_though_they_have_the_attributes(cls):
    refused(lambda: asdlpack(cls), "no-instance", TypeError)


@pytest.mark.timeout(20)
def test_a_producer_that_wraps_itself_without_end_is_a_recursion_error():
    """Were it a refusal, each level would ask again, and the end would be 2 to the depth calls away."""

    endless = Wraps(None)
    endless.inner = endless
    with pytest.raises(RecursionError):
        asdlpack(endless).__dlpack__()


class Wraps:
    """Exports another producer's DLPackObject. If that refuses, raises an error of type `refuse`, if given."""

    def __init__(self, inner, refuse=None, copy=False):
        self.inner, self.refuse, self.copy = inner, refuse, copy

    def __dlpack__(self, **arguments):
        x = asdlpack(self.inner, copy=self.copy)
        if self.refuse is None:
            return x.__dlpack__(**arguments)
        said = None
        try:
            return x.__dlpack__(**arguments)
        except (BufferError, RecursionError) as error:
            said = str(error)
        raise self.refuse(2 * said)

    def __dlpack_device__(self):
        return asdlpack(self.inner).__dlpack_device__()


class Quotes(Wraps):
    def __dlpack__(self, **arguments):
        raise self.refuse(2 * f"{asdlpack(self.inner)!r} can't be exported")


ASK = {
    "bare": lambda x: x.__dlpack__(),
    "versioned": lambda x: x.__dlpack__(max_version=(1, 3)),
    "all words": lambda x: x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False),
    "copy": lambda x: x.__dlpack__(max_version=(1, 0), copy=True),
    "attribute": lambda x: x.shape,
    "device": lambda x: x.__dlpack_device__(),
    "move": lambda x: asdlpack(x, device="cuda"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("copy", [False, None])
@pytest.mark.parametrize("wrap", [Wraps, Quotes])
@pytest.mark.parametrize("refuse", [None, BufferError, TypeError])
def test_a_refusal_below_60_wrappers_asks_each_a_few_times(refuse, wrap, copy, ask):
    """Were each asked twice by the one above, the last one would be asked 2 to the 60 times."""
    calls = []

    def refuses(*_, **__):
        calls.append(1)
        raise (refuse or BufferError)("no")

    producer = Speaks(__dlpack__=refuses, __dlpack_device__=refuses)
    for _ in range(60):
        producer = wrap(producer, refuse or BufferError if wrap is Quotes else refuse, copy)
    with pytest.raises(BufferError):
        ASK[ask](asdlpack(producer, copy=copy))
    assert len(calls) < 300


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("wrap", [Wraps, Quotes])
@pytest.mark.parametrize("refuse", [BufferError, TypeError])
def test_a_circle_whose_producer_hides_the_recursion_error_ends(refuse, wrap, ask):
    producer = wrap(None, refuse)
    producer.inner = producer
    with pytest.raises((BufferError, RecursionError)):
        ASK[ask](asdlpack(producer))


@pytest.mark.timeout(20)
def test_a_circle_through_two_interfaces_is_a_recursion_error():
    def refuse(self, **_):
        raise BufferError("no")

    interfaces = "__array_interface__", "__array_struct__"
    asks_wrapper = {name: property(lambda self, name=name: getattr(wrapper, name)) for name in interfaces}
    wrapper = asdlpack(type("Circle", (), {"__dlpack__": refuse, **asks_wrapper})())
    with pytest.raises(RecursionError):
        _ = wrapper.shape


NEWEST, LESS = {"max_version": (1, 3)}, {"max_version": (1, 3), "copy": False}


class OfALibrary(TypeError):
    """As pyarrow's ArrowTypeError, which says of no keyword that it is missing."""


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ("attribute", [NEWEST]),
        ("bare", [{}, NEWEST]),
        ("versioned", [NEWEST]),
        ("all words", [{"max_version": (1, 0), "dl_device": (1, 0), "copy": False}, LESS]),
        ("copy", [{"max_version": (1, 0), "copy": True}, NEWEST]),
    ],
)
@pytest.mark.parametrize("copy", [False, None])
@pytest.mark.parametrize("refusal", [BufferError, TypeError, OfALibrary])
def test_a_refusing_producer_is_asked_once_in_the_same_words(refusal, copy, ask, words):
    calls = []

    def refuse(**arguments):
        calls.append(arguments)
        raise refusal("no")

    x = asdlpack(Producer(refuse), copy=copy)
    with pytest.raises(BufferError, match="no"):
        ASK[ask](x)
    may_lack_copy = [NEWEST] if refusal is TypeError and LESS in words else []
    bare = [{}] if refusal is TypeError and {} not in words else []  # it may lack any keyword
    assert calls == words + may_lack_copy + bare


def of_array(method):
    """Returns a function that forwards all arguments to a method that accepts fewer."""
    return lambda *args, **arguments: method(*args, **arguments)


@pytest.mark.parametrize("kind", ["before version 1", "no arguments"])
@pytest.mark.parametrize("depth", [1, 3])
def test_wrappers_of_old_producers_are_asked_in_fewer_words(depth, kind):
    producer = Producer(of_array(OF_ANY_TIME[kind]))
    for _ in range(depth):
        producer = Wraps(Producer(of_array(producer.__dlpack__)))
    for copy in False, None:
        x = asdlpack(producer, copy=copy)
        assert np.from_dlpack(x).ctypes.data == x.pointer == ARRAY.ctypes.data
        assert capsule_name(x.__dlpack__()) == LEGACY


def test_a_producer_asked_again_may_ask_another_in_all_words():
    """Both are old: what lacks a keyword asks nobody before it says so."""

    def of_another(stream=None):
        assert np.from_dlpack(asdlpack(Producer(of_before_version_1))).shape == ARRAY.shape
        return ARRAY.__dlpack__()

    assert np.from_dlpack(asdlpack(Producer(of_another))).ctypes.data == ARRAY.ctypes.data


def test_a_refusal_without_readable_text_leaves_the_other_protocols():
    class Unreadable(BufferError):
        def __str__(self):
            raise ZeroDivisionError

    x = asdlpack(refusing(Unreadable(), __array_interface__=ARRAY.__array_interface__))
    assert np.from_dlpack(x).ctypes.data == x.pointer == ARRAY.ctypes.data
    with pytest.raises(BufferError, match=r"said .*Unreadable: \(its text can't be read: ZeroDivisionError\)"):
        _ = asdlpack(refusing(Unreadable())).shape


def test_an_error_of_the_producer_keeps_its_frames_and_makes_no_cycle():
    def fail(self, **arguments):
        raise error

    def refuse(self, **arguments):
        raise BufferError("no")

    on_cpu = {"__dlpack_device__": lambda self: (1, 0), "__repr__": fail, "__array_interface__": property(fail)}
    no_device = {"__dlpack__": fail, "__dlpack_device__": fail}
    gc.collect()
    for methods in {"__dlpack__": fail}, {"__dlpack__": refuse}, {"__dlpack__": lambda self, **_: self}, no_device:
        for name, ask in ASK.items():
            if (name == "device") != (methods is no_device) and name != "move":
                continue
            producer = type("Producer", (), on_cpu | methods)()
            alive = weakref.ref(producer)
            error = ZeroDivisionError()
            with pytest.raises(ZeroDivisionError) as caught:
                ask(asdlpack(producer))
            assert "fail" in [entry.name for entry in caught.traceback]
            del caught, producer
            error = None
            assert alive() is None


def test_an_error_that_a_producer_keeps_keeps_nothing_of_a_repr():
    kept = ValueError("kept")
    producer = refusing(kept)
    x = asdlpack(producer)
    before = sys.getrefcount(producer)
    assert "kept" in repr(x)
    assert "kept" in str(describe(producer))
    assert (sys.getrefcount(producer), kept.__traceback__) == (before, None)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_that_a_producer_keeps_keeps_no_frames(refusal):
    kept = refusal("kept")
    for others in {}, {"__array_interface__": ARRAY.__array_interface__}:
        for ask in ASK.values():
            with contextlib.suppress(BufferError):
                ask(asdlpack(refusing(kept, **others)))
            assert kept.__traceback__ is None


def test_forbidden_copy_is_refused_if_the_producer_only_copies():
    class Copies(Producer):
        def __dlpack__(self, **arguments):
            if arguments.pop("copy", None) is False:
                raise BufferError("only copies")
            return super().__dlpack__(**arguments, copy=True)

    x = asdlpack(Copies(ARRAY))
    with pytest.raises(BufferError, match="only copies"):
        x.__dlpack__(max_version=(1, 0), copy=False)
    assert look(x.__dlpack__(max_version=(1, 0))).flags & IS_COPIED

    class CopiesSilently(Copies):
        def __dlpack__(self, *, stream=None, max_version=None):
            return ARRAY.__dlpack__(max_version=(1, 0), copy=True)

    refused(lambda: asdlpack(CopiesSilently(ARRAY)).__dlpack__(max_version=(1, 0), copy=False), "copy-alone")


def test_copy_none_copies_once_for_all_exports():
    x = asdlpack(np.arange(3, dtype=">f4"), copy=None)
    outs = [np.from_dlpack(x), np.from_dlpack(x), np.from_dlpack(x, copy=False)]
    assert {out.ctypes.data for out in outs} == {x.pointer}
    assert "a copy, from numpy.ndarray by __array_interface__" in repr(x)
    assert np.from_dlpack(x, copy=True).ctypes.data != x.pointer


@pytest.mark.parametrize("name", [LEGACY, VERSIONED])
@pytest.mark.parametrize("wrong", [{"dtype": (0, 4, 1), "strides": (2,)}, {"dtype": (99, 8, 1)}, {"device": (77, 0)}])
def test_copy_none_passes_unreadable_capsule_through(wrong, name):
    version = {LEGACY: None, VERSIONED: (1, 3)}[name]
    capsule = Managed(ARRAY.ctypes.data, name=name, shape=(3,), **wrong).capsule()
    producer = Producer(lambda **_: capsule)
    for copy in False, None:
        assert asdlpack(producer, copy=copy).__dlpack__(max_version=version) is capsule


def test_a_misaligned_capsule_is_copied_once_with_copy_none():
    data = np.arange(9, dtype="u1")
    made = []

    def dlpack(**arguments):
        made.append(Managed(data.ctypes.data + 1, shape=(2,), dtype=(0, 32, 1)))
        return made[-1].capsule()

    x = asdlpack(Producer(dlpack), copy=None)
    outs = [np.from_dlpack(x), np.from_dlpack(x)]
    assert {out.ctypes.data for out in outs} == {x.pointer}
    assert bytes(outs[0]) == bytes(data[1:])
    assert [managed.deleted for managed in made] == [1]
    refused(lambda: x.__dlpack__(stream=1), "stream", ValueError, stream=1)


def test_a_copy_that_the_consumer_asks_for_is_converted():
    values = np.arange(6, dtype=">f4").reshape(2, 3)
    x = asdlpack(values)
    before = sys.getrefcount(values)
    first, second = (x.__dlpack__(max_version=(1, 3), copy=True) for _ in range(2))
    tensors = [look(capsule) for capsule in (first, second)]
    assert all(managed.flags == IS_COPIED for managed in tensors)
    assert tensors[0].dl_tensor.data != tensors[1].dl_tensor.data
    assert np.array_equal(np.from_dlpack(x, copy=True), values)
    with pytest.raises(BufferError, match="big-endian"):
        x.__dlpack__(max_version=(1, 3), copy=False)
    assert sys.getrefcount(values) == before


def test_a_refused_device_leaves_the_other_protocols_to_serve():
    producer = refusing(BufferError("no device"), __array_interface__=ARRAY.__array_interface__)
    producer.__dlpack_device__ = producer.__dlpack__
    x = asdlpack(producer)
    assert x.shape == (2, 3)
    assert "by __array_interface__" in repr(x)
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).tolist() == ARRAY.tolist()


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_a_producer_without_a_device_says_the_cause_in_dlpack(error):
    """As a deleted array of jax, whose __dlpack_device__ raises TypeError: object of type 'NoneType' has no len(); and
    as a meta tensor of torch, whose raises ValueError."""

    def no_device():
        raise error("no len()")

    producer = refusing(RuntimeError("Array has been deleted"))
    producer.__dlpack_device__ = no_device
    for name in "attribute", "device", "bare", "move":
        with pytest.raises(BufferError, match="Array has been deleted"):
            ASK[name](asdlpack(producer))
    producer.__dlpack__ = of_before_version_1
    assert (asdlpack(producer).shape, asdlpack(producer).__dlpack_device__()) == ((2, 3), (1, 0))


def test_a_producer_that_asks_its_own_wrapper_is_imported_once():
    def answer(**_):
        if len(producer.asked) == 1:
            assert wrapper.shape == (3,)
        made.append(Managed(ARRAY.ctypes.data, shape=(3,)))
        return made[-1].capsule()

    made, producer = [], Producer(answer)
    wrapper = asdlpack(producer)
    assert wrapper.shape == (3,)
    assert [managed.deleted for managed in made] == [0, 1]  # the inner import came first and stays
