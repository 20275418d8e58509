"""memmap with torch, jax and ml_dtypes: bfloat16 and the like out of files, and who may write to what."""

import ml_dtypes
import numpy as np
import pytest
import torch

import dlpack
from dlpack import memmap
from support.refusals import refused
from support.small_types import WHOLE_BYTES


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"bfloat16" + torch.arange(512, dtype=torch.bfloat16).view(torch.uint8).numpy().tobytes())
    return path


def is_mapped(path):
    with open("/proc/self/maps") as lines:
        return str(path) in lines.read()


def test_torch_has_bfloat16_of_a_file_and_may_write_without_changing_it(path):
    content = path.read_bytes()
    x = memmap(path, "bfloat16", (-1, 2), offset=8)
    tensor = torch.from_dlpack(x)
    assert (tensor.dtype, tensor.shape, tensor.data_ptr()) == (torch.bfloat16, (256, 2), x.pointer)
    assert torch.equal(tensor.flatten(), torch.arange(512, dtype=torch.bfloat16))
    tensor += 1
    assert np.asarray(x)[0].tolist() == [1, 2]
    assert path.read_bytes() == content


def test_mode_r_plus_writes_and_reads_the_file_by_torch(path):
    tensor = dlpack.to(memmap(path, torch.bfloat16, offset=8, mode="r+"), torch)
    tensor[:2] = torch.tensor([7, 8])
    assert path.read_bytes()[:12] == b"bfloat16" + bytes.fromhex("e040 0041")
    with path.open("r+b") as file:
        file.seek(8)
        file.write(bytes.fromhex("803f"))
    assert tensor[0] == 1


def test_mode_w_plus_makes_a_file_that_torch_fills(path):
    torch.from_dlpack(memmap(path, "float8_e5m2", 3, mode="w+")).copy_(torch.tensor([1, 2, 3]))
    assert np.frombuffer(path.read_bytes(), ml_dtypes.float8_e5m2).tolist() == [1, 2, 3]


def test_read_only_memory_is_copied_by_to_and_read_only_in_numpy_and_jax(path):
    x = memmap(path, "bfloat16", offset=8, mode="r")
    tensor = dlpack.to(x, "torch")
    assert tensor.data_ptr() != x.pointer
    tensor[0] = 7
    assert torch.from_dlpack(x).data_ptr() == x.pointer  # which ignores that it is read-only
    array = np.asarray(x)
    assert not array.flags.writeable
    assert array[0] == dlpack.to(x, "jax")[0] == 0
    refused(lambda: dlpack.to(x, torch, copy=False), "read-only")


def test_the_mapping_lives_as_long_as_the_last_tensor(path):
    x = memmap(path, "bfloat16", offset=8)
    tensors = [torch.from_dlpack(x), torch.from_dlpack(x)[1:], np.asarray(x)]
    del x
    while tensors:
        assert is_mapped(path)
        tensors.pop(0)
    assert not is_mapped(path)


@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_types_of_ml_dtypes_come_out_as_they_were_written(tmp_path, name):
    array = np.arange(32, dtype="u1").view(getattr(ml_dtypes, name)).reshape(2, -1)
    array.tofile(tmp_path / "file")
    for dtype in name, array.dtype:
        read = np.asarray(memmap(tmp_path / "file", dtype, array.shape))
        assert (read.dtype, read.tobytes()) == (array.dtype, array.tobytes())
