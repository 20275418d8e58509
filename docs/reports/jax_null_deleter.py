"""jax: a tensor whose deleter is NULL ends the process

Expected: the tensor is taken, or refused with an error
Seen with jax 0.10.2: SIGABRT: std::bad_function_call

    "Destructor - this should be called to destruct the manager_ctx which backs the DLManagedTensor. It can be NULL if
    there is no way for the caller to provide a reasonable destructor."

dlpack.h 1.3, DLManagedTensor.deleter. In xla/python/dlpack.cc on_delete_callback stays empty, and is called.

Rules: consumer-null-deleter (jax).
"""

import ctypes

import jax.dlpack
import numpy as np

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

memory = np.zeros(80, "f4")
array = memory[-memory.ctypes.data % 64 // 4 :][:64]  # aligned, else it is copied


def change(managed):
    ctypes.c_void_p.from_address(managed + 56).value = None


class Producer:
    """A legacy structure has data at byte 0, byte_offset at 40, manager_ctx at 48, the deleter at 56."""

    def __dlpack__(self, **_):
        capsule = array.__dlpack__()
        change(address_of(capsule, b"dltensor"))
        return capsule

    def __dlpack_device__(self):
        return 1, 0


try:
    x = jax.dlpack.from_dlpack(Producer())
except Exception as error:
    print(error)
x = None
