"""Attributes and methods of DLPackObject that need Python's library, or are mostly words."""

from __future__ import annotations

import atexit
import sys
from time import sleep

from . import _pickle
from ._dlpack import _stop_deleters, asdlpack
from ._docs import DOCS
from ._errors import PROTOCOLS, bare, exception_text, type_name

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import DTypeLike, NDArray

    from ._device import DLDeviceType
    from ._dlpack import DLPackObject


@atexit.register
def wait_for_deleters() -> None:
    """Ctrl-C ends it, since a deleter may wait for ever."""
    while _stop_deleters():
        sleep(0.001)


imported: list[type[DLDeviceType]] = []


def device_types() -> type[DLDeviceType]:
    """DLDeviceType, which is imported at its first use, since enum takes longer than all the rest. Its module is not
    kept: Python empties modules when it ends."""
    if not imported:
        try:
            from ._device import DLDeviceType
        except (AttributeError, TypeError):  # the modules that import are emptied
            raise ImportError("dlpack._device can't be imported any more: Python ends") from None
        imported.append(DLDeviceType)
    return imported[0]


# A child that is forked while another thread imports a module would wait for ever for that thread to finish.
if "enum" in sys.modules:
    device_types()


def device(number: int, id: int) -> tuple[int, int]:
    """The DLDeviceType; a plain int where no module can be imported any more, since Python ends or the root changed."""
    try:
        kind = device_types()
        return kind.__new__(kind, number), id  # a call of it goes through enum's globals, which go when Python ends
    except ImportError:
        return number, id


IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
BEFORE_BUFFER = PROTOCOLS[: PROTOCOLS.index("buffer")]


def shares_by_both(kind: type, has_dlpack: bool) -> bool | None:
    """None: objects of the type, now or later, may be recognised by one protocol or another. Else all are by the same:
    by a method __dlpack__, or by their buffer, since they have none of the attributes that come before it. True: by
    both, which give the same memory, as is known of numpy's arrays alone. They look up attributes as object does."""
    if type(kind) is not type or kind.__dictoffset__:
        return None  # an attribute may come to one object alone
    for base in kind.__mro__:
        if not base.__flags__ & IMMUTABLE:
            return None  # or to the type
    if has_dlpack:
        is_numpys = kind.__name__ == "ndarray" and getattr(kind, "__module__", None) == "numpy"
        return is_numpys if type(kind.__dlpack__) is type(str.join) else None  # type: ignore[attr-defined]
    for name in BEFORE_BUFFER:
        if hasattr(kind, name):
            return None
    return False


def device_text(x: DLPackObject) -> str:
    """ "kDLCUDA:0"."""
    kind, id = x.device
    return f"{getattr(kind, 'name', f'device type {kind}')}:{id}"


AS_BYTES = 'dlpack.frombuffer(x, "uint8") shares the bytes'
AS_COPIED_BYTES = 'dlpack.frombuffer(dlpack.asdlpack(x, copy=True), "uint8") has a copy of the bytes'
IN_ML_DTYPES = (
    "bfloat16 int2 int4 uint2 uint4 float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 "
    "float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
# What has to be installed beside numpy for a data type.
INSTALLED = dict.fromkeys(IN_ML_DTYPES.split(), "ml_dtypes") | {"complex32": "ml_dtypes 0.6"}

# Why a consumer can't have x: the attribute that is to blame, and what is wrong with it. C names the entry.
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
    """ "readonly True: expected writable memory"."""
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


def repr_of(x: DLPackObject) -> str:
    """Of x's tensor, or of the refusal where x's producer refuses."""
    protocol = x.protocol
    try:
        tensor = x._tensor
        text, protocol = tensor_text(tensor), tensor.protocol
    except Exception as error:
        text = exception_text(bare(error))
    source = "" if x.obj is None else f"from {type_name(x.obj)} "
    return f"<dlpack.DLPackObject: {text}, {source}by {protocol}>"


def tensor_text(x: DLPackObject) -> str:
    """ "float32[2, 3] at 0x7f0123456780, 24 bytes on kDLCPU:0, read-only"."""
    shape = ", ".join(map(str, x.shape))
    text = f"{x.dtype}[{shape}] at {x.pointer:#x}, {x.nbytes} bytes on {device_text(x)}"
    return text + ", read-only" * x.readonly + ", a copy" * x._is_copy


AN_ARRAY = "numpy.asarray(x), or the from_dlpack of another library, makes one of the same memory"
# What arrays of other libraries have, and what has it here.
INSTEAD = {
    "clone": "asdlpack(x, copy=True)",
    "copy": "asdlpack(x, copy=True)",
    "cpu": 'asdlpack(x, device="cpu", copy=None)',
    "cuda": 'asdlpack(x, device="cuda", copy=None)',
    "data_ptr": "x.pointer",
    "numpy": "numpy.asarray(x)",
    "to": "asdlpack(x, device=device, copy=None)",
    "tobytes": "bytes(x)",
    **{name: f"numpy.asarray(x).{name}" for name in "T astype item max mean min reshape sum tolist view".split()},
}


def no_array(use: str, kind: type[Exception] = TypeError) -> Exception:
    return kind(f"'dlpack.DLPackObject' object {use}: it isn't an array ({AN_ARRAY})")


def lacking(name: str, instead: str) -> property:
    """An attribute that x has not, so that hasattr says no; its error says what has it."""

    # Defaults, since a free-threaded build locks cells to read them, and a fork may copy one locked.
    def refuse(x: DLPackObject, name: str = name, instead: str = instead) -> Any:
        raise AttributeError(
            f"'dlpack.DLPackObject' object has no attribute '{name}': it isn't an array; use {instead}"
        )

    return property(refuse)


def to_html(self: DLPackObject) -> str:
    """What it is, where, and from what: notebooks show it."""
    from html import escape

    from ._describe import describe, shown

    rows = (f"<tr><th>{name}</th><td>{escape(shown(name, value))}</td></tr>" for name, value in describe(self).items())
    return f"<table><caption>dlpack.DLPackObject</caption>{''.join(rows)}</table>"


def for_rich(self: DLPackObject) -> Iterable[tuple[str, object]]:
    from ._describe import describe

    return describe(self).items()


def interface(x: DLPackObject, stream: int | None = None) -> dict[str, Any]:
    """The array interface; with a stream, by whose order the memory is complete, CUDA's."""
    data = (x._address if stream is None else x.pointer), x.readonly  # CUDA's is 0 where there are no items
    made = {"version": 3, "typestr": x._typestr, "shape": x.shape, "data": data}
    if not x._is_row_major:  # of "strides": None, which means the same, numpy 2.4 leaks a reference to None
        made["strides"] = x._byte_strides
    if stream is not None:
        made["stream"] = stream or None  # 0: not known, or nothing is to wait for
    return made


def absent(attribute: str, error: Exception) -> AttributeError:
    return AttributeError(f"{attribute}: {exception_text(error)}")


def to_numpy(self: DLPackObject, dtype: DTypeLike | None = None, *, copy: bool | None = None) -> NDArray[Any]:
    """This memory as a numpy array; of types that numpy lacks, one of ml_dtypes, where that is installed.

    Shares the memory unless dtype or copy need a copy. Raises BufferError where the CPU can't read the memory, or
    where neither numpy nor ml_dtypes has its type.
    """
    x = self._on_cpu
    if x._is_packed:
        raise BufferError(refusal(x, "packed for numpy"))
    import numpy

    described = interface(x)
    described["typestr"] = described["typestr"] or f"|V{x.itemsize}"  # of such items numpy knows the size alone
    array = numpy.asarray(Speaker(self, described))
    if array.dtype.kind == "V":
        array = array.view(type_of(x))
    return numpy.asarray(array, dtype) if copy is None else numpy.array(array, dtype, copy=copy)


def to_bytes(self: DLPackObject) -> bytes:
    """A copy of the items' bytes in row-major order, of any data type."""
    x = self._on_cpu
    return b"".join([x if x._is_row_major else asdlpack(x, copy=True)])  # asks for no format, as bytes(x) would


to_numpy.__name__, to_numpy.__qualname__ = "__array__", "DLPackObject.__array__"  # as errors name it


def add_members(namespace: dict[str, object], exchange_api: object) -> None:
    """What the type DLPackObject has besides what type.c says."""
    namespace.update(
        __doc__=DOCS["DLPackObject"],
        __array__=to_numpy,
        __bytes__=to_bytes,
        __rich_repr__=for_rich,
        _repr_html_=to_html,
        __dlpack_c_exchange_api__=exchange_api,
        **_pickle.MEMBERS,
        **{name: lacking(name, instead) for name, instead in INSTEAD.items()},
    )


class Speaker:
    """Has the array interface of x, and keeps x alive."""

    def __init__(self, x: DLPackObject, interface: dict[str, Any]):
        self.memory, self.__array_interface__ = x, interface


def type_of(x: DLPackObject) -> Any:
    name, as_bytes = x.dtype, AS_BYTES if x._is_row_major else AS_COPIED_BYTES

    def none(reason: str) -> BufferError:
        return BufferError(f"dtype {name}: {reason} ({as_bytes})")

    try:
        import ml_dtypes
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "ml_dtypes":
            raise none("numpy has no such type, but with ml_dtypes installed has some") from None
        raise none(f"numpy has no such type, and ml_dtypes can't be imported: {exception_text(error)}") from error
    if not hasattr(ml_dtypes, name):
        raise none("neither numpy nor ml_dtypes has such a type")
    return getattr(ml_dtypes, name)
