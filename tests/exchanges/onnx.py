"""The raw data of onnx's tensors: bytes, of which onnx makes a copy each time it is asked."""

import struct
from typing import Any

import onnx

from dlpack.tests.memory import of_buffer


def tensor() -> Any:
    return onnx.helper.make_tensor("tensor", onnx.TensorProto.FLOAT, (2, 3), struct.pack("6f", *range(6)), raw=True)


PROVIDERS = {"TensorProto.raw_data": lambda: of_buffer(tensor().raw_data)}
