"""pyarrow: Tensor.__dlpack__(copy=True) of a strided tensor has wrong values

Expected: the values of the tensor
Seen with pyarrow 26.0.1: the copy is compact, but keeps the strides: what is read lies beyond its end

    "If True, the function must always copy (performed by the producer)"

array API standard 2024.12, __dlpack__, copy.

Rules: producer-copy-layouts (pyarrow).
"""

import numpy as np
import pyarrow as pa

array = np.arange(24, dtype="f4").reshape(2, 3, 4)[..., ::2]
x = np.from_dlpack(pa.Tensor.from_numpy(array), copy=True)
assert np.array_equal(x, array), x
