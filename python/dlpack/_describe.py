"""dlpack.describe, which is imported when it is first called."""

from typing import Any

from ._dlpack import DLPackObject, _facts, _look

FLAGS = {1: "READ_ONLY", 2: "IS_COPIED", 4: "SUBBYTE_TYPE_PADDED"}  # DLPACK_FLAG_BITMASK_...


class Description(dict[str, Any]):
    """A dict that prints one entry a line."""

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:{width}}  {shown(name, value)}" for name, value in self.items())


def describe(obj: object, /) -> dict[str, Any]:
    about = Description(owner=type_name(obj))
    if is_read_once(obj):
        about.update(protocol="__arrow_c_stream__", refused="it can be read only once, so it is not read")
        return about
    try:
        capsule, x = _look(obj)
    except (BufferError, ValueError, RuntimeError) as error:
        about.update(refused=f"{type(error).__name__}: {error}")
        return about
    if capsule is not None:
        about.update(capsule=capsule)
    if x is not None:
        about.update(properties(x))
    return about


def properties(x: DLPackObject) -> dict[str, Any]:
    byte_strides, row_major, column_major, version, flags = _facts(x)
    device_type, device_id = x.device
    return {
        "protocol": x.protocol,
        "version": version,
        "flags": [name for bit, name in FLAGS.items() if flags & bit] if version else None,
        "device": f"{device_type.name}:{device_id}",
        "dtype": x.dtype,
        "shape": x.shape,
        "strides": x.strides,
        "byte_strides": byte_strides,
        "size": x.size,
        "itemsize": x.itemsize,
        "nbytes": x.nbytes,
        "pointer": x.pointer,
        "alignment": x.pointer & -x.pointer,
        "contiguous": " and ".join(["C"] * row_major + ["Fortran"] * column_major) or "neither",
        "readonly": x.readonly,
    }


def is_read_once(obj: object) -> bool:
    """An Arrow stream that is no container: reading it would consume it."""
    others = ["__dlpack__", "__array_interface__", "__array_struct__", "__arrow_c_array__", "__len__"]
    return hasattr(obj, "__arrow_c_stream__") and not any(hasattr(obj, name) for name in others)


def type_name(obj: object) -> str | None:
    owner = obj.obj if isinstance(obj, DLPackObject) else obj
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
    return ", ".join(value) or "none" if name == "flags" else str(value)
