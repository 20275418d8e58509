"""paddle: __dlpack_device__ has no device_id on the CPU

Expected: (1, 0), a type and a number
Seen with paddlepaddle 3.3.1: (kDLCPU, None)

    "device: Tuple[Enum, int] - a tuple (device_type, device_id) in DLPack format."

array API standard 2024.12, __dlpack_device__.

Rules: producer-device (paddle).
"""

import paddle

told = paddle.ones([2]).__dlpack_device__()
assert isinstance(told[1], int), told
