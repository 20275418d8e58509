"""paddle: __dlpack__ raises NotImplementedError for a device that it does not have

Expected: BufferError
Seen with paddlepaddle 3.3.1: NotImplementedError

    "If the device type cannot be handled by the producer, this function must raise BufferError."

array API standard 2024.12, __dlpack__, dl_device.

Rules: producer-other-dl-device (paddle).
"""

import paddle

try:
    paddle.ones([2]).__dlpack__(max_version=(1, 0), dl_device=(16, 0))
except NotImplementedError as error:
    raise AssertionError(error) from None
except BufferError:
    pass
