"""More checks of tvm-ffi."""

import tvm_ffi
from tvm_ffi import from_dlpack

import dlpack
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.tvm_ffi import known, matrix

from .checks import gives


def gives_every_data_type() -> None:
    gives(*(known(from_dlpack(matrix(name))) for name in FORMATS))


def hands_our_memory_to_a_function() -> None:
    x = dlpack.asdlpack(bytearray(b"bytes"))
    seen = tvm_ffi.convert(lambda tensor: tensor.data_ptr())(from_dlpack(x))
    assert seen == x.pointer, f"at {seen:#x}, expected {x.pointer:#x}"


CHECKS = {
    "gives every data type": gives_every_data_type,
    "hands our memory to a function": hands_our_memory_to_a_function,
}
