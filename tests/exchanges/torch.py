"""More checks of torch."""

import inspect

import torch
from torch import from_dlpack

import dlpack
from dlpack.tests.findings import Skip
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.torch import LEGACY, known, matrix

from .checks import gives

FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def gives_every_data_type() -> None:
    names = [*FORMATS, "bfloat16"] if torch.__version__ >= "2.3" else ["int64", "float32", "complex64", "bfloat16"]
    names += FLOAT8 if torch.__version__ >= "2.10" else []
    gives(*(known(matrix().to(getattr(torch, name))) for name in names))


def gives_tensors_of_every_layout() -> None:
    gives(known(torch.tensor(3.0)), known(torch.zeros(3, 0)), known(torch.arange(10)[2:8:2]))
    gives(known(torch.arange(3).expand(4, 3)), known(torch.nn.Parameter(torch.ones(2)).detach()))


def takes_a_capsule_of_either_kind() -> None:
    x = dlpack.asdlpack(b"bytes")
    for version in (None,) if LEGACY else (None, (1, 3)):
        address = from_dlpack(x.__dlpack__(max_version=version)).data_ptr()
        assert address == x.pointer, f"max_version={version}: at {address:#x}, expected {x.pointer:#x}"


def gives_two_packed_float4_a_byte_as_they_are() -> None:
    if not hasattr(torch, "float4_e2m1fn_x2"):
        raise Skip(f"torch {torch.__version__} has no float4")
    tensor = torch.arange(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    x = dlpack.asdlpack(tensor)
    assert (x.dtype, x.itemsize, x.shape) == ("float4_e2m1fnx2", 1, (4,)), x
    assert from_dlpack(x).data_ptr() == tensor.data_ptr(), "a copy came back"
    taken = from_dlpack(dlpack.frombuffer(bytearray(range(4)), "float4_e2m1fnx2"))
    assert (taken.dtype, taken.view(torch.uint8).tolist()) == (tensor.dtype, [0, 1, 2, 3]), taken


def copies_on_demand() -> None:
    if "copy" not in inspect.signature(from_dlpack).parameters:
        raise Skip(f"torch {torch.__version__}'s from_dlpack has no copy")
    tensor = torch.arange(3)
    copy = from_dlpack(dlpack.asdlpack(tensor), copy=True)
    assert copy.data_ptr() != tensor.data_ptr(), "not copied"
    assert copy.tolist() == [0, 1, 2], copy


def takes_a_buffer() -> None:
    source = bytearray(8)
    taken = torch.frombuffer(dlpack.asdlpack(source), dtype=torch.int16)
    taken[1] = -1
    assert source == bytes([0, 0, 255, 255, 0, 0, 0, 0]), source


def takes_an_array_by_as_tensor() -> None:
    if LEGACY:
        raise Skip(f"torch {torch.__version__}'s as_tensor takes just what it knows")
    tensor = torch.as_tensor(dlpack.asdlpack(matrix().T))
    assert torch.equal(tensor, matrix().T), tensor


CHECKS = {
    "takes a buffer": takes_a_buffer,
    "takes an array by as_tensor": takes_an_array_by_as_tensor,
    "gives every data type": gives_every_data_type,
    "gives tensors of every layout": gives_tensors_of_every_layout,
    "takes a capsule of either kind": takes_a_capsule_of_either_kind,
    "gives two packed float4 a byte as they are": gives_two_packed_float4_a_byte_as_they_are,
    "copies on demand": copies_on_demand,
}
