"""What a producer, an object with __dlpack__, is asked where its memory isn't simply that of the CPU: on which stream,
again after it refused, and for another device. C takes the capsule that it gives, or serves by its other protocols."""

from __future__ import annotations

from ._arguments import device_ints, fitting
from ._errors import bare, exception_text

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

# What says that the producer can't, rather than that something broke; but RecursionError. NotImplementedError is one.
REFUSALS = BufferError, TypeError, RuntimeError
LEGACY_STREAM, UNKNOWN_STREAM = 1, 0
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


def export_keywords() -> tuple[tuple[str, ...], ...]:
    """The names of the arguments of __dlpack__ that are passed, by the number whose bits say which these are."""
    names = "stream", "max_version", "dl_device", "copy"
    return tuple(tuple(name for bit, name in enumerate(names) if which >> bit & 1) for which in range(16))


def order_of(stream: object) -> int:
    """The stream by whose order a producer's memory is complete, which was asked for this one."""
    number = LEGACY_STREAM if stream is None else fitting(stream)
    return UNKNOWN_STREAM if number is None or number < 0 else number


def ask_for_import(obj: Any, version: object, stream: object, copy: bool | None) -> tuple[object, int] | str:
    """What obj gives, and by the order of which stream it is complete; or what it said when it refused.

    Where no stream is named, and where it refuses the one that is (torch the per-thread default one), it is asked for
    CUDA's legacy default stream: None means that, but not to torch, which then orders nothing.
    """
    order = order_of(stream)
    if stream is None and takes_default_stream(obj):
        stream = LEGACY_STREAM
    capsule, refusal = ask(obj, version, stream, copy)
    if refusal is not None and order != LEGACY_STREAM and takes_default_stream(obj):
        order = LEGACY_STREAM
        capsule, refusal = ask(obj, version, order, copy)
    return (capsule, order) if refusal is None else refusal


def ask_for_device(
    obj: Any, version: object, here: int, target: tuple[int, int], copy: bool | None
) -> tuple[object, int] | str:
    """The same on another device than the type of device where it is; or as it is, for C to copy, where obj refuses
    that. It is not asked for what C copies itself: what it copies to CUDA is complete by the order of a stream that
    nobody knows; to the CPU, when it returns."""
    if target[0] != CUDA or here not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        copied = {} if copy is None else {"copy": copy}
        try:
            return obj.__dlpack__(max_version=version, dl_device=target, **copied), LEGACY_STREAM
        except RecursionError:
            raise
        except REFUSALS as error:
            bare(error)
    return ask_for_import(obj, version, None, None)


def takes_default_stream(obj: Any) -> bool:
    """Whether the memory is CUDA's. Torch's pinned tensors, kDLCUDAHost, take no stream."""
    try:
        method = getattr(obj, "__dlpack_device__", None)
        device = None if method is None else device_ints(method())
    except RecursionError:
        raise
    except (*REFUSALS, ValueError) as error:
        bare(error)  # what it has to say it says in __dlpack__, too
        return False
    return device is not None and device[0] in (CUDA, CUDA_MANAGED)


def ask(obj: Any, version: object, stream: object, copy: bool | None) -> tuple[object, str | None]:
    """obj.__dlpack__ for a stream, versioned if it can be, and with copy=False if it is: what it gave, or what it said
    when it refused."""
    arguments = {} if stream is None else {"stream": stream}
    try:
        never = {"copy": False} if copy is False else {}
        return obj.__dlpack__(max_version=version, **arguments, **never), None
    except RecursionError:
        raise
    except REFUSALS as error:
        # A method that lacks a keyword raises TypeError itself; a subclass of it, such as pyarrow's, is a refusal.
        if type(bare(error)) is not TypeError:
            return None, exception_text(error)
    try:
        return obj.__dlpack__(**arguments), None
    except RecursionError:
        raise
    except REFUSALS as error:
        return None, exception_text(bare(error))
