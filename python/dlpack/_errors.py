"""Compose errors.

Functions that C calls return a text or an exception, which C raises: CPython 3.11 loses an exception that a Python
function raises if memory for its frame object is lacking.
"""

from __future__ import annotations

import os
from _thread import RLock
from sys import _getframe

from ._foreign import (
    INSTALLED,
    MOST,
    NO_MEMORY,
    SMALL_IN_ML_DTYPES,
    bare,
    exception_text,
    field,
    short_repr,
    text_of,
    type_name,
)
from ._refusals import Cure, as_refusal, is_to_copy, quoted, refusal, reworded

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ._dlpack import DLPackObject


# Held while a thread imports _ways_out, and while a thread forks: a child forked during the import would wait forever
# for its end.
loading = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)

KINDS = {1: ValueError, 2: BufferError, 3: MemoryError, 4: RuntimeError}  # core.h's enum status
in_words: Any = None  # of _sayings, once that is loaded


def refused(status: int, data: bytes) -> Exception:
    """Returns the exception for a refusal of the Go core, which core.h describes."""
    global in_words
    kind = KINDS[status]
    if in_words is None:
        try:
            with loading:
                from ._sayings import in_words
        except NO_MEMORY:
            return MemoryError()
        except Exception:  # Python ends, or its file is gone
            return kind(data.decode(errors="replace").replace("\x1f", " ").replace("\x1e", " ").strip())
    error: Exception = in_words(kind, data)
    return error


def hint_for(problem: str, obj: object, *arguments: object) -> str:
    """Returns the first cure that _ways_out has for obj and a problem, a key of HINTS; "" if there is none.

    The functions of _ways_out read attributes of obj. These may have any type, raise, or lead to another such error.
    An error inside an error gets no hint, since each level would try all functions.
    """
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_code is hint_for.__code__:
            return ""
        frame = frame.f_back
    try:
        with loading:
            from ._ways_out import HINTS
    except Exception:  # no memory, Python ends, or its file is gone
        return ""
    for find in HINTS[problem]:
        try:
            hint = find(obj, *arguments)
        except NO_MEMORY:  # CPython 3.11 aborts after a few that are caught
            return ""
        except Exception:  # the object raised it, or its version lacks an attribute
            continue
        if hint:
            return hint if type(hint) is Cure else Cure(hint)
    return ""


def refused_by_frame(obj: object, error: Exception) -> Exception:
    """Returns the error for data of pandas or xarray that pyarrow refuses, or needs pyarrow, with a hint."""
    name, said = type_name(obj), f"__arrow_c_stream__ said {exception_text(bare(error))}"
    return refusal(BufferError, "refused", f"{name} can't be exported: {said}", hint_for("table", obj), type=name)


def no_holder(obj: object) -> Exception:
    if issubclass(type(obj), type):
        said = f"asdlpack: expected an object that holds memory, got the type {obj!r}: pass an instance"
        return refusal(TypeError, "no-instance", said)
    said = "asdlpack: a weak reference keeps no memory alive: pass the object itself"
    return refusal(TypeError, "weak-reference", said)


def no_protocol(obj: object) -> Exception:
    name = type_name(obj)
    said = f"{name} object shares no memory"
    error = refusal(TypeError, "no-protocol", said, hint_for("shares no memory", obj), type=name)
    return reworded(error, note="; asdlpack looked for DLPack, array interfaces, buffers and Arrow")


def buffer_error(obj: object, error: ValueError | IndexError) -> Exception:
    """Returns the error of an object that exports no buffer, with a hint for a closed mmap or a pointer of Qt."""
    if type_name(obj) == "mmap.mmap":
        cure = "map the file again, and keep it open until it is wrapped: then it can't be closed"
        return refusal(ValueError, "closed", text_of(error), cure)
    if type_name(obj).endswith(".sip.voidptr"):
        return refusal(IndexError, "no-size", text_of(error), "before that call obj.setsize(bytes)")
    return error


def wrong_answer(obj: object, method: str, expected: str, answer: object) -> Exception:
    name = type_name(obj)
    said = f"{name}.{method} returned {short_repr(answer)}; expected {expected}"
    return refusal(ValueError, "wrong-answer", said, type=name, method=method)


def no_capsule(obj: object, method: str, answer: object) -> Exception:
    return wrong_answer(obj, method, "a capsule", answer)


def refused_by_all(obj: object, error: BaseException, protocol: str | None, other: BaseException | None) -> Exception:
    """Returns an error that quotes a producer's __dlpack__, and its other protocol, if it has one."""
    name, text, (said, first) = type_name(obj), exception_text(error), quoted(error)
    begin, after, cure = f"{name} can't be exported: __dlpack__ said ", "", ""
    if other is None:
        begin = f"{name} can't be exported: its only protocol is __dlpack__, which said "
    else:
        answer, cure = quoted(other)
        after = f"; {protocol} said {answer}"
    cure = cure or hint_for("refuses", obj, text)
    if other is None and not cure:
        text, cure, first = said, first, ""
    found: Any = refusal(BufferError, "refused", f"{begin}{text}{after}", cure, type=name, protocol=protocol)
    if other is not None:
        found._reason_within = as_refusal(other).reason
    if is_to_copy(first):
        found._quote = f"{begin}{said}", first.purpose, after
    return found  # type: ignore[no-any-return]


def flat_bytes(count: int) -> Exception:
    """Returns the error for bytes read after a refusal of __dlpack__, which obj's shape and item size don't confirm."""
    cure = "frombuffer(obj, 'uint8') shares the bytes as they lie in memory"
    return refusal(BufferError, "flat-bytes", f"{count} bytes without their shape and type", cure, count=count)


def check_stream_named(obj: Any) -> Exception | None:
    """Returns an error if the CUDA array interface of obj, which has __dlpack__, is older than version 3. It then names
    no stream, so nobody would wait for work that obj has queued."""
    interface = obj.__cuda_array_interface__
    version = field(interface, "version", 0) if isinstance(interface, dict) else 0
    if hasattr(version, "__index__") and version >= 3:
        return None
    said = f"version {short_repr(version)} names no stream to wait for; expected version 3"
    return refusal(BufferError, "no-stream", said)


def capsule_name(name: bytes | None, legacy: str, versioned: str) -> Exception:
    text = "" if name is None else name.decode(errors="replace")
    if text in (f"used_{legacy}", f"used_{versioned}"):
        cure = "ask its producer for another, or keep the DLPackObject, which can be exported any number of times"
        said = f'capsule "{text}": already consumed, which works once'
        return refusal(ValueError, "consumed-capsule", said, cure, name=text)
    text = text[:MOST]
    said = f'capsule "{text}": expected the name "{legacy}" or "{versioned}"'
    return refusal(ValueError, "capsule-name", said, name=text)


def device_text(x: DLPackObject) -> str:
    """Returns the device as text: "kDLCUDA:0"."""
    kind, id = x.device
    return f"{getattr(kind, 'name', f'device type {kind}')}:{id}"


AS_BYTES = 'dlpack.frombuffer(x, "uint8") shares the bytes'
AS_COPIED_BYTES = 'dlpack.frombuffer(dlpack.asdlpack(x, copy=True), "uint8") has a copy of the bytes'
# Why x can't be exported: the attribute to blame, what is wrong with it, and a cure. C passes the key, error.reason.
REFUSALS = {
    "not-on-cuda": ("device", "expected memory of CUDA for __cuda_array_interface__", ""),
    "on-gpu": ("device", "the CPU can't read this memory", "copy it with the library that owns it"),
    "on-cuda": (
        "device",
        "the CPU can't read this memory",
        'asdlpack(x, device="cpu", copy=None) copies it to the host',
    ),
    "no-arrow-device": (
        "device",
        "expected memory of the CPU or of CUDA, whose work can be waited for",
        "copy it with the library that owns it",
    ),
    "not-allocated": (
        "device",
        "managed_tensor_allocator allocates memory of the CPU alone",
        "allocate it with the library that uses the device",
    ),
    "handle": (
        "device",
        "its memory has a handle, not an address; expected memory of the CPU or of a device with addresses, such as "
        "CUDA",
        "",
    ),
    "read-only": ("readonly", "expected writable memory", "asdlpack(x, copy=True) makes a writable copy"),
    "packed-for-buffer": ("dtype", "items share bytes; the buffer protocol needs whole bytes", AS_BYTES),
    "packed-for-numpy": ("dtype", "items share bytes; numpy needs whole bytes", AS_BYTES),
    "no-format": ("dtype", "the buffer protocol has no format for it", AS_BYTES),
    "no-typestr": ("dtype", "it has no typestr", AS_BYTES),
    "no-arrow-type": (
        "dtype",
        "expected bool, an int, a uint or a float16, float32 or float64, as Arrow has them",
        AS_BYTES,
    ),
    "no-dltensor": ("dtype", "a DLTensor can't describe items padded to bytes", AS_BYTES),
    "no-legacy-capsule": (
        "dtype",
        "a legacy capsule can't describe items padded to bytes; expected a consumer that passes max_version=(1, 0) or "
        "later",
        "",
    ),
    "not-compact": (
        "strides",
        "frombuffer takes bytes; expected it compact",
        "use frombuffer(asdlpack(obj, copy=True), ...)",
    ),
    "not-row-major": ("strides", "expected row-major memory without gaps", "asdlpack(x, copy=True) makes it so"),
    "not-column-major": (
        "strides",
        "expected column-major memory without gaps",
        "numpy.asfortranarray(x) makes it so",
    ),
}


# What C refuses by a key: the kind of error, its id, what it says with the values that C passes, in their order, and a
# cure if there is one.
REFUSALS_OF_C: dict[str, tuple[Any, ...]] = {
    "no-dlpack-object": (
        TypeError,
        "no-dlpack-object",
        "py_object: expected a DLPackObject, as asdlpack gives, got {found}",
    ),
    "negative-bit": (
        BufferError,
        "negative-bit",
        "torch.Tensor has its negative bit set (is_neg): its items are stored negated, which DLPack can't say",
        "pass obj.resolve_neg()",
    ),
    "unknown-keyword": (
        NotImplementedError,
        "unknown-keyword",
        "__arrow_c_device_array__: unknown keyword {found}; expected None",
    ),
    "no-arrow-pair": (
        ValueError,
        "wrong-answer",
        '{protocol}: expected a tuple of two capsules, "arrow_schema" and "{capsule}", got {found}',
    ),
    "no-arrow-stream": (
        ValueError,
        "wrong-answer",
        '{protocol}: expected a capsule "{capsule}", got {found}',
    ),
    "no-array-struct": (ValueError, "wrong-answer", "__array_struct__: expected a capsule without a name, got {found}"),
    "not-two": (ValueError, "array-interface", "__array_struct__: its field two is {value}, expected 2"),
    "dlpack-version": (
        BufferError,
        "dlpack-version",
        "DLPack version {major}.{minor}: expected {expected}.x (which a producer has to give where max_version is "
        "{newest})",
    ),
    "negative-length": (ValueError, "buffer-length", "buffer: len is negative: {length}"),
    "short-length": (
        ValueError,
        "buffer-length",
        "buffer: len is {length}; expected {least} bytes, as itemsize and shape say",
    ),
    "not-contiguous": (
        BufferError,
        "not-row-major",
        "data: its buffer is not C-contiguous; expected compact memory",
        "pass (address, readonly) as data, as numpy's __array_interface__ does",
    ),
    "released-stream": (
        ValueError,
        "released",
        "{protocol}: {field} is NULL; expected a stream that was not released or moved before",
    ),
    "no-callback": (ValueError, "null-pointer", "{protocol}: {field} is NULL; expected a function"),
    "device-of-chunk": (
        ValueError,
        "wrong-answer",
        "{protocol}: device_type of a chunk is {found}; expected {expected}, that of its stream",
    ),
    "callback-failed": (
        BufferError,
        "callback-failed",
        "{protocol}: {call} failed with errno {errno} ({meaning})",
    ),
    "callback-said": (
        BufferError,
        "callback-failed",
        "{protocol}: {call} failed with errno {errno} ({meaning}): {answer}",
    ),
    "null-structure": (
        ValueError,
        "null-pointer",
        "pointer to a {protocol} is NULL; expected the structure's address (what asdlpack took over is NULL)",
    ),
    "null-tensor": (
        ValueError,
        "null-pointer",
        "managed_tensor_to_py_object_no_sync: tensor is NULL; expected a DLManagedTensorVersioned",
    ),
    "other-memory": (
        BufferError,
        "other-memory",
        "the producer gives other memory at each export, so that no stream orders this one",
        "use __dlpack__",
    ),
}


def names_in(said: str) -> list[str]:
    """Returns the names of the values in a text for str.format."""
    return [part.partition("}")[0] for part in said.split("{")[1:]]


def refuse_in_words(key: str, *values: Any) -> Exception:
    """Returns the error of REFUSALS_OF_C for a key. Bytes are a text of another library, which may not be UTF-8."""
    kind, reason, said, *cure = REFUSALS_OF_C[key]
    details = {}
    for name, value in zip(names_in(said), values):  # noqa: B905 (C may pass more than is said)
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        details[name] = short_repr(value) if name == "found" else text
    return refusal(kind, reason, said.format_map(details), *cure, **details)


def as_bytes(x: DLPackObject) -> str:
    """Returns how to get the bytes of x."""
    return AS_BYTES if x._is_row_major else AS_COPIED_BYTES


def as_unpacked(x: DLPackObject) -> str:
    """Returns how to get the bytes of x, and before that, if its items are smaller than a byte, how numpy has them."""
    name, _, lanes = x.dtype.partition("x")
    if name not in SMALL_IN_ML_DTYPES:
        return as_bytes(x)
    if not lanes:
        return f"dlpack.to(x, 'numpy') unpacks it, with ml_dtypes; {as_bytes(x)}"
    *shape, last = x.shape or (1,)
    room = f"a = numpy.empty({(*shape, last * int(lanes))}, ml_dtypes.{name})"
    return f"{room}; dlpack.copy_into(x, a) unpacks it; {as_bytes(x)}"


def refuse(x: DLPackObject, reason: str, kind: type[Exception] = BufferError) -> Exception:
    """Returns an error such as "readonly True: expected writable memory"."""
    attribute, expected, cure = REFUSALS[reason]
    value = device_text(x) if attribute == "device" else x.dtype.name if attribute == "dtype" else getattr(x, attribute)
    details = {attribute: value}
    said = f"{attribute} {value}"
    if attribute == "device":
        said = f"device {value.removeprefix('device ')}"
    elif attribute == "strides":
        details["shape"] = x.shape
        said += f" of shape {x.shape}"
    elif cure is AS_BYTES:
        cure = as_unpacked(x) if reason == "packed-for-numpy" else as_bytes(x)
        if reason in ("no-format", "no-typestr") and value in INSTALLED and not x._is_packed:
            cure = f"with {INSTALLED[value]} numpy.asarray(x) has it; {cure}"
    return refusal(kind, reason, f"{said}: {expected}", cure, **details)
