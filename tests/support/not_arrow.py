"""Tensors that Arrow has no words for, with the reason that each is refused for, and the way out."""

import ml_dtypes
import numpy as np

from dlpack import asdlpack
from support.capi import Managed


def on_device(device, dtype=(2, 32, 1), shape=(3,), strides=None, data=4096):
    return asdlpack(Managed(data, shape=shape, strides=strides, dtype=dtype, device=device).capsule())


TYPES = "expected bool, an int, a uint or a float16, float32 or float64, as Arrow has them"
GAPS = "expected row-major memory without gaps (asdlpack(x, copy=True) makes it so)"
BYTES = '(dlpack.frombuffer(x, "uint8") shares the bytes)'
REFUSED = {
    "0-d": (lambda: asdlpack(np.zeros(())), "shape (): expected one dimension or more", "numpy.asarray(x).reshape(1)"),
    "gaps": (lambda: asdlpack(np.zeros(6)[::2]), f"strides (2,) of shape (3,): {GAPS}", ""),
    "reversed": (lambda: asdlpack(np.zeros(3)[::-1]), f"strides (-1,) of shape (3,): {GAPS}", ""),
    "column-major": (lambda: asdlpack(np.zeros((2, 3)).T), f"strides (1, 3) of shape (3, 2): {GAPS}", ""),
    "complex64": (lambda: asdlpack(np.zeros(3, "c8")), f"dtype complex64: {TYPES}", BYTES),
    "bfloat16": (lambda: asdlpack(np.zeros(3, ml_dtypes.bfloat16)), f"dtype bfloat16: {TYPES}", BYTES),
    "packed": (lambda: on_device((1, 0), (0, 4, 1)), f"dtype int4: {TYPES}", BYTES),
    "lanes": (lambda: on_device((1, 0), (2, 32, 2)), f"dtype float32x2: {TYPES}", BYTES),
    "CUDA": (lambda: on_device((2, 1)), "device kDLCUDA:1: the CPU can't read this memory", "copies it to the host"),
    "long rows": (
        lambda: on_device((1, 0), (0, 8, 1), (2, 1 << 31)),
        "shape: rows of 2147483648 items; expected at most 2147483647, the longest of Arrow's fixed-size lists",
        "numpy.asarray(x).reshape(-1)",
    ),
}
