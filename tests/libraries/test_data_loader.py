"""The data loader of torch, whose workers are forked."""

import mmap
import tempfile

import numpy as np
import torch

import dlpack
from support.alone import alone


@alone(timeout=280)
def epochs_of_a_data_loader(count):
    with tempfile.TemporaryFile() as file:
        file.write(np.arange(64 * 16, dtype="f4").tobytes())
        file.flush()
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    class Rows(torch.utils.data.Dataset):
        """Rows of a mapped file. Each access describes its row anew; the parent has described half of them before."""

        def __len__(self):
            return 64

        def __getitem__(self, row):
            x = dlpack.frombuffer(memory, "float32", (4, 4), offset=64 * row)
            copy = dlpack.frombuffer(memory, "float32", (4, 4), offset=64 * row, copy=True)
            assert torch.equal(torch.from_dlpack(x), torch.from_dlpack(copy))
            return torch.from_dlpack(x) + torch.from_dlpack(dlpack.asdlpack(memoryview(bytearray(row + 1))))[:1]

    rows = Rows()
    expected = [rows[row] for row in range(0, 64, 2)]
    for _ in range(count):
        loaded = list(torch.utils.data.DataLoader(rows, batch_size=4, num_workers=4, multiprocessing_context="fork"))
        assert torch.cat(loaded).shape == (64, 4, 4)
        assert all(torch.equal(torch.cat(loaded)[2 * i], row) for i, row in enumerate(expected))


def test_a_data_loader_of_torch_with_forked_workers_reads_a_mapped_file(effort, figure):
    epochs = effort(1, 25)
    epochs_of_a_data_loader(count=epochs)
    figure("epochs of 4 workers", epochs)
