"""Rules of producers: __dlpack__, __dlpack_device__, and the tensors in their capsules."""

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from ctypes import c_void_p, py_object
from typing import Any

import numpy as np

from .._abi import (
    DELETER,
    IS_COPIED,
    READ_ONLY,
    STRUCTS,
    SUBBYTE_TYPE_PADDED,
    Seen,
    capsule_name,
    consume,
    data_type,
    is_capsule,
    look,
    python_api,
    read_managed,
)
from ..findings import Skip, Wrong, difference, expect, one_line
from ..tensors import LEGACY, VERSIONED
from .rule import (
    CPU,
    DATA_TYPES,
    HEADER,
    KEYWORDS,
    KINDS,
    PRACTICE,
    PYTHON,
    STREAMS,
    device_of,
    dtype_of,
    empty,
    layouts,
    load,
    numbers,
    producer,
    program,
    refused,
    resident,
    soon,
)

DEVICES = {1, 2, 3, 4, *range(7, 22)}  # of dlpack.h; no release has the last three yet
READABLE = (1, 3, 11, 13)  # device types: the CPU, pinned for CUDA or ROCm, managed by CUDA
CUDA, ROCM = (2, 13), (10,)
REFUSE = "(make raises NotImplementedError for what the library can't hold)"
LONG = 7  # seconds for what is done often: less than the limit of the rule


class Producer:
    """The library's function make, and objects that it makes."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        begun = time.monotonic()
        self.function: Callable[[Any], Any] = load(spec)
        self.dtype: str
        self.shape: tuple[int, ...]
        self.dtype, self.shape = next((each for each in KINDS if self.makes(*each)), KINDS[0])
        self.seconds: float = time.monotonic() - begun  # to import it and make one object

    def make(self, array: Any) -> Any:
        try:
            return self.function(array)
        except (NotImplementedError, BufferError, TypeError, ValueError) as error:
            raise Skip(f"make raised {one_line(error)}") from None

    def makes(self, dtype: str, shape: tuple[int, ...]) -> bool:
        try:
            self.make(numbers(dtype, shape))
        except Skip:
            return False
        return True

    def one(self) -> Any:
        """Makes an object that the library can hold."""
        return self.make(self.numbers())

    def numbers(self, dtype: str = "") -> Any:
        return numbers(dtype or self.dtype, self.shape)

    def arrays(self) -> dict[str, Any]:
        """Arrays of each data type and each layout."""
        return {dtype: self.numbers(dtype) for dtype in DATA_TYPES} | layouts(self.dtype)

    def each(self, arrays: dict[str, Any]) -> Iterator[tuple[str, Any, Any, "Export"]]:
        """Yields name, array, object and export of the arrays that the library can hold and export."""
        found = False
        for name, array in arrays.items():
            with contextlib.suppress(Skip):
                obj = self.make(array)
                exported = tried(obj)
                found = True
                yield name, array, obj, exported
        if not found:
            raise Skip(f"it makes and exports none of these: {', '.join(arrays)}")


class Managed:
    """A managed tensor, as a consumer written in C sees it."""

    def __init__(self, managed: Any) -> None:
        self.managed = managed
        self.tensor: Any = managed.dl_tensor
        self.flags: int = getattr(managed, "flags", 0)

    @property
    def address(self) -> int:
        return (self.tensor.data or 0) + int(self.tensor.byte_offset)

    def seen(self) -> Seen:
        if self.tensor.device.device_type not in READABLE:
            raise Skip("its memory is not the interpreter's to read")
        return read_managed(self.managed)

    def check(self, array: Any, what: str) -> None:
        """Expects the data type, shape and values of the array."""
        told, expected = data_type(self.tensor), dtype_of(array)
        expect(told == expected, f"{what}: dtype (code, bits, lanes) is {told}, expected {expected} {REFUSE}")
        ndim = self.tensor.ndim
        expect(ndim == array.ndim, f"{what}: ndim is {ndim}, expected {array.ndim} {REFUSE}")
        expect(ndim == 0 or bool(self.tensor.shape), f"{what}: shape is NULL")
        seen = self.seen()
        expect(seen.shape == array.shape, f"{what}: shape is {seen.shape}, expected {array.shape}")
        values = array.tobytes()
        expect(seen.values == values, f"{what}: values are {difference(seen.values, values)}")


class Export(Managed):
    """The tensor in a capsule."""

    def __init__(self, capsule: Any) -> None:
        expect(is_capsule(capsule), f"__dlpack__ returned {type(capsule).__name__}, expected a PyCapsule")
        self.name: bytes = capsule_name(capsule)
        expect(self.name in STRUCTS, f"the capsule's name is {self.name!r}, expected one of {list(STRUCTS)}")
        self.capsule = capsule
        super().__init__(look(capsule))

    def take(self) -> Callable[[], None]:
        """Takes the tensor over; the call gives it back."""
        managed = consume(self.capsule)
        deleter, address = ctypes.cast(managed.deleter, c_void_p).value, ctypes.addressof(managed)
        del self.capsule
        return lambda: DELETER(deleter)(address) if deleter else None  # which releases the GIL


def export(obj: Any, **keywords: Any) -> Export:
    """Exports, versioned if the producer can."""
    try:
        return Export(obj.__dlpack__(max_version=(1, 3), **keywords))
    except TypeError:
        if keywords:
            raise Skip(f"its __dlpack__ takes no {' and '.join(keywords)}") from None
        return Export(obj.__dlpack__())


def versioned(obj: Any) -> Export:
    exported = export(obj)
    if exported.name != VERSIONED:
        raise Skip("it gives no versioned capsule")
    return exported


def tried(obj: Any, **keywords: Any) -> Export:
    """Exports, or skips the rule: other rules judge how a producer refuses."""
    try:
        return export(obj, **keywords)
    except (Skip, Wrong):
        raise
    except Exception as error:
        told = ", ".join(f"{name}={value}" for name, value in keywords.items())
        raise Skip(f"{told or '__dlpack__'}: {one_line(error)}") from None


def copied(obj: Any) -> Export:
    """Exports a copy. Another rule demands that it makes one."""
    return tried(obj, copy=True)


def device_type(obj: Any) -> Any:
    """Returns the type of its device. Another rule demands that it has one."""
    with contextlib.suppress(Exception):
        told, _ = device_of(obj)
        return told
    raise Skip("__dlpack_device__ returns no pair")


def on(types: tuple[int, ...], obj: Any) -> Any:
    """Returns the object if it is on a device of these types, else skips the rule."""
    if device_type(obj) not in types:
        raise Skip("it is on another device")
    return obj


def on_cpu(obj: Any) -> Export:
    """Exports to the CPU. Another rule demands that a producer on the CPU can."""
    return tried(obj, dl_device=CPU)


def zeros(producer: Producer) -> list[Any]:
    """Makes objects that reuse memory which was freed too early."""
    arrays = [np.zeros_like(producer.numbers()) for _ in range(20)]
    return [*arrays, *map(producer.make, arrays)]


def leaks(use: Callable[[], object], times: int, limit: int) -> bool:
    """Returns True if the process grows by more than limit bytes whenever use() was called that many times."""
    if sys.platform == "win32":
        raise Skip("how much memory a process has is not known here")
    last = time.monotonic() + LONG
    use()
    for _ in range(3):
        gc.collect()
        before = resident()
        for _ in range(times):
            use()
            if time.monotonic() > last:
                raise Skip(f"it takes too long to be done {times} times")
        gc.collect()
        if resident() - before <= limit:
            return False
    return True


@producer("array API 2021.12, __dlpack__ and __dlpack_device__")
def make(producer: Producer) -> None:
    """make returns an object with __dlpack_device__ and __dlpack__, which returns a capsule."""
    try:
        obj = producer.one()
    except Skip as reason:
        raise Wrong(str(reason)) from None
    for name in "__dlpack__", "__dlpack_device__":
        expect(hasattr(obj, name), f"make returned {type(obj).__name__}, which has no {name}")
    export(obj)


@producer("array API 2021.12, __dlpack_device__")
def device(producer: Producer) -> None:
    """__dlpack_device__ returns a tuple of the device's type and its number."""
    told = device_of(producer.one())
    expect(isinstance(told, tuple) and len(told) == 2, f"__dlpack_device__ returned {told!r}, expected a tuple of 2")
    expect(all(isinstance(each, int) for each in told), f"__dlpack_device__ returned {told!r}, expected integers")
    expect(told[0] in DEVICES, f"the device type is {told[0]}, expected one of dlpack.h")


@producer(f"{KEYWORDS}, dl_device")
def device_of_capsule(producer: Producer) -> None:
    """Without dl_device the capsule is on the device that __dlpack_device__ returns."""
    obj = producer.one()
    device = export(obj).tensor.device
    told = device_type(obj), device_of(obj)[1]
    if None in told:
        raise Skip(f"__dlpack_device__ returned {told}")
    expect((device.device_type, device.device_id) == told, f"the capsule is on {device.device_type, device.device_id}, "
           f"__dlpack_device__ says {told}")  # fmt: skip


@producer(f"{KEYWORDS}, signature; older editions have stream alone", should=True)
def keywords(producer: Producer) -> None:
    """__dlpack__ accepts None for stream, max_version, dl_device and copy."""
    for name in "stream", "max_version", "dl_device", "copy":
        try:
            producer.one().__dlpack__(**{name: None})
        except BufferError:  # since March 2025 a producer may leave out the legacy structure
            pass
        except TypeError as error:
            raise Wrong(f"{name}=None: {one_line(error)}") from None


@producer(f"{PYTHON}, capsule names")
def legacy_name(producer: Producer) -> None:
    """Without max_version the capsule is the legacy one, "dltensor", or a BufferError is raised."""
    with contextlib.suppress(BufferError):
        name = Export(producer.one().__dlpack__()).name
        expect(name == LEGACY, f"the capsule's name is {name!r}, expected {LEGACY!r}")


@producer(f"{KEYWORDS}, max_version", should=True)
def versioned_name(producer: Producer) -> None:
    """With max_version (1, 0) the capsule is the versioned one, "dltensor_versioned"."""
    name = export(producer.one()).name
    expect(name == VERSIONED, f"the capsule's name is {name!r}, expected {VERSIONED!r}")


@producer(f"{HEADER}, DLPackVersion")
def version(producer: Producer) -> None:
    """The version in a versioned structure is 1.x."""
    told = versioned(producer.one()).managed.version
    expect(told.major == 1, f"the version is {told.major}.{told.minor}, expected 1.x")


@producer(f"{KEYWORDS}, notes on versions", should=True)
def older_max_version(producer: Producer) -> None:
    """A consumer of version 0.x gets the legacy structure, or a BufferError."""
    obj = producer.one()
    versioned(obj)
    with contextlib.suppress(BufferError):
        name = Export(obj.__dlpack__(max_version=(0, 8))).name
        expect(name == LEGACY, f"the capsule's name is {name!r}, expected {LEGACY!r}")


@producer(f"{KEYWORDS}, notes on versions", should=True)
def newer_max_version(producer: Producer) -> None:
    """A consumer of a newer version than the producer's gets the producer's own."""
    obj = producer.one()
    versioned(obj)
    for max_version in (1, 99), (2, 0):
        exported = Export(obj.__dlpack__(max_version=max_version))
        expect(exported.name == VERSIONED, f"max_version={max_version}: the capsule's name is {exported.name!r}")
        exported.check(producer.numbers(), f"max_version={max_version}")


@producer(f"{KEYWORDS}, raises: incorrect arguments", should=True)
def malformed_max_version(producer: Producer) -> None:
    """A max_version that isn't a tuple is an error."""
    obj = producer.one()
    versioned(obj)
    refused("max_version='1.0'", lambda: obj.__dlpack__(max_version="1.0"))


@producer(f"{HEADER}, flags")
def flags(producer: Producer) -> None:
    """No flag is set that dlpack.h does not have."""
    told = versioned(producer.one()).flags
    expect(told & ~(READ_ONLY | IS_COPIED | SUBBYTE_TYPE_PADDED) == 0, f"flags are {told:#x}")


@producer(f"{HEADER}, flags")
def padded_flag(producer: Producer) -> None:
    """Items of whole bytes are not flagged as padded."""
    told = versioned(producer.one()).flags
    expect(not told & SUBBYTE_TYPE_PADDED, f"flags are {told:#x}, which says that items of less than a byte are padded")


@producer(f"{HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY", should=True)
def read_only(producer: Producer) -> None:
    """Read-only memory is flagged as read-only, or not exported."""
    array = producer.numbers()
    array.flags.writeable = False
    obj = producer.make(array)
    try:
        exported = versioned(obj)
    except BufferError:
        return
    if exported.address != array.ctypes.data:
        raise Skip("make copies")
    expect(bool(exported.flags & READ_ONLY), f"flags are {exported.flags:#x} of memory that is read-only")


@producer(f"{HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY: the legacy structure has no flags", should=True)
def read_only_legacy(producer: Producer) -> None:
    """Memory that a versioned capsule flags as read-only is not exported as a legacy one: a BufferError is raised."""
    array = producer.numbers()
    array.flags.writeable = False
    obj = producer.make(array)
    if not tried(obj).flags & READ_ONLY:
        raise Skip("it flags nothing as read-only")
    try:
        capsule = obj.__dlpack__()
    except Exception as error:
        expect(isinstance(error, BufferError), f"{one_line(error)}, expected BufferError")
    else:
        expect(Export(capsule).name != LEGACY, "it exports read-only memory in a legacy capsule")


@producer("array API 2021.12, data interchange, support for all dtypes", should=True)
def every_data_type(producer: Producer) -> None:
    """All data types of the array API standard can be exported."""
    missing = []
    for dtype in DATA_TYPES:
        try:
            tried(producer.make(producer.numbers(dtype)))
        except Skip:
            missing.append(dtype)
    expect(not missing, f"can't be exported: {', '.join(missing)}")


@producer(f"{HEADER}, DLDataType")
def data_types(producer: Producer) -> None:
    """The capsule has the data type and the values of the array."""
    for name, array, _, exported in producer.each({dtype: producer.numbers(dtype) for dtype in DATA_TYPES}):
        exported.check(array, name)


@producer(f"{HEADER}, DLTensor")
def strided(producer: Producer) -> None:
    """data, byte_offset, shape and strides (in elements) lead to the values, in every layout."""
    for name, array, _, exported in producer.each(layouts(producer.dtype)):
        exported.check(array, name)


@producer(f"{HEADER}, DLTensor; {KEYWORDS}, copy: None must reuse the memory if possible")
def legacy_as_versioned(producer: Producer) -> None:
    """The legacy capsule has the versioned one's memory, data type, shape and values, in every layout."""
    versioned(producer.one())
    for name, array, obj, own in producer.each(producer.arrays()):
        try:
            capsule = obj.__dlpack__()
        except Exception:  # other rules judge how a producer refuses
            continue
        legacy = Export(capsule)
        legacy.check(array, f"{name}, legacy")
        same = legacy.address == own.address or export(obj).address != own.address  # it copies each time
        expect(same, f"{name}: the legacy capsule leads to other memory")


@producer(f"{HEADER}, DLTensor.strides")
def strides_not_null(producer: Producer) -> None:
    """From version 1.2 on strides are not NULL unless ndim is 0."""
    for name, _, _, exported in producer.each(layouts(producer.dtype)):
        version = getattr(exported.managed, "version", None)
        if version is None or (version.major, version.minor) < (1, 2):
            raise Skip("its structures are of an older version")
        expect(exported.tensor.ndim == 0 or bool(exported.tensor.strides), f"{name}: strides are NULL")


@producer(f"{HEADER}, DLTensor.shape")
def size_0(producer: Producer) -> None:
    """An array of size 0 keeps its shape."""
    for name, array, _, exported in producer.each(empty(producer.dtype)):
        told = tuple(exported.tensor.shape[: exported.tensor.ndim])
        expect(told == array.shape, f"{name}: shape is {told}")


@producer(f"{HEADER}, DLTensor.data", should=True)
def size_0_null(producer: Producer) -> None:
    """The data pointer of an array of size 0 is NULL."""
    for name, _, _, exported in producer.each(empty(producer.dtype)):
        expect(not exported.tensor.data, f"{name}: data is {exported.tensor.data or 0:#x}")


@producer(f"{KEYWORDS}, copy: it must always copy; raises: what can't be exported", should=True)
def copies(producer: Producer) -> None:
    """With copy=True it makes a copy, and does not refuse."""
    export(producer.one(), copy=True)


@producer(f"{KEYWORDS}, copy")
def copy_true(producer: Producer) -> None:
    """With copy=True the consumer gets memory of its own with the same values, or an error."""
    obj = producer.one()
    copy, own = copied(obj), export(obj)
    expect(copy.address != own.address, "copy=True gave the array's own memory")
    copy.check(producer.numbers(), "copy=True")


@producer(f"{KEYWORDS}, copy")
def copy_true_each(producer: Producer) -> None:
    """Each export with copy=True has memory of its own."""
    obj = producer.one()
    first, second = copied(obj), copied(obj)
    expect(first.address != second.address, "two exports with copy=True have the same memory")


@producer(f"{KEYWORDS}, copy")
def copy_true_legacy(producer: Producer) -> None:
    """With copy=True a consumer of the legacy structure also gets a copy, or a BufferError."""
    obj = producer.one()
    _, own = copied(obj), export(obj)
    with contextlib.suppress(BufferError):
        expect(Export(obj.__dlpack__(copy=True)).address != own.address, "copy=True gave the array's own memory")


@producer(f"{KEYWORDS}, copy; {HEADER}, DLPACK_FLAG_BITMASK_IS_COPIED")
def copied_flag(producer: Producer) -> None:
    """A copy is flagged as one."""
    obj = producer.one()
    versioned(obj)
    flags = copied(obj).flags
    expect(bool(flags & IS_COPIED), f"copy=True: flags are {flags:#x}")


@producer(f"{HEADER}, DLPACK_FLAG_BITMASK_IS_COPIED", should=True)
def copy_writable(producer: Producer) -> None:
    """A copy belongs to the consumer alone, and so is not flagged as read-only."""
    array = producer.numbers()
    array.flags.writeable = False
    flags = copied(producer.make(array)).flags
    expect(not flags & READ_ONLY, f"copy=True: flags are {flags:#x}")


@producer(f"{KEYWORDS}, copy")
def copy_layouts(producer: Producer) -> None:
    """A copy has the values of the array, in every layout."""
    found = False
    for name, array in layouts(producer.dtype).items():
        with contextlib.suppress(Skip):
            copied(producer.make(array)).check(array, f"copy=True, {name}")
            found = True
    if not found:
        raise Skip("it makes no copies")


@producer(f"{KEYWORDS}, copy")
def copy_false(producer: Producer) -> None:
    """With copy=False the memory is the array's own, or a BufferError is raised, in every layout."""
    tried(producer.one(), copy=None)
    for name, _, obj, _ in producer.each(layouts(producer.dtype)):
        first, second = uncopied(obj, name), uncopied(obj, name)
        if first and second:
            expect(first.address == second.address, f"{name}: two exports with copy=False have different memory")
            expect(not first.flags & IS_COPIED, f"{name}: an export with copy=False is flagged as a copy")


def uncopied(obj: Any, what: str, **keywords: Any) -> Export | None:
    """Exports with copy=False. Returns None for a BufferError, the only error that is right."""
    try:
        capsule = obj.__dlpack__(max_version=(1, 3), copy=False, **keywords)
    except BufferError:
        return None
    except Exception as error:
        raise Wrong(f"copy=False, {what}: {one_line(error)}, expected BufferError") from None
    return Export(capsule)


@producer(f"{KEYWORDS}, copy: if False it must raise a BufferError in case a copy is deemed necessary")
def copy_false_other_device(producer: Producer) -> None:
    """With copy=False a dl_device that only a copy can reach is a BufferError."""
    obj = producer.one()
    own = tried(obj, dl_device=None, copy=None)
    other = (2, 0) if device_type(obj) == 1 else CPU
    if exported := uncopied(obj, f"dl_device={other}", dl_device=other):
        moved = own.tensor.device.device_type in READABLE and exported.address != own.address  # elsewhere: a handle
        expect(not moved and not exported.flags & IS_COPIED, f"copy=False, dl_device={other}: it copied")


@producer(f"{KEYWORDS}, copy")
def copy_none(producer: Producer) -> None:
    """With copy=None the memory is the array's own if it is with copy=False."""
    obj = producer.one()
    try:
        own = export(obj, copy=False)
    except BufferError:
        raise Skip("it always copies") from None
    expect(export(obj, copy=None).address == own.address, "copy=None copied what copy=False does not")
    expect(export(obj).address == own.address, "without copy it copied what copy=False does not")


@producer(f"{HEADER}, DLPACK_FLAG_BITMASK_IS_COPIED")
def shared_not_flagged_copied(producer: Producer) -> None:
    """Memory that two exports share is not flagged as a copy: a copy has one owner."""
    obj = producer.one()
    first, second = versioned(obj), versioned(obj)
    if first.address != second.address:
        raise Skip("it always copies")
    expect(not (first.flags | second.flags) & IS_COPIED, f"flags are {first.flags:#x}")


@producer(f"{KEYWORDS}, dl_device")
def own_dl_device(producer: Producer) -> None:
    """__dlpack__ accepts the answer of __dlpack_device__ as dl_device."""
    obj = producer.one()
    own = device_type(obj)
    told = export(obj, dl_device=obj.__dlpack_device__()).tensor.device.device_type
    expect(told == own, f"the capsule is on {told}")


@producer(f"{KEYWORDS}, dl_device")
def dl_device_cpu(producer: Producer) -> None:
    """With dl_device (1, 0) the capsule is of the CPU's memory."""
    exported = on_cpu(producer.one())
    expect(exported.tensor.device.device_type == 1, f"the capsule is on {exported.tensor.device.device_type}")
    exported.check(producer.numbers(), "dl_device=(1, 0)")


@producer(f"{KEYWORDS}, dl_device")
def other_dl_device(producer: Producer) -> None:
    """A dl_device that the producer can't serve is a BufferError."""
    obj = producer.one()
    export(obj, dl_device=None)
    error = refused("dl_device=(16, 0)", lambda: obj.__dlpack__(max_version=(1, 0), dl_device=(16, 0)))
    expect(isinstance(error, BufferError), f"dl_device=(16, 0): {one_line(error)}, expected BufferError")


@producer(f"{KEYWORDS}, dl_device: a 2-tuple")
def malformed_dl_device(producer: Producer) -> None:
    """A dl_device that isn't a tuple is an error."""
    obj = producer.one()
    export(obj, dl_device=None)
    refused("dl_device='cpu'", lambda: obj.__dlpack__(max_version=(1, 0), dl_device="cpu"))


def streamless(obj: Any, what: str, *streams: int) -> None:
    for stream in streams:
        refused(f"stream={stream} {what}", lambda stream=stream: obj.__dlpack__(stream=stream))  # type: ignore[misc]


@producer(f"{KEYWORDS}, note on dl_device and stream: stream must be None", should=True)
def stream_with_dl_device_cpu(producer: Producer) -> None:
    """With dl_device (1, 0) a stream that is not None is an error."""
    obj = producer.one()
    on_cpu(obj)
    if device_type(obj) == 1:
        try:
            streamless(obj, "", 1)
        except Wrong:
            raise Skip("it takes any stream") from None
    refused("dl_device=(1, 0) with stream=1", lambda: obj.__dlpack__(dl_device=CPU, stream=1))


@producer(STREAMS)
def stream_none(producer: Producer) -> None:
    """A stream of None is accepted."""
    with contextlib.suppress(BufferError):
        Export(producer.one().__dlpack__(stream=None))


@producer(f"{STREAMS}: on CPU only None is accepted")
def stream_on_cpu(producer: Producer) -> None:
    """On the CPU a number of a stream is an error."""
    streamless(on((1,), producer.one()), "on the CPU", 0, 1, 2, 1 << 20)


@producer(f"{STREAMS}: on CPU only None is accepted; -1 is to do nothing", should=True)
def stream_minus_1_on_cpu(producer: Producer) -> None:
    """On the CPU a stream of -1 is also an error."""
    streamless(on((1,), producer.one()), "on the CPU", -1)


@producer(STREAMS)
def stream_below_minus_1(producer: Producer) -> None:
    """On CUDA and ROCm a stream is at least -1."""
    obj = on(CUDA + ROCM, producer.one())
    refused("stream=-2", lambda: obj.__dlpack__(stream=-2))


@producer(f"{STREAMS}, CUDA")
def stream_0_on_cuda(producer: Producer) -> None:
    """On CUDA a stream of 0 is refused: it could be None, 1 or 2."""
    obj = on(CUDA, producer.one())
    refused("stream=0", lambda: obj.__dlpack__(stream=0))


@producer(f"{STREAMS}, ROCm")
def streams_1_and_2_on_rocm(producer: Producer) -> None:
    """On ROCm streams of 1 and 2 are refused."""
    obj = on(ROCM, producer.one())
    for stream in 1, 2:
        refused(f"stream={stream}", lambda stream=stream: obj.__dlpack__(stream=stream))  # type: ignore[misc]


@producer("array API 2022.12, __dlpack__, raises", should=True)
def cannot_be_exported(producer: Producer) -> None:
    """An array that DLPack can't describe is a BufferError: foreign byte order, strides of part of an item."""
    refuses_indescribable(producer, export)


def refuses_indescribable(producer: Producer, export: Callable[[Any], object]) -> None:
    records = np.zeros(3, [("a", "u1"), ("b", "i4")])
    swapped = np.arange(3, dtype="i4").byteswap().view(np.dtype("i4").newbyteorder())
    found = False
    for name, array in {"another byte order": swapped, "strides of 5 bytes": records["b"]}.items():
        with contextlib.suppress(Skip):
            obj = producer.make(array)
            found = True
            try:
                export(obj)
            except Exception as error:
                expect(isinstance(error, BufferError), f"{name}: {one_line(error)}, expected BufferError")
    if not found:
        raise Skip("it makes none of these")


_name_address = python_api("PyCapsule_GetName", c_void_p, py_object)


@producer(f"{PYTHON}, capsule names must be statically allocated")
def static_name(producer: Producer) -> None:
    """The capsule's name outlives the capsule: two capsules have the same."""
    obj = producer.one()
    first, second = export(obj), export(obj)
    expect(_name_address(first.capsule) == _name_address(second.capsule), "each capsule has a name of its own")


@producer(f"{PYTHON}, PyCapsule_Destructor")
def unused_capsule(producer: Producer) -> None:
    """A capsule that nobody consumes gives the memory back when it dies."""
    array = numbers(producer.dtype, (1 << 20,))
    kept = leaks(lambda: export(producer.make(array.copy())), 8, 4 << 20)
    expect(not kept, "the memory of capsules that nobody consumed is not given back")


@producer(f"{PYTHON}, PyCapsule_Destructor")
def used_capsule(producer: Producer) -> None:
    """A capsule that was consumed, and so renamed, does not call the deleter when it dies."""
    exported = export(producer.one())
    address = ctypes.cast(exported.managed.deleter, c_void_p).value
    calls: list[int] = []
    exported.managed.deleter = counting = DELETER(calls.append)
    managed = consume(exported.capsule)
    del exported
    gc.collect()
    expect(not calls, "the deleter was called before the consumer called it")
    if address:
        DELETER(address)(ctypes.addressof(managed))
    del counting


@producer(PRACTICE, should=True)
def passing_error(producer: Producer) -> None:
    """A capsule that dies while an error passes leaves that error as it is."""
    try:
        [export(producer.one()), 1 / 0]  # the first item dies on the way out
    except ZeroDivisionError:
        return
    except Exception as error:
        raise Wrong(f"a ZeroDivisionError became {one_line(error)}") from None


@producer(f"{HEADER}, DLManagedTensorVersioned")
def lifetime(producer: Producer) -> None:
    """The tensor stays as it is until its deleter is called, even if the object is gone."""
    array = producer.numbers()
    exported = export(producer.make(array.copy()))
    gc.collect()
    others = zeros(producer)
    exported.check(array, "after the object is gone")
    del others


@producer(f"{HEADER}, deleter")
def release(producer: Producer) -> None:
    """The deleter gives the array's memory back."""
    array = numbers(producer.dtype, (1 << 20,))

    def use() -> None:
        export(producer.make(array.copy())).take()()

    expect(not leaks(use, 8, 4 << 20), "the memory of exported arrays is not given back")


@producer(f"{KEYWORDS}, copy; {HEADER}, deleter")
def release_of_copy(producer: Producer) -> None:
    """The deleter of a copy gives the copy's memory back."""
    obj = producer.make(numbers(producer.dtype, (1 << 20,)))
    expect(not leaks(lambda: copied(obj).take()(), 8, 4 << 20), "the memory of copies is not given back")


@producer(f"{HEADER}, deleter: it deletes self as well")
def release_of_structure(producer: Producer) -> None:
    """The deleter also frees the structure."""
    obj = producer.one()
    expect(not leaks(lambda: tried(obj).take()(), 20_000, 500_000), "each export leaves something behind")


@producer(f"{PYTHON}, semantics: the producer keeps owning the memory")
def object_freed(producer: Producer) -> None:
    """After the deleter was called nothing keeps the object alive."""
    obj = producer.one()
    give_back = export(obj).take()
    try:
        alive = weakref.ref(obj)
    except TypeError:
        raise Skip("no weak references to it") from None
    give_back()
    del obj
    gc.collect()
    expect(soon(lambda: alive() is None), "the object lives on")


@producer(f"{PYTHON}, semantics: both may continue to be used")
def repeated(producer: Producer) -> None:
    """An object can be exported again and again; each export lives by itself."""
    obj, array = producer.one(), producer.numbers()
    exports = [export(obj) for _ in range(3)]
    exports.pop(1).take()()
    gc.collect()
    for exported in [*exports, export(obj)]:
        exported.check(array, "with other exports alive and deleted")
    del exported
    exports.clear()
    export(obj).check(array, "after all other exports are gone")


@producer(f"{PYTHON}, deleter: the GIL must be acquired explicitly")
def deleter_without_gil(producer: Producer) -> None:
    """The deleter may be called without the GIL, and on a thread that Python does not know."""
    if sys.platform == "win32":
        raise Skip("no pthreads")
    exported = export(producer.one())
    managed = consume(exported.capsule)
    thread, process = c_void_p(), ctypes.CDLL(None)
    deleter = ctypes.cast(managed.deleter, c_void_p)
    if not deleter:
        raise Skip("its deleter is NULL")
    process.pthread_create(ctypes.byref(thread), None, deleter, c_void_p(ctypes.addressof(managed)))
    process.pthread_join(thread, None)
    export(producer.one()).take()()


@producer(f"{PYTHON}, deleter: after Python's end", should=True)
def deleter_after_exit(producer: Producer) -> None:
    """The deleter may be called after Python has ended."""
    if sys.platform == "win32":
        raise Skip("no __cxa_atexit")
    if wrong := ending(producer, True):
        if anyway := ending(producer, False):
            raise Skip(f"its process {anyway}, without the deleter too")
        raise Wrong(f"the process {wrong}")


def ending(producer: Producer, late: bool) -> str:
    """Returns how the process of end() ends, or "" if it ends well."""
    command, quiet = program(__name__, f"end({producer.spec!r}, {late})"), subprocess.DEVNULL
    limit = 4 + 1.5 * producer.seconds  # twice this is less than the limit of the rule
    try:
        # No pipe: what the library starts may keep it open.
        status = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return f"did not end in {limit:.0f} s"
    return f"ended with status {status}" if status else ""


def end(spec: str, late: bool) -> None:
    """Has a deleter called after Python's end, if late."""
    managed = consume(export(Producer(spec).one()).capsule)
    if late:
        register = getattr(ctypes.CDLL(None), "__cxa_atexit")  # noqa: B009 (no name to mangle)
        register(ctypes.cast(managed.deleter, c_void_p), c_void_p(ctypes.addressof(managed)), None)


@producer(PRACTICE, should=True)
def threads(producer: Producer) -> None:
    """Threads may export the same object at the same time."""
    obj, array = producer.one(), producer.numbers()
    export(obj).check(array, "on the main thread")
    wrong: list[str] = []

    def use() -> None:
        try:
            for _ in range(200):
                exported = export(obj)
                exported.check(array, "on one of 4 threads")
                exported.take()()
        except Exception as error:
            wrong.append(str(error))

    running = [threading.Thread(target=use) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    expect(not wrong, "".join(wrong[:1]))


@producer(PRACTICE, should=True)
def fork(producer: Producer) -> None:
    """A forked child may use and delete what was exported before, and export anew."""
    if not hasattr(os, "fork"):
        raise Skip("no fork")
    obj, array = producer.one(), producer.numbers()
    exported = export(obj)
    exported.check(array, "before the fork")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else a library may have it that the child's status is lost
    child = os.fork()
    if not child:
        try:
            exported.check(array, "")
            exported.take()()
            export(obj).check(array, "")
            os._exit(0)
        finally:
            os._exit(1)
    last, status = time.monotonic() + 5, (0, 0)
    while not status[0] and time.monotonic() < last:
        time.sleep(0.001)
        status = os.waitpid(child, os.WNOHANG)
    if not status[0]:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise Wrong("the child hangs")
    expect(status[1] == 0, f"the child ended with status {os.waitstatus_to_exitcode(status[1])}")
