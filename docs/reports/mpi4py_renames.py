"""mpi4py: MPI.buffer does not rename the capsule that it takes

Expected: "used_dltensor_versioned"
Seen with mpi4py 4.1.2: "dltensor_versioned"

    "The consumer must transfer ownership of the DLManagedTensor from the capsule to its own object. It does so by
    renaming the capsule to used_dltensor"

Python specification of DLPack, implementation. The buffer keeps the capsule, whose destructor calls the deleter.

Rules: consumer-renames (mpi4py).
"""

import mpi4py
import numpy as np

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402


class Producer:
    def __dlpack__(self, **_):
        self.capsule = np.ones(2, "f4").__dlpack__(max_version=(1, 0))
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


producer = Producer()
x = MPI.buffer(producer)
assert '"used_dltensor_versioned"' in repr(producer.capsule), producer.capsule
