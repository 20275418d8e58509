"""paddle.from_dlpack, and paddle's tensors."""

from collections.abc import Callable
from typing import Any

import paddle

import dlpack

from ..._abi import Seen, read
from ..checks import gives, withholds
from ..memory import Memory
from . import Consumer
from .datatypes import FORMATS

from_dlpack: Any = paddle.from_dlpack


def dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("paddle.")


def known(tensor: Any) -> Memory:
    """What paddle says of a tensor."""
    shape, values, strides = tuple(tensor.shape), tensor.numpy().tobytes(), tuple(tensor.strides)
    return Memory(tensor, dtype_of(tensor), shape, values, tensor.data_ptr(), strides)


def matrix(dtype: str = "float32") -> Any:
    return paddle.arange(6).reshape([2, 3]).astype(dtype)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Tensor": lambda: known(matrix()),
    "Tensor, transposed": lambda: known(matrix().T),
    "Tensor, bfloat16": lambda: known(matrix("bfloat16")),
}


class FromDLPack(Consumer):
    name = "paddle"
    readonly = "not known to it: it would write"

    def take(self, x: Any) -> Any:
        return from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        return read(taken)._replace(dtype=dtype_of(taken), address=taken.data_ptr())


CONSUMERS = [FromDLPack()]


def gives_every_data_type() -> None:
    names = [name for name in FORMATS if name not in ("uint16", "uint32", "uint64")]
    gives(*(known(matrix(name)) for name in (*names, "bfloat16")))


def gives_tensors_of_every_rank() -> None:
    gives(known(paddle.to_tensor(3.0)), known(paddle.zeros([3, 0])), known(paddle.ones([1, 2, 1, 3, 2])))


def withholds_a_parameter() -> None:
    withholds({"a parameter": lambda: paddle.create_parameter([2], "float32")})


def writes_into_a_bytearray() -> None:
    source = bytearray(8)
    from_dlpack(dlpack.asdlpack(source))[3] = 7
    assert source == bytes([0, 0, 0, 7, 0, 0, 0, 0]), source


def computes_with_a_reversed_array() -> None:
    taken = from_dlpack(dlpack.asdlpack(memoryview(bytes(range(6)))[::-1]))
    assert (taken + 1).tolist() == [6, 5, 4, 3, 2, 1], taken


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives tensors of every rank": gives_tensors_of_every_rank,
    "withholds a parameter, which needs its gradient": withholds_a_parameter,
    "writes into a bytearray": writes_into_a_bytearray,
    "computes with a reversed array, though it can't make a numpy array of it": computes_with_a_reversed_array,
}
