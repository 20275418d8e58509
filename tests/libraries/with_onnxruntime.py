from typing import ClassVar

import numpy as np
import onnxruntime
from exchange import COMPLEXES, FLOAT8, FLOATS, INTEGERS, NOT_COMPACT, SUBBYTE, Exchange, of_each, read, refusals


def ortvalue(values):
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(values))


class TestOnnxruntime(Exchange):
    take = staticmethod(onnxruntime.OrtValue.from_dlpack)
    refused: ClassVar = refusals(
        (["bool", *COMPLEXES, *FLOAT8, *NOT_COMPACT, "transposed"], RuntimeError),
        (SUBBYTE, BufferError),
    )
    things: ClassVar = {
        **of_each([*INTEGERS, *FLOATS], lambda name: ortvalue(np.arange(6).reshape(2, 3).astype(name))),
        "0-d": lambda: ortvalue(3.0),
        "empty": lambda: ortvalue(np.zeros((3, 0))),
    }
    withheld: ClassVar = {"options": (onnxruntime.SessionOptions, TypeError)}

    @staticmethod
    def address(taken):
        return taken.data_ptr()

    @staticmethod
    def values(taken):
        return read(taken) if taken.data_type() == "tensor(bfloat16)" else taken.numpy()
