"""paddle: the deleter of a tensor whose manager_ctx is NULL is never called

Expected: one call
Seen with paddlepaddle 3.3.1: none: the memory leaks

    "the context of the original host framework of DLManagedTensor [...]. It can also be NULL."

dlpack.h 1.3, DLManagedTensor.manager_ctx.

Rules: consumer-null-manager-ctx (paddle).
"""

import ctypes

import numpy as np
import paddle

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

array, calls = np.arange(64, dtype="f4"), []
deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)


def change(managed):
    ctypes.c_void_p.from_address(managed + 48).value = None
    ctypes.c_void_p.from_address(managed + 56).value = ctypes.cast(deleter, ctypes.c_void_p).value


class Producer:
    """A legacy structure has data at byte 0, byte_offset at 40, manager_ctx at 48, the deleter at 56."""

    def __dlpack__(self, **_):
        capsule = array.__dlpack__()
        change(address_of(capsule, b"dltensor"))
        return capsule

    def __dlpack_device__(self):
        return 1, 0


x = paddle.from_dlpack(Producer())
del x
assert len(calls) == 1, f"{len(calls)} calls"
