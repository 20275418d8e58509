"""More checks of tensorflow."""

import tensorflow as tf

from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.tensorflow import known, matrix

from .checks import gives, withholds


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
