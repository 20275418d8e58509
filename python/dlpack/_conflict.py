"""Detect pydlpack, which has the same import name: pip lets the package that is installed last overwrite files of the
other, and removes them with whichever is uninstalled first.

Nothing here raises. It imports only _foreign from this package, since other files may be pydlpack's or missing."""

from __future__ import annotations

import os

from ._foreign import printable

# Names that users look for here, nearly all pydlpack's, and what to use instead.
INSTEAD = {
    "array": "use dlpack.to(obj, 'numpy')",
    "asarray": "use dlpack.to(obj, 'numpy')",
    "from_numpy": "use dlpack.asdlpack(obj)",
    "to_dlpack": "use dlpack.asdlpack(obj)",
    "Buffer": "dlpack.asdlpack(obj) has the pointer, shape and strides of a buffer",
    "Capsule": "dlpack.asdlpack(capsule) takes it over, dlpack.describe(capsule) tells what is in it",
    "DLDataTypeCode": 'data types are names here, such as "bfloat16"',
    "from_dlpack": "use that of the library which shall have the memory, as numpy.from_dlpack(dlpack.asdlpack(obj))",
    "todict": "use dlpack.describe(obj)",
    **dict.fromkeys(
        ("DLManagedTensorImpl", "MemoryManager"), "nothing has to keep the memory: it is freed with its last holder"
    ),
    **dict.fromkeys(
        (
            "asdlpack_array_interface_v2",
            "asdlpack_array_interface_v3",
            "asdlpack_buffer",
            "asdlpack_cuda_array_interface",
            "asdlpack_dlpack",
        ),
        "use dlpack.asdlpack(obj), which finds the protocol",
    ),
    **{
        name: f"use dlpack.structs.{name}"
        for name in "DLDataType DLDevice DLManagedTensor DLManagedTensorVersioned DLPackVersion DLTensor".split()
    },
}


def no_attribute(name: str) -> AttributeError:
    instead = f" ({INSTEAD[name]})" if name in INSTEAD else ""
    return AttributeError(f"module 'dlpack' has no attribute '{name}'{instead}")


def conflict(folder: str) -> str | None:
    """Returns what is wrong in the package's folder, with the fix; None if nothing is."""
    try:
        others = other_owners()
        if others:
            names = " and ".join(others)
            return (
                f"{names} has the same import name, and overwrites files of dlpack-go or has some overwritten; run "
                f"pip uninstall --yes dlpack-go {' '.join(others)}, then install one of them again"
            )
        if not os.path.exists(os.path.join(folder, "__init__.py")):
            return (
                f"{folder} has lost its __init__.py, as it does when pydlpack is uninstalled; run pip uninstall --yes "
                "dlpack-go, then install it again"
            )
        if os.path.exists(os.path.join(folder, "capsule.py")):
            return f"{folder} holds files of pydlpack; remove that folder, then install dlpack-go again"
    except Exception:  # such as one of importlib.metadata itself
        pass
    return None


def other_owners() -> list[str]:
    """Returns the names of the other installed distributions that have a dlpack/__init__.py."""
    from importlib.metadata import distributions

    owners = set()
    for each in distributions():
        try:
            if "\ndlpack/__init__.py," in f"\n{each.read_text('RECORD')}" and "Name" in each.metadata:
                owners.add(each.metadata["Name"])
        except Exception:  # metadata may be broken
            continue
    return sorted(owners - {"dlpack-go"})


def warn(folder: str) -> None:
    import warnings

    try:
        if text := conflict(folder):
            warnings.warn(printable(text), stacklevel=3)
    except Warning:
        pass  # with -W error, the warning must not break the import
