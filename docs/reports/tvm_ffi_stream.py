"""tvm-ffi: __dlpack__ accepts a stream on the CPU

Expected: an error
Seen with apache-tvm-ffi 0.1.15.post2: a capsule

    "On CPU and other device types without streams, only None is accepted."

array API standard 2024.12, __dlpack__, stream.

Rules: producer-stream-on-cpu (tvm_ffi, tvm).
"""

import numpy as np
import tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(2, "f4"))
try:
    capsule = x.__dlpack__(stream=1)
except Exception:
    raise SystemExit("fixed") from None
raise AssertionError(f"stream=1 gives {capsule}")
