"""h5py's datasets: read into numpy arrays, or mapped from the file if contiguous in it."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

import dlpack
from dlpack.tests.libraries.numpy import known
from dlpack.tests.memory import Memory

from .checks import withholds

MATRIX = np.arange(12, dtype="f4").reshape(3, 4)


def read() -> Memory:
    with h5py.File("read", "w", driver="core", backing_store=False) as file:
        return known(file.create_dataset("a", data=MATRIX)[...])


def map_dataset(path: Path) -> np.memmap:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=MATRIX)
        file.flush()
        offset = dataset.id.get_offset()
    return np.memmap(path, MATRIX.dtype, "r+", offset, MATRIX.shape)


def mapped() -> Memory:
    with tempfile.TemporaryDirectory() as folder:
        return known(map_dataset(Path(folder, "a.h5")))


PROVIDERS: dict[str, Callable[[], Memory]] = {"Dataset, read": read, "Dataset, mapped": mapped}


def writes_into_a_mapped_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        array = map_dataset(path)
        np.from_dlpack(dlpack.asdlpack(array))[0, 0] = 7
        with h5py.File(path) as file:
            assert file["a"][0, 0] == 7, file["a"][0, 0]


def withholds_what_is_not_read() -> None:
    with h5py.File("withheld", "w", driver="core", backing_store=False) as file:
        withholds({"a dataset": lambda: file.create_dataset("a", data=MATRIX)}, TypeError)


CHECKS = {
    "writes into a mapped file": writes_into_a_mapped_file,
    "withholds what is not read": withholds_what_is_not_read,
}
