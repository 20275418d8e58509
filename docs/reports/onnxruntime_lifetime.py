"""onnxruntime: the memory of an exported OrtValue is freed while the consumer uses it

Expected: the values stay
Seen with onnxruntime 1.32.0: use after free: the values of other arrays

    "The producer keeps owning the memory of x"; "the deleter usually needs to Py_DECREF the original owner"

Python specification of DLPack, semantics and implementation.

OrtValue keeps the numpy array in a Python attribute, which the capsule doesn't hold. The docstring of __dlpack__ asks
to keep the OrtValue alive; no consumer can know that.

Rules: producer-lifetime (onnxruntime).
"""

import numpy as np
from onnxruntime import OrtValue

taken = np.from_dlpack(OrtValue.ortvalue_from_numpy(np.ones(1000, "f4")))
others = [np.full(1000, 7, "f4") for _ in range(20)]
assert (taken == 1).all(), taken[:4]
