"""onnxruntime: __dlpack__ accepts a stream on the CPU

Expected: an error
Seen with onnxruntime 1.32.0: a capsule

    "On CPU and other device types without streams, only None is accepted."

array API standard 2024.12, __dlpack__, stream.

Rules: producer-stream-on-cpu (onnxruntime).
"""

import numpy as np
from onnxruntime import OrtValue

x = OrtValue.ortvalue_from_numpy(np.ones(2, "f4"))
try:
    capsule = x.__dlpack__(stream=1)
except Exception:
    raise SystemExit("fixed") from None
raise AssertionError(f"stream=1 gives {capsule}")
