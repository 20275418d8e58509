from typing import ClassVar

import ml_dtypes
import numpy as np
import torch
from exchange import DTYPES, FLOAT8, SUBBYTE, Exchange, of_each, refusals

import dlpack

KNOWN_FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


class TestTorch(Exchange):
    take = staticmethod(torch.from_dlpack)
    refused: ClassVar = refusals(
        (["reversed"], RuntimeError),
        ([name for name in FLOAT8 if name not in KNOWN_FLOAT8], BufferError),
        (SUBBYTE, BufferError),
    )
    things: ClassVar = {
        **of_each(DTYPES, lambda name: torch.arange(6).reshape(2, 3).to(getattr(torch, name))),
        **of_each(["bfloat16", *KNOWN_FLOAT8], lambda name: torch.ones(4).to(getattr(torch, name))),
        "0-d": lambda: torch.tensor(3.0),
        "empty": lambda: torch.zeros(3, 0),
        "slice": lambda: torch.arange(10)[2:8:2],
        "transposed": lambda: torch.arange(6).reshape(2, 3).T,
        "expanded": lambda: torch.arange(3).expand(4, 3),
        "detached parameter": lambda: torch.nn.Parameter(torch.ones(2)).detach(),
    }
    withheld: ClassVar = {
        "tensor with gradient": (lambda: torch.zeros(2, requires_grad=True), BufferError),
        "conjugated": (lambda: torch.zeros(2, dtype=torch.complex64).conj(), BufferError),
        "sparse": (lambda: torch.eye(2).to_sparse(), BufferError),
        "without memory": (lambda: torch.zeros(2, device="meta"), BufferError),
    }

    @staticmethod
    def address(taken):
        return taken.data_ptr()

    @staticmethod
    def values(taken):
        name = str(taken.dtype).removeprefix("torch.")
        if name in DTYPES:
            return taken.numpy()
        words = taken.view(torch.uint8 if taken.itemsize == 1 else torch.uint16)
        return words.numpy().view(getattr(ml_dtypes, name))

    def test_writes_into_a_bytearray(self):
        source = bytearray(8)
        torch.from_dlpack(dlpack.asdlpack(source))[3] = 7
        assert source == bytes([0, 0, 0, 7, 0, 0, 0, 0])

    def test_a_reversed_array_arrives_as_a_copy(self):
        values = np.arange(6.0)[::-1]
        assert torch.from_dlpack(dlpack.asdlpack(values, copy=True)).tolist() == values.tolist()

    def test_a_capsule_of_either_kind_arrives(self):
        x = dlpack.asdlpack(b"bytes")
        for capsule in x.__dlpack__(), x.__dlpack__(max_version=(1, 3)):
            assert torch.from_dlpack(capsule).data_ptr() == x.pointer

    def test_two_packed_float4_a_byte_arrive_as_they_are(self):
        tensor = torch.arange(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
        x = dlpack.asdlpack(tensor)
        assert (x.dtype, x.itemsize, x.shape) == ("float4_e2m1fnx2", 1, (4,))
        assert torch.from_dlpack(x).data_ptr() == tensor.data_ptr()

    def test_copies_on_demand(self):
        tensor = torch.arange(3)
        copy = torch.from_dlpack(dlpack.asdlpack(tensor), copy=True)
        assert copy.data_ptr() != tensor.data_ptr()
        assert copy.tolist() == [0, 1, 2]
