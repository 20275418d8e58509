"""Make of a call of a public function with other than plain arguments one with plain arguments.

Functions that C calls return a call with plain arguments for C to make, or an exception for C to raise.
"""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]  # importing functools takes longer
from sys import modules  # the dict itself: sys loses it at exit

from . import _dlpack
from ._arguments import (
    ALIGN,
    OFFSET,
    POINTER,
    SHAPE,
    STRIDES,
    TARGET,
    address,
    device_ints,
    device_pair,
    dtype_text,
    fitting,
    flag,
    integer,
    lengths,
    pair_of,
    plain,
    plain_copy,
    plain_readonly,
    stream_handle,
    version_pair,
    wrong,
)
from ._arrow import ARROW, read_once_by, stream_was_read
from ._dlpack import _COPY_ALIGNMENT, _keep, asdlpack, from_pointer, frombuffer
from ._errors import hint_for, loading
from ._foreign import is_a, short_repr
from ._refusals import as_refusal, is_cured_by_copy, of_asdlpack, pass_copy, refusal, reworded

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ._dlpack import DLPackObject

    Function = TypeVar("Function", bound=Callable[..., Any])


def named(name: str) -> Callable[[Function], Function]:
    """Sets the name that errors show for a function. C calls it with the user's own arguments."""

    def rename(function: Function) -> Function:
        function.__qualname__ = name
        return function

    return rename


@named("asdlpack")
def plain_asdlpack(
    obj: object,
    /,
    *,
    copy: bool | None = False,
    device: object = None,
    align: object = None,
    owner: object = None,
    readonly: object = None,
    **others: object,
) -> Any:
    device = None if device is None else device_pair(device)
    call = unknown("asdlpack", others) or plain(partial(asdlpack, obj), copy=plain_copy(copy), device=device)
    if readonly is True and is_torch_tensor(obj) and not isinstance(call, Exception):
        call = partial(read_only_tensor, obj, call)
    return imported_as(obj, call, copy, align, owner, readonly)


def imported_as(obj: Any, call: Any, copy: object, align: object, owner: object, readonly: object) -> Any:
    """Returns a call with the result of `call`, as align, owner and readonly ask; or an error. They need a producer's
    tensor at once, since it may export other memory each time. A refused capsule is not consumed."""
    if isinstance(call, Exception) or (align is None and owner is None and readonly is None):
        return call
    step = 1 if align is None else fitting(align, 1, _COPY_ALIGNMENT + 1)
    if step is None or step & (step - 1):
        return wrong(ALIGN, align, (align,))
    must = plain_readonly(readonly)
    if isinstance(must, Exception):
        return must
    is_capsule = type(obj) is type(_dlpack.DLPackObject.__dlpack_c_exchange_api__)
    preview = _dlpack._inspect(obj)[1] if is_capsule and copy is False else None
    x = call()._ordered if preview is None else preview
    error = misplaced(x, step) or (read_only_memory(x) if must is False and x.readonly else None)
    if error is not None:
        if copy is False:
            return stream_was_read(obj, error)
        x = asdlpack(x, copy=True)
    elif preview is not None:
        x = call()
    source = x.obj
    if owner is not None and (x is obj or not x._is_copy):
        x = _keep(x, owner, False)
    return partial(_keep, x, source, must is True) if must or x.obj is not source else partial(asdlpack, x)


def misplaced(x: DLPackObject, step: int) -> Exception | None:
    """Returns an error unless x's address is a multiple of step."""
    address = x.pointer + x._byte_offset
    if address % step == 0:
        return None
    said = f"pointer {address:#x} is a multiple of {address & -address}; expected one of {step}, as align={step} says"
    return refusal(BufferError, "alignment", said, pass_copy(" to copy it there"), pointer=address, align=step)


def read_only_memory(x: DLPackObject) -> Exception:
    is_legacy = x.protocol in ("dltensor", "__dlpack__") and x._version == (0, 0)
    found = "a legacy capsule can't say that its memory is writable" if is_legacy else "readonly True"
    said = f"{found}: expected writable memory, as readonly=False says"
    return refusal(BufferError, "read-only", said, pass_copy(" to copy it"), readonly=True)


def is_torch_tensor(obj: object) -> bool:
    return type(obj) is getattr(modules.get("torch"), "Tensor", None)


def read_only_tensor(tensor: Any, call: Any) -> DLPackObject:
    """Returns the result of `call`. Lets torch 2.15 or later export a tensor that shares its memory until it is written
    to, which any other export would copy."""
    wrapper = getattr(modules["torch"].utils.dlpack, "ReadOnlyTensorWrapper", None)
    if wrapper is not None and not tensor.is_neg():
        try:
            x = call.func(wrapper(tensor), **call.keywords)._ordered
            return x if x._is_copy else _keep(x, tensor, True)
        except (BufferError, RuntimeError):
            pass  # the error of the tensor itself names its type
    return call()  # type: ignore[no-any-return]


@named("__dlpack__")
def plain_dlpack(
    x: DLPackObject,
    /,
    stream: object = None,
    *,
    max_version: object = None,
    dl_device: object = None,
    copy: object = None,
) -> Any:
    return plain(
        x.__dlpack__,
        max_version=None if max_version is None else version_pair(max_version),
        copy=plain_copy(copy),
        dl_device=None if dl_device is None else device_ints(dl_device) or wrong(TARGET, dl_device, pair_of(dl_device)),
        stream=None if stream is None else stream_handle(stream),
    )


@named("to")
def plain_to(obj: object, target: object, /, *, device: object = None, copy: bool | None = None) -> Any:
    with loading:
        from ._to import hand_over
    return partial(hand_over, obj, target, device, copy)


@named("copy_into")
def plain_copy_into(source: object, target: object) -> Any:
    return partial(_dlpack.copy_into, source, target)


@named("frombuffer")
def plain_frombuffer(
    obj: object,
    /,
    dtype: object,
    shape: object = None,
    *more: object,
    offset: object = 0,
    strides: object = None,
    copy: bool | None = False,
    device: object = None,
    align: object = None,
    owner: object = None,
    readonly: object = None,
    **others: object,
) -> Any:
    call = unknown("frombuffer", others, more) or plain(
        partial(frombuffer, obj),
        copy=plain_copy(copy),
        offset=integer(offset, OFFSET, 0, 2**64),
        dtype=dtype_text(dtype),
        shape=None if shape is None else lengths(shape, SHAPE),
        strides=None if strides is None else lengths(strides, STRIDES),
    )
    if device is not None and not isinstance(call, Exception):
        target = device_pair(device)
        if isinstance(target, Exception):
            return target
        x = call(copy=False if copy is False else None)  # copy=True copies below, once
        call = partial(asdlpack, x, copy=None if x._is_copy else copy, device=target)
    return imported_as(obj, call, copy, align, owner, readonly)


# Arguments of numpy's and torch's functions: what to use instead.
INSTEAD = {
    "count": "frombuffer(obj, dtype, shape)",
    "dtype": "frombuffer(obj, dtype)",
    "shape": "frombuffer(obj, dtype, shape)",
    "offset": "frombuffer(obj, dtype, offset=offset)",
    "read_only": "readonly",
    "writable": "readonly",
    "writeable": "readonly",
}


def unknown(function: str, others: dict[str, object], more: tuple[object, ...] = ()) -> Exception | None:
    """Returns an error that says what to pass instead of arguments that the function lacks."""
    if more:
        return TypeError(f"{function}() takes 3 positional arguments: obj, dtype, shape (pass offset= by its name)")
    for name in others:
        instead = f" (use {INSTEAD[name]})" if name in INSTEAD else ""
        return TypeError(f"{function}() got an unexpected keyword argument {short_repr(name)}{instead}")
    return None


def buffer_in(obj: Any) -> object:
    """Returns the buffer of a SharedMemory, which has none itself, or an error; None for other objects."""
    if not is_a(type(obj), "multiprocessing.shared_memory", "SharedMemory"):
        return None
    if obj.buf is None:
        return refusal(ValueError, "closed", "the SharedMemory is closed", "open it again, by its name")
    return obj.buf


@named("from_pointer")
def plain_from_pointer(
    pointer: object,
    /,
    shape: object,
    dtype: object,
    *,
    strides: object = None,
    device: object = "cpu",
    readonly: object = False,
    owner: object = None,
    stream: object = None,
) -> Any:
    start: int | Exception | None = address(pointer)
    if start is None:
        start = integer(pointer, POINTER, 0, 2**64)
        if isinstance(start, Exception):
            return refusal(type(start), "pointer", f"{start}", hint_for("pointer", pointer))
    elif owner is None:
        owner = pointer  # a ctypes pointer may keep its target alive
    return plain(
        partial(from_pointer, start, owner=owner),
        readonly=flag(readonly, "readonly: expected True or False"),
        stream=None if stream is None else stream_handle(stream),
        shape=lengths(shape, f"{SHAPE} (None needs memory of a known size)" if shape is None else SHAPE),
        dtype=dtype_text(dtype),
        strides=None if strides is None else lengths(strides, STRIDES),
        device=device_pair(device),
    )


def refuse_bytes(obj: object, error: Exception) -> Exception | None:
    """Returns the error of frombuffer for an error of asdlpack. A hint that would convert the bytes is replaced. None:
    the items are bytes of Arrow, which frombuffer can read."""
    old = as_refusal(error)
    if getattr(old, "_reason_within", old.reason) == "bytes" and not read_once_by(obj):
        for name in ARROW:
            if getattr(obj, name, None) is not None:
                return None
    if not is_cured_by_copy(error):
        return error
    given = "obj.obj" if hasattr(type(obj), "_tensor") else "obj"  # a DLPackObject: name its source
    compact = f"frombuffer(numpy.ascontiguousarray({given}), ...)"
    if old.details.get("protocol", "") in (None, *ARROW):  # numpy would not see the bytes
        return of_asdlpack(error, f"asdlpack({given}, copy=None)")
    said = old._quote[0] if hasattr(old, "_quote") else old._said
    return reworded(error, said, f"for the bytes as they are, make it compact: {compact}")


def refuse_tensor() -> Exception:
    return no_memory("a capsule or a pointer to a structure", "pass asdlpack of it")


def refuse_pointer(obj: object) -> Exception | None:
    """Returns an error if frombuffer's obj is a ctypes pointer: its buffer is the pointer itself, not its target."""
    if address(obj) is None:
        return None
    return no_memory("a ctypes pointer, which has no length", "pass from_pointer(pointer, shape, dtype)")


def no_memory(given: str, cure: str) -> Exception:
    said = f"frombuffer: expected an object with memory of its own, got {given}"
    return refusal(TypeError, "no-memory-of-its-own", said, cure)
