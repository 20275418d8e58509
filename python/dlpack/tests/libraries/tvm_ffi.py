"""tvm_ffi.from_dlpack, and its tensors."""

from collections.abc import Callable
from typing import Any

import tvm_ffi

from ..._abi import read
from ..expectations import Consumer
from ..findings import Skip
from ..memory import Memory

from_dlpack: Any = tvm_ffi.from_dlpack


def known(tensor: Any) -> Memory:
    """Describes a tensor as tvm-ffi does. Its capsule alone tells the values, and names complex types."""
    said, strides = read(tensor), tuple(tensor.strides)
    return Memory(tensor, said.dtype, tuple(tensor.shape), said.values, tensor.data_ptr(), strides)


def matrix(dtype: str = "float32") -> Any:
    try:
        import numpy as np
    except ImportError:
        raise Skip("numpy is not installed") from None
    return np.arange(6).reshape(2, 3).astype(dtype)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Tensor": lambda: known(from_dlpack(matrix())),
    "Tensor, transposed": lambda: known(from_dlpack(matrix().T)),
}


CONSUMERS = [Consumer("tvm_ffi", from_dlpack)]
