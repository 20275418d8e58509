from typing import ClassVar

import numpy as np
import tensorflow as tf
from exchange import DTYPES, FLOAT8, NOT_COMPACT, SUBBYTE, Exchange, address, of_each, refusals


class TestTensorflow(Exchange):
    address = staticmethod(address)
    refused: ClassVar = refusals(
        ([*NOT_COMPACT, "transposed"], tf.errors.InvalidArgumentError),
        (FLOAT8, tf.errors.InvalidArgumentError),
        (SUBBYTE, BufferError),
    )
    things: ClassVar = {
        **of_each([*DTYPES, "bfloat16"], lambda name: tf.cast([[0, 1, 2], [3, 4, 5]], name)),
        "0-d": lambda: tf.constant(3.0),
        "empty": lambda: tf.zeros([3, 0]),
    }
    withheld: ClassVar = {
        "variable": (lambda: tf.Variable([1.0]), TypeError),
        "ragged": (lambda: tf.ragged.constant([[1], [2, 3]]), TypeError),
    }

    @staticmethod
    def take(obj):
        return tf.experimental.dlpack.from_dlpack(obj.__dlpack__())

    @staticmethod
    def values(taken):
        return np.asarray(taken.numpy())
