"""Give any library that supports DLPack, buffers or Arrow a zero-copy view of any object's memory.

to(obj, target) gives any object's memory as another library's own array: dlpack.to(b"Hello!", "numpy").

These give a DLPackObject for any from_dlpack(), as in torch.from_dlpack(dlpack.asdlpack(b"Hello!")); for tensorflow
pass its __dlpack__():

    asdlpack(obj)                        shares the memory of any object, by the protocol that it supports
    frombuffer(obj, dtype, shape)        shares its bytes as the type and shape that you name
    from_pointer(address, shape, dtype)  shares memory at an address
    memmap(path, dtype, shape)           maps a file
    shared(shape, dtype)                 allocates memory that several processes can map

And these accept whatever asdlpack accepts:

    copy_into(source, target)            copies into existing memory
    describe(obj)                        tells what is known about the memory
    borrow(obj)                          lends a C function a pointer to a DLTensor

dlpack.structs has DLPack's structures for ctypes, and get_include() returns the folder of their C header.
"""

import os as _os

try:
    from ._dlpack import DLPackObject, __version__, asdlpack, copy_into, from_pointer, frombuffer, to
except ModuleNotFoundError:
    _archive = getattr(__spec__.loader, "archive", None)
    if _archive is None:
        raise
    raise ImportError(
        f"dlpack can't be imported from inside the zip file {_archive}: its shared libraries have to be files "
        "(unpack it, or make the application with shiv or pex, which unpack themselves)"
    ) from None
from . import _connect
from ._describe import describe

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from ._device import DLDeviceType as DLDeviceType
    from ._memmap import memmap
    from ._shared import shared
    from .structs import borrow

__all__ = [
    "DLPackObject",
    "__version__",
    "asdlpack",
    "borrow",
    "copy_into",
    "describe",
    "from_pointer",
    "frombuffer",
    "get_include",
    "memmap",
    "shared",
    "to",
]


def get_include() -> str:
    """Return the folder for a C or C++ compiler's -I, in which `#include <dlpack/dlpack.h>` finds DLPack's header.

    >>> import os
    >>> os.listdir(f"{get_include()}/dlpack")
    ['dlpack.h']
    """
    return f"{__path__[0]}/include"


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        """Imports a name at first use if it needs a module that takes long to import."""
        value: object
        if name == "DLDeviceType":
            from ._arguments import device_types

            value = device_types()
        elif name == "borrow":
            from .structs import borrow

            value = borrow
        elif name == "memmap":
            from ._memmap import memmap

            value = memmap
        elif name == "shared":
            from ._shared import shared

            value = shared
        elif name == "structs":
            from importlib import import_module  # "from . import structs" would call this function again

            value = import_module(".structs", __name__)
        else:
            from ._conflict import no_attribute

            raise no_attribute(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "DLDeviceType"})


if _os.path.exists(_os.path.join(__path__[0], "capsule.py")):  # a file of pydlpack
    from ._conflict import warn

    warn(__path__[0])
    del warn

del TYPE_CHECKING, _connect, _os  # so that dir() and completion show only what this package offers
