"""DLPack's device types. device_types() of dlpack._arguments imports this module at first use."""

from enum import IntEnum


class DLDeviceType(IntEnum):
    """Kinds of devices, with the names and numbers of dlpack.h. No release of DLPack has the last three yet.

    >>> from dlpack import asdlpack
    >>> asdlpack(b"abc").device
    (<DLDeviceType.kDLCPU: 1>, 0)
    """

    __module__ = "dlpack"

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
    kDLTrn = 18
    kDLTPU = 19
    kDLTPUHost = 20
    kDLAscend = 21

    @classmethod
    def _missing_(cls, value: object) -> "DLDeviceType | None":
        """Makes a member for a type of a later version of DLPack, named by its number."""
        if not isinstance(value, int) or value < 1:
            return None
        device_type = int.__new__(cls, value)
        device_type._name_ = f"device type {value}"
        device_type._value_ = value
        return device_type
