"""jax: __dlpack__(copy=False) raises RuntimeError for a device that only a copy can reach

Expected: a BufferError
Seen with jax 0.10.2: a RuntimeError

    "If False, it must raise a BufferError in case a copy is deemed necessary"

array API standard 2023.12, __dlpack__, copy.

Rules: producer-copy-false-other-device (jax).
"""

import jax

try:
    jax.numpy.ones(2).__dlpack__(max_version=(1, 0), dl_device=(2, 0), copy=False)
except Exception as error:
    assert isinstance(error, BufferError), repr(error)
