import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dlpack


def test_a_series_goes_to_numpy_by_way_of_arrow():
    series = pl.Series([1.0, 2.0, 3.0])
    x = dlpack.asdlpack(series.to_arrow())
    array = np.from_dlpack(x)
    assert array.ctypes.data == series.to_numpy(allow_copy=False).ctypes.data
    del series, x
    assert array.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "float32", "float64"])
def test_our_memory_becomes_a_series_without_a_copy(dtype):
    source = bytearray(np.arange(6).astype(dtype).tobytes())
    x = dlpack.asdlpack(memoryview(source).cast(np.dtype(dtype).char))
    series = pl.Series(pa.Array.from_dlpack(x))
    assert series.to_numpy(allow_copy=False).ctypes.data == x.pointer
    del source, x
    assert series.to_list() == list(range(6))


@pytest.mark.parametrize("make", [pl.Series, lambda values: pl.DataFrame({"a": values})], ids=["Series", "DataFrame"])
def test_a_series_by_itself_speaks_no_protocol_that_we_read(make):
    with pytest.raises(TypeError, match="polars"):
        dlpack.asdlpack(make([1, 2]))
