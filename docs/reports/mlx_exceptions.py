"""mlx: from_dlpack replaces the error of __dlpack__ by a TypeError

Expected: BufferError: no room
Seen with mlx 0.32.4: TypeError: incompatible function arguments

    "It may also raise other errors when export fails for other reasons [...]. from_dlpack must propagate such
    exceptions."

array API standard 2024.12, from_dlpack, raises.

The cause is nanobind's: nb_ndarray.cpp clears what __dlpack__ raises, and so do all functions that take an ndarray.

Rules: consumer-buffer-error, consumer-other-errors, consumer-device-error (mlx, nanobind).
"""

import mlx.core as mx


class Producer:
    def __dlpack__(self, **_):
        raise BufferError("no room")

    def __dlpack_device__(self):
        return 1, 0


try:
    mx.from_dlpack(Producer())
except BufferError:
    raise SystemExit("fixed") from None
except TypeError as error:
    raise AssertionError(error) from None
