"""Run by test_peer.py in an environment with pydlpack and in ours, both of which are imported as dlpack: wraps what the
table holds, hands it to numpy, and prints as JSON what arrived and what should have."""

import array
import ctypes
import json
import mmap
import warnings
from functools import partial

import numpy as np

from dlpack import asdlpack

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
MATRIX = np.arange(12.0).reshape(3, 4)


class Speaks:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def interface(values, **changes):
    """Speaks the array interface alone."""
    return Speaks(__array_interface__={**values.__array_interface__, **changes}, keep=values)


def struct(values):
    return Speaks(__array_struct__=values.__array_struct__, keep=values)


def producer(values):
    """Speaks DLPack alone, as it was before versions."""
    return Speaks(__dlpack__=lambda stream=None: values.__dlpack__(), __dlpack_device__=lambda: (1, 0), keep=values)


def mapped():
    memory = mmap.mmap(-1, 16)
    memory[:4] = b"mmap"
    return memory


def frozen(values):
    values.flags.writeable = False
    return values


LAYOUTS: dict = {
    "0-d": lambda: np.array(3.0),
    "vector": lambda: np.arange(5.0),
    "matrix": MATRIX.copy,
    "4-d": lambda: np.arange(24, dtype="i4").reshape(2, 3, 2, 2),
    "empty": lambda: np.zeros(0),
    "empty in the middle": lambda: np.zeros((2, 0, 3)),
    "every second": lambda: np.arange(10.0)[::2],
    "reversed": lambda: np.arange(5.0)[::-1],
    "columns": lambda: MATRIX.copy()[:, 1:3],
    "transposed": lambda: MATRIX.copy().T,
    "broadcast": lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
    "one column": lambda: MATRIX.copy()[:, 2:3],
    "read-only": lambda: frozen(MATRIX.copy()),
    "big-endian": lambda: np.arange(5, dtype=">f4"),
    "strides of 5 bytes": lambda: np.frombuffer(bytearray(range(40)), [("a", "i4"), ("b", "u1")])["a"],
    "datetimes": lambda: np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
    "text": lambda: np.array(["a", "b"]),
    "records": lambda: np.zeros(3, [("a", "i4"), ("b", "f4")]),
    "objects": lambda: np.array([1, None]),
}

LAYOUTS |= {dtype: partial(np.array([[0, 1, 0], [1, 1, 0]]).astype, dtype) for dtype in DTYPES}

WAYS = np.asarray, memoryview, interface, struct, producer


def array_array(code):
    source = array.array(code, [1, 2, 3])
    return source, np.array(source)


def ctypes_matrix():
    source = (ctypes.c_int16 * 3 * 2)()
    values = np.frombuffer(source, "i2").reshape(2, 3)
    values[...] = [[1, 2, 3], [4, 5, 6]]
    return source, values


def given(layout, way):
    values = LAYOUTS[layout]()
    return way(values), values


# A name, and a function that makes the source and its values.
CASES: dict = {
    "bytes": lambda: (b"bytes", np.frombuffer(b"bytes", "u1")),
    "bytearray": lambda: (bytearray(b"bytes"), np.frombuffer(b"bytes", "u1")),
    "empty bytearray": lambda: (bytearray(), np.zeros(0, "u1")),
    "mmap": lambda: (mapped(), np.frombuffer(b"mmap" + bytes(12), "u1")),
    "ctypes vector": lambda: ((ctypes.c_double * 3)(1, 2, 3), np.array([1.0, 2, 3])),
    "ctypes matrix": ctypes_matrix,
    "numpy scalar": lambda: (np.float64(3.5), np.array(3.5)),
    "interface without strides": lambda: (interface(MATRIX, strides=None), MATRIX),
    "interface version 2": lambda: (interface(MATRIX, version=2), MATRIX),
    "interface with a descr": lambda: (interface(MATRIX, descr=[("", "<f8")]), MATRIX),
}
CASES |= {f"array.array {code}": partial(array_array, code) for code in "bBhHiIlLqQfd"}
CASES |= {f"{name} as {way.__name__}": partial(given, name, way) for name in LAYOUTS for way in WAYS}


def describe(values):
    return {"dtype": values.dtype.name, "shape": values.shape, "values": repr(values.tolist())}


def outcome(name):
    try:
        source, values = CASES[name]()
    except (BufferError, ValueError):  # no memoryview of it
        return None
    should = describe(values)
    try:
        x = asdlpack(source)
        del source
        array = np.from_dlpack(x)
        del x
        return {"should": should, "is": describe(array)}
    except BaseException as error:
        return {"should": should, "error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: outcome(name) for name in CASES}), flush=True)
