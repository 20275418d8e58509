"""Share the memory of any object with every library that speaks DLPack, without a copy."""

from ._device import DLDeviceType
from ._dlpack import DLPackObject, __version__, asdlpack, describe, from_pointer, frombuffer

__all__ = ["DLDeviceType", "DLPackObject", "__version__", "asdlpack", "describe", "from_pointer", "frombuffer"]
