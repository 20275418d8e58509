"""mpi4py: a buffer is made of a tensor of version 2.0

Expected: an error
Seen with mpi4py 4.1.2: a buffer

    "If the major version of DLPack [...] mismatches [...] the consumer must call the deleter
    [...] and it is not safe to access any other fields"

dlpack.h 1.3, DLPackVersion.

Rules: consumer-newer-major (mpi4py).
"""

import ctypes

import mpi4py
import numpy as np

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Producer:
    def __dlpack__(self, **_):
        capsule = np.arange(4.0).__dlpack__(max_version=(1, 0))
        ctypes.c_uint32.from_address(address_of(capsule, b"dltensor_versioned")).value = 2
        return capsule

    def __dlpack_device__(self):
        return 1, 0


try:
    x = MPI.buffer(Producer())
except Exception:
    raise SystemExit("fixed") from None
raise AssertionError(f"{x.nbytes} bytes")
