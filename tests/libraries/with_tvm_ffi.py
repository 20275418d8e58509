from typing import ClassVar

import numpy as np
import tvm_ffi
from exchange import DTYPES, SUBBYTE, Exchange, of_each, read, refusals

import dlpack


class TestTvmFfi(Exchange):
    take = staticmethod(tvm_ffi.from_dlpack)
    values = staticmethod(read)
    refused: ClassVar = refusals((SUBBYTE, BufferError))
    things: ClassVar = {
        **of_each(DTYPES, lambda name: tvm_ffi.from_dlpack(np.arange(6).reshape(2, 3).astype(name))),
        "transposed": lambda: tvm_ffi.from_dlpack(np.arange(6.0).reshape(2, 3).T),
    }
    withheld: ClassVar = {"shape": (lambda: tvm_ffi.Shape((2, 3)), TypeError)}

    @staticmethod
    def address(taken):
        return taken.data_ptr()

    def test_a_capsule_of_either_kind_arrives(self):
        x = dlpack.asdlpack(bytearray(b"bytes"))
        for capsule in x.__dlpack__(), x.__dlpack__(max_version=(1, 3)):
            assert tvm_ffi.from_dlpack(capsule).data_ptr() == x.pointer

    def test_a_function_takes_our_object_as_an_argument(self):
        source = np.arange(6.0)
        echo = tvm_ffi.convert(lambda tensor: tensor.data_ptr())
        assert echo(tvm_ffi.from_dlpack(dlpack.asdlpack(source))) == source.ctypes.data
