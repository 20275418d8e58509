"""More checks of paddle."""

import paddle

import dlpack
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.paddle import known, matrix

from .checks import gives, withholds


def gives_every_data_type() -> None:
    names = [name for name in FORMATS if name not in ("uint16", "uint32", "uint64")]
    gives(*(known(matrix(name)) for name in (*names, "bfloat16")))


def gives_tensors_of_every_rank() -> None:
    gives(known(paddle.to_tensor(3.0)), known(paddle.zeros([3, 0])), known(paddle.ones([1, 2, 1, 3, 2])))


def withholds_a_parameter() -> None:
    withholds({"a parameter": lambda: paddle.create_parameter([2], "float32")})


def computes_with_a_reversed_array() -> None:
    taken = paddle.from_dlpack(dlpack.asdlpack(memoryview(bytes(range(6)))[::-1]))
    assert (taken + 1).tolist() == [6, 5, 4, 3, 2, 1], taken


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives tensors of every rank": gives_tensors_of_every_rank,
    "withholds a parameter, which needs its gradient": withholds_a_parameter,
    "computes with a reversed array, though it can't make a numpy array of it": computes_with_a_reversed_array,
}
