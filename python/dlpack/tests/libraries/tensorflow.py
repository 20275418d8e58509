"""tf.experimental.dlpack.from_dlpack, which takes capsules, and tensorflow's tensors."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ..._abi import read
from ..expectations import Consumer, Rule, dtype, layout
from ..memory import Memory


def known(tensor: Any) -> Memory:
    """Describes a tensor as tensorflow does. Only its capsule tells its address."""
    address = read(tensor).address
    return Memory(tensor, tensor.dtype.name, tuple(tensor.shape), tensor.numpy().tobytes(), address, readonly=True)


def matrix(dtype: str = "float32") -> Any:
    return tf.cast([[0, 1, 1], [1, 0, 1]], dtype)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Tensor": lambda: known(matrix()),
    "Tensor, bfloat16": lambda: known(matrix("bfloat16")),
}


RULES = [layout("tensorflow"), Rule("refused", "tensorflow takes no such type", dtype("float8*"))]

CONSUMERS = [
    Consumer(
        "tensorflow",
        lambda x: tf.experimental.dlpack.from_dlpack(x.__dlpack__()),
        readonly="written by a variable made of it",
        rules=RULES,
    )
]
