"""DLPackObject.__array__: a numpy array of the memory, with the types of ml_dtypes where numpy has none."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ._dlpack import DLPackObject

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def to_numpy(x: DLPackObject, dtype: "DTypeLike | None", copy: bool | None) -> "NDArray[Any]":
    """x is memory that the CPU can read, with a byte or more for each item."""
    import numpy

    if hasattr(x, "__array_interface__"):
        array = share(x, x.__array_interface__)
    else:
        missing = type_of(x.dtype)
        strides = tuple(stride * x.itemsize for stride in x.strides)
        interface = {"version": 3, "typestr": f"|V{x.itemsize}", "shape": x.shape, "strides": strides}
        array = share(x, {**interface, "data": (x.pointer, x.readonly)}).view(missing)
    return numpy.asarray(array, dtype) if copy is None else numpy.array(array, dtype, copy=copy)


def share(x: DLPackObject, interface: dict[str, Any]) -> "NDArray[Any]":
    """Not numpy.asarray(x), which may come back here."""
    import numpy

    return numpy.asarray(SimpleNamespace(__array_interface__=interface, memory=x))


def type_of(name: str) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        reason = "numpy has no such type (with ml_dtypes installed it has some)"
    else:
        if hasattr(ml_dtypes, name):
            return getattr(ml_dtypes, name)
        reason = "neither numpy nor ml_dtypes has such a type"
    raise BufferError(f'dtype {name}: {reason}; dlpack.frombuffer(x, "uint8") shares the bytes')
