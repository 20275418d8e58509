from typing import ClassVar

import mlx.core as mx
import numpy as np
import pytest
from exchange import DTYPES, FLOAT8, SUBBYTE, Exchange, address, of_each, read, refusals

import dlpack

KNOWN = {name: getattr(mx, name, mx.bool_) for name in DTYPES if name not in ("float64", "complex128")}


class TestMlx(Exchange):
    take = staticmethod(mx.from_dlpack)
    address = staticmethod(address)
    values = staticmethod(read)
    refused: ClassVar = refusals(
        (["reversed"], ValueError),
        ([*FLOAT8, *SUBBYTE], (RuntimeError, BufferError, ValueError)),
    )
    things: ClassVar = {
        **of_each(KNOWN, lambda name: mx.arange(6).reshape(2, 3).astype(KNOWN[name])),
        "bfloat16": lambda: mx.ones(3, mx.bfloat16),
        "0-d": lambda: mx.array(3.0),
        "transposed": lambda: mx.arange(6).reshape(2, 3).T,
    }
    withheld: ClassVar = {"dtype": (lambda: mx.float32, TypeError)}

    def received(self, values):
        """It has no 64-bit floats to compute with."""
        return values.astype({"float64": "float32", "complex128": "complex64"}.get(values.dtype.name, values.dtype))

    def copies(self, name, address):
        return True

    def test_a_reversed_array_with_a_byte_offset_goes_to_numpy(self):
        array = mx.arange(6)[::-1]
        x = dlpack.asdlpack(array)
        taken = np.from_dlpack(x)
        assert taken.tolist() == [5, 4, 3, 2, 1, 0]
        assert taken.ctypes.data == x.pointer == address(array)
        assert x.strides == (-1,)

    def test_refuses_to_share_cpu_memory(self):
        with pytest.raises(ValueError, match="without a copy"):
            mx.from_dlpack(dlpack.asdlpack(bytearray(8)), copy=False)
