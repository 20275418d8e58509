"""tvm_ffi.from_dlpack, and its tensors."""

from collections.abc import Callable
from typing import Any

import tvm_ffi

import dlpack

from ..._abi import read
from ..checks import gives, withholds
from ..memory import Memory, Skip
from . import Consumer
from .datatypes import FORMATS

from_dlpack: Any = tvm_ffi.from_dlpack


def known(tensor: Any) -> Memory:
    """What tvm-ffi says of a tensor. Its capsule alone tells the values, and names complex types."""
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


class FromDLPack(Consumer):
    name = "tvm_ffi"

    def take(self, x: Any) -> Any:
        return from_dlpack(x)


CONSUMERS = [FromDLPack()]


def gives_every_data_type() -> None:
    gives(*(known(from_dlpack(matrix(name))) for name in FORMATS))


def withholds_what_is_no_tensor() -> None:
    withholds({"a shape": lambda: tvm_ffi.Shape((2, 3))}, TypeError)


def takes_a_capsule_of_either_kind() -> None:
    x = dlpack.asdlpack(bytearray(b"bytes"))
    for version in (None, (1, 3)):
        address = from_dlpack(x.__dlpack__(max_version=version)).data_ptr()
        assert address == x.pointer, f"max_version={version}: at {address:#x}, expected {x.pointer:#x}"


def hands_our_memory_to_a_function() -> None:
    x = dlpack.asdlpack(bytearray(b"bytes"))
    seen = tvm_ffi.convert(lambda tensor: tensor.data_ptr())(from_dlpack(x))
    assert seen == x.pointer, f"at {seen:#x}, expected {x.pointer:#x}"


CHECKS = {
    "gives every data type": gives_every_data_type,
    "withholds what is no tensor": withholds_what_is_no_tensor,
    "takes a capsule of either kind": takes_a_capsule_of_either_kind,
    "hands our memory to a function": hands_our_memory_to_a_function,
}
