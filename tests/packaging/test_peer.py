"""The floor: whatever pydlpack 0.2.1 hands to numpy, this does, and wrong values are refused."""

import array
import ctypes
import mmap
from functools import partial

import numpy as np
import pytest

from dlpack import asdlpack
from support.capi import Speaks
from support.layouts import DTYPES

MATRIX = np.arange(12.0).reshape(3, 4)


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


WAYS = np.asarray, memoryview, interface, struct, producer
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
}
LAYOUTS |= {dtype: partial(np.array([[0, 1, 0], [1, 1, 0]]).astype, dtype) for dtype in DTYPES}
REFUSED = {
    "big-endian": lambda: np.arange(5, dtype=">f4"),
    "strides of 5 bytes": lambda: np.frombuffer(bytearray(range(40)), [("a", "i4"), ("b", "u1")])["a"],
    "datetimes": lambda: np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
    "text": lambda: np.array(["a", "b"]),
    "records": lambda: np.zeros(3, [("a", "i4"), ("b", "f4")]),
    "objects": lambda: np.array([1, None]),
}
READ_ONLY = "broadcast", "read-only"  # numpy gives no legacy capsule of these


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS | REFUSED)
def test_arrays_of_numpy_arrive_or_are_refused(layout, way):
    values = (LAYOUTS | REFUSED)[layout]()
    if layout == "datetimes" and way is memoryview:
        return  # numpy gives none
    if layout in REFUSED or layout in READ_ONLY and way is producer:
        with pytest.raises(BufferError):
            asdlpack(way(values)).__dlpack__()
    else:
        arrives(way(values), values)


def arrives(source, values):
    x = asdlpack(source)
    del source
    taken = np.from_dlpack(x)
    assert (taken.dtype, taken.shape, taken.tolist()) == (values.dtype, values.shape, values.tolist())


def test_memory_of_the_standard_library_arrives():
    matrix = (ctypes.c_int16 * 3 * 2)()
    np.frombuffer(matrix, "i2")[...] = range(1, 7)
    for source, values in (
        (b"bytes", np.frombuffer(b"bytes", "u1")),
        (bytearray(b"bytes"), np.frombuffer(b"bytes", "u1")),
        (bytearray(), np.zeros(0, "u1")),
        (mapped(), np.frombuffer(b"mmap" + bytes(12), "u1")),
        ((ctypes.c_double * 3)(1, 2, 3), np.array([1.0, 2, 3])),
        (matrix, np.arange(1, 7, dtype="i2").reshape(2, 3)),
        (np.float64(3.5), np.array(3.5)),
        (interface(MATRIX, strides=None), MATRIX),
        (interface(MATRIX, version=2), MATRIX),
        (interface(MATRIX, descr=[("", "<f8")]), MATRIX),
        *((array.array(code, [1, 2, 3]), np.array(array.array(code, [1, 2, 3]))) for code in "bBhHiIlLqQfd"),
    ):
        arrives(source, values)
