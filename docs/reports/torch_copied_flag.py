"""torch: __dlpack__(copy=True) does not flag the copy

Expected: bit 1 of flags is set, DLPACK_FLAG_BITMASK_IS_COPIED
Seen with torch 2.15.0: flags are 0

    "When a copy happens, the DLPACK_FLAG_BITMASK_IS_COPIED flag must be set."

array API standard 2024.12, __dlpack__, copy.

Rules: producer-copied-flag (torch).
"""

import ctypes

import torch

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

capsule = torch.ones(2).__dlpack__(max_version=(1, 0), copy=True)
flags = ctypes.c_uint64.from_address(address_of(capsule, b"dltensor_versioned") + 24).value
assert flags & 2, f"flags are {flags:#x}"
