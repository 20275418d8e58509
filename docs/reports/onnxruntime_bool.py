"""onnxruntime: a tensor of booleans is exported as one of uint8

Expected: data type code 6, kDLBool
Seen with onnxruntime 1.31.1: code 1, kDLUInt

    "bool: type_code = 6, bits = 8, lanes = 1"

dlpack.h 1.3, DLDataType. onnxruntime/core/dlpack/dlpack_converter.cc, GetDlpackDataType, says that torch
does so, which is true of it no more.

Rules: producer-data-types (onnxruntime).
"""

import ctypes

import numpy as np
from onnxruntime import OrtValue

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

capsule = OrtValue.ortvalue_from_numpy(np.array([True, False])).__dlpack__()
code = ctypes.c_uint8.from_address(address_of(capsule, b"dltensor") + 20).value
assert code == 6, f"the data type's code is {code}"
