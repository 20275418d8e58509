"""What becomes of an object with __dlpack__, a producer, whose first answer does not serve: it is asked on another
stream, in other words, or for another device; where it refuses, its other protocols serve. What C calls returns what it
would raise, and C raises it."""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]  # importing functools takes longer

from ._arguments import INTS, device_ints, fitting
from ._dlpack import _import, _newest_version, _read_by_others, asdlpack
from ._errors import bare, check_stream_named, exception_text, refused_by_all, wrong_answer

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeIs

    from ._dlpack import DLPackObject

# What says that the producer can't, rather than that something broke; but RecursionError. NotImplementedError is one.
refusal_kinds = BufferError, TypeError, RuntimeError
LEGACY_STREAM, UNKNOWN_STREAM, NO_ORDERING = 1, 0, -1
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
OF_CUDA = CUDA, CUDA_HOST, CUDA_MANAGED
IS_COPIED = 2  # DLPACK_FLAG_BITMASK_IS_COPIED


def export_keywords() -> tuple[tuple[str, ...], ...]:
    """The names of the arguments of __dlpack__ that are passed, by the number whose bits say which these are."""
    names = "stream", "max_version", "dl_device", "copy"
    return tuple(tuple(name for bit, name in enumerate(names) if which >> bit & 1) for which in range(16))


def device_answered(obj: object, pair: object) -> tuple[int, int] | Exception:
    return device_ints(pair) or wrong_answer(obj, "__dlpack_device__", INTS, pair)


def export_otherwise(
    x: DLPackObject, stream: object, max_version: object, dl_device: object, copy: object, *given: object
) -> Any:
    """The call that exports x's tensor for these arguments, where its producer refused them, or gave what has to be
    copied, or this capsule, of another kind than asked for."""
    kept = None
    if given:
        tensor = imported(x, given[0], order_of(stream), x._copy)
    elif x._copy is None and (kept := kept_copy(x)) is not None:
        tensor = kept
    else:
        # With dl_device the stream belongs to the target; don't pass it.
        tensor = asked_again(x, stream if dl_device is None else None, copy)
    if is_error(tensor):
        return tensor
    # A producer that gave a capsule has seen to the stream, and one that says it copied, to the copy; so has the
    # import, where it copied for these arguments alone.
    if tensor is not kept and tensor.protocol == x.protocol and tensor._stream == UNKNOWN_STREAM and dl_device is None:
        stream = None
    if tensor._is_copy:
        if copy is True and tensor is not kept:
            copy = None
    elif tensor._flags & IS_COPIED:
        if copy is False:
            return BufferError("copy=False: the producer gives a copy alone; pass copy=None or True")
        copy = None
    return partial(tensor.__dlpack__, stream, max_version=max_version, dl_device=dl_device, copy=copy)


def kept_copy(x: DLPackObject) -> DLPackObject | BaseException | None:
    """What copy=None has to copy is copied once, and kept: that copy; None where nothing is copied."""
    try:
        kept = x._tensor
    except BaseException as error:
        return bare(error)
    return kept if kept._is_copy else None


def import_tensor(x: DLPackObject, is_read: bool) -> DLPackObject | BaseException:
    """The producer's tensor; where the memory is looked at, not read, no work on it need be waited for."""
    return asked_again(x, None if is_read or x._copy is not False else NO_ORDERING, None)


def asked_again(x: DLPackObject, stream: object, copy: object) -> DLPackObject | BaseException:
    """The producer's tensor. Of a consumer's arguments, the stream is passed on, and a copy=False; with copy=True, what
    the other protocols say is copied, and converted."""
    copy_of_others = True if copy is True else x._copy
    return taken(x, ask_for_import(x.obj, stream, copy), copy_of_others)


def move(x: DLPackObject, target: tuple[int, int], copy: bool | None) -> Any:
    """The call that gives x's memory on a device: as its producer gives it there, or copied."""
    try:
        here = x.__dlpack_device__()
    except BaseException as error:
        return bare(error)
    if here == target or here[0] == target[0] == CPU:  # which has one id
        return partial(asdlpack, x, copy=copy)
    tensor = taken(x, ask_for_device(x.obj, here[0], target, copy), x._copy)
    if is_error(tensor):
        return tensor
    if copy and tensor._flags & IS_COPIED:
        copy = None
    return partial(asdlpack, tensor, device=target, copy=copy)


def taken(x: DLPackObject, answer: tuple[object, int] | str, copy: bool | None) -> DLPackObject | BaseException:
    """The tensor of a producer's answer: a capsule and its order, or the text of a refusal."""
    return serve_by_others(x, answer, copy) if isinstance(answer, str) else imported(x, *answer, copy)


def imported(x: DLPackObject, capsule: object, order: int, copy: bool | None) -> DLPackObject | BaseException:
    """The tensor of what the producer gave; where that can't be taken, by another protocol."""
    tensor = _import(x, capsule, order)
    return serve_by_others(x, tensor, copy) if is_error(tensor, BufferError) else tensor


def serve_by_others(x: DLPackObject, refusal: BaseException | str, copy: bool | None) -> DLPackObject | BaseException:
    """The tensor of a producer that refused, by another protocol of it, and copied where copy says so."""
    said = exception_text(refusal) if is_error(refusal) else refusal
    protocol, served = _read_by_others(x, copy)
    if served is not None and not is_error(served) and served.__dlpack_device__()[0] in OF_CUDA:
        try:
            served = check_stream_named(x.obj) or served
        except BaseException as error:
            served = bare(error)
    if served is None:
        return refused_by_all(x.obj, said, None, None)
    if is_error(served, (*refusal_kinds, ValueError)) and not is_error(served, RecursionError):
        return refused_by_all(x.obj, said, protocol, exception_text(served))
    return served


def is_error(
    result: object, kind: type[BaseException] | tuple[type[BaseException], ...] = BaseException
) -> TypeIs[BaseException]:
    """isinstance asks the object for its __class__."""
    return issubclass(type(result), kind)


def order_of(stream: object) -> int:
    """The stream by whose order a producer's memory is complete, which was asked for this one."""
    number = LEGACY_STREAM if stream is None else fitting(stream)
    return UNKNOWN_STREAM if number is None or number < 0 else number


def ask_for_import(obj: Any, stream: object, copy: object) -> tuple[object, int] | str:
    """What obj gives, and by the order of which stream it is complete; or what it said when it refused.

    Where no stream is named, and where it refuses the one that is (torch the per-thread default one), it is asked for
    CUDA's legacy default stream: None means that, but not to torch, which then orders nothing.
    """
    order = order_of(stream)
    if stream is None and takes_default_stream(obj):
        stream = LEGACY_STREAM
    capsule, refusal = ask(obj, stream, copy)
    if refusal is not None and order != LEGACY_STREAM and takes_default_stream(obj):
        order = LEGACY_STREAM
        capsule, refusal = ask(obj, order, copy)
    return (capsule, order) if refusal is None else refusal


def ask_for_device(obj: Any, here: int, target: tuple[int, int], copy: bool | None) -> tuple[object, int] | str:
    """The same on another device than the type of device where it is; or as it is, to be copied here, where obj refuses
    that. It is not asked for what is copied here: what it copies to CUDA is complete by the order of a stream that
    nobody knows; to the CPU, when it returns."""
    if target[0] != CUDA or here not in (CPU, *OF_CUDA):
        copied = {} if copy is None else {"copy": copy}
        try:
            return obj.__dlpack__(max_version=_newest_version, dl_device=target, **copied), LEGACY_STREAM
        except RecursionError:
            raise
        except refusal_kinds as error:
            bare(error)
    return ask_for_import(obj, None, None)


def takes_default_stream(obj: Any) -> bool:
    """Whether the memory is CUDA's. Torch's pinned tensors, kDLCUDAHost, take no stream."""
    try:
        method = getattr(obj, "__dlpack_device__", None)
        device = None if method is None else device_ints(method())
    except RecursionError:
        raise
    except (*refusal_kinds, ValueError) as error:
        bare(error)  # what it has to say it says in __dlpack__, too
        return False
    return device is not None and device[0] in (CUDA, CUDA_MANAGED)


def ask(obj: Any, stream: object, copy: object) -> tuple[object, str | None]:
    """obj.__dlpack__ for a stream, versioned if it can be, and with copy=False if it is: what it gave, or what it said
    when it refused."""
    arguments = {} if stream is None else {"stream": stream}
    try:
        never = {"copy": False} if copy is False else {}
        return obj.__dlpack__(max_version=_newest_version, **arguments, **never), None
    except RecursionError:
        raise
    except refusal_kinds as error:
        # A method that lacks a keyword raises TypeError itself; a subclass of it, such as pyarrow's, is a refusal.
        if type(bare(error)) is not TypeError:
            return None, exception_text(error)
    try:
        return obj.__dlpack__(**arguments), None
    except RecursionError:
        raise
    except refusal_kinds as error:
        return None, exception_text(bare(error))
