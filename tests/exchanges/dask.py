"""dask's arrays have no memory before they are computed; their chunks then are numpy's arrays."""

import dask.array

from dlpack.tests.libraries.numpy import known

PROVIDERS = {"block, computed": lambda: known(dask.array.arange(12.0, chunks=4).blocks[1].compute())}
