from typing import ClassVar

import ml_dtypes
import numpy as np
import paddle
from exchange import DTYPES, FLOAT8, SUBBYTE, Exchange, of_each, refusals

import dlpack

UNKNOWN = [name for name in FLOAT8 if name not in ("float8_e4m3fn", "float8_e5m2")]
KNOWN = [name for name in DTYPES if name not in ("uint16", "uint32", "uint64")]


class TestPaddle(Exchange):
    refused: ClassVar = refusals(
        (["reversed"], MemoryError),
        ([*UNKNOWN, *SUBBYTE], (ValueError, RuntimeError, BufferError)),
    )
    things: ClassVar = {
        **of_each([*KNOWN, "bfloat16"], lambda name: paddle.arange(6).reshape([2, 3]).astype(name)),
        "0-d": lambda: paddle.to_tensor(3.0),
        "empty": lambda: paddle.zeros([3, 0]),
        "transposed": lambda: paddle.arange(6).reshape([2, 3]).T,
    }
    withheld: ClassVar = {
        "parameter": (lambda: paddle.create_parameter([2], "float32"), BufferError),
    }

    @staticmethod
    def take(obj):
        taken = paddle.from_dlpack(obj)
        taken.numpy()  # a negative stride is refused here only
        return taken

    @staticmethod
    def address(taken):
        return taken.data_ptr()

    @staticmethod
    def values(taken):
        name = str(taken.dtype).removeprefix("paddle.")
        return taken.numpy() if name in DTYPES else taken.numpy().view(getattr(ml_dtypes, name))

    def received(self, values):
        """It has no 16-bit unsigned integers, and takes them for bfloat16."""
        return values.view(ml_dtypes.bfloat16) if values.dtype == np.uint16 else values

    def test_writes_into_a_bytearray(self):
        source = bytearray(8)
        paddle.from_dlpack(dlpack.asdlpack(source))[3] = 7
        assert source == bytes([0, 0, 0, 7, 0, 0, 0, 0])
