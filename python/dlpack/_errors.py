"""Compose the messages of errors.

Functions that C calls return a text or an exception, which C raises: CPython 3.11 loses an exception that a Python
function raises if memory for its frame object is lacking.
"""

from __future__ import annotations

import os
from _thread import RLock
from sys import _getframe

from ._foreign import IN_WORDS, MOST, NO_MEMORY, bare, exception_text, field, short_repr, text_of, type_name, unexpected

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


def hint_for(problem: str, obj: object, *arguments: object) -> str:
    """Returns the first hint that _ways_out has for obj and a problem, a key of HINTS; "" if there is none.

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
            return f" ({hint})"
    return ""


def refused_by_frame(obj: object, error: Exception) -> Exception:
    """Returns the error for data of pandas or xarray that pyarrow refuses, or needs pyarrow, with a hint."""
    said = f"__arrow_c_stream__ said {exception_text(bare(error))}"
    return BufferError(f"{type_name(obj)} can't be exported: {said}{hint_for('table', obj)}")


def of_asdlpack(error: BaseException, obj: str = "obj") -> str:
    """Returns the text of an error of asdlpack for another function: copy=None becomes asdlpack(obj, copy=None)."""
    return text_of(error).replace("(pass copy=None", f"(pass asdlpack({obj}, copy=None)")


def unexpected_value(kind: type[Exception], expected: str, value: object) -> Exception:
    return kind(unexpected(expected, value))


def no_holder(obj: object) -> Exception:
    if issubclass(type(obj), type):
        return TypeError(f"asdlpack: expected an object that holds memory, got the type {obj!r}: pass an instance")
    return TypeError("asdlpack: a weak reference keeps no memory alive: pass the object itself")


def no_protocol(obj: object) -> Exception:
    return TypeError(
        f"{type_name(obj)} object shares no memory: asdlpack looked for {', '.join(IN_WORDS[:-1])} and "
        f"{IN_WORDS[-1]}{hint_for('shares no memory', obj)}"
    )


def buffer_error(obj: object, error: ValueError | IndexError) -> ValueError | IndexError:
    """Returns the error of an object that exports no buffer, with a hint for a closed mmap or a pointer of Qt."""
    if type_name(obj) == "mmap.mmap":
        return ValueError(
            f"{error} (map the file again, and keep it open until it is wrapped: then it can't be closed)"
        )
    if type_name(obj).endswith(".sip.voidptr"):
        return IndexError(f"{text_of(error)} (before that call obj.setsize(bytes))")
    return error


def needless_owner(obj: object) -> Exception:
    return TypeError(
        "owner: expected only with a pointer to a dlpack.structs.DLTensor, which is borrowed, got "
        f"{type_name(obj)}, which is kept alive itself"
    )


def wrong_answer(obj: object, method: str, expected: str, answer: object) -> Exception:
    return ValueError(f"{type_name(obj)}.{method} returned {short_repr(answer)}; expected {expected}")


def no_capsule(obj: object, method: str, answer: object) -> Exception:
    return wrong_answer(obj, method, "a capsule", answer)


def refused_by_all(obj: object, refusal: str, protocol: str | None, other: str | None) -> Exception:
    """Returns an error that quotes a producer's __dlpack__, and its other protocol, if it has one."""
    only = f"its only protocol is __dlpack__, which said {refusal}"
    said = only if protocol is None else f"__dlpack__ said {refusal}; {protocol} said {other}"
    instead = "" if said.endswith(")") and protocol is not None else hint_for("refuses", obj, refusal)
    return BufferError(f"{type_name(obj)} can't be exported: {said}{instead}")


def flat_bytes(count: int) -> BufferError:
    """Returns the error for bytes read after a refusal of __dlpack__, which obj's shape and item size don't confirm."""
    return BufferError(
        f"{count} bytes without their shape and type (frombuffer(obj, 'uint8') shares the bytes as they lie in memory)"
    )


def check_stream_named(obj: Any) -> Exception | None:
    """Returns an error if the CUDA array interface of obj, which has __dlpack__, is older than version 3. It then names
    no stream, so nobody would wait for work that obj has queued."""
    interface = obj.__cuda_array_interface__
    version = field(interface, "version", 0) if isinstance(interface, dict) else 0
    if hasattr(version, "__index__") and version >= 3:
        return None
    return BufferError(f"version {short_repr(version)} names no stream to wait for; expected version 3")


def capsule_name(name: bytes | None, legacy: str, versioned: str) -> Exception:
    text = "" if name is None else name.decode(errors="replace")
    if text in (f"used_{legacy}", f"used_{versioned}"):
        return ValueError(
            f'capsule "{text}": already consumed, which works once (ask its producer for another, or keep the '
            "DLPackObject, which can be exported any number of times)"
        )
    return ValueError(f'capsule "{text:.{MOST}}": expected the name "{legacy}" or "{versioned}"')


def device_text(x: DLPackObject) -> str:
    """Returns the device as text: "kDLCUDA:0"."""
    kind, id = x.device
    return f"{getattr(kind, 'name', f'device type {kind}')}:{id}"


AS_BYTES = 'dlpack.frombuffer(x, "uint8") shares the bytes'
AS_COPIED_BYTES = 'dlpack.frombuffer(dlpack.asdlpack(x, copy=True), "uint8") has a copy of the bytes'
IN_ML_DTYPES = (
    "bfloat16 int2 int4 uint2 uint4 float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 "
    "float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
# The package that gives numpy a data type.
INSTALLED = dict.fromkeys(IN_ML_DTYPES.split(), "ml_dtypes") | {"complex32": "ml_dtypes 0.6"}
# Why x can't be exported: the attribute to blame, and what is wrong with it. C passes the key.
REFUSALS = {
    "not on CUDA": ("device", "expected memory of CUDA for __cuda_array_interface__"),
    "on a GPU": ("device", "the CPU can't read this memory (copy it with the library that owns it)"),
    "on CUDA": (
        "device",
        'the CPU can\'t read this memory (asdlpack(x, device="cpu", copy=None) copies it to the host)',
    ),
    "not allocated": (
        "device",
        "managed_tensor_allocator allocates memory of the CPU alone (allocate it with the library that uses the "
        "device)",
    ),
    "handle": (
        "device",
        "its memory has a handle, not an address; expected memory of the CPU or of a device with addresses, such as "
        "CUDA",
    ),
    "read-only": ("readonly", "expected writable memory (asdlpack(x, copy=True) makes a writable copy)"),
    "packed": ("dtype", f"items share bytes; the buffer protocol needs whole bytes ({AS_BYTES})"),
    "packed for numpy": ("dtype", f"items share bytes; numpy needs whole bytes ({AS_BYTES})"),
    "no format": ("dtype", "the buffer protocol has no format for it"),
    "no typestr": ("dtype", "it has no typestr"),
    "no Arrow type": (
        "dtype",
        f"expected bool, an int, a uint or a float16, float32 or float64, as Arrow has them ({AS_BYTES})",
    ),
    "no DLTensor": ("dtype", f"a DLTensor can't describe items padded to bytes ({AS_BYTES})"),
    "no legacy capsule": (
        "dtype",
        "a legacy capsule can't describe items padded to bytes; expected a consumer that passes max_version=(1, 0) or "
        "later",
    ),
    "not compact": (
        "strides",
        "frombuffer takes bytes; expected it compact (use frombuffer(asdlpack(obj, copy=True), ...))",
    ),
    "not row-major": ("strides", "expected row-major memory without gaps (asdlpack(x, copy=True) makes it so)"),
    "not column-major": ("strides", "expected column-major memory without gaps (numpy.asfortranarray(x) makes it so)"),
}


def refusal(x: DLPackObject, name: str) -> str:
    """Returns a text such as "readonly True: expected writable memory"."""
    attribute, reason = REFUSALS[name]
    if name in ("no format", "no typestr"):
        dtype = x.dtype
        installed = INSTALLED[dtype] if dtype in INSTALLED and not x._is_packed else None
        reason += f" ({f'with {installed} numpy.asarray(x) has it; ' if installed else ''}{AS_BYTES})"
    if not x._is_row_major:
        reason = reason.replace(AS_BYTES, AS_COPIED_BYTES)
    value = device_text(x).removeprefix("device ") if attribute == "device" else getattr(x, attribute)
    return f"{attribute} {value}{f' of shape {x.shape}' * (attribute == 'strides')}: {reason}"


def refuse(x: DLPackObject, name: str, kind: type[Exception]) -> Exception:
    return kind(refusal(x, name))
