"""Memory that goes from library to library, in by one protocol and out by another: one memory all the way, which lives
exactly as long as its last link."""

import itertools
import sys
import weakref

import ml_dtypes
import nanoarrow as na
import numba
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tensorflow as tf
import torch

from dlpack import asdlpack
from dlpack.tests.memory import buffer_address
from support.capi import Memory, Speaks

# Each takes a DLPackObject of 24 float64, and gives an object with the same memory that asdlpack takes.
LINKS = {
    "memoryview": memoryview,
    "memoryview, a part": lambda x: memoryview(x)[:],
    "numpy, by the buffer": np.asarray,
    "numpy, by DLPack": np.from_dlpack,
    "numpy, by the interface": lambda x: np.asarray(Speaks(__array_interface__=x.__array_interface__, keep=x)),
    "numpy, by the structure": lambda x: np.asarray(Speaks(__array_struct__=x.__array_struct__)),
    "the interface": lambda x: Speaks(__array_interface__=x.__array_interface__, keep=x),
    "the structure": lambda x: Speaks(__array_struct__=x.__array_struct__),
    "torch": torch.from_dlpack,
    "torch.as_tensor": torch.as_tensor,
    "torch.frombuffer": lambda x: torch.frombuffer(x, dtype=torch.float64),
    "a capsule": lambda x: x.__dlpack__(max_version=(1, 0)),
    "a producer": lambda x: Speaks(__dlpack__=x.__dlpack__, __dlpack_device__=x.__dlpack_device__),
    "Arrow": lambda x: Speaks(__arrow_c_array__=x.__arrow_c_array__),
    "pyarrow, by Arrow": pa.array,
    "pyarrow, by DLPack": pa.Tensor.from_dlpack,
    "pyarrow.Buffer": pa.py_buffer,
    "polars": pl.Series,
    "nanoarrow": na.Array,
}


def source_and_object():
    source = Memory(np.arange(24.0).tobytes())
    return source, asdlpack(memoryview(source).cast("d"))


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # torch.frombuffer
@pytest.mark.parametrize("second", LINKS)
@pytest.mark.parametrize("first", LINKS)
def test_two_links_are_one_memory_and_locked_until_the_last_is_gone(first, second):
    source, x = source_and_object()
    alive, start = weakref.ref(source), buffer_address(source)
    y = asdlpack(LINKS[first](x))
    del x
    assert (y.pointer, y.nbytes) == (start, 192)
    z = asdlpack(LINKS[second](y))
    del y
    assert (z.pointer, z.nbytes) == (start, 192)
    source[:8] = np.float64(99).tobytes()
    assert bytes(z) == source
    with pytest.raises(BufferError):
        source.append(0)
    del z
    source.append(0)
    del source
    assert alive() is None


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
@pytest.mark.parametrize("last", [torch.from_dlpack, np.asarray, lambda x: x.__dlpack__(), pa.array])
def test_a_chain_is_released_in_any_order(last, order):
    source, x = source_and_object()
    alive = weakref.ref(source)
    view = memoryview(x)
    y = asdlpack(view)
    chain = [source, x, view, y, last(y)]
    del source, x, view, y
    for count, which in enumerate(order, 1):
        assert alive() is not None
        chain[which] = None
        assert (alive() is None) == (count == len(order))


def test_references_are_exact_after_every_chain():
    source = np.arange(24.0)
    before = sys.getrefcount(source)
    for link in LINKS.values():
        for _ in range(3):
            x = asdlpack(source)
            link(x)
            y = asdlpack(link(x))
            del x, y
        assert sys.getrefcount(source) == before


# The chains that users ask for.


def test_numba_reads_and_writes_the_memory_by_its_buffer():
    @numba.njit
    def double(numbers):
        for i in range(len(numbers)):
            numbers[i] *= 2

    source = np.arange(4.0)
    double(memoryview(asdlpack(source)))
    assert source.tolist() == [0, 2, 4, 6]
    double(np.asarray(asdlpack(source)))
    assert source.tolist() == [0, 4, 8, 12]


@pytest.mark.parametrize("convert", [tf.convert_to_tensor, tf.constant])
def test_tensorflow_takes_the_values_of_every_type(convert):
    for source in np.arange(6, dtype="f4").reshape(2, 3), np.arange(3).astype(ml_dtypes.bfloat16):
        tensor = convert(asdlpack(source))
        assert (tensor.dtype, tensor.shape) == (source.dtype, source.shape)
        np.testing.assert_array_equal(tensor.numpy(), source)


def test_pandas_takes_it_as_a_column_and_as_an_array():
    x = asdlpack(np.arange(3.0))
    assert pd.Series.from_arrow(x).tolist() == [0, 1, 2]
    assert pd.array(x).tolist() == [0, 1, 2]
    assert pd.Series(np.asarray(x)).tolist() == [0, 1, 2]
