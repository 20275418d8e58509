"""The array API standard on __dlpack__, __dlpack_device__ and from_dlpack: a test for each sentence, named by its gist.

The versions 2024.12 and 2025.12 say the same of all three; 2025.12 adds the section on the C exchange API.
https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.array.__dlpack__.html
https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.from_dlpack.html
https://data-apis.org/array-api/2025.12/design_topics/data_interchange.html

Not tested, because only a device with work in flight would show it:
- for a stream, the producer sees to it that operations on it are safe; None is the legacy default stream, on ROCm too;
- with -1, the producer does not synchronise;
- with dl_device=kDLCPU, data elsewhere is synchronised; a copy is performed over the consumer's stream.

Not tested, because it takes memory of a device: __dlpack__(dl_device=kDLCPU) offers it to the CPU. Only a producer with
a __dlpack__ of its own can; asdlpack copies nothing between devices.

Not tested, because nothing of it is in a producer's hands: the advice to pass a stream explicitly, from_dlpack's errors
for an object without __dlpack__ and for a device that its library does not have, and what may be standardized later.
"""

import ctypes
import enum
import importlib
import inspect
import math
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dlpack import DLDeviceType, asdlpack
from dlpack.structs import DLManagedTensorVersioned
from dlpack.tests.capsules import IS_COPIED, READ_ONLY, capsule_name, capsule_new, compact, consume, gather, look

NUMPY = tuple(map(int, version("numpy").split(".")[:2])) if find_spec("numpy") else ()
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
OUR_VERSION = (1, 3)
CPU = (1, 0)

# The same examples every time: what fails once fails again, and no database of failures is needed.
drawn = settings(max_examples=100, deadline=None, derandomize=True, database=None)


# Arrays: memory that no library made, and what is known of it.


def strides_of(tensor: Any) -> tuple[int, ...]:
    """Before DLPack 1.2 a producer might leave them out where the items are compact."""
    shape = tuple(tensor.shape[: tensor.ndim])
    return tuple(tensor.strides[: tensor.ndim]) if tensor.strides else compact(shape)


# name: typestr, (code, bits, lanes), the memoryview's format
DATA_TYPES: dict[str, tuple[str, tuple[int, int, int], str | None]] = {
    "bool": ("|b1", (6, 8, 1), "?"),
    "int8": ("|i1", (0, 8, 1), "b"),
    "int16": ("=i2", (0, 16, 1), "h"),
    "int32": ("=i4", (0, 32, 1), "i"),
    "int64": ("=i8", (0, 64, 1), "q"),
    "uint8": ("|u1", (1, 8, 1), "B"),
    "uint16": ("=u2", (1, 16, 1), "H"),
    "uint32": ("=u4", (1, 32, 1), "I"),
    "uint64": ("=u8", (1, 64, 1), "Q"),
    "float32": ("=f4", (2, 32, 1), "f"),
    "float64": ("=f8", (2, 64, 1), "d"),
    "complex64": ("=c8", (5, 64, 1), None),
    "complex128": ("=c16", (5, 128, 1), None),
}
NATIVE, SWAPPED = ("<", ">") if sys.byteorder == "little" else (">", "<")


class Speaks:
    """An object with these attributes and no other: one that speaks just the protocols a test wants."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Producer:
    """An object with __dlpack__ and __dlpack_device__, that answers as this function does; records what it is asked."""

    def __init__(self, answer: Callable[..., Any], device: Any = CPU) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = answer
        self.device = device

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        return self.answer(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.device


@dataclass
class Array:
    """A strided view of memory at a multiple of 64 bytes, which some object shows by some protocol."""

    room: Any
    first: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    readonly: bool
    protocol: str

    @property
    def itemsize(self) -> int:
        return DATA_TYPES[self.dtype][1][1] // 8

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def address(self) -> int:
        start = ctypes.addressof(self.room)
        return start + -start % 64 + self.first * self.itemsize

    @property
    def values(self) -> bytes:
        return gather(self.address, self.shape, self.strides, self.itemsize)

    def change(self) -> None:
        """Makes every item another, valid for every data type."""
        changed = bytes(byte ^ 1 for byte in self.room.raw)
        ctypes.memmove(self.room, changed, len(changed))

    def interface(self) -> Speaks:
        shown = {
            "version": 3,
            "typestr": DATA_TYPES[self.dtype][0].replace("=", NATIVE),
            "shape": self.shape,
            "strides": tuple(stride * self.itemsize for stride in self.strides),
            "data": (self.address, self.readonly),
        }
        return Speaks(__array_interface__=shown, room=self.room)

    def buffer(self) -> memoryview:
        start = self.address - ctypes.addressof(self.room)
        memory: Any = memoryview(self.room).cast("B")[start : start + self.size * self.itemsize]
        view: memoryview = memory.cast(DATA_TYPES[self.dtype][2], self.shape)
        return view.toreadonly() if self.readonly else view

    def obj(self) -> Any:
        """A new object each time: a capsule serves once."""
        if self.protocol == "buffer":
            return self.buffer()
        if self.protocol == "__array_interface__":
            return self.interface()
        if self.protocol == "numpy":
            return importlib.import_module("numpy").asarray(self.interface())
        x = asdlpack(self.interface())
        if self.protocol == "__dlpack__":
            return Producer(x.__dlpack__)
        return x.__dlpack__(max_version=OUR_VERSION if self.protocol == "dltensor_versioned" else None)


@st.composite
def arrays(
    draw: st.DrawFn,
    data_types: tuple[str, ...] = tuple(DATA_TYPES),
    steps: tuple[int, ...] = (1, 1, 2, 0, -1, -3),
    permuted: bool = True,
    readonly: bool | None = None,
) -> Array:
    """Any data type of the standard, of up to 4 dimensions in any order, each broadcast, stepped or reversed."""
    dtype = draw(st.sampled_from(data_types))
    shape = tuple(draw(st.lists(st.integers(0, 4) if draw(st.booleans()) else st.integers(1, 4), max_size=4)))
    order = draw(st.permutations(range(len(shape)))) if permuted else range(len(shape))
    strides = [0] * len(shape)
    first, room = 0, 1
    for axis in reversed(order):
        step = draw(st.sampled_from(steps))
        strides[axis] = room * step
        if step < 0:
            first -= strides[axis] * max(shape[axis] - 1, 0)
        room *= max(shape[axis] * abs(step), 1)
    itemsize = DATA_TYPES[dtype][1][1] // 8
    memory = (ctypes.c_char * (room * itemsize + 64))()
    pattern = bytes((at * 7 + 1) % (2 if dtype == "bool" else 62) for at in range(len(memory)))
    ctypes.memmove(memory, pattern, len(pattern))
    if readonly is None:
        readonly = draw(st.booleans())
    protocols = ["__array_interface__", "__dlpack__", "dltensor_versioned"]
    if readonly:
        protocols.append("dltensor")  # it can't say whether it may be written, and counts as read-only
    if 0 not in shape and tuple(strides) == compact(shape) and DATA_TYPES[dtype][2]:
        protocols.append("buffer")
    if NUMPY >= (2, 1) or (NUMPY and readonly):  # older versions can't say either
        protocols.append("numpy")
    return Array(memory, first, dtype, shape, tuple(strides), readonly, draw(st.sampled_from(protocols)))


# Consumers: those that are installed, and one of the test's own.


class Consumer:
    """A from_dlpack, what it takes, and how to see what it made of it."""

    name = ""
    data_types: tuple[str, ...] = tuple(DATA_TYPES)
    steps: tuple[int, ...] = (1, 1, 2, 0, -1, -3)
    permuted = True
    copies = True  # with copy=True

    def from_dlpack(self, x: Any, **keywords: Any) -> Any:
        raise NotImplementedError

    def cpu(self) -> Any:
        """Its library's word for the device that the Python interpreter can read."""
        return "cpu"

    def see(self, out: Any) -> tuple[bytes, int]:
        """The values in row-major order, and the address of the first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name

    @property
    def library(self) -> Any:
        return importlib.import_module(self.name)

    @cache  # noqa: B019 (a consumer lives as long as the process)
    def knows(self, keyword: str) -> bool:
        """Libraries from before 2023.12 have from_dlpack without keywords."""
        try:
            self.from_dlpack(asdlpack(bytearray(4)), **{keyword: None})
        except TypeError:
            return False
        return True


class Imported:
    """What a consumer written in C has imported: it calls the deleter when it is done."""

    def __init__(self, capsule: Any) -> None:
        self.managed = consume(capsule)
        self.tensor = self.managed.dl_tensor

    def __del__(self) -> None:
        self.managed.deleter(ctypes.addressof(self.managed))


class Ctypes(Consumer):
    """from_dlpack as the standard outlines it."""

    name = "ctypes"

    def from_dlpack(self, x: Any, **keywords: Any) -> Imported:
        device, copy = keywords.get("device"), keywords.get("copy")
        try:
            return Imported(x.__dlpack__(max_version=(1, 0), dl_device=device, copy=copy))
        except TypeError:
            return Imported(x.__dlpack__())

    def cpu(self) -> tuple[int, int]:
        return CPU

    def see(self, out: Imported) -> tuple[bytes, int]:
        tensor, address = out.tensor, (out.tensor.data or 0) + out.tensor.byte_offset
        shape = tuple(tensor.shape[: tensor.ndim])
        return gather(address, shape, strides_of(tensor), tensor.dtype.bits // 8), address


class Numpy(Consumer):
    """It takes bool since version 1.25."""

    name = "numpy"
    data_types = tuple(dtype for dtype in DATA_TYPES if dtype != "bool" or NUMPY >= (1, 25))

    def from_dlpack(self, x: Any, **keywords: Any) -> Any:
        return self.library.from_dlpack(x, **keywords)

    def see(self, out: Any) -> tuple[bytes, int]:
        return out.tobytes(), out.ctypes.data


class Torch(Consumer):
    """It takes no negative strides, and its older versions neither bool nor the larger unsigned integers."""

    name = "torch"
    data_types = tuple("int8 int16 int32 int64 uint8 float32 float64 complex64 complex128".split())
    steps = (1, 1, 2, 0)

    def from_dlpack(self, x: Any, **keywords: Any) -> Any:
        return self.library.from_dlpack(x, **keywords)

    def see(self, out: Any) -> tuple[bytes, int]:
        return gather(out.data_ptr(), tuple(out.shape), out.stride(), out.element_size()), out.data_ptr()


class Jax(Consumer):
    """It takes what is compact, and makes 64-bit types narrower. Version 0.10 shares even with copy=True."""

    name = "jax"
    data_types = tuple("int8 int16 int32 uint8 uint16 uint32 float32 complex64".split())
    steps = (1,)
    permuted = False
    copies = False

    def from_dlpack(self, x: Any, **keywords: Any) -> Any:
        return importlib.import_module("jax.dlpack").from_dlpack(x, **keywords)

    def cpu(self) -> Any:
        return self.library.devices("cpu")[0]

    def see(self, out: Any) -> tuple[bytes, int]:
        return importlib.import_module("numpy").asarray(out).tobytes(), out.unsafe_buffer_pointer()


CONSUMERS = [Ctypes(), *(consumer for consumer in (Numpy(), Torch(), Jax()) if find_spec(consumer.name))]
consumers = st.sampled_from(CONSUMERS)


@st.composite
def exchanges(draw: st.DrawFn, *keywords: str, readonly: bool | None = None) -> tuple[Consumer, Array]:
    """A consumer that knows these keyword arguments, and an array that it takes."""
    consumer = draw(consumers)
    assume(all(consumer.knows(keyword) for keyword in keywords))
    return consumer, draw(arrays(consumer.data_types, consumer.steps, consumer.permuted, readonly))


# Devices other than the CPU: objects that say they are on one. Nothing reads their memory.

_managed: list[Any] = []  # a capsule keeps only the address


def capsule_on(device: tuple[int, int]) -> Any:
    managed = DLManagedTensorVersioned()
    managed.version = OUR_VERSION
    managed.dl_tensor.data = 1 << 20
    managed.dl_tensor.device = device
    managed.dl_tensor.ndim = 1
    managed.dl_tensor.dtype = DATA_TYPES["float32"][1]
    managed.dl_tensor.shape = (ctypes.c_int64 * 1)(3)
    managed.dl_tensor.strides = (ctypes.c_int64 * 1)(1)
    _managed.append(managed)
    return capsule_new(ctypes.addressof(managed), VERSIONED, None)


def on_cuda() -> Any:
    return asdlpack(capsule_on((2, 0)))


def rocm() -> Any:
    return asdlpack(capsule_on((10, 0)))


def devices_of_the_standard() -> list[int]:
    return [1, 2, 3, 4, 7, 8, 9, 10, 13, 14]


pointers = st.one_of(st.integers(3, 1 << 16), st.integers(3, (1 << 63) - 1))
keyword_arguments = st.fixed_dictionaries(
    {},
    optional={
        "stream": st.none(),
        "max_version": st.one_of(st.none(), st.tuples(st.integers(0, 3), st.integers(0, 30))),
        "dl_device": st.sampled_from([None, CPU, (DLDeviceType.kDLCPU, 0)]),
        "copy": st.sampled_from([None, False, True]),
    },
)


# __dlpack__: what it is.


@drawn
@given(arrays(), keyword_arguments)
def test_dlpack_returns_the_array_as_a_dlpack_capsule_whatever_the_arguments(
    memory: Array, keywords: dict[str, Any]
) -> None:
    """2024.12, 2025.12: __dlpack__, summary and returns."""
    capsule = asdlpack(memory.obj()).__dlpack__(**keywords)
    assert type(capsule).__name__ == "PyCapsule"
    assert capsule_name(capsule) in (LEGACY, VERSIONED)
    tensor = look(capsule).dl_tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == DATA_TYPES[memory.dtype][1]
    assert tuple(tensor.shape[: tensor.ndim]) == memory.shape
    address = (tensor.data or 0) + tensor.byte_offset
    assert gather(address, memory.shape, strides_of(tensor), memory.itemsize) == memory.values


def test_every_argument_may_be_left_out_and_is_none_then() -> None:
    """2024.12, 2025.12: __dlpack__, signature."""
    parameters = inspect.signature(type(asdlpack(b"")).__dlpack__).parameters
    assert set(parameters) == {"self", "stream", "max_version", "dl_device", "copy"}
    assert [parameter.default for name, parameter in parameters.items() if name != "self"] == [None] * 4


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "stream",
            marks=pytest.mark.xfail(strict=True, reason="a stream may be given by position too, as older consumers do"),
        ),
        "max_version",
        "dl_device",
        "copy",
    ],
)
def test_arguments_are_given_by_keyword_only(name: str) -> None:
    """2024.12, 2025.12: __dlpack__, signature; function and method signatures, rule 2."""
    parameter = inspect.signature(type(asdlpack(b"")).__dlpack__).parameters[name]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


# __dlpack__: stream.


@drawn
@given(arrays(), st.one_of(st.integers(), st.integers(-1, 3), st.text(), st.floats()))
def test_on_the_cpu_only_none_is_accepted_as_stream(memory: Array, stream: Any) -> None:
    """2024.12, 2025.12: __dlpack__, stream."""
    x = asdlpack(memory.obj())
    with pytest.raises((ValueError, TypeError, BufferError)):
        x.__dlpack__(stream=stream)
    assert x.__dlpack__(stream=None)


@pytest.mark.xfail(strict=True, reason="the producer's own __dlpack__ decides; torch's takes -1 on the CPU")
def test_on_the_cpu_only_none_is_accepted_as_stream_whatever_the_producer_accepts() -> None:
    """2024.12, 2025.12: __dlpack__, stream."""
    careless = Producer(lambda stream=None, **others: asdlpack(b"abc").__dlpack__(**others))
    with pytest.raises((ValueError, TypeError, BufferError)):
        asdlpack(careless).__dlpack__(stream=-1)


@drawn
@given(st.one_of(st.integers(max_value=-2), st.text(), st.floats()))
def test_a_stream_is_an_integer_of_at_least_minus_1(stream: Any) -> None:
    """2024.12, 2025.12: __dlpack__, stream."""
    with pytest.raises((ValueError, TypeError)):
        on_cuda().__dlpack__(stream=stream)
    with pytest.raises((ValueError, TypeError)):
        rocm().__dlpack__(stream=stream)


def test_minus_1_asks_for_no_synchronization_and_is_served() -> None:
    """2024.12, 2025.12: __dlpack__, stream."""
    assert look(on_cuda().__dlpack__(stream=-1)).dl_tensor.data == 1 << 20
    assert look(rocm().__dlpack__(stream=-1)).dl_tensor.data == 1 << 20


@drawn
@given(st.one_of(st.none(), st.sampled_from([-1, 1, 2]), pointers))
def test_the_stream_reaches_the_producer(stream: int | None) -> None:
    """2024.12, 2025.12: __dlpack__, stream: it is provided by the consumer to the producer."""
    producer = Producer(lambda **_: capsule_on((2, 0)), (2, 0))
    asdlpack(producer).__dlpack__(stream=stream, max_version=(1, 0))
    assert producer.asked[-1].get("stream") == (1 if stream is None else stream)  # None is the legacy default stream


def test_the_stream_stays_the_consumers() -> None:
    """2024.12, 2025.12: __dlpack__, stream: its ownership."""
    stream = int("100000")  # an integer that nothing else refers to
    x = on_cuda()
    before = sys.getrefcount(stream)
    try:
        capsule = x.__dlpack__(stream=stream)
    except (BufferError, ValueError):  # no driver runs, or it has no such stream
        capsule = x.__dlpack__(stream=-1)
    assert (sys.getrefcount(stream), capsule_name(capsule)) == (before, LEGACY)


def test_a_queue_of_another_kind_reaches_the_producer_that_agreed_on_it() -> None:
    """2024.12, 2025.12: __dlpack__, stream: objects are allowed on other devices, when libraries agree."""
    queue: Any = object()
    producer = Producer(lambda **_: capsule_on((14, 0)), (14, 0))
    asdlpack(producer).__dlpack__(stream=queue, max_version=(1, 0))
    assert producer.asked[0]["stream"] is queue


@drawn
@given(st.one_of(st.sampled_from([1, 2]), pointers))
def test_on_cuda_1_2_and_pointers_are_streams_whose_support_is_optional(stream: int) -> None:
    """2024.12, 2025.12: __dlpack__, values of stream for CUDA, and the first note."""
    try:
        capsule = on_cuda().__dlpack__(stream=stream)
    except (BufferError, ValueError) as error:  # no driver runs, or it has no such stream
        assert "driver" in str(error) or str(stream) in str(error)
    else:
        assert look(capsule).dl_tensor.data == 1 << 20


def test_on_cuda_none_is_the_default() -> None:
    """2024.12, 2025.12: __dlpack__, values of stream for CUDA."""
    x = on_cuda()
    assert look(x.__dlpack__(stream=None)).dl_tensor.data == look(x.__dlpack__()).dl_tensor.data == 1 << 20


def test_on_cuda_0_is_disallowed() -> None:
    """2024.12, 2025.12: __dlpack__, values of stream for CUDA."""
    with pytest.raises(ValueError, match="stream 0"):
        on_cuda().__dlpack__(stream=0)


def test_on_rocm_none_is_the_default() -> None:
    """2024.12, 2025.12: __dlpack__, values of stream for ROCm."""
    x = rocm()
    assert look(x.__dlpack__(stream=None)).dl_tensor.data == look(x.__dlpack__()).dl_tensor.data == 1 << 20


@drawn
@given(st.one_of(st.just(0), pointers))
def test_on_rocm_0_and_pointers_are_streams_whose_support_is_optional(stream: int) -> None:
    """2024.12, 2025.12: __dlpack__, values of stream for ROCm, and the first note."""
    try:
        capsule = rocm().__dlpack__(stream=stream)
    except BufferError as error:
        assert str(stream) in str(error)
    else:
        assert look(capsule).dl_tensor.data == 1 << 20


@pytest.mark.parametrize("stream", [1, 2])
def test_on_rocm_1_and_2_are_not_supported(stream: int) -> None:
    """2024.12, 2025.12: __dlpack__, values of stream for ROCm."""
    with pytest.raises(ValueError, match=f"stream {stream}"):
        rocm().__dlpack__(stream=stream)


@drawn
@given(st.sampled_from([on_cuda, lambda: bytearray(12)]), st.one_of(st.sampled_from([-1, 0, 1, 2]), pointers))
def test_with_dl_device_kdlcpu_a_stream_must_be_none(obj: Callable[[], Any], stream: int) -> None:
    """2024.12, 2025.12: __dlpack__, the note on dl_device and stream."""
    with pytest.raises((ValueError, BufferError)):
        asdlpack(obj()).__dlpack__(dl_device=CPU, stream=stream)


# __dlpack__: max_version.


@drawn
@given(arrays(), st.one_of(st.none(), st.tuples(st.integers(0, 1 << 31), st.integers(0, 1 << 31))))
def test_max_version_is_a_tuple_of_major_and_minor(memory: Array, max_version: tuple[int, int] | None) -> None:
    """2024.12, 2025.12: __dlpack__, max_version."""
    assert asdlpack(memory.obj()).__dlpack__(max_version=max_version)


@drawn
@given(st.sampled_from([1, 1.5, "1.0", (), (1,), (1, 0, 0), ("1", "0"), (1.0, 0)]))
def test_max_version_of_another_form_is_an_error(max_version: Any) -> None:
    """2024.12, 2025.12: __dlpack__, max_version, and raises: other errors for incorrect arguments."""
    with pytest.raises(TypeError, match="max_version"):
        asdlpack(b"abc").__dlpack__(max_version=max_version)


@drawn
@given(arrays(), st.tuples(st.integers(0, 5), st.integers(0, 30)))
def test_the_capsule_tells_the_consumer_its_version_which_may_differ_from_max_version(
    memory: Array, max_version: tuple[int, int]
) -> None:
    """2024.12, 2025.12: __dlpack__, max_version: the consumer must verify it."""
    capsule = asdlpack(memory.obj()).__dlpack__(max_version=max_version)
    if capsule_name(capsule) == VERSIONED:
        managed = look(capsule)
        assert (managed.version.major, managed.version.minor) >= (1, 0)
        assert managed.version.major <= max(max_version[0], 1)
    else:
        assert (capsule_name(capsule), max_version[0]) == (LEGACY, 0)


@drawn
@given(arrays(), keyword_arguments)
def test_without_max_version_the_structure_of_dlpack_0_is_used(memory: Array, keywords: dict[str, Any]) -> None:
    """2024.12, 2025.12: __dlpack__, notes, the producer's logic."""
    capsule = asdlpack(memory.obj()).__dlpack__(**{**keywords, "max_version": None})
    assert capsule_name(capsule) == LEGACY


@drawn
@given(st.sampled_from(["buffer", "__array_interface__"]), st.tuples(st.integers(1, 9), st.integers(0, 99)))
def test_a_consumer_of_our_major_version_or_a_later_one_gets_our_own_version(
    protocol: str, max_version: tuple[int, int]
) -> None:
    """2024.12, 2025.12: __dlpack__, notes, the producer's logic."""
    memory = Array((ctypes.c_char * 128)(), 0, "int16", (2, 3), (3, 1), False, protocol)
    managed = look(asdlpack(memory.obj()).__dlpack__(max_version=max_version))
    assert (managed.version.major, managed.version.minor) == OUR_VERSION


@drawn
@given(arrays(), st.integers(0, 1 << 31))
def test_a_consumer_of_an_older_major_version_gets_the_older_structure(memory: Array, minor: int) -> None:
    """2024.12, 2025.12: __dlpack__, notes, the producer's logic."""
    assert capsule_name(asdlpack(memory.obj()).__dlpack__(max_version=(0, minor))) == LEGACY


@drawn
@given(arrays(), st.sampled_from([set(), {"stream"}, {"max_version"}, {"max_version", "copy"}]))
def test_a_producer_without_the_newer_keywords_is_asked_again_without_them(memory: Array, known: set[str]) -> None:
    """2024.12, 2025.12: __dlpack__, notes, the consumer's logic, for max_version, dl_device and copy."""
    source = asdlpack(memory.interface())

    def older(**keywords: Any) -> Any:
        if not keywords.keys() <= known:
            raise TypeError(f"unexpected keyword arguments {keywords.keys() - known}")
        return source.__dlpack__(**keywords)

    x = asdlpack(Producer(older))
    assert (x.shape, x.dtype) == (memory.shape, memory.dtype)
    managed = look(x.__dlpack__(max_version=(1, 0), dl_device=CPU, copy=False))
    assert (managed.version.major, managed.flags & IS_COPIED) == (1, 0)
    assert managed.dl_tensor.data == (memory.address if memory.size else None)


@drawn
@given(arrays(), st.booleans())
def test_a_capsule_that_was_consumed_has_a_used_name(memory: Array, versioned: bool) -> None:
    """2024.12, 2025.12: __dlpack__, notes, the consumer's logic."""
    capsule = asdlpack(memory.obj()).__dlpack__(max_version=(1, 0) if versioned else None)
    name = capsule_name(capsule)
    x = asdlpack(capsule)
    assert x.shape == memory.shape
    assert capsule_name(capsule) == b"used_" + name


# __dlpack__: dl_device.


@drawn
@given(arrays(), keyword_arguments)
def test_without_dl_device_the_capsule_is_on_the_arrays_device(memory: Array, keywords: dict[str, Any]) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device."""
    x = asdlpack(memory.obj())
    device = look(x.__dlpack__(**{**keywords, "dl_device": None})).dl_tensor.device
    assert (device.device_type, device.device_id) == x.__dlpack_device__() == CPU


@pytest.mark.parametrize("device_type", devices_of_the_standard())
@pytest.mark.parametrize("device_id", [0, 3])
def test_without_dl_device_the_capsule_is_on_the_arrays_device_on_every_device(
    device_type: int, device_id: int
) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device."""
    device_id *= device_type != 1  # there is one CPU
    x = asdlpack(capsule_on((device_type, device_id)))
    device = look(x.__dlpack__()).dl_tensor.device
    assert (device.device_type, device.device_id) == x.__dlpack_device__() == (device_type, device_id)


@pytest.mark.parametrize("device_type", devices_of_the_standard())
def test_what_dlpack_device_returns_may_be_given_as_dl_device(device_type: int) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device: a tuple of that format."""
    x = asdlpack(capsule_on((device_type, 1)))
    assert look(x.__dlpack__(dl_device=x.__dlpack_device__())).dl_tensor.data == 1 << 20


class IntDevice(enum.IntEnum):
    CPU = 1


class Device(enum.Enum):
    CPU = 1


@pytest.mark.parametrize(
    "device",
    [
        IntDevice.CPU,
        DLDeviceType.kDLCPU,
        pytest.param(
            Device.CPU,
            marks=pytest.mark.xfail(strict=True, reason="the enum's member has to be an integer too: an IntEnum's"),
        ),
    ],
)
def test_the_device_type_in_dl_device_may_be_a_member_of_an_enum(device: Any) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device."""
    assert asdlpack(b"abc").__dlpack__(dl_device=(device, 0))


@drawn
@given(st.sampled_from([1, "cpu", "kDLCPU", (), (1,), (1, 0, 0), ("cpu", 0), (1.0, 0)]))
def test_dl_device_of_another_form_is_an_error(device: Any) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device, and raises: other errors for incorrect arguments."""
    with pytest.raises(TypeError, match="dl_device"):
        asdlpack(b"abc").__dlpack__(dl_device=device)


@drawn
@given(
    arrays(),
    st.tuples(st.integers(2, 1 << 30), st.integers(0, 9)),
    st.sampled_from([None, False, True]),
    st.sampled_from([None, (1, 0)]),
)
def test_a_device_type_that_cannot_be_handled_is_a_buffer_error(
    memory: Array, device: tuple[int, int], copy: bool | None, max_version: tuple[int, int] | None
) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device."""
    with pytest.raises(BufferError):
        asdlpack(memory.obj()).__dlpack__(dl_device=device, copy=copy, max_version=max_version)


@drawn
@given(arrays(), keyword_arguments)
def test_memory_of_the_cpu_is_offered_as_kdlcpu(memory: Array, keywords: dict[str, Any]) -> None:
    """2024.12, 2025.12: __dlpack__, dl_device: memory that the Python interpreter can access."""
    device = look(asdlpack(memory.obj()).__dlpack__(**{**keywords, "dl_device": CPU})).dl_tensor.device
    assert (device.device_type, device.device_id) == CPU


def test_memory_elsewhere_that_the_cpu_may_only_have_as_a_copy_is_a_buffer_error_without_one() -> None:
    """2024.12, 2025.12: __dlpack__, dl_device with copy=False."""
    with pytest.raises(BufferError):
        on_cuda().__dlpack__(dl_device=CPU, copy=False)


def test_a_producer_that_offers_its_memory_to_the_cpu_is_asked_for_it() -> None:
    """2024.12, 2025.12: __dlpack__, dl_device."""
    producer = Producer(lambda dl_device=None, **others: capsule_on(dl_device or (2, 0)), (2, 0))
    device = look(asdlpack(producer).__dlpack__(dl_device=CPU, max_version=(1, 0))).dl_tensor.device
    assert (device.device_type, device.device_id) == CPU


# __dlpack__: copy.


@drawn
@given(arrays(), keyword_arguments)
def test_with_copy_true_it_always_copies(memory: Array, keywords: dict[str, Any]) -> None:
    """2024.12, 2025.12: __dlpack__, copy; copy keyword argument behavior."""
    assume(memory.size)
    managed = look(asdlpack(memory.obj()).__dlpack__(**{**keywords, "copy": True}))
    before = memory.values
    tensor = managed.dl_tensor
    assert tensor.data != memory.address
    memory.change()
    assert gather(tensor.data, memory.shape, strides_of(tensor), memory.itemsize) == before


@drawn
@given(arrays())
def test_whoever_gets_a_copy_is_free_to_change_it(memory: Array) -> None:
    """2024.12, 2025.12: copy keyword argument behavior."""
    assume(memory.size)
    before = memory.values
    managed = look(asdlpack(memory.obj()).__dlpack__(max_version=(1, 0), copy=True))
    assert not managed.flags & READ_ONLY
    ctypes.memset(managed.dl_tensor.data, 0, memory.size * memory.itemsize)
    assert memory.values == before


@drawn
@given(arrays(), keyword_arguments, st.sampled_from([None, False]))
def test_with_copy_false_or_none_the_memory_is_reused_where_it_can_be(
    memory: Array, keywords: dict[str, Any], copy: bool | None
) -> None:
    """2024.12, 2025.12: __dlpack__, copy."""
    assume(memory.size)
    tensor = look(asdlpack(memory.obj()).__dlpack__(**{**keywords, "copy": copy})).dl_tensor
    assert tensor.data == memory.address


def swapped() -> Any:
    """An object that refuses to export its big-endian memory, as numpy's arrays do."""

    def refuse(**_: Any) -> Any:
        raise BufferError("only native byte order")

    producer: Any = Producer(refuse)
    shown = {"version": 3, "typestr": f"{SWAPPED}i4", "shape": (2,), "data": bytes(8)}
    producer.__array_interface__ = shown
    return producer


def test_with_copy_false_memory_that_has_to_be_copied_is_a_buffer_error() -> None:
    """2024.12, 2025.12: __dlpack__, copy."""
    with pytest.raises(BufferError):
        asdlpack(swapped()).__dlpack__(copy=False)


def test_with_copy_true_memory_that_has_to_be_copied_is_copied() -> None:
    """2024.12, 2025.12: __dlpack__, copy."""
    assert look(asdlpack(swapped()).__dlpack__(max_version=(1, 0), copy=True)).flags & IS_COPIED


@pytest.mark.xfail(
    strict=True, reason="asdlpack(copy=None) converts; __dlpack__(copy=None) of what asdlpack(copy=False) took does not"
)
def test_with_copy_none_memory_that_has_to_be_copied_is_copied() -> None:
    """2024.12, 2025.12: __dlpack__, copy."""
    assert look(asdlpack(swapped()).__dlpack__(max_version=(1, 0), copy=None)).flags & IS_COPIED


@drawn
@given(arrays())
def test_a_copy_is_flagged(memory: Array) -> None:
    """2024.12, 2025.12: __dlpack__, copy: DLPACK_FLAG_BITMASK_IS_COPIED."""
    managed = look(asdlpack(memory.obj()).__dlpack__(max_version=(1, 0), copy=True))
    assert managed.flags & IS_COPIED


@pytest.mark.parametrize("copy", [None, True])
def test_a_copy_that_several_exports_share_is_not_flagged(copy: bool | None) -> None:
    """dlpack.h 1.3: DLPACK_FLAG_BITMASK_IS_COPIED: "solely owned throughout its lifetime by the consumer"."""
    x = asdlpack(swapped(), copy=copy)
    one, other = (look(x.__dlpack__(max_version=(1, 0))) for _ in range(2))
    assert one.dl_tensor.data == other.dl_tensor.data
    assert not (one.flags | other.flags) & IS_COPIED


@pytest.mark.xfail(strict=True, reason="a producer's capsule is handed on as it is; torch's copy is not flagged")
def test_a_copy_is_flagged_whatever_the_producer_forgot() -> None:
    """2024.12, 2025.12: __dlpack__, copy: DLPACK_FLAG_BITMASK_IS_COPIED."""
    source = asdlpack(bytearray(3), copy=True)

    def forgetful(copy: bool | None = None, **others: Any) -> Any:
        capsule = source.__dlpack__(copy=copy, **others)
        look(capsule).flags = 0
        return capsule

    assert look(asdlpack(Producer(forgetful)).__dlpack__(max_version=(1, 0), copy=True)).flags & IS_COPIED


@drawn
@given(arrays(), st.sampled_from([None, False]))
def test_what_is_no_copy_is_not_flagged_as_one(memory: Array, copy: bool | None) -> None:
    """2024.12, 2025.12: __dlpack__, copy."""
    assert not look(asdlpack(memory.obj()).__dlpack__(max_version=(1, 0), copy=copy)).flags & IS_COPIED


@pytest.mark.parametrize("copy", [1.5, "yes", 2, ()])
def test_copy_is_a_boolean(copy: Any) -> None:
    """2024.12, 2025.12: __dlpack__, copy."""
    with pytest.raises(TypeError, match="copy"):
        asdlpack(b"abc").__dlpack__(copy=copy)


# __dlpack__: raises, and the flag for read-only memory.

UNEXPORTABLE = {
    "incompatible dtype": {"typestr": "|O8", "shape": (1,), "strides": None},
    "text": {"typestr": f"{NATIVE}U1", "shape": (2,), "strides": None},
    "dates": {"typestr": f"{NATIVE}M8[s]", "shape": (1,), "strides": None},
    "byte order": {"typestr": f"{SWAPPED}i4", "shape": (2,), "strides": None},
    "incompatible strides": {"typestr": f"{NATIVE}i4", "shape": (2,), "strides": (3,)},
}


@pytest.mark.parametrize("shown", UNEXPORTABLE.values(), ids=UNEXPORTABLE)
def test_what_cannot_be_exported_is_a_buffer_error(shown: dict[str, Any]) -> None:
    """2024.12, 2025.12: __dlpack__, raises."""
    with pytest.raises(BufferError):
        asdlpack(Speaks(__array_interface__={"version": 3, "data": bytes(8), **shown})).__dlpack__()


def test_what_the_producer_cannot_export_is_a_buffer_error_with_its_reason() -> None:
    """2024.12, 2025.12: __dlpack__, raises; data interchange mechanisms, non-supported use cases."""

    def refuse(**_: Any) -> Any:
        raise BufferError("a sparse array")

    with pytest.raises(BufferError, match="a sparse array"):
        asdlpack(Producer(refuse)).__dlpack__()


@pytest.mark.parametrize("error", [BufferError, ZeroDivisionError])
def test_an_error_of_the_producers_dlpack_device_is_raised(error: type[Exception]) -> None:
    """2024.12, 2025.12: data interchange mechanisms, non-supported use cases."""

    class Sparse(Producer):
        def __dlpack_device__(self) -> Any:
            raise error("a sparse array")

    with pytest.raises(error, match="a sparse array"):
        asdlpack(Sparse(lambda **_: capsule_on((2, 0)))).__dlpack_device__()


def test_an_object_that_cannot_speak_dlpack_need_not_have_its_methods_but_what_asdlpack_returns_has() -> None:
    """2024.12, 2025.12: data interchange mechanisms, non-supported use cases."""
    memory = array("f", [1, 2])
    assert not hasattr(memory, "__dlpack__")
    x = asdlpack(memory)
    assert (hasattr(x, "__dlpack__"), hasattr(x, "__dlpack_device__")) == (True, True)


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_export_that_fails_for_want_of_memory_is_another_error(max_version: tuple[int, int] | None) -> None:
    """2024.12, 2025.12: __dlpack__, raises: out of memory."""
    shown = {"version": 3, "typestr": "|u1", "shape": (1 << 60,), "strides": (0,), "data": bytes(1)}
    with pytest.raises(MemoryError):
        asdlpack(Speaks(__array_interface__=shown)).__dlpack__(max_version=max_version, copy=True)


@drawn
@given(arrays(), st.sampled_from([None, False]))
def test_the_capsule_says_whether_the_memory_is_read_only(memory: Array, copy: bool | None) -> None:
    """2024.12, 2025.12: __dlpack__, notes: DLPACK_FLAG_BITMASK_READ_ONLY."""
    managed = look(asdlpack(memory.obj()).__dlpack__(max_version=(1, 0), copy=copy))
    assert bool(managed.flags & READ_ONLY) == memory.readonly


@drawn
@given(exchanges(readonly=True))
def test_a_consumer_takes_read_only_memory_whether_it_knows_the_flag_or_not(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: __dlpack__, notes: better ignored than an exception."""
    consumer, memory = exchange
    assert consumer.see(consumer.from_dlpack(asdlpack(memory.obj())))[0] == memory.values


# __dlpack_device__.


@drawn
@given(arrays())
def test_dlpack_device_is_a_tuple_of_device_type_and_device_id(memory: Array) -> None:
    """2024.12, 2025.12: __dlpack_device__, returns."""
    device = asdlpack(memory.obj()).__dlpack_device__()
    assert (type(device), len(device)) == (tuple, 2)
    assert device == CPU


@pytest.mark.parametrize("device_type", devices_of_the_standard())
def test_every_device_type_of_the_standard_is_told(device_type: int) -> None:
    """2024.12, 2025.12: __dlpack_device__, returns: the list of enum members."""
    device = (device_type, 0)
    assert asdlpack(capsule_on(device)).__dlpack_device__() == device
    assert asdlpack(Producer(lambda **_: capsule_on(device), device)).__dlpack_device__() == device


def test_the_device_types_have_the_numbers_of_the_standard() -> None:
    """2024.12, 2025.12: __dlpack_device__, returns: the list of enum members."""
    names = "CPU CUDA CUDAHost OpenCL Vulkan Metal VPI ROCM CUDAManaged OneAPI".split()
    assert [DLDeviceType[f"kDL{name}"].value for name in names] == devices_of_the_standard()


@pytest.mark.xfail(strict=True, reason="the device type is a plain integer, as numpy's; x.device has the enum's member")
def test_the_device_type_is_a_member_of_an_enum() -> None:
    """2024.12, 2025.12: __dlpack_device__, returns."""
    assert isinstance(asdlpack(b"abc").__dlpack_device__()[0], enum.Enum)


# from_dlpack: the consumer's behaviour is its own. It starts from what asdlpack gives it.


@drawn
@given(exchanges())
def test_from_dlpack_returns_an_array_of_the_data_in_x(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: from_dlpack, summary and returns."""
    consumer, memory = exchange
    out = consumer.from_dlpack(asdlpack(memory.obj()))
    assert consumer.see(out)[0] == memory.values


@drawn
@given(exchanges("device"))
def test_without_a_device_the_array_is_on_the_device_of_x(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: from_dlpack, device."""
    consumer, memory = exchange
    x = asdlpack(memory.obj())
    out = consumer.from_dlpack(x, device=None)
    told = out.__dlpack_device__() if hasattr(out, "__dlpack_device__") else CPU
    assert told == x.__dlpack_device__()
    assert consumer.see(out)[0] == memory.values


@drawn
@given(exchanges("device"))
def test_an_array_on_the_cpu_may_be_asked_for(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: from_dlpack, device: memory that the Python interpreter can access."""
    consumer, memory = exchange
    out = consumer.from_dlpack(asdlpack(memory.obj()), device=consumer.cpu())
    assert consumer.see(out)[0] == memory.values


# jax looks for a device of the kind before it asks x, and torch for a driver.
@pytest.mark.parametrize("consumer", [one for one in CONSUMERS if one.name in ("ctypes", "numpy")], ids=repr)
def test_data_that_would_have_to_be_copied_to_the_cpu_is_an_error_with_copy_false(consumer: Consumer) -> None:
    """2024.12, 2025.12: from_dlpack, device, copy and raises: BufferError in one sentence, ValueError in two."""
    if not consumer.knows("copy"):
        pytest.skip(f"this {consumer}'s from_dlpack has no copy")
    with pytest.raises((BufferError, ValueError)):
        consumer.from_dlpack(on_cuda(), device=consumer.cpu(), copy=False)


@drawn
@given(exchanges("copy"))
def test_from_dlpack_with_copy_true_always_copies(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: from_dlpack, copy."""
    consumer, memory = exchange
    assume(consumer.copies and memory.size)
    out = consumer.from_dlpack(asdlpack(memory.obj()), copy=True)
    values, address = consumer.see(out)
    assert (values, address != memory.address) == (memory.values, True)
    memory.change()
    assert consumer.see(out)[0] == values


@drawn
@given(exchanges("copy"))
def test_from_dlpack_with_copy_false_never_copies(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: from_dlpack, copy."""
    consumer, memory = exchange
    assume(memory.size)
    out = consumer.from_dlpack(asdlpack(memory.obj()), copy=False)
    assert consumer.see(out) == (memory.values, memory.address)


@pytest.mark.parametrize("consumer", CONSUMERS, ids=repr)
def test_with_copy_false_what_has_to_be_copied_is_an_error(consumer: Consumer) -> None:
    """2024.12, 2025.12: from_dlpack, copy and raises: BufferError in one sentence, ValueError in two."""
    if not consumer.knows("copy"):
        pytest.skip(f"this {consumer}'s from_dlpack has no copy")
    with pytest.raises((BufferError, ValueError)):
        consumer.from_dlpack(asdlpack(swapped()), copy=False)


@drawn
@given(exchanges())
def test_from_dlpack_without_copy_reuses_the_memory_if_possible(exchange: tuple[Consumer, Array]) -> None:
    """2024.12, 2025.12: from_dlpack, copy; data interchange mechanisms, point 4."""
    consumer, memory = exchange
    assume(memory.size)
    out = consumer.from_dlpack(asdlpack(memory.obj()))
    assert consumer.see(out) == (memory.values, memory.address)
    memory.change()
    assert consumer.see(out)[0] == memory.values


@pytest.mark.parametrize("consumer", CONSUMERS, ids=repr)
def test_from_dlpack_propagates_the_buffer_error_of_dlpack(consumer: Consumer) -> None:
    """2024.12, 2025.12: from_dlpack, raises."""
    with pytest.raises(BufferError, match="only native byte order"):
        consumer.from_dlpack(asdlpack(swapped()))


@pytest.mark.parametrize("consumer", CONSUMERS, ids=repr)
@pytest.mark.parametrize("error", [MemoryError, ZeroDivisionError])
def test_from_dlpack_propagates_other_errors_of_dlpack(consumer: Consumer, error: type[Exception]) -> None:
    """2024.12, 2025.12: from_dlpack, raises: when export fails for other reasons."""

    def fail(**_: Any) -> Any:
        raise error("not enough")

    with pytest.raises(error, match="not enough"):
        consumer.from_dlpack(asdlpack(Producer(fail)))


@pytest.mark.parametrize("there", CONSUMERS[1:], ids=repr)
@pytest.mark.parametrize("here", [consumer for consumer in CONSUMERS if consumer.copies], ids=repr)
def test_data_moves_between_two_libraries_as_a_copy_on_a_device_that_both_support(
    there: Consumer, here: Consumer
) -> None:
    """2024.12, 2025.12: from_dlpack, notes: from_dlpack(y, copy=True, device=x.device)."""
    if not here.knows("copy"):
        pytest.skip(f"this {here}'s from_dlpack has no copy")
    memory = Array((ctypes.c_char * 128)(), 0, "float32", (2, 3), (3, 1), False, "__array_interface__")
    y = there.from_dlpack(asdlpack(memory.obj()))
    out = here.from_dlpack(asdlpack(y), copy=True, device=here.cpu())
    values, address = here.see(out)
    assert (values, address != there.see(y)[1]) == (memory.values, True)


# Data interchange mechanisms.


@pytest.mark.parametrize("dtype", DATA_TYPES)
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_every_data_type_of_the_standard_is_exchanged(dtype: str, max_version: tuple[int, int] | None) -> None:
    """2024.12, 2025.12: data interchange mechanisms, point 2."""
    memory = Array((ctypes.c_char * 256)(), 0, dtype, (2, 3), (3, 1), False, "__array_interface__")
    tensor = look(asdlpack(memory.obj()).__dlpack__(max_version=max_version)).dl_tensor
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == DATA_TYPES[dtype][1]


@drawn
@given(arrays(), st.booleans())
def test_the_structures_layout_is_that_of_the_stable_c_abi(memory: Array, versioned: bool) -> None:
    """2024.12, 2025.12: data interchange mechanisms, points 1 and 5: strided memory on a single device."""
    managed = look(asdlpack(memory.obj()).__dlpack__(max_version=(1, 0) if versioned else None))
    tensor = managed.dl_tensor
    assert tensor.ndim == len(memory.shape)
    assert tuple(tensor.shape[: tensor.ndim]) == memory.shape
    if memory.size:
        assert tensor.data == memory.address
        strided = zip(memory.shape, memory.strides, strides_of(tensor), strict=True)
        assert all(stride == told for extent, stride, told in strided if extent > 1)
    assert managed.deleter


def test_the_c_exchange_api_is_an_attribute_of_the_type() -> None:
    """2025.12: data interchange mechanisms, DLPack C Exchange API."""
    x: Any = asdlpack(b"abc")
    assert type(x).__dlpack_c_exchange_api__ is not None
