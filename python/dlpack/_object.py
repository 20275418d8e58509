"""Attributes and methods of DLPackObject that need Python's library, or are mostly words."""

from __future__ import annotations

import _thread
import os

from ._errors import type_name

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from numpy.typing import DTypeLike, NDArray

    from ._dlpack import DLPackObject


# A child that is forked while another thread imports a module would wait for ever for that thread to finish: so a fork
# waits until nobody imports dlpack._device, the one module that is imported later than the package.
importing = _thread.RLock()
os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release)

imported: list[ModuleType] = []


def devices() -> ModuleType:
    """dlpack._device, which is imported at its first use, since enum takes longer than all the rest."""
    if not imported:
        with importing:
            from . import _device
        imported.append(_device)
    return imported[0]


def device(number: int, id: int) -> tuple[int, int]:
    """The DLDeviceType; a plain int where no module can be imported any more, since Python ends or the root changed."""
    try:
        return devices().DLDeviceType(number), id
    except ImportError:
        return number, id


def device_text(x: DLPackObject) -> str:
    """ "kDLCUDA:0"."""
    kind, id = x.device
    return f"{getattr(kind, 'name', f'device type {kind}')}:{id}"


def wrong_device(x: DLPackObject, reason: str) -> str:
    return f"device {device_text(x)}: {reason}"


def wrong_strides(x: DLPackObject, expected: str) -> str:
    return f"strides {x.strides} of shape {x.shape}: expected {expected}"


def repr_of(
    x: DLPackObject, protocol: str | None, tensor: DLPackObject | None, refusal: str | None, is_copy: bool
) -> str:
    """Of the object with x's tensor, or where x's producer refuses it, what was said; no protocol: x was cleared."""
    text = refusal if tensor is None else tensor_text(tensor, is_copy)
    if protocol is None:
        return f"<dlpack.DLPackObject: {text}>"
    source = "" if x.obj is None else f"from {type_name(x.obj)} "
    return f"<dlpack.DLPackObject: {text}, {source}by {protocol}>"


def tensor_text(x: DLPackObject, is_copy: bool) -> str:
    """ "float32[2, 3] at 0x7f0123456780, 24 bytes on kDLCPU:0, read-only"."""
    shape = ", ".join(map(str, x.shape))
    text = f"{x.dtype}[{shape}] at {x.pointer:#x}, {x.nbytes} bytes on {device_text(x)}"
    return text + ", read-only" * x.readonly + ", a copy" * is_copy


class Speaker:
    """Speaks the array interface for x, and keeps it alive."""

    def __init__(self, x: DLPackObject, interface: dict[str, Any]):
        self.memory, self.__array_interface__ = x, interface


def to_numpy(
    x: DLPackObject, interface: dict[str, Any], is_packed: bool, dtype: DTypeLike | None, copy: bool | None
) -> NDArray[Any]:
    """A numpy array by x's array interface, whose typestr is empty where none says the data type; with the types of
    ml_dtypes where numpy has none."""
    if is_packed:
        raise BufferError(
            f"dtype {x.dtype}: items share bytes, and numpy's don't (dlpack.frombuffer(x, \"uint8\") shares the bytes)"
        )
    import numpy

    interface["typestr"] = interface["typestr"] or f"|V{x.itemsize}"  # of such items numpy knows the size alone
    array = numpy.asarray(Speaker(x, interface))
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
