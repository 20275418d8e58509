"""dask's arrays have no memory before they are computed; their chunks then are numpy's arrays."""

import dask.array
import numpy as np

from dlpack.tests.libraries.numpy import known

from .checks import withholds

PROVIDERS = {"block, computed": lambda: known(dask.array.arange(12.0, chunks=4).blocks[1].compute())}


def withholds_what_is_not_computed() -> None:
    withholds({"an array": lambda: dask.array.from_array(np.arange(4))}, TypeError)


CHECKS = {"withholds what is not computed": withholds_what_is_not_computed}
