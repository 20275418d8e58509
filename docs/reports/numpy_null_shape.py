"""numpy: a tensor whose shape is NULL ends the process

Expected: an error
Seen with numpy 2.4.6: SIGSEGV

    "The shape of the tensor"

dlpack.h 1.3, DLTensor.shape. Only a faulty producer gives NULL; no text says what a consumer does.

Rules: consumer-malformed-shape (numpy).
"""

import ctypes

import numpy as np

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

array = np.arange(4.0)


class Producer:
    def __dlpack__(self, **_):
        capsule = array.__dlpack__()
        ctypes.c_void_p.from_address(address_of(capsule, b"dltensor") + 24).value = None
        return capsule

    def __dlpack_device__(self):
        return 1, 0


try:
    x = np.from_dlpack(Producer())
except Exception as error:
    print(error)
