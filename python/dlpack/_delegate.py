"""Get the memory of an object with __dlpack__, a producer, if its first answer can't be used.

The producer is asked again: on another stream, with fewer arguments, or for another device. If it refuses, its other
protocols are tried. Functions that C calls return an exception, which C raises.
"""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]  # importing functools takes longer
from sys import modules  # the dict itself: sys loses it at exit

from ._arguments import INTS, device_ints, fitting, integers
from ._dlpack import (
    _COPY_ALIGNMENT,
    _IS_COPIED,
    _LEGACY_STREAM,
    _PADDED,
    _UNKNOWN_STREAM,
    _import,
    _inspect,
    _newest_version,
    _producer_calls,
    _read_by_others,
    asdlpack,
    frombuffer,
)
from ._errors import check_stream_named, flat_bytes, refused_by_all, wrong_answer
from ._foreign import bare, type_name
from ._refusals import refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from typing_extensions import TypeIs

    from ._dlpack import DLPackObject

    Error = TypeVar("Error", bound=BaseException)
    Words = dict[str, Any]  # arguments of __dlpack__
    Answer = tuple[object, int] | BaseException  # (capsule, stream that orders its memory), or a refusal

# These errors say that the producer can't export, not that something broke; except for RecursionError. They include
# NotImplementedError, pyarrow's ArrowInvalid for nulls, and torch's ValueError for a device that DLPack lacks, such as
# "meta". ImportError says that the export needs a library which is missing.
refusal_kinds = BufferError, TypeError, ValueError, RuntimeError, ImportError
KEYWORDS = "stream", "max_version", "dl_device", "copy"
NO_ORDERING = -1
OF_OTHERS = 2  # isbuiltin of a numpy type that another library has made
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
OF_CUDA = CUDA, CUDA_HOST, CUDA_MANAGED
TAKE_DEFAULT_STREAM = CUDA, CUDA_MANAGED  # torch's pinned tensors, kDLCUDAHost, accept no stream
MOST_NESTED = 4  # nested calls of producers; a deeper producer is asked once

# The libraries that C hands memory to without dlpack._to, which fills this in. By name, module and array type: the
# array type; the function to call, or the capsule of the array type's C exchange API; and by name, types of one or two
# bytes that the function refuses, and the array type can have. An entry stays as it is.
takers: dict[object, tuple[type, object, dict[str, Any]]] = {}

# Types of other libraries that numpy's __dlpack__ was seen to refuse: numpy's type of integers of as many bytes, and a
# DLPackObject of the type, without items. An entry stays as it is.
types_refused: dict[object, tuple[object, DLPackObject]] = {}


def export_keywords() -> tuple[tuple[str, ...], ...]:
    """Returns a table by bit mask: if bit i is set, the argument KEYWORDS[i] of __dlpack__ is passed."""
    return tuple(tuple(name for bit, name in enumerate(KEYWORDS) if which >> bit & 1) for which in range(16))


def device_answered(obj: object, pair: object) -> tuple[int, int] | Exception:
    return device_ints(pair) or wrong_answer(obj, "__dlpack_device__", INTS, pair)


def export_otherwise(
    arguments: tuple[Any, ...], given: object, refusal: BaseException | None, fits: bool, lacks_stream: bool
) -> Any:
    """Returns the call that exports x's tensor for these arguments, or an error.

    refusal: the producer's error. If it is None, given is the producer's capsule. fits: the consumer can take it,
    unless copy=None has to copy. lacks_stream: the memory is CUDA's, and nobody named a stream."""
    x, stream, max_version, dl_device, copy = arguments
    if lacks_stream and (dl_device is None or device_of(x.obj) == device_ints(dl_device)):
        return partial(x.__dlpack__, _LEGACY_STREAM, max_version=max_version, dl_device=dl_device, copy=copy)
    if fits and (x._copy is not None or can_be_shared(given)):
        return partial(itself, given)
    if refusal is None:
        return copied(given, imported(x, given, order_of(stream), x._copy), fits, arguments)
    asked = {name: value for name, value in zip(KEYWORDS, arguments[1:], strict=True) if value is not None}
    if type(max_version) is tuple and max_version >= (1,):
        asked["max_version"] = _newest_version  # to producers all of 1.x are the same
    # With dl_device the stream belongs to the target; don't pass it.
    return export_of(asked_again(x, stream if dl_device is None else None, copy, asked, refusal), *arguments)


def copied(given: object, tensor: DLPackObject | BaseException, fits: bool, arguments: tuple[Any, ...]) -> Any:
    """Returns the call that exports a tensor made of the capsule given; if there is none, it passes on what fits."""
    return partial(itself, given) if fits and is_error(tensor, BufferError) else export_of(tensor, *arguments)


def itself(capsule: object) -> object:
    return capsule


def can_be_shared(capsule: Any) -> bool:
    """True unless only a copy of the capsule's tensor can be shared. Other refusals are left to the consumer."""
    try:
        _inspect(capsule)
    except BufferError as error:
        bare(error)
        return False
    except refusal_kinds as error:
        if not is_refusal(error):
            raise
        bare(error)
    return True


def export_of(
    tensor: DLPackObject | BaseException,
    x: DLPackObject,
    stream: object,
    max_version: object,
    dl_device: object,
    copy: object,
) -> Any:
    """Returns the call that exports tensor in x's place for these arguments, or an error."""
    if is_error(tensor):
        return tensor
    # Asks for nothing twice: a producer's capsule is ordered on the stream already, and a copy is made already if the
    # producer says so, or the import copied.
    if tensor.protocol == x.protocol and tensor._stream == _UNKNOWN_STREAM and dl_device is None:
        stream = None
    if tensor._is_copy:
        if tensor.protocol != x.protocol and copy is True:
            copy = None  # the copy from another protocol was made for this call alone
    elif tensor._flags & _IS_COPIED:
        if copy is False:
            return refusal(
                BufferError, "copy-alone", "copy=False: the producer gives a copy alone; pass copy=None or True"
            )
        copy = None
    return partial(tensor.__dlpack__, stream, max_version=max_version, dl_device=dl_device, copy=copy)


def refuse_copy(obj: object, tensor: DLPackObject, side: str = "target: ") -> Exception | None:
    """Returns an error if obj, or the object that it wraps, made a copy for this call: writes to it would be lost."""
    if obj is tensor or (type(obj) is type(tensor) and not tensor._producer_copied):
        return None
    if tensor._producer_copied:
        how = "a copy of its memory (IS_COPIED)"
    elif tensor.protocol.startswith(("__array_", "to_dlpack")) and asdlpack(obj).pointer != tensor.pointer:
        how = f"other memory at each {tensor.protocol}"
    else:
        return None
    name = type_name(obj.obj if type(obj) is type(tensor) else obj)
    said = f"{side}{name} gives {how}; expected its own, since what is written there would be lost"
    cure = "write into a new array, and from there by the library that owns the target"
    return refusal(BufferError, "writes-lost", said, cure, type=name, protocol=tensor.protocol)


def import_tensor(x: DLPackObject, is_read: bool) -> DLPackObject | BaseException:
    """Returns the producer's tensor, or an error. Waits for work on it only to read or copy it."""
    return asked_again(x, None if is_read or x._copy is not False else NO_ORDERING, None)


def import_refused(x: DLPackObject, refusal: BaseException, is_asked: bool) -> DLPackObject | BaseException:
    """Returns the tensor of a producer whose first answer failed, or an error.

    is_asked: the producer was asked for the newest version, and refused, or its answer can't be used. It is asked
    again. Otherwise it refused to tell its device. After a BufferError its other protocols are tried. After any other
    error it is asked, since its answer may tell more of the cause."""
    if not is_asked and is_error(refusal, BufferError):
        return serve_by_others(x, refusal, x._copy)
    asked = {"max_version": _newest_version} if is_asked else None
    capsule, last = ask(x.obj, None, None, asked, refusal)
    return taken(x, (capsule, _LEGACY_STREAM) if last is None else last, x._copy)


def asked_again(
    x: DLPackObject,
    stream: object,
    copy: object,
    asked: Words | None = None,
    refusal: BaseException | None = None,
) -> DLPackObject | BaseException:
    """Asks the producer again; returns its tensor, or an error. Passes on the consumer's stream, and copy if it is
    False. With copy=True, a tensor from another protocol is copied, and converted if it has to be."""
    copy_of_others = True if copy is True else x._copy
    return taken(x, ask_for_import(x.obj, stream, copy, asked, refusal), copy_of_others)


def move(x: DLPackObject, target: tuple[int, int], copy: bool | None) -> Any:
    """Returns the call that puts x's memory on the target device, exported by its producer or copied; or an error."""
    try:
        here = x.__dlpack_device__()
    except BaseException as error:
        return passed_on(error)
    if here == target or here[0] == target[0] == CPU:  # the CPU has one id
        return partial(asdlpack, x, copy=copy)
    return moved(taken(x, ask_for_device(x.obj, here[0], target, copy), x._copy), target, copy)


def moved(tensor: DLPackObject | BaseException, target: tuple[int, int], copy: bool | None) -> Any:
    if is_error(tensor):
        return tensor
    is_as_promised = tensor._is_row_major and not tensor.readonly and tensor.pointer % _COPY_ALIGNMENT == 0
    if copy and tensor._flags & _IS_COPIED and is_as_promised:
        copy = None
    return partial(asdlpack, tensor, device=target, copy=copy)


def taken(x: DLPackObject, answer: Answer, copy: bool | None) -> DLPackObject | BaseException:
    """Returns the tensor of a producer's answer; if that is a refusal, of another protocol."""
    return imported(x, *answer, copy) if isinstance(answer, tuple) else serve_by_others(x, answer, copy)


def imported(x: DLPackObject, capsule: object, order: int, copy: bool | None) -> DLPackObject | BaseException:
    """Returns the tensor of the producer's capsule; if that can't be imported, of another protocol."""
    return served(x, _import(x, capsule, order), copy)


def served(x: DLPackObject, tensor: DLPackObject | BaseException, copy: bool | None) -> DLPackObject | BaseException:
    return serve_by_others(x, tensor, copy) if is_error(tensor, BufferError) else tensor


def serve_by_others(x: DLPackObject, refusal: BaseException, copy: bool | None) -> DLPackObject | BaseException:
    """Returns the tensor of a producer that refused, by another of its protocols, and copied if copy asks for that."""
    return last_answer(x, bare(refusal), *checked(x, *_read_by_others(x, copy)))


def checked(x: DLPackObject, protocol: str | None, answer: Any) -> tuple[str | None, Any]:
    """Returns (protocol, answer), or (protocol, error) if the answer has an unconfirmed type or an unknown stream."""
    if answer is None or is_error(answer):
        return protocol, answer
    if (type(x.obj).__module__, type(x.obj).__name__) == ("numpy", "ndarray"):
        note_type(x.obj, answer)
    if protocol == "buffer" and answer.ndim == 1 and answer.itemsize == 1 and not is_of_bytes(x.obj, answer.shape):
        return protocol, flat_bytes(answer.nbytes)
    if answer.__dlpack_device__()[0] in OF_CUDA:
        try:
            return protocol, check_stream_named(x.obj) or answer
        except BaseException as error:
            return protocol, passed_on(error)
    return protocol, answer


def note_type(array: Any, x: DLPackObject) -> None:
    """Notes for `to` that an array's type, of ml_dtypes or the like, is to be seen as integers: numpy's __dlpack__
    refuses the type, which takes microseconds."""
    numpy, dtype = modules.get("numpy"), array.dtype
    is_padded = x._flags & _PADDED  # as int4 is in numpy
    if numpy is not None and dtype.isbuiltin == OF_OTHERS and dtype.isnative and not is_padded:
        if dtype not in types_refused:  # else a forked child without a GIL might wait for the dict's lock
            types_refused[dtype] = numpy.dtype(f"u{x.itemsize}"), frombuffer(b"", x.dtype, 0)


def is_of_bytes(obj: Any, shape: tuple[int, ...]) -> bool:
    """True if obj itself reports this shape, and items of one byte."""
    try:
        itemsize = obj.itemsize if hasattr(obj, "itemsize") else obj.dtype.itemsize
        return fitting(itemsize) == 1 and integers(obj.shape) == shape
    except Exception:  # it reports neither
        return False


def last_answer(
    x: DLPackObject, error: BaseException, protocol: str | None, answer: DLPackObject | BaseException | None
) -> DLPackObject | BaseException:
    """Returns the answer; if it is None or a refusal, an error that quotes all refusals."""
    if answer is None:
        return refused_by_all(x.obj, error, None, None)
    if is_error(answer) and is_refusal(answer):
        return refused_by_all(x.obj, error, protocol, bare(answer))
    return answer


def passed_on(error: Error) -> Error:
    """Removes the frame that caught an error from its traceback, and keeps those of the producer. These still lead to
    the frames that called them. So return the result at once: a variable that holds it would make a reference cycle."""
    traceback = error.__traceback__
    return BaseException.with_traceback(error, traceback and traceback.tb_next)


def is_error(
    result: object, kind: type[BaseException] | tuple[type[BaseException], ...] = BaseException
) -> TypeIs[BaseException]:
    """True if result is an exception of this kind. isinstance would ask the object for its __class__."""
    return issubclass(type(result), kind)


def is_refusal(error: BaseException) -> bool:
    return is_error(error, refusal_kinds) and not is_error(error, RecursionError)


def order_of(stream: object) -> int:
    """Returns the stream that orders the memory of a producer which was asked for `stream`."""
    number = _LEGACY_STREAM if stream is None else fitting(stream)
    return _UNKNOWN_STREAM if number is None or number < 0 else number


def ask_for_import(
    obj: Any, stream: object, copy: object, asked: Words | None = None, refusal: BaseException | None = None
) -> Answer:
    """Asks obj for a capsule; returns it and the stream that orders its memory, or the refusal.

    Asks for CUDA's legacy default stream if no stream is named, or if obj refuses the one named, as torch refuses the
    per-thread default stream. By the standard None means the legacy stream, but torch then orders nothing. A producer
    on another device may accept no stream at all, and refuse -1 (no ordering).
    """
    order = order_of(stream)
    if refusal is not None and is_final(refusal):
        return refusal
    if stream is None and device_type(obj) in TAKE_DEFAULT_STREAM:
        stream = _LEGACY_STREAM
    capsule, refusal = ask(obj, stream, copy, asked, refusal)
    if refusal is not None and order != _LEGACY_STREAM and not is_final(refusal):
        device = device_type(obj)
        if device in TAKE_DEFAULT_STREAM or (device not in (None, CPU) and fitting(stream) == NO_ORDERING):
            order = _LEGACY_STREAM
            capsule, refusal = ask(obj, order if device in TAKE_DEFAULT_STREAM else None, copy, None, refusal)
    return (capsule, order) if refusal is None else refusal


def ask_for_device(obj: Any, here: int, target: tuple[int, int], copy: bool | None) -> Answer:
    """Asks obj, whose memory is on a device of type `here`, for a capsule on the target device.

    If obj refuses, asks for the memory as it is, for asdlpack to copy. Never asks obj to copy from the CPU or CUDA to
    CUDA, since the stream that orders such a copy is unknown. A copy to the CPU is complete when obj returns."""
    if target[0] == CUDA and here in (CPU, *OF_CUDA):
        return ask_for_import(obj, None, None)
    words: Words = {"max_version": _newest_version, "dl_device": target, **({} if copy is None else {"copy": copy})}
    capsule, refusal = call(obj, words)
    return ask_for_import(obj, None, None, words, refusal) if refusal is not None else (capsule, _LEGACY_STREAM)


def exchange_checks(kind: Any) -> tuple[Any, ...] | None:
    """Returns the checks that a type's __dlpack__ makes and its C exchange API doesn't, as the fields of struct
    exchange in pyext/read/exchange.c, behind the type. Returns None for a type that isn't known, such as a subclass,
    which may replace any method: then __dlpack__ is called."""
    name = str(kind.__module__).partition(".")[0]
    library: Any = modules.get(name)
    if name not in ("torch", "paddle") or library is None:
        return None
    own = kind.__dlpack__, kind.__dlpack_device__
    if any(str(method.__module__).partition(".")[0] != name for method in own):
        return None  # somebody replaced it
    if name == "torch" and kind in (library.Tensor, library.nn.Parameter):
        overrides, cuda_device = library._C._has_torch_function_unary, getattr(library._C, "_cuda_getDevice", None)
        return *own, overrides, "requires_grad", True, kind.is_conj, kind.is_neg, "is_cpu", kind.is_pinned, cuda_device
    if name == "paddle" and kind in (library.Tensor, library.base.framework.EagerParamBase):
        return *own, None, "stop_gradient", False, None, None, None, None, None
    return None


def device_type(obj: Any) -> int | None:
    device = device_of(obj)
    return None if device is None else device[0]


def device_of(obj: Any) -> tuple[int, int] | None:
    """Returns the device of obj's memory; None if obj does not tell it."""
    try:
        method = getattr(obj, "__dlpack_device__", None)
        return None if method is None else device_ints(method())
    except refusal_kinds as error:
        if not is_refusal(error):
            raise
        bare(error)  # __dlpack__ reports the cause
        return None


def ask(
    obj: Any, stream: object, copy: object, asked: Words | None, refusal: BaseException | None
) -> tuple[object, BaseException | None]:
    """Calls obj.__dlpack__ with the stream, max_version, and copy=False if copy is False; returns (capsule, None) or
    (None, refusal). Leaves out keywords that the method lacks. Skips the arguments `asked`, which obj refused."""
    capsule = None
    fewest: Words = {} if stream is None else {"stream": stream}
    fewer: Words = {"max_version": _newest_version, **fewest}
    first, *others = ({**fewer, "copy": False}, fewer, fewest) if copy is False else (fewer, fewest)
    if refusal is None or not are_same(first, asked):
        capsule, refusal = call(obj, first, refusal)
    for words in others:
        # A method that lacks a keyword raises exactly TypeError; a subclass, such as pyarrow's, is a refusal.
        if type(refusal) is TypeError and not are_same(words, asked):
            capsule, refusal = call(obj, words, refusal)
    return capsule, refusal


def are_same(words: Words, asked: Words | None) -> bool:
    if asked is None or len(words) != len(asked):
        return False
    for name in words:  # not all(): CPython 3.13 crashes without memory for its generator
        if words[name] is not asked.get(name):
            return False
    return True


def call(obj: Any, words: Words, refused: BaseException | None = None) -> tuple[object, BaseException | None]:
    """Calls obj.__dlpack__(**words), unless it must not be asked after `refused`. Returns as ask does."""
    if refused is not None:
        if is_final(refused):
            return None, refused
        bare(refused)
    try:
        return obj.__dlpack__(**words), None
    except refusal_kinds as error:
        if not is_refusal(error):
            raise
        return None, passed_on(error)


def is_final(refusal: BaseException) -> bool:
    """True if the producer must not be asked again: it is nested deeply, and its own Python code refused. (The
    TypeError for an unknown keyword has no traceback.) If each of n nested producers were asked twice, the last would
    be asked 2**n times."""
    return refusal.__traceback__ is not None and _producer_calls() > MOST_NESTED
