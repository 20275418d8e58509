"""paddle: from_dlpack of a producer on CUDA ends the process if there is no GPU

Expected: an error
Seen with paddlepaddle 3.3.1, built for the CPU: SIGSEGV before __dlpack__ is called

The array API standard has no sentence on crashes; with this one the rule on stream can't be kept.

Rules: consumer-stream-on-cuda (paddle).
"""

import paddle


class Producer:
    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise BufferError("not reached")


try:
    paddle.from_dlpack(Producer())
except Exception as error:
    print(repr(error))
