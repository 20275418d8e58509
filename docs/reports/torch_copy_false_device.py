"""torch: __dlpack__(copy=False) raises ValueError for a device that only a copy can reach

Expected: a BufferError
Seen with torch 2.15.0: a ValueError

    "If False, it must raise a BufferError in case a copy is deemed necessary"

array API standard 2023.12, __dlpack__, copy.

Rules: producer-copy-false-other-device (torch).
"""

import torch

try:
    torch.ones(2).__dlpack__(max_version=(1, 0), dl_device=(2, 0), copy=False)
except Exception as error:
    assert isinstance(error, BufferError), repr(error)
