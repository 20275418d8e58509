"""More checks of tvm-ffi."""

import tvm_ffi
from tvm_ffi import from_dlpack

import dlpack
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.tvm_ffi import known, matrix

from .checks import gives, withholds


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
