"""More checks of numpy."""

import numpy as np

from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.numpy import array_struct, known, matrix, read_only

from .checks import gives


def gives_every_data_type() -> None:
    gives(*(known(np.arange(6).reshape(2, 3).astype(dtype)) for dtype in FORMATS))


def gives_arrays_of_every_layout() -> None:
    gives(known(np.array(3.0)), known(np.zeros((3, 0))), known(np.ones((1,) * 30 + (2, 3))))
    gives(known(np.matrix([[1, 2], [3, 4]])), known(np.arange(20_000).reshape(100, 200).T))
    gives(array_struct(read_only(matrix())))


def converts_every_data_type_of_another_byte_order() -> None:
    for dtype in FORMATS:
        values = np.arange(6).astype(dtype)
        if values.itemsize > 1:
            memory = known(values.astype(values.dtype.newbyteorder()))
            memory.values, memory.converted = values.tobytes(), "the bytes have to be swapped"
            gives(memory)


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives arrays of every layout": gives_arrays_of_every_layout,
    "converts every data type of another byte order": converts_every_data_type_of_another_byte_order,
}
