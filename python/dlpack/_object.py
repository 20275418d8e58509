"""Attributes and methods of DLPackObject that need Python's library, or are mostly words."""

from __future__ import annotations

import atexit
from time import sleep

from . import _pickle
from ._dlpack import _stop_deleters, asdlpack
from ._docs import DOCS
from ._errors import AS_BYTES, AS_COPIED_BYTES, device_text, refusal
from ._foreign import PROTOCOLS, bare, exception_text, type_name

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import DTypeLike, NDArray

    from ._dlpack import DLPackObject


@atexit.register
def wait_for_deleters() -> None:
    """Ctrl-C ends it, since a deleter may wait for ever."""
    while _stop_deleters():
        sleep(0.001)


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


def add_members(namespace: dict[str, object]) -> None:
    """What the type DLPackObject has besides what type.c says."""
    namespace.update(
        __doc__=DOCS["DLPackObject"],
        __array__=to_numpy,
        __bytes__=to_bytes,
        __rich_repr__=for_rich,
        _repr_html_=to_html,
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
