"""Share the memory of any object, without a copy, with every library that speaks DLPack, buffers or Arrow."""

from ._describe import describe
from ._device import DLDeviceType
from ._dlpack import DLPackObject, __version__, asdlpack, from_pointer, frombuffer

__all__ = ["DLDeviceType", "DLPackObject", "__version__", "asdlpack", "describe", "from_pointer", "frombuffer"]
