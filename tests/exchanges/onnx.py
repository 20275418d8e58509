"""The raw data of onnx's tensors: bytes, of which onnx makes a copy each time it is asked."""

import struct
from typing import Any

import onnx

from dlpack.tests.memory import of_buffer

from .checks import withholds

NUMBERS = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def tensor(raw: bool) -> Any:
    values = struct.pack("6f", *NUMBERS) if raw else NUMBERS
    return onnx.helper.make_tensor("tensor", onnx.TensorProto.FLOAT, (2, 3), values, raw=raw)


PROVIDERS = {"TensorProto.raw_data": lambda: of_buffer(tensor(raw=True).raw_data)}


def withholds_what_is_no_memory() -> None:
    withholds({"a tensor": lambda: tensor(raw=True), "a list": lambda: tensor(raw=False).float_data}, TypeError)


CHECKS = {"withholds what is no memory": withholds_what_is_no_memory}
