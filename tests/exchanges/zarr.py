"""zarr's arrays are read chunk by chunk, into numpy's arrays."""

from typing import Any

import numpy as np
import zarr

from dlpack.tests.libraries.numpy import known

from .checks import withholds


def chunked() -> Any:
    return zarr.array(np.arange(12, dtype="f4").reshape(4, 3), chunks=(2, 3))


PROVIDERS = {"chunk, read": lambda: known(chunked().blocks[1, 0])}


def withholds_what_is_not_read() -> None:
    withholds({"an array": chunked}, TypeError)


CHECKS = {"withholds what is not read": withholds_what_is_not_read}
