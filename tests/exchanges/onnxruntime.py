"""OrtValue.from_dlpack, and onnxruntime's OrtValues."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime import OrtValue

import dlpack
from dlpack._abi import Seen, read
from dlpack.tests.expectations import Consumer, Rule, dtype, not_row_major
from dlpack.tests.findings import Skip
from dlpack.tests.memory import Memory

from .checks import gives

from_dlpack: Any = OrtValue.from_dlpack


def known(value: Any) -> Memory:
    """Describes an OrtValue as onnxruntime does."""
    array = value.numpy()
    return Memory(value, array.dtype.name, array.shape, array.tobytes(), value.data_ptr(), readonly=None)


def value_of(array: Any) -> Any:
    # The memory of ortvalue_from_numpy's values is numpy's, and is not kept by what they export.
    value = OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype.type)
    value.update_inplace(array)
    return value


def matrix(dtype: str = "float32") -> Memory:
    return known(value_of(np.arange(6).reshape(2, 3).astype(dtype)))


PROVIDERS: dict[str, Callable[[], Memory]] = {"OrtValue": matrix}


def see(value: Any) -> Seen:
    return read(value)._replace(address=value.data_ptr())


RULES = [
    Rule("refused", "onnxruntime's tensors are compact and row-major", not_row_major),
    Rule("refused", "onnxruntime takes no such type", dtype("complex*")),
    Rule("refused", "onnxruntime takes no such type", dtype("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")),
    Rule("refused", "an older onnxruntime takes no such type", dtype("bool", "float8*"), before=(1, 32)),
]

CONSUMERS = [Consumer("onnxruntime", from_dlpack, see, rules=RULES)]


def gives_every_data_type() -> None:
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    gives(*(matrix(name) for name in ("bool", *integers, "float16", "float32", "float64")))


def gives_values_of_every_rank() -> None:
    gives(*(known(value_of(np.ones(shape, "f4"))) for shape in ((), (3, 0), (1, 2, 1, 3, 2))))


def doubling() -> bytes:
    """A model that adds its input to itself."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise Skip("onnx is not installed") from None
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("given", "result"))
    graph = helper.make_graph([helper.make_node("Add", ["given", "given"], ["result"])], "doubling", [given], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def runs_a_session_on_shared_memory() -> None:
    session = onnxruntime.InferenceSession(doubling(), providers=["CPUExecutionProvider"])
    given, result = bytearray(struct.pack("4f", 1, 2, 3, 4)), bytearray(16)
    binding = session.io_binding()
    binding.bind_ortvalue_input("given", from_dlpack(dlpack.asdlpack(memoryview(given).cast("f"))))
    binding.bind_ortvalue_output("result", from_dlpack(dlpack.asdlpack(memoryview(result).cast("f"))))
    session.run_with_iobinding(binding)
    assert struct.unpack("4f", result) == (2, 4, 6, 8), result.hex(" ")
    given[:] = struct.pack("4f", 5, 6, 7, 8)
    session.run_with_iobinding(binding)
    assert struct.unpack("4f", result) == (10, 12, 14, 16), result.hex(" ")


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives values of every rank": gives_values_of_every_rank,
    "runs a session on shared input and output": runs_a_session_on_shared_memory,
}
