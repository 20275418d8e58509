"""Device types of DLPack, and their names: devices() of dlpack._arguments imports it at its first use."""

from enum import IntEnum


class DLDeviceType(IntEnum):
    """Kinds of devices, under the names and numbers of dlpack.h 1.3."""

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

    @classmethod
    def _missing_(cls, value: object) -> "DLDeviceType | None":
        """A later minor version of DLPack may have more: they are named by their number."""
        if not isinstance(value, int) or value < 1:
            return None
        device_type = int.__new__(cls, value)
        device_type._name_ = f"device type {value}"
        device_type._value_ = value
        return device_type


DEVICES = {type.name.removeprefix("kDL").lower(): type for type in DLDeviceType}


def device(text: str) -> tuple[int, int] | Exception:
    """ "cpu" or "cuda:1" as (device type, device id)."""
    name, colon, number = text.partition(":")
    device_type = DEVICES.get(name.removeprefix("kDL").lower())
    if device_type is None:
        return ValueError(
            f"device {text!r:.100}: unknown; expected one of {', '.join(DEVICES)}, and an id as in 'cuda:1'"
        )
    if colon and not (number.isascii() and number.isdigit() and len(number) <= 10 and int(number) < 2**31):
        return ValueError(f"device {text!r:.100}: expected the id behind the colon, as in 'cuda:1'")
    return device_type, int(number or 0)
