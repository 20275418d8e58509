"""mlx: __dlpack__ accepts a stream on the CPU

Expected: an error
Seen with mlx 0.32.4: a capsule

    "On CPU and other device types without streams, only None is accepted."

array API standard 2024.12, __dlpack__, stream.

Rules: producer-stream-on-cpu (mlx, nanobind).
"""

import mlx.core as mx

x = mx.array([1.0, 2.0])
try:
    capsule = x.__dlpack__(stream=1)
except Exception:
    raise SystemExit("fixed") from None
raise AssertionError(f"stream=1 gives {capsule}")
