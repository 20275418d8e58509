"""Share the memory of any object, without a copy, with every library that speaks DLPack, buffers or Arrow.

These give a DLPackObject, which every from_dlpack takes but tensorflow's, which takes its __dlpack__(), as in
torch.from_dlpack(dlpack.asdlpack(b"Hello!")):

    asdlpack(obj)                        the memory of any object, by the protocol that it speaks
    frombuffer(obj, dtype, shape)        its bytes, as the type and shape that you name
    from_pointer(address, shape, dtype)  memory at an address
    shared(shape, dtype)                 new memory that several processes can map

And these work with whatever asdlpack takes:

    copy_into(source, target)            copies into memory that is there already
    describe(obj)                        what is known of the memory
    borrow(obj)                          a pointer to a DLTensor, for a C function

dlpack.structs has DLPack's structures for ctypes, and get_include() the folder of their C header.
"""

import os as _os

try:
    from ._dlpack import DLPackObject, __version__, asdlpack, copy_into, from_pointer, frombuffer
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
    from ._device import DLDeviceType
    from ._shared import shared
    from .structs import borrow

__all__ = [
    "DLDeviceType",
    "DLPackObject",
    "__version__",
    "asdlpack",
    "borrow",
    "copy_into",
    "describe",
    "from_pointer",
    "frombuffer",
    "get_include",
    "shared",
]


def get_include() -> str:
    """The folder for a C or C++ compiler's -I: `#include <dlpack/dlpack.h>` then has the structures of DLPack 1.3.

    >>> import os
    >>> os.listdir(f"{get_include()}/dlpack")
    ['dlpack.h']
    """
    return f"{__path__[0]}/include"


if not TYPE_CHECKING:  # to a type checker it would make any name right

    def __getattr__(name: str) -> object:
        """What needs enum, ctypes or multiprocessing, which take long to import, is imported when first asked for."""
        value: object
        if name == "DLDeviceType":
            from ._arguments import device_types

            value = device_types()
        elif name == "borrow":
            from .structs import borrow

            value = borrow
        elif name == "shared":
            from ._shared import shared

            value = shared
        elif name == "structs":
            from importlib import import_module  # "from . import structs" asks this function again

            value = import_module(".structs", __name__)
        else:
            from ._conflict import no_attribute

            raise no_attribute(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if _os.path.exists(_os.path.join(__path__[0], "capsule.py")):  # pydlpack's
    from ._conflict import warn

    warn(__path__[0])
    del warn

del TYPE_CHECKING, _connect, _os  # dir() and completion show what this package offers
