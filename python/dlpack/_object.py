"""Attributes and methods of DLPackObject that need Python's standard library, or consist mostly of text."""

from __future__ import annotations

import atexit
from time import sleep

from . import _pickle
from ._dlpack import _stop_deleters, asdlpack
from ._docs import DOCS
from ._errors import as_unpacked, device_text, refuse
from ._foreign import PROTOCOLS, bare, exception_text, type_name
from ._refusals import IMMUTABLE, as_refusal, quoted, refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import DTypeLike, NDArray

    from ._dlpack import DLPackObject


@atexit.register
def wait_for_deleters() -> None:
    """Waits at exit until no deleter uses Python. Ctrl-C ends the wait, since a deleter may block forever."""
    while _stop_deleters():
        sleep(0.001)


BEFORE_BUFFER = PROTOCOLS[: PROTOCOLS.index("buffer")]


def shares_by_both(kind: type, has_dlpack: bool) -> Any:
    """Returns which protocol serves all objects of a type that looks up attributes as object does.

    A class of data types: both __dlpack__ and the buffer, which give the same memory, as only numpy's arrays do; those
    with a data type of this class hold Python objects, and share nothing. False: the method __dlpack__ if has_dlpack,
    else the buffer, since the type has no protocol before it. None: the protocol may change, or differ between objects.
    """
    if type(kind) is not type or kind.__dictoffset__:
        return None  # an object may get an attribute of its own
    for base in kind.__mro__:
        if not base.__flags__ & IMMUTABLE:
            return None  # the type may get one
    if has_dlpack:
        is_numpys = kind.__name__ == "ndarray" and getattr(kind, "__module__", None) == "numpy"
        if type(kind.__dlpack__) is not type(str.join):  # type: ignore[attr-defined]
            return None
        return type(kind(0, object).dtype) if is_numpys else False
    for name in BEFORE_BUFFER:
        if hasattr(kind, name):
            return None
    return False


def repr_of(x: DLPackObject) -> str:
    """Returns the repr of x: its tensor, or the refusal of its producer."""
    protocol = x.protocol
    try:
        tensor = x._tensor
        text, protocol = tensor_text(tensor), tensor.protocol
    except Exception as error:
        text = exception_text(bare(error))
    source = "" if x.obj is None else f"from {type_name(x.obj)} "
    return f"<dlpack.DLPackObject: {text}, {source}by {protocol}>"


def tensor_text(x: DLPackObject) -> str:
    """Returns a text such as "float32[2, 3] at 0x7f0123456780, 24 bytes on kDLCPU:0, read-only"."""
    shape = ", ".join(map(str, x.shape))
    text = f"{x.dtype}[{shape}] at {x.pointer:#x}, {x.nbytes} bytes on {device_text(x)}"
    return text + ", read-only" * x.readonly + ", a copy" * x._is_copy


AN_ARRAY = "numpy.asarray(x), or the from_dlpack of another library, makes one of the same memory"
# Attributes of other libraries' arrays, and what to use instead.
INSTEAD = {
    "clone": "asdlpack(x, copy=True)",
    "copy": "asdlpack(x, copy=True)",
    "cpu": 'asdlpack(x, device="cpu", copy=None)',
    "cuda": 'asdlpack(x, device="cuda", copy=None)',
    "data_ptr": "x.pointer",
    "numpy": "numpy.asarray(x)",
    "to": "dlpack.to(x, library, device=device)",
    **dict.fromkeys(
        ("__enter__", "__exit__", "close", "release"),
        "del x, which releases the memory once no array shares it",
    ),
    **{name: f"numpy.asarray(x).{name}" for name in "T astype flags item max mean min reshape sum tolist view".split()},
}


def no_array(use: str, kind: type[Exception] = TypeError) -> Exception:
    return refusal(kind, "no-array", f"'dlpack.DLPackObject' object {use}: it isn't an array", AN_ARRAY)


def lacking(name: str, instead: str) -> property:
    """Returns a property that raises AttributeError, so that hasattr is False. The error says what to use instead."""

    # Defaults, not closure cells: a free-threaded build locks a cell to read it, and a fork may copy it locked.
    def refuse(x: DLPackObject, name: str = name, instead: str = instead) -> Any:
        said = f"'dlpack.DLPackObject' object has no attribute '{name}': it isn't an array; use {instead}"
        raise refusal(AttributeError, "no-array", said, attribute=name)

    return property(refuse, doc=f"Absent: use {instead}.")


def present(self: DLPackObject) -> list[str]:
    """Returns the attributes for dir() and completion: all but those that only raise what to use instead."""
    return [name for name in object.__dir__(self) if name not in INSTEAD]


def to_html(self: DLPackObject) -> str:
    """Return the description as an HTML table, which notebooks show."""
    from html import escape

    from ._describe import describe, shown

    rows = (f"<tr><th>{name}</th><td>{escape(shown(name, value))}</td></tr>" for name, value in describe(self).items())
    return f"<table><caption>dlpack.DLPackObject</caption>{''.join(rows)}</table>"


def for_rich(self: DLPackObject) -> Iterable[tuple[str, object]]:
    from ._describe import describe

    return describe(self).items()


def interface(x: DLPackObject, stream: int | None = None) -> dict[str, Any]:
    """Returns x's array interface. With a stream, which orders the memory, returns CUDA's."""
    data = (x._address if stream is None else x.pointer), x.readonly  # CUDA's is 0 without items
    made = {"version": 3, "typestr": x._typestr, "shape": x.shape, "data": data}
    if not x._is_row_major:  # numpy 2.4 leaks a reference to None if "strides" is None
        made["strides"] = x._byte_strides
    if stream is not None:
        made["stream"] = stream or None  # 0: unknown, or nothing to wait for
    return made


def absent(attribute: str, error: Exception) -> Exception:
    old, (said, cure) = as_refusal(error), quoted(error)
    return refusal(AttributeError, old.reason, f"{attribute}: {said}", cure, **old.details)


def to_numpy(self: DLPackObject, dtype: DTypeLike | None = None, *, copy: bool | None = None) -> NDArray[Any]:
    """Return this memory as a numpy array. If numpy lacks its data type, use that of ml_dtypes, if installed.

    Shares the memory unless dtype or copy need a copy. Raises BufferError if the CPU can't read the memory, or if
    neither numpy nor ml_dtypes has its data type.
    """
    x = self._on_cpu
    if x._is_packed:
        raise refuse(x, "packed-for-numpy")
    import numpy

    described = interface(x)
    described["typestr"] = described["typestr"] or x.dtype.str  # numpy knows only the size of such items
    array = numpy.asarray(Speaker(self, described))
    if array.dtype.kind == "V":
        array = array.view(type_of(x))
    return numpy.asarray(array, dtype) if copy is None else numpy.array(array, dtype, copy=copy)


def numpy_dtype(self: DLPackObject) -> Any:
    """The numpy.dtype of this memory, which numpy asks for. Absent if numpy and ml_dtypes don't have it."""
    try:
        import numpy

        return numpy.dtype(self._tensor._typestr or type_of(self))
    except (BufferError, ImportError) as error:
        raise absent("__numpy_dtype__", error) from None


def tobytes(self: DLPackObject) -> bytes:
    """Return a copy of the items' bytes in row-major order, for any data type."""
    x = self._on_cpu
    return b"".join([x if x._is_row_major else asdlpack(x, copy=True)])  # join asks the buffer for no format


to_numpy.__name__, to_numpy.__qualname__ = "__array__", "DLPackObject.__array__"  # the name in errors
tobytes.__qualname__ = "DLPackObject.tobytes"


def add_members(namespace: dict[str, object]) -> None:
    """Adds the members of the type DLPackObject that type.c does not define."""
    namespace.update(
        __doc__=DOCS["DLPackObject"],
        __array__=to_numpy,
        __bytes__=tobytes,
        __dir__=present,
        __numpy_dtype__=property(numpy_dtype),
        __rich_repr__=for_rich,
        _repr_html_=to_html,
        tobytes=tobytes,
        **_pickle.MEMBERS,
        **{name: lacking(name, instead) for name, instead in INSTEAD.items()},
    )


class Speaker:
    """Has the array interface of x, and keeps x alive."""

    def __init__(self, x: DLPackObject, interface: dict[str, Any]):
        self.memory, self.__array_interface__ = x, interface


def type_of(x: DLPackObject) -> Any:
    name = x.dtype

    def none(why: str) -> Exception:
        return refusal(BufferError, "not-in-numpy", f"dtype {name}: {why}", as_unpacked(x), dtype=name)

    try:
        import ml_dtypes
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "ml_dtypes":
            raise none("numpy has no such type, but with ml_dtypes installed has some") from None
        raise none(f"numpy has no such type, and ml_dtypes can't be imported: {exception_text(error)}") from error
    if not hasattr(ml_dtypes, name):
        raise none("neither numpy nor ml_dtypes has such a type")
    return getattr(ml_dtypes, name)
