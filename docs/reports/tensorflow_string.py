"""tensorflow: __dlpack__ of a tensor of strings ends the process

Expected: BufferError
Seen with tensorflow-cpu 2.21.0: SIGABRT

    "Implementations should raise BufferError when the data cannot be exported as DLPack (e.g., incompatible dtype or
    strides)."

array API standard 2024.12, __dlpack__, raises.

Rules: none: the tensors of the rules are of numbers (tensorflow).
"""

import tensorflow as tf

try:
    tf.constant(["a"]).__dlpack__()
except Exception as error:
    print(error)
