"""examples/safetensors_file.py: files that the safetensors package wrote are shared as it reads them."""

import ctypes
import json
import re
import runpy
import sys

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

from support.alone import ROOT, run
from support.refusals import refused

EXAMPLE = ROOT / "examples" / "safetensors_file.py"
load = runpy.run_path(str(EXAMPLE))["load"]

# Types of the package by its names, which are torch's.
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 bfloat16 "
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
).split()
ML_DTYPES = [name for name in DTYPES if hasattr(ml_dtypes, name)]


def tensor_of(dtype):
    """A matrix of three rows, of every byte that the type may have."""
    data = torch.arange(96, dtype=torch.uint8).reshape(3, 32)
    return (data % 2 if dtype == "bool" else data).view(getattr(torch, dtype))


def bits(tensor):
    return tensor.reshape(-1).view(torch.uint8).tolist()


def span(mapped):
    first = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    return range(first, first + len(mapped) + 1)


def write(path, header, data):
    """Writes a safetensors file; the caller's header sets the offsets of its tensors."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tensors.safetensors"
    tensors = {dtype: tensor_of(dtype) for dtype in DTYPES}
    tensors["empty"] = torch.empty(0, 5, dtype=torch.bfloat16)
    tensors["scalar"] = torch.tensor(1.5, dtype=torch.bfloat16)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    return path


def test_the_types_tried_here_are_all_that_the_package_writes():
    unknown = np.zeros(1, ml_dtypes.int4)
    with pytest.raises(safetensors.SafetensorError) as refused:
        safetensors.numpy.save({"unknown": unknown})
    assert set(re.search(r"Supported dtypes: (.+)$", str(refused.value))[1].split(", ")) == set(DTYPES)


@pytest.mark.parametrize("name", [*DTYPES, "scalar"])
def test_torch_gets_what_the_package_reads_from_the_mapped_file(path, name):
    with safetensors.safe_open(path, framework="pt") as file:
        expected = file.get_tensor(name)
    x = load(path)[name]
    tensor = torch.from_dlpack(x)
    assert (tensor.dtype, tensor.shape) == (expected.dtype, expected.shape)
    assert bits(tensor) == bits(expected)
    assert tensor.data_ptr() == x.pointer
    assert x.pointer in span(x.obj)
    assert not x.readonly


def test_an_empty_tensor_has_its_shape(path):
    x = load(path)["empty"]
    assert (x.dtype, x.shape) == ("bfloat16", (0, 5))
    assert torch.from_dlpack(x).shape == (0, 5)


@pytest.mark.parametrize("dtype", ML_DTYPES)
def test_numpy_gets_an_array_of_ml_dtypes_from_the_mapped_file(tmp_path, dtype):
    array = np.arange(96, dtype="uint8").reshape(3, 32).view(getattr(ml_dtypes, dtype))
    safetensors.numpy.save_file({"array": array}, tmp_path / "file")
    x = load(tmp_path / "file")["array"]
    read = np.asarray(x)
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert read.tobytes() == array.tobytes()
    assert read.ctypes.data == x.pointer


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("shift", [0, 32])
def test_jax_shares_tensors_at_multiples_of_64_bytes_and_copies_others(tmp_path, dtype, shift):
    array = np.ones((3, 32), getattr(ml_dtypes, dtype, dtype))
    path = tmp_path / "file"
    for length in range(64):  # the package pads its header to a multiple of 8
        safetensors.numpy.save_file({"array": array}, path, metadata={"padding": "x" * length})
        x = load(path)["array"]
        if x.pointer % 64 == shift:
            break
    shared = jnp.from_dlpack(x)
    assert shared.dtype == array.dtype
    assert np.asarray(shared).tobytes() == array.tobytes()
    assert (shared.unsafe_buffer_pointer() == x.pointer) == (shift == 0)


def test_the_file_stays_mapped_while_one_tensor_lives(path):
    tensors = load(path)
    data = tensors["float32"].obj
    assert all(tensor.obj is data for tensor in tensors.values())
    mapped = data.obj.obj  # of the DLPackObject that the memoryview is of
    del data
    tensor = torch.from_dlpack(tensors["float32"])
    del tensors
    with pytest.raises(BufferError, match="exported pointers exist"):
        mapped.close()
    assert torch.equal(tensor, tensor_of("float32"))
    del tensor
    mapped.close()


def test_writes_are_seen_by_all_views_and_never_reach_the_file(path):
    written = path.read_bytes()
    x = load(path)["bfloat16"]
    assert not x.readonly  # or the next line ends the process
    torch.from_dlpack(x)[0, 0] = 7
    assert np.asarray(x)[0, 0] == 7
    assert path.read_bytes() == written
    assert torch.from_dlpack(load(path)["bfloat16"])[0, 0] != 7


def test_a_misaligned_tensor_is_copied_with_copy_none(tmp_path):
    path = tmp_path / "file"
    header = {
        "flag": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},
        "number": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }
    write(path, header, b"\1" + np.array([1.5, 2.5], "f4").tobytes())
    expected = safetensors.torch.load(path.read_bytes())

    refused(lambda: load(path), "misaligned", hint="copy=None")
    tensors = load(path, copy=None)
    for name, x in tensors.items():
        assert torch.equal(torch.from_dlpack(x), expected[name])
    assert tensors["flag"].pointer in span(tensors["flag"].obj)
    assert tensors["number"].obj is None


def test_a_tensor_beyond_the_end_of_the_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:-1])
    refused(lambda: load(path), "out-of-bounds", ValueError)


def test_the_program_prints_what_is_in_a_file(path):
    result = run(sys.executable, EXAMPLE, path)
    assert result.returncode == 0, result.stderr
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert lines.keys() == {*DTYPES, "empty", "scalar"}
    assert lines["bfloat16"].startswith("<dlpack.DLPackObject: bfloat16[3, 16] at 0x")
