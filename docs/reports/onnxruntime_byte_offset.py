"""onnxruntime: from_dlpack overlooks byte_offset

Expected: the items 16 to 31
Seen with onnxruntime 1.31.1: the items 0 to 15

    "The offset in bytes to the beginning pointer to data"

dlpack.h 1.3, DLTensor.byte_offset. onnxruntime/core/dlpack/dlpack_converter.cc, DlpackToOrtValue, reads data alone.

Rules: consumer-byte-offset (onnxruntime).
"""

import ctypes

import numpy as np
from onnxruntime import OrtValue

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

whole = np.arange(32, dtype="f4")
array = whole[16:]


def change(managed):
    ctypes.c_uint64.from_address(managed).value -= 64  # data
    ctypes.c_uint64.from_address(managed + 40).value = 64  # byte_offset


class Producer:
    """A legacy structure has data at byte 0, byte_offset at 40, manager_ctx at 48, the deleter at 56."""

    def __dlpack__(self, **_):
        capsule = array.__dlpack__()
        change(address_of(capsule, b"dltensor"))
        return capsule

    def __dlpack_device__(self):
        return 1, 0


x = OrtValue.from_dlpack(Producer())
assert np.array_equal(x.numpy(), array), x.numpy()
