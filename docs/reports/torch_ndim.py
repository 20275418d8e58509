"""torch: a tensor whose ndim is negative ends the process

Expected: an error
Seen with torch 2.15.0: it dies

    "Number of dimensions"

dlpack.h 1.3, DLTensor.ndim. Only a faulty producer gives -1; no text says what a consumer does.

Rules: consumer-malformed-ndim (torch).
"""

import ctypes

import numpy as np
import torch

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

array = np.arange(4.0)
capsule = array.__dlpack__()
ctypes.c_int32.from_address(address_of(capsule, b"dltensor") + 16).value = -1
try:
    x = torch.from_dlpack(capsule)
except Exception as error:
    print(error)
