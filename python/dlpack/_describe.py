"""describe: tells everything known about an object's memory, and consumes nothing."""

from __future__ import annotations

from ._arrow import read_once_by
from ._dlpack import DLPackObject, _inspect, _structure_reader, asdlpack
from ._errors import device_text
from ._foreign import bare, printable

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

Capsule = type(DLPackObject.__dlpack_c_exchange_api__)  # kept, since _dlpack loses its names at exit
FLAGS = {1: "READ_ONLY", 2: "IS_COPIED", 4: "SUBBYTE_TYPE_PADDED"}  # DLPACK_FLAG_BITMASK_...


class Description(dict[str, object]):
    """A dict that prints one entry a line."""

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:{width}}  {shown(name, value)}" for name, value in self.items())


def describe(obj: object, /) -> dict[str, Any]:
    """Describe the memory of a DLPackObject, a capsule, or anything else that asdlpack accepts, as a dict.

    Nothing is consumed, and nothing is copied. A consumed capsule tells only its name, since its memory belongs to its
    consumer. A stream that can be read only once is not read. If the memory can't be shared as it is, "refused"
    holds the error. print() shows one entry a line.

    The keys: owner (its type), protocol, capsule (its name), version and flags (of the capsule's structure; None if it
    has none), device, dtype, shape, strides, byte_strides, size, itemsize, nbytes, pointer, alignment, contiguous,
    readonly. strides count elements, byte_strides and alignment bytes; alignment is the largest power of two that the
    address is a multiple of; contiguous is "C", "Fortran", "C and Fortran" or "neither".

    Raises TypeError if obj has no memory.

    >>> about = describe(memoryview(bytes(6)).cast("B", (2, 3)))
    >>> about["shape"], about["dtype"], about["contiguous"]
    ((2, 3), 'uint8', 'C')
    """
    about = Description(owner=type_name(obj))
    protocol = read_once_by(obj)
    if protocol:
        about.update(protocol=protocol, refused="it can be read only once, so it is not read")
        return about
    try:
        if type(obj) is Capsule:
            about["capsule"], x = _inspect(obj)
        else:
            x = looked_at(obj)._tensor
    except (BufferError, ValueError, RuntimeError) as error:
        about.update(refused=f"{type(bare(error)).__name__}: {error}")
        return about
    if x is not None:
        about.update(properties(x))
    return about


def is_taken_over(obj: object) -> bool:
    """True for a capsule, a structure of dlpack.structs, or a ctypes pointer to one."""
    return type(obj) is Capsule or _structure_reader(obj) is not None


def is_used_up(obj: object) -> bool:
    """True if reading obj consumes it. A DLTensor is only borrowed, so it can be read again."""
    return is_taken_over(obj) and type(obj).__name__ != "LP_DLTensor"


def looked_at(obj: object) -> DLPackObject:
    """Returns what asdlpack would, but takes nothing over. A capsule or structure must outlive the result."""
    if type(obj) is Capsule:
        return _inspect(obj)[1] or asdlpack(obj)  # for a consumed capsule asdlpack raises
    if (read := _structure_reader(obj)) is not None:
        look = read(obj, False, None, takes=False)
        return asdlpack(obj) if isinstance(look, Exception) else look()  # asdlpack raises
    return asdlpack(obj)


def properties(x: DLPackObject) -> dict[str, Any]:
    version, order = x._version, ["C"] * x._is_row_major + ["Fortran"] * x._is_column_major
    return {
        "protocol": x.protocol,
        "version": version if version[0] else None,
        "flags": [name for bit, name in FLAGS.items() if x._flags & bit] if version[0] else None,
        "device": device_text(x),
        "dtype": x.dtype.name,
        "shape": x.shape,
        "strides": x.strides,
        "byte_strides": None if x._is_packed else x._byte_strides,
        "size": x.size,
        "itemsize": x.itemsize,
        "nbytes": x.nbytes,
        "pointer": x.pointer,
        "alignment": x.pointer & -x.pointer,
        "contiguous": " and ".join(order) or "neither",
        "readonly": x.readonly,
    }


def type_name(obj: object) -> str | None:
    owner = obj.obj if type(obj) is DLPackObject else obj  # isinstance would ask the object
    if owner is None and owner is not obj:
        return None  # a copy, or a pointer without an owner
    name = type(owner).__qualname__
    return name if type(owner).__module__ == "builtins" else f"{type(owner).__module__}.{name}"


def shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "pointer":
        return hex(value)
    if name == "version":
        return ".".join(map(str, value))
    return ", ".join(value) or "none" if name == "flags" else printable(str(value))
