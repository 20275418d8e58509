"""More checks of tensorflow."""

import tensorflow as tf

from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.tensorflow import known, matrix

from .checks import gives


def gives_every_data_type() -> None:
    gives(*(known(matrix(dtype)) for dtype in (*FORMATS, "bfloat16")))


def gives_tensors_of_every_rank() -> None:
    gives(known(tf.constant(3.0)), known(tf.zeros([3, 0])), known(tf.ones([1, 2, 1, 3, 2])))


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives tensors of every rank": gives_tensors_of_every_rank,
}
