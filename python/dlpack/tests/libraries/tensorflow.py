"""tf.experimental.dlpack.from_dlpack, which takes capsules, and tensorflow's tensors."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ..._abi import read
from ..checks import gives, withholds
from ..memory import Memory
from . import Consumer
from .datatypes import FORMATS

from_dlpack: Any = tf.experimental.dlpack.from_dlpack


def known(tensor: Any) -> Memory:
    """What tensorflow says of a tensor. Of its address, only its capsule tells."""
    address = read(tensor).address
    return Memory(tensor, tensor.dtype.name, tuple(tensor.shape), tensor.numpy().tobytes(), address, readonly=True)


def matrix(dtype: str = "float32") -> Any:
    return tf.cast([[0, 1, 1], [1, 0, 1]], dtype)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Tensor": lambda: known(matrix()),
    "Tensor, bfloat16": lambda: known(matrix("bfloat16")),
}


class FromDLPack(Consumer):
    name = "tensorflow"
    readonly = "written by a variable made of it"

    def take(self, x: Any) -> Any:
        return from_dlpack(x.__dlpack__())


CONSUMERS = [FromDLPack()]


def gives_every_data_type() -> None:
    gives(*(known(matrix(dtype)) for dtype in (*FORMATS, "bfloat16")))


def gives_tensors_of_every_rank() -> None:
    gives(known(tf.constant(3.0)), known(tf.zeros([3, 0])), known(tf.ones([1, 2, 1, 3, 2])))


def withholds_what_is_no_tensor_in_memory() -> None:
    withholds(
        {
            "a variable": lambda: tf.Variable([1.0]),
            "a ragged tensor": lambda: tf.ragged.constant([[1], [2, 3]]),
            "a sparse tensor": lambda: tf.sparse.from_dense([[1, 0]]),
        },
        TypeError,
    )


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives tensors of every rank": gives_tensors_of_every_rank,
    "withholds what is no tensor in memory": withholds_what_is_no_tensor_in_memory,
}
