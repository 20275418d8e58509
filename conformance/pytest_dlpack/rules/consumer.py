"""Rules of consumers: from_dlpack, and the arrays that it makes."""

import collections
import contextlib
import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tensors
from .._abi import (
    DELETER,
    IS_COPIED,
    READ_ONLY,
    SUBBYTE_TYPE_PADDED,
    USED,
    Seen,
    capsule_name,
    data_type,
    export,
    read_managed,
)
from ..findings import Skip, Wrong, difference, expect, one_line
from ..tensors import LEGACY, MALFORMED, VERSIONED, Tensor
from .rule import (
    CPU,
    DATA_TYPES,
    FROM_DLPACK,
    HEADER,
    KEYWORDS,
    KINDS,
    PYTHON,
    STREAMS,
    consumer,
    device_of,
    dtype_of,
    empty,
    layouts,
    load,
    numbers,
    refused,
    soon,
    strides_of,
)

KNOWN = {"stream", "max_version", "dl_device", "copy"}
# A deleter that is called too often still finds the structure.
kept: collections.deque[Tensor] = collections.deque(maxlen=1000)


class Consumer:
    """The library's function take."""

    def __init__(self, spec: str) -> None:
        self.function: Callable[[Any], Any] = load(spec)

    @functools.cached_property
    def first(self) -> tuple[str, tuple[int, ...]]:
        """The first data type and shape that it takes."""
        return next((each for each in KINDS if self.hand(numbers(*each)).error is None), KINDS[0])

    @property
    def dtype(self) -> str:
        return self.first[0]

    def numbers(self, shape: tuple[int, ...] | None = None, dtype: str = "") -> Any:
        return numbers(dtype or self.dtype, self.first[1] if shape is None else shape)

    def hand(self, array: Any, name: bytes = VERSIONED, **fields: Any) -> "Handed":
        return Handed(self.function, Source(array, name, **fields))

    def check(self, array: Any, what: str, *, must: bool = False, **fields: Any) -> None:
        """Expects the array with the same values, or an error unless it must take it."""
        handed = self.hand(array, **fields)
        if must:
            handed.needs(f"{what} is refused")
        if handed.error is None:
            handed.check(array, what)


class Source:
    """An object with __dlpack__ whose tensor is the array's, but for the fields."""

    def __init__(
        self, array: Any, name: bytes = VERSIONED, prepare: Callable[[Any], object] = id, **fields: Any
    ) -> None:
        self.array: Any = array
        self.name: bytes = name
        self.prepare: Callable[[Any], object] = prepare
        self.fields: dict[str, Any] = fields
        self.asked: list[dict[str, Any]] = []
        self.tensors: list[Tensor] = []
        self.capsules: list[Any] = []

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        array = self.array.copy() if keywords.get("copy") else self.array
        described = {"data": array.ctypes.data, "shape": array.shape}
        described |= {"strides": strides_of(array), "dtype": dtype_of(array)}
        name = self.name if (keywords.get("max_version") or (0,))[0] >= 1 else LEGACY
        tensor = Tensor(name, **described | self.fields)
        tensor.struct.manager_ctx = tensor.address
        tensor.keeps = array
        self.tensors.append(tensor)
        kept.append(tensor)
        self.prepare(tensor.struct)
        self.capsules.append(tensor.capsule())
        return self.capsules[-1]

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.fields.get("device", CPU)
        return device


class Handed:
    """Hands an object to the consumer; keeps the result or the error."""

    def __init__(self, take: Callable[[Any], Any], source: Source) -> None:
        tensors.strays.clear()
        self.source = source
        self.result: Any = None
        self.error: Exception | None = None
        try:
            self.result = take(source)
        except Exception as error:
            self.error = error.with_traceback(None)  # whose frames hold the capsule
            self.error.__context__ = None
        versioned_alone = {"flags", "version"} & source.fields.keys()
        if versioned_alone and any(tensor.name == LEGACY for tensor in source.tensors):
            raise Skip("it asks for no versioned capsule")

    @property
    def tensor(self) -> Tensor:
        """The last tensor that it was given."""
        expect(bool(self.source.tensors), "take did not call __dlpack__")
        return self.source.tensors[-1]

    def needs(self, otherwise: str) -> None:
        """Expects that it was taken."""
        if self.error is not None:
            raise Wrong(f"{otherwise}: {one_line(self.error)}")

    def see(self) -> Seen:
        """Reads the result by DLPack, or by numpy if it can't be exported, as read-only arrays of old numpys."""
        try:
            if hasattr(self.result, "__dlpack__"):
                with contextlib.suppress(BufferError):
                    return read_managed(export(self.result))
            return read_by_numpy(self.result)
        except (BufferError, TypeError, ValueError) as error:
            raise Wrong(f"take returned {type(self.result).__name__}, which can't be read: {one_line(error)}") from None

    def check(self, array: Any, what: str) -> None:
        seen = self.see()
        expect(seen.dtype == array.dtype.name, f"{what}: dtype arrived as {seen.dtype}, expected {array.dtype}")
        expect(seen.shape == array.shape, f"{what}: shape arrived as {seen.shape}, expected {array.shape}")
        values = array.tobytes()
        expect(seen.values == values, f"{what}: values arrived as {difference(seen.values, values)}")

    def drop(self) -> None:
        """Drops everything, and expects one call of each tensor's deleter."""
        self.result = self.error = None
        self.source.capsules.clear()
        gc.collect()
        soon(lambda: all(tensor.deleted for tensor in self.source.tensors))
        calls = [tensor.deleted for tensor in self.source.tensors]
        expect(set(calls) <= {1}, f"with all dropped the deleter was called {max(calls or [0])} times, expected once")
        expect(not tensors.strays, "the deleter was called again after it had been called")


def read_by_numpy(obj: Any) -> Seen:
    if not any(hasattr(obj, name) for name in ("__array_interface__", "__array_struct__", "__array__")):
        memoryview(obj).release()  # else numpy makes an array of any object
    array = np.asarray(obj)
    return Seen(array.dtype.name, array.shape, array.tobytes(), array.ctypes.data, not array.flags.writeable)


@consumer("array API 2021.12, from_dlpack")
def take(consumer: Consumer) -> None:
    """take returns an array with the values of the object."""
    handed = consumer.hand(consumer.numbers())
    handed.needs("take raised")
    handed.check(handed.source.array, f"an array of {consumer.dtype}")
    expect(bool(handed.tensor), "take did not call __dlpack__")


@consumer(f"{PYTHON}, implementation: a library should try to support both", should=True)
def legacy(consumer: Consumer) -> None:
    """A legacy capsule is taken, even if a versioned one was asked for."""
    consumer.check(consumer.numbers(), "a legacy capsule", must=True, name=LEGACY)


class Old(Source):
    """A producer from before 2023.12."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__()


@consumer(f"{KEYWORDS}, notes: the consumer's logic", should=True)
def old_producer(consumer: Consumer) -> None:
    """A producer whose __dlpack__ has no keyword but stream is asked again without the newer ones."""
    handed = Handed(consumer.function, Old(consumer.numbers()))
    handed.needs("refused")


@consumer(f"{KEYWORDS}, max_version", should=True)
def asks_for_versioned(consumer: Consumer) -> None:
    """It passes max_version, of 1.0 at least."""
    asked = [each.get("max_version") for each in consumer.hand(consumer.numbers()).source.asked]
    expect(any(each and tuple(each) >= (1, 0) for each in asked), f"max_version is {asked}")


@consumer(f"{KEYWORDS}, max_version: a 2-tuple")
def max_version(consumer: Consumer) -> None:
    """The max_version that it passes is a tuple of two integers."""
    for each in consumer.hand(consumer.numbers()).source.asked:
        told = each.get("max_version")
        expect(told is None or (isinstance(told, tuple) and [*map(type, told)] == [int, int]), f"it is {told!r}")


@consumer(f"{KEYWORDS}, signature")
def known_keywords(consumer: Consumer) -> None:
    """It passes no arguments to __dlpack__ but stream, max_version, dl_device and copy."""
    for each in consumer.hand(consumer.numbers()).source.asked:
        expect(each.keys() <= KNOWN, f"it passes {', '.join(each.keys() - KNOWN)}")


@consumer(STREAMS)
def stream_on_cpu(consumer: Consumer) -> None:
    """For memory of the CPU it passes no stream but None."""
    for each in consumer.hand(consumer.numbers()).source.asked:
        expect(each.get("stream") is None, f"stream is {each.get('stream')!r}")


@consumer(f"{KEYWORDS}, dl_device: a 2-tuple")
def dl_device(consumer: Consumer) -> None:
    """The dl_device that it passes is None or a tuple of two."""
    for each in consumer.hand(consumer.numbers()).source.asked:
        told = each.get("dl_device")
        expect(told is None or (isinstance(told, tuple) and len(told) == 2), f"dl_device is {told!r}")


@consumer(f"{PYTHON}, capsule names: the consumer renames it")
def renames(consumer: Consumer) -> None:
    """A capsule that was taken is renamed to "used_" and its name."""
    for name in VERSIONED, LEGACY:
        handed = consumer.hand(consumer.numbers(), name)
        for tensor, capsule in zip(handed.source.tensors, handed.source.capsules, strict=True):
            if handed.error is None:
                told = capsule_name(capsule)
                expect(told == USED[tensor.name], f"the capsule's name is {told!r}, expected {USED[tensor.name]!r}")


@consumer(f"{PYTHON}, capsule names: it is consumed exactly once")
def used_capsule(consumer: Consumer) -> None:
    """A capsule that was consumed before is refused."""
    source = Source(consumer.numbers())
    first = Handed(consumer.function, source)
    capsule = source.capsules[-1]
    if capsule_name(capsule) not in USED.values():
        raise Skip("it renames no capsule")

    class Again(Source):
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsule

    second = Handed(consumer.function, Again(consumer.numbers()))
    expect(second.error is not None, "a consumed capsule is taken")
    del first


@consumer(f"{PYTHON}, capsule names")
def other_name(consumer: Consumer) -> None:
    """A capsule of another name is refused."""
    tensor = Tensor()
    capsule = tensor.capsule(b"nltensor")

    class Other(Source):
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsule

    handed = Handed(consumer.function, Other(consumer.numbers()))
    expect(handed.error is not None, 'a capsule named "nltensor" is taken')


def deleted_once(consumer: Consumer, **fields: Any) -> None:
    for name in VERSIONED, LEGACY:
        consumer.hand(consumer.numbers(), name, **fields).drop()


@consumer(f"{HEADER}, deleter")
def deleter(consumer: Consumer) -> None:
    """The deleter is called exactly once, after the last use."""
    deleted_once(consumer)


@consumer(f"{HEADER}, manager_ctx: it can also be NULL")
def null_manager_ctx(consumer: Consumer) -> None:
    """The deleter is called even if manager_ctx is NULL."""
    deleted_once(consumer, prepare=lambda struct: setattr(struct, "manager_ctx", None))


@consumer(f"{HEADER}, deleter: it can be NULL")
def null_deleter(consumer: Consumer) -> None:
    """A tensor whose deleter is NULL is taken and dropped."""
    handed = consumer.hand(consumer.numbers(), prepare=lambda struct: setattr(struct, "deleter", DELETER()))
    handed.needs("refused")
    handed.result = None
    gc.collect()


@consumer(f"{HEADER}, DLManagedTensorVersioned")
def keeps(consumer: Consumer) -> None:
    """The tensor lives as long as the array that shares its memory, even if the producer's object is gone."""
    array = consumer.numbers()
    handed = consumer.hand(array)
    tensor = handed.tensor
    handed.source.capsules.clear()
    gc.collect()
    if handed.see().address == array.ctypes.data:
        expect(tensor.deleted == 0, "the deleter was called while the array uses the memory")
    handed.check(array, "after the producer's object is gone")


@consumer(f"{PYTHON}, semantics: if possible, this must be zero-copy", should=True)
def shares(consumer: Consumer) -> None:
    """Row-major memory at a multiple of 64 bytes is shared, not copied."""
    array = consumer.numbers()
    handed = consumer.hand(array)
    if any(asked.get("copy") for asked in handed.source.asked):
        raise Skip("take copies")
    expect(handed.see().address == array.ctypes.data, "it was copied")


@consumer(f"{PYTHON}, semantics: the producer keeps owning the memory")
def does_not_write(consumer: Consumer) -> None:
    """Taking changes neither the memory nor the structure's shape and strides."""
    array = consumer.numbers()
    before = array.tobytes()
    handed = consumer.hand(array)
    expect(array.tobytes() == before, "the memory was written")
    tensor = handed.tensor.struct.dl_tensor
    told = tuple(tensor.shape[: array.ndim]), tuple(tensor.strides[: array.ndim])
    same = told == (array.shape, tuple(strides_of(array)))
    expect(handed.tensor.deleted > 0 or same, f"shape and strides became {told}")


@consumer("array API 2021.12, data interchange, support for all dtypes", should=True)
def every_data_type(consumer: Consumer) -> None:
    """All data types of the array API standard are taken."""
    missing = [dtype for dtype in DATA_TYPES if consumer.hand(consumer.numbers(dtype=dtype)).error]
    expect(not missing, f"refused: {', '.join(missing)}")


@consumer(f"{FROM_DLPACK}: an array containing the data")
def data_types(consumer: Consumer) -> None:
    """The array has the values of the object, in whatever data type."""
    for dtype in DATA_TYPES:
        array = consumer.numbers(dtype=dtype)
        handed = consumer.hand(array)
        if handed.error is None:
            seen = handed.see()
            try:
                values = np.frombuffer(seen.values, seen.dtype)
            except TypeError:
                raise Wrong(f"{dtype} arrived as {seen.dtype}") from None
            expect([*values] == [*array.flat], f"{dtype}: {[*array.flat]} arrived as {[*values]} of {seen.dtype}")


@consumer(f"{HEADER}, DLDataType; no text says that a consumer keeps it", should=True)
def data_type_stays(consumer: Consumer) -> None:
    """The array has the data type of the object."""
    for dtype in DATA_TYPES:
        consumer.check(consumer.numbers(dtype=dtype), dtype)


@consumer(f"{HEADER}, DLTensor.strides")
def strides(consumer: Consumer) -> None:
    """Strides count items, may be in any order, negative or 0, and are obeyed or refused, in both structures."""
    for name, array in layouts(consumer.dtype).items():
        consumer.check(array, name)
        consumer.check(array, f"{name}, legacy", name=LEGACY)


@consumer(f"{HEADER}, DLTensor.strides")
def stride_of_length_1(consumer: Consumer) -> None:
    """The stride of a dimension of length 1 means nothing."""
    array = consumer.numbers((1, 3))
    consumer.check(array, "shape (1, 3) with strides (-1000, 1)", strides=(-1000, 1))


@consumer(f"{HEADER}, DLTensor.strides; {PYTHON}, implementation")
def null_strides(consumer: Consumer) -> None:
    """NULL strides, which were allowed before version 1.2, mean contiguous row-major memory."""
    consumer.check(consumer.numbers(), "strides of NULL, legacy", name=LEGACY, strides=None)
    consumer.check(consumer.numbers(), "strides of NULL, version 1.0", strides=None, version=(1, 0))


@consumer(f"{HEADER}, DLTensor.byte_offset")
def byte_offset(consumer: Consumer) -> None:
    """The first item is at data plus byte_offset."""
    array = consumer.numbers((32,))[16:]
    consumer.check(array, "byte_offset 64", data=array.ctypes.data - 64, byte_offset=64)


@consumer(f"{HEADER}, DLTensor.data; {PYTHON}, implementation")
def size_0(consumer: Consumer) -> None:
    """An array of size 0 whose data is NULL keeps its shape."""
    for shape, array in empty(consumer.dtype).items():
        consumer.check(array, f"shape {shape}", data=None)


@consumer(f"{HEADER}, DLTensor.shape and strides")
def null_shape_of_0_dimensions(consumer: Consumer) -> None:
    """Without dimensions shape and strides may be NULL."""
    array = consumer.numbers(())
    if error := consumer.hand(array).error:
        raise Skip(f"it takes no array without dimensions: {one_line(error)}")
    consumer.check(array, "0-d", must=True, shape=None, strides=None)


@consumer(f"{HEADER}, DLTensor.ndim")
def many_dimensions(consumer: Consumer) -> None:
    """32 dimensions are taken or refused."""
    consumer.check(consumer.numbers((1,) * 32), "32 dimensions")


@consumer(f"{KEYWORDS}, notes on DLPACK_FLAG_BITMASK_READ_ONLY", should=True)
def read_only(consumer: Consumer) -> None:
    """Read-only memory is taken: a library without read-only arrays ignores the flag."""
    consumer.check(consumer.numbers(), "read-only memory", must=True, flags=READ_ONLY)


@consumer(f"{HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY", should=True)
def read_only_stays(consumer: Consumer) -> None:
    """An array that shares read-only memory does not say that it may be written."""
    array = consumer.numbers()
    handed = consumer.hand(array, flags=READ_ONLY)
    if handed.error is not None:
        raise Skip("it refuses read-only memory")
    seen = handed.see()
    expect(seen.readonly is not False or seen.address != array.ctypes.data, "the array may be written")


@consumer(f"{HEADER}, DLPackVersion: minor versions")
def newer_minor(consumer: Consumer) -> None:
    """A tensor of version 1.99 is taken with its values, or refused."""
    consumer.check(consumer.numbers(), "version 1.99", version=(1, 99))


@consumer(f"{HEADER}, flags")
def unknown_flag(consumer: Consumer) -> None:
    """A tensor with a flag that dlpack.h does not have is taken with its values, or refused."""
    consumer.check(consumer.numbers(), "flag 1 << 40", flags=1 << 40)


@consumer(f"{HEADER}, DLPACK_FLAG_BITMASK_IS_COPIED")
def copied(consumer: Consumer) -> None:
    """A tensor that is flagged as a copy is taken."""
    consumer.check(consumer.numbers(), "a copy", must=True, flags=IS_COPIED)


def refuses(consumer: Consumer, what: str, **fields: Any) -> None:
    """Expects that such a tensor is refused, and deleted once."""
    handed = consumer.hand(consumer.numbers((3,)), **fields)
    expect(handed.error is not None, f"{what} is taken")
    handed.drop()


@consumer(f"{HEADER}, DLPackVersion: the consumer must call the deleter")
def newer_major(consumer: Consumer) -> None:
    """A tensor of version 2.0 is refused, its deleter called, and nothing else of it read."""
    refuses(consumer, "version 2.0", version=(2, 0))
    refuses(consumer, "version 2.0", version=(2, 0), data=None, shape=None, strides=None, ndim=-5)


@consumer(f"{HEADER}, DLPackVersion: the consumer must call the deleter; no producer has ever given one", should=True)
def older_major(consumer: Consumer) -> None:
    """A versioned structure of version 0.8 is refused, and its deleter called."""
    refuses(consumer, "version 0.8 in a versioned structure", version=(0, 8))


def carries(consumer: Consumer, what: str, dtype: tuple[int, int, int]) -> None:
    """Expects that such a tensor is refused, or handed on as it is, and deleted once."""
    handed = consumer.hand(consumer.numbers((3,)), dtype=dtype)
    if handed.error is None:
        try:
            told = data_type(export(handed.result).dl_tensor)
        except Exception as error:
            raise Skip(f"{what} is taken, and not exported: {one_line(error)}") from None
        expect(told == dtype, f"{what} became {told}")
    handed.drop()


@consumer(f"{HEADER}, DLDataTypeCode")
def unknown_data_type(consumer: Consumer) -> None:
    """A data type code that dlpack.h 1.3 does not have is refused, or handed on as it is."""
    carries(consumer, "data type (200, 32, 1)", (200, 32, 1))
    carries(consumer, "bcomplex32, data type (18, 32, 1)", (18, 32, 1))


@consumer(f"{HEADER}, kDLFloat4_e2m1fn: the consumer must stop importing if the value is unexpected", should=True)
def unexpected_bits(consumer: Consumer) -> None:
    """A float4 of 8 bits is refused."""
    refuses(consumer, "float4 of 8 bits", dtype=(17, 8, 1))


@consumer(f"{HEADER}, DLDataType.bits")
def odd_bits(consumer: Consumer) -> None:
    """A float of 24 bits is refused, or handed on as it is."""
    carries(consumer, "data type (2, 24, 1)", (2, 24, 1))


@consumer(f"{HEADER}, DLDataType.lanes")
def lanes(consumer: Consumer) -> None:
    """Items of several lanes are taken as such, or refused."""
    array = consumer.numbers((3,))
    handed = consumer.hand(consumer.numbers((6,)), shape=(3,), dtype=(*dtype_of(array)[:2], 2))
    if handed.error is None:
        seen = handed.see()
        kept = seen.dtype == f"{consumer.dtype}x2" and seen.shape == (3,)
        expect(kept or len(seen.values) == 2 * array.nbytes, f"3 items of 2 lanes arrived as {seen.dtype}{seen.shape}")


@consumer(f"{HEADER}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED")
def padded(consumer: Consumer) -> None:
    """Items of 4 bits that are padded to bytes are taken as such, or refused."""
    handed = consumer.hand(numbers("uint8", (4,)), dtype=(17, 4, 1), flags=SUBBYTE_TYPE_PADDED)
    if handed.error is None:
        expect(len(handed.see().values) == 4, "4 padded items of 4 bits arrived as packed ones")


@consumer(f"{HEADER}, DLTensor.device")
def other_device(consumer: Consumer) -> None:
    """Memory on another device, also of a later dlpack.h, is refused or stays there; the deleter is called once."""
    for device in (16, 0), (21, 0):
        handed = consumer.hand(consumer.numbers((3,)), device=device)
        if handed.error is None:
            if not hasattr(handed.result, "__dlpack_device__"):
                raise Skip(f"memory on device {device} is taken, and no __dlpack_device__ says where it is")
            told = device_of(handed.result)
            expect(told == device, f"memory on device {device} is taken; the array's device is {told}")
        handed.drop()


@consumer(f"{PYTHON}, semantics: it is recommended to raise a BufferError", should=True)
def unknown_device(consumer: Consumer) -> None:
    """Memory on a device that the library does not support is a BufferError."""
    error = consumer.hand(consumer.numbers((3,)), device=(16, 0)).error
    if error is None:
        raise Skip("it takes memory on device (16, 0)")
    expect(isinstance(error, BufferError), f"{one_line(error)}, expected BufferError")


class Elsewhere(Source):
    """A producer on another device, which exports nothing: this memory can't be read there."""

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        raise BufferError("not to be exported")


def streams(consumer: Consumer, device: tuple[int, int]) -> list[Any]:
    """The streams that it passes to a producer on this device."""
    source = Elsewhere(consumer.numbers(), device=device)
    with contextlib.suppress(Exception):
        consumer.function(source)
    if not source.asked:
        raise Skip(f"it asks nothing of a producer on device {device}")
    return [each.get("stream") for each in source.asked]


@consumer(f"{STREAMS}, CUDA: 0 is disallowed")
def stream_on_cuda(consumer: Consumer) -> None:
    """For memory on CUDA it passes a stream of None, -1, or more than 0, or refuses the memory."""
    for stream in streams(consumer, (2, 0)):
        expect(stream is None or (isinstance(stream, int) and stream >= -1 and stream != 0), f"stream is {stream!r}")


@consumer(f"{STREAMS}, ROCm: 1 and 2 are not supported")
def stream_on_rocm(consumer: Consumer) -> None:
    """For memory on ROCm it passes a stream of None, -1, 0, or more than 2, or refuses the memory."""
    for stream in streams(consumer, (10, 0)):
        right = stream is None or (isinstance(stream, int) and stream >= -1 and stream not in (1, 2))
        expect(right, f"stream is {stream!r}")


class Raising(Source):
    """A producer that can't export."""

    def __init__(self, error: Exception, *, device: bool = False) -> None:
        super().__init__(numbers(*KINDS[0]))
        self.error: Exception = error
        self.device: bool = device

    def __dlpack__(self, **keywords: Any) -> Any:
        raise self.error

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device:
            raise self.error
        return CPU


def passes_on(consumer: Consumer, source: Raising, what: str) -> None:
    told = refused(f"{what} that raises", lambda: consumer.function(source))
    expect(isinstance(told, type(source.error)), f"{type(source.error).__name__} of {what} became {one_line(told)}")


@consumer(f"{FROM_DLPACK}, raises: it must propagate such exceptions")
def buffer_error(consumer: Consumer) -> None:
    """A BufferError of __dlpack__ is passed on."""
    passes_on(consumer, Raising(BufferError("not to be exported")), "__dlpack__")


@consumer(f"{FROM_DLPACK}, raises: it must propagate such exceptions")
def other_errors(consumer: Consumer) -> None:
    """Other errors of __dlpack__ are passed on."""
    for error in MemoryError("not enough"), ZeroDivisionError("not possible"):
        passes_on(consumer, Raising(error), "__dlpack__")


@consumer(f"{FROM_DLPACK}, raises: it must propagate such exceptions")
def device_error(consumer: Consumer) -> None:
    """A BufferError of __dlpack_device__ is passed on, if it is called."""
    source = Raising(BufferError("on many devices"), device=True)
    passes_on(consumer, source, "__dlpack_device__")


@consumer(f"{FROM_DLPACK}, raises", should=True)
def no_dlpack(consumer: Consumer) -> None:
    """An object without __dlpack__ is an AttributeError, unless the library also takes other memory."""
    try:
        consumer.function(bytearray(8))
    except Exception:
        error = refused("an object without __dlpack__", lambda: consumer.function(object()))
    else:
        raise Skip("it takes bytearrays, which have no __dlpack__")
    expect(isinstance(error, AttributeError), f"{one_line(error)}, expected AttributeError")


@consumer(f"{PYTHON}, __dlpack__ will produce a PyCapsule")
def no_capsule(consumer: Consumer) -> None:
    """A __dlpack__ that returns an int is an error."""

    class Nonsense(Source):
        def __dlpack__(self, **keywords: Any) -> Any:
            return 42

    refused("a __dlpack__ that returns 42", lambda: consumer.function(Nonsense(consumer.numbers())))


@consumer(f"{HEADER}, deleter")
def many(consumer: Consumer) -> None:
    """Many tensors at once are each deleted once, in any order."""
    handed = [consumer.hand(consumer.numbers()) for _ in range(50)]
    for each in handed[::2] + handed[1::2]:
        each.drop()


def malformed(name: str, tensors: Sequence[str]) -> None:
    def check(consumer: Consumer) -> None:
        for each in tensors:
            refuses(consumer, f"a tensor with {each}", **MALFORMED[each])

    check.__name__ = f"malformed-{name}"
    check.__doc__ = f"A malformed tensor is refused, and its deleter called once: {', '.join(tensors)}."
    consumer(f"{HEADER}, DLTensor: a producer must not; no text says what a consumer does", should=True)(check)


malformed("shape", ["NULL shape", "NULL shape of 64 dimensions", "NULL shape of too many"])
malformed("ndim", ["ndim 2^20", "ndim -2^31"])
malformed("data", ["NULL data", "NULL data and an offset"])
malformed("extent", ["a negative length", "2^62 items", "byte_offset 2^63", "stride 2^60"])
malformed("dtype", ["lanes 0", "padded lanes"])
malformed("device", ["device -1", "device id -1"])
