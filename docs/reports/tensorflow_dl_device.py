"""tensorflow: __dlpack__ refuses the device on which the tensor is

Expected: a capsule
Seen with tensorflow-cpu 2.21.0: RuntimeError

    "When specified, the format must be a 2-tuple, following that of the return value of array.__dlpack_device__().
    If the device type cannot be handled by the producer, this function must raise BufferError."

array API standard 2024.12, __dlpack__, dl_device.

Rules: producer-own-dl-device, producer-other-dl-device, producer-copy-false-other-device (tensorflow).
"""

import tensorflow as tf

x = tf.constant([1.0])
try:
    x.__dlpack__(dl_device=x.__dlpack_device__())
except RuntimeError as error:
    raise AssertionError(error) from None
