"""mlx: from_dlpack does not rename the capsule that it takes

Expected: "used_dltensor"
Seen with mlx 0.32.4: "dltensor"

    "The consumer must transfer ownership of the DLManagedTensor from the capsule to its own object. It does so by
    renaming the capsule to used_dltensor"

Python specification of DLPack, implementation.

The cause is nanobind's: nb_ndarray.cpp clears the capsule's destructor instead, and renames what the user hands over
as a capsule.

Rules: consumer-renames (mlx, nanobind).
"""

import mlx.core as mx
import numpy as np


class Producer:
    def __dlpack__(self, **_):
        self.capsule = np.ones(2, "f4").__dlpack__()
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


producer = Producer()
x = mx.from_dlpack(producer)
assert '"used_dltensor"' in repr(producer.capsule), producer.capsule
