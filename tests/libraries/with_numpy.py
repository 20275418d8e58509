from typing import ClassVar

import ml_dtypes
import numpy as np
from exchange import DTYPES, FLOAT8, MATRIX, SUBBYTE, Exchange, of_each, refusals

import dlpack


def reversed_matrix():
    return np.arange(12.0).reshape(3, 4)[::-1, ::-2]


class TestNumpy(Exchange):
    take = staticmethod(np.from_dlpack)
    values = staticmethod(np.asarray)
    refused: ClassVar = refusals((["bfloat16", *FLOAT8, *SUBBYTE], (RuntimeError, BufferError)))
    things: ClassVar = {
        **of_each(DTYPES, lambda dtype: np.arange(6).reshape(2, 3).astype(dtype)),
        "0-d": lambda: np.array(3.0),
        "empty": lambda: np.zeros((3, 0)),
        "reversed": reversed_matrix,
        "transposed": lambda: MATRIX.copy().T,
        "broadcast": lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
        "memmap": lambda: np.memmap(__file__, np.uint8, "r"),
        "32-d": lambda: np.ones((1,) * 30 + (2, 3)),
        "matrix": lambda: np.matrix([[1, 2], [3, 4]]),
    }
    withheld: ClassVar = {
        "text": (lambda: np.array(["a"]), BufferError),
        "objects": (lambda: np.array([None, 1]), BufferError),
        "datetimes": (lambda: np.array(["2020-01-01"], "M8[D]"), BufferError),
        "records": (lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]), BufferError),
        "80-bit floats": (lambda: np.zeros(2, np.longdouble), BufferError),
        "big-endian": (lambda: np.zeros(2, ">f4"), BufferError),
        "strides that are no multiple": (lambda: np.zeros(3, [("a", "f4"), ("b", "u1")])["a"], BufferError),
    }

    @staticmethod
    def address(taken):
        return taken.ctypes.data

    def test_writes_into_a_bytearray(self):
        source = bytearray(8)
        np.from_dlpack(dlpack.asdlpack(source))[3] = 7
        assert source == bytes([0, 0, 0, 7, 0, 0, 0, 0])

    def test_cannot_write_into_bytes(self):
        assert not np.from_dlpack(dlpack.asdlpack(b"bytes")).flags.writeable

    def test_gets_big_endian_values_converted_where_a_copy_is_allowed(self):
        values = np.arange(6, dtype=">f4").reshape(2, 3)
        assert np.array_equal(np.from_dlpack(dlpack.asdlpack(values, copy=None)), values)

    def test_a_reinterpreted_bfloat16_array_keeps_its_bits(self):
        values = np.arange(6).astype(ml_dtypes.bfloat16)
        x = dlpack.asdlpack(values.view(np.uint16))
        assert np.from_dlpack(x).view(ml_dtypes.bfloat16).tobytes() == values.tobytes()
