"""tensorflow: from_dlpack overlooks lanes

Expected: 3 items of 2 floats each, or an error
Seen with tensorflow-cpu 2.21.0: 3 floats: the first half

    "float4(vectorized 4 float): type_code = 2, bits = 32, lanes = 4"

dlpack.h 1.3, DLDataType. tensorflow/c/eager/dlpack.cc, TFE_HandleFromDLPack, counts bits alone.

Rules: consumer-lanes (tensorflow).
"""

import ctypes

import numpy as np
import tensorflow as tf

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

array = np.arange(6, dtype="f4")
capsule = array[:3].__dlpack__()
ctypes.c_uint16.from_address(address_of(capsule, b"dltensor") + 22).value = 2
try:
    x = tf.experimental.dlpack.from_dlpack(capsule)
except Exception:
    raise SystemExit("fixed") from None
assert x.numpy().size == 6, x
