"""DLPackObject.__array__: a numpy array of the memory, with the types of ml_dtypes where numpy has none."""

from __future__ import annotations

from types import SimpleNamespace

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import DTypeLike, NDArray

    from ._dlpack import DLPackObject


def to_numpy(x: DLPackObject, interface: dict[str, Any], dtype: DTypeLike | None, copy: bool | None) -> NDArray[Any]:
    """The interface is that of x; its typestr is "|V2" or the like where no other says the data type."""
    import numpy

    array = numpy.asarray(SimpleNamespace(__array_interface__=interface, memory=x))
    if array.dtype.kind == "V":
        array = array.view(type_of(x.dtype))
    return numpy.asarray(array, dtype) if copy is None else numpy.array(array, dtype, copy=copy)


def type_of(name: str) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        reason = "numpy has no such type, but with ml_dtypes installed has some"
    else:
        if hasattr(ml_dtypes, name):
            return getattr(ml_dtypes, name)
        reason = "neither numpy nor ml_dtypes has such a type"
    raise BufferError(f'dtype {name}: {reason} (dlpack.frombuffer(x, "uint8") shares the bytes)')
