"""paddle.from_dlpack, and paddle's tensors."""

from collections.abc import Callable
from typing import Any

import paddle

from ..._abi import Seen, read
from ..expectations import WOULD_WRITE, Consumer, Rule, dtype
from ..memory import Memory


def dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("paddle.")


def known(tensor: Any) -> Memory:
    """Describes a tensor as paddle does."""
    shape, values, strides = tuple(tensor.shape), tensor.numpy().tobytes(), tuple(tensor.strides)
    return Memory(tensor, dtype_of(tensor), shape, values, tensor.data_ptr(), strides)


def matrix(dtype: str = "float32") -> Any:
    return paddle.arange(6).reshape([2, 3]).astype(dtype)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Tensor": lambda: known(matrix()),
    "Tensor, transposed": lambda: known(matrix().T),
    "Tensor, bfloat16": lambda: known(matrix("bfloat16")),
}


def see(tensor: Any) -> Seen:
    return read(tensor)._replace(dtype=dtype_of(tensor), address=tensor.data_ptr())


RULES = [
    Rule("shared", "paddle calls uint16 bfloat16", dtype("uint16"), becomes={"uint16": "bfloat16"}),
    Rule("shared", "", dtype("float8_e4m3fn", "float8_e5m2")),
    Rule("refused", "paddle has no such type", dtype("float8*")),
]

CONSUMERS = [Consumer("paddle", paddle.from_dlpack, see, WOULD_WRITE, rules=RULES)]
