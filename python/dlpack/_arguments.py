"""What arguments mean that are no plain numbers or names, and devices by their names: the extension asks here."""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# A child that is forked while another thread imports a module would wait for ever for that thread to finish: so a fork
# waits until nobody imports dlpack._device, the one module that is imported later than the package.
importing = _thread.RLock()
os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release)


def devices() -> ModuleType:
    """dlpack._device, which is imported at its first use, since enum takes longer than all the rest."""
    with importing:
        from . import _device
    return _device


def device(text: str) -> tuple[int, int]:
    """ "cpu" or "cuda:1" as (device type, device id)."""
    pair: tuple[int, int] = devices().device(text)
    return pair


def device_type(number: int) -> int:
    """The DLDeviceType; a plain int where no module can be imported any more, since Python ends or the root changed."""
    try:
        named: int = devices().DLDeviceType(number)
    except ImportError:
        return number
    return named


def device_text(number: int, device_id: int) -> str:
    """ "kDLCUDA:0"."""
    name = getattr(device_type(number), "name", f"device type {number}")
    return f"{name}:{device_id}"

BUILTINS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}  # as in numpy


def dtype_text(dtype: Any) -> str:
    """The name of the data type that an object carries; of numpy's dtypes their typestr, as in the array interface."""
    numpy = sys.modules.get("numpy")
    if isinstance(dtype, type):
        if dtype in BUILTINS:
            return BUILTINS[dtype]
        if numpy is not None and issubclass(dtype, numpy.generic):
            dtype = numpy.dtype(dtype)
    dtype = getattr(dtype, "dtype", dtype)  # jax.numpy.float32
    if numpy is not None and isinstance(dtype, numpy.dtype):
        hidden = dtype.kind in "VW" or dtype.str[1:] == "f1"
        return f"{dtype.str} {dtype.name}" if hidden else str(dtype.str)
    name = getattr(dtype, "name", None)
    if not isinstance(name, str):
        name = str(dtype)  # torch.bfloat16
    name = name.rpartition(".")[2].replace("_x2", "x2")
    if dtype is None or not name.isidentifier():
        expected = "expected a name such as 'float32', or an object that carries one (of numpy, ml_dtypes or torch)"
        raise TypeError(f"dtype: {expected}, got {dtype!r:.100}")
    return name


def address(pointer: Any) -> int | None:
    """The address in a ctypes pointer; None where it is no such pointer."""
    ctypes = sys.modules.get("ctypes")
    if ctypes is None or not isinstance(pointer, (ctypes.c_void_p, ctypes.c_char_p, ctypes._Pointer)):
        return None
    return ctypes.c_void_p.from_buffer(pointer).value or 0  # ctypes.cast would make a reference cycle


def way_out(obj: Any) -> str:
    """What to pass instead of an object without memory, in parentheses; empty where nothing is known."""
    try:
        if isinstance(obj, list | tuple):
            instead = "use array.array or numpy.asarray"
        elif isinstance(obj, int):
            instead = "an address goes by dlpack.from_pointer"
        elif hasattr(obj, "getbuffer"):
            instead = "pass its getbuffer()"
        elif isinstance(obj, str | os.PathLike) or hasattr(obj, "fileno"):
            instead = "of a file: mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)"
        elif hasattr(obj, "__array__"):
            instead = "pass numpy.asarray(obj)"
        elif type(obj).__name__ == "CArgObject":
            instead = "pass ctypes.pointer instead of ctypes.byref"
        else:
            return ""
    except Exception:  # of the object's own: it has no memory all the same
        return ""
    return f" ({instead})"
