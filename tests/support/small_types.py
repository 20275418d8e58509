"""The dtypes of ml_dtypes, by name."""

import ml_dtypes
import numpy as np

COMPLEX = "complex32", "bcomplex32"
# name: the code and the bits of DLPack
WHOLE_BYTES = {
    "bfloat16": (4, 16),
    "complex32": (5, 32),
    "bcomplex32": (18, 32),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
if not hasattr(ml_dtypes, "complex32"):  # before 0.6, the first without wheels for a free-threaded 3.13
    del WHOLE_BYTES["complex32"], WHOLE_BYTES["bcomplex32"]
PADDED = {  # ml_dtypes gives each item a byte
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
    "int4": (0, 4),
    "uint4": (1, 4),
    "int2": (0, 2),
    "uint2": (1, 2),
}
ALL = {**WHOLE_BYTES, **PADDED}


def numbers(name, shape=(2, 3)):
    dtype = np.dtype(getattr(ml_dtypes, name))
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("u1").astype(f"u{dtype.itemsize}").view(dtype)


def bits(array):
    return array.view(f"u{array.itemsize}").tolist()


def in_numpy(name):
    """Returns the hint in errors about such items, if ml_dtypes has them."""
    if name not in (*ALL, *COMPLEX):
        return ""
    return f"with ml_dtypes{' 0.6' * (name in COMPLEX)} numpy.asarray(x) has it; "
