from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from exchange import COMPLEXES, FLOAT8, FLOATS, INTEGERS, SUBBYTE, Exchange, refusals

import dlpack


class TestTensor(Exchange):
    take = staticmethod(pa.Tensor.from_dlpack)
    refused: ClassVar = refusals((["bool", *COMPLEXES, "bfloat16", *FLOAT8, *SUBBYTE, "reversed"], pa.ArrowException))
    things: ClassVar = {
        "matrix": lambda: pa.Tensor.from_numpy(np.arange(6).reshape(2, 3)),
        "transposed": lambda: pa.Tensor.from_numpy(np.arange(6.0).reshape(2, 3).T),
    }

    @staticmethod
    def address(taken):
        return taken.to_numpy().ctypes.data

    @staticmethod
    def values(taken):
        return taken.to_numpy()

    def test_of_bytes_is_immutable(self):
        assert not pa.Tensor.from_dlpack(dlpack.asdlpack(b"bytes")).is_mutable
        assert pa.Tensor.from_dlpack(dlpack.asdlpack(bytearray(b"bytes"))).is_mutable


class TestArray:
    @pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
    def test_goes_to_numpy_and_back_without_a_copy(self, dtype):
        source = pa.array(np.arange(8).astype(dtype))
        x = dlpack.asdlpack(source[2:6])
        assert (x.dtype, x.shape, x.readonly) == (dtype, (4,), True)
        assert x.pointer == source.buffers()[1].address + 2 * x.itemsize
        array = np.from_dlpack(x)
        assert array.ctypes.data == x.pointer
        back = pa.Array.from_dlpack(dlpack.asdlpack(array))
        assert back.buffers()[1].address == x.pointer
        del source, x, array
        assert back.to_pylist() == [2, 3, 4, 5]

    @pytest.mark.parametrize("values", [[True], [1, None], ["text"], [[1, 2]]], ids=repr)
    def test_that_is_no_plain_memory_is_refused_in_pyarrows_words(self, values):
        with pytest.raises(BufferError, match="DLPack"):
            dlpack.asdlpack(pa.array(values)).__dlpack__(max_version=(1, 3))

    def test_in_chunks_is_no_memory_to_share(self):
        with pytest.raises(TypeError, match="ChunkedArray"):
            dlpack.asdlpack(pa.chunked_array([[1], [2]]))

    def test_serves_a_legacy_consumer(self):
        source = pa.array([1, 2, 3])
        with pytest.warns(DeprecationWarning, match="unversioned"):
            capsule = dlpack.asdlpack(source).__dlpack__()
        assert np.from_dlpack(dlpack.asdlpack(capsule)).tolist() == [1, 2, 3]


def test_a_buffer_goes_to_numpy():
    source = pa.py_buffer(b"bytes")
    x = dlpack.asdlpack(source)
    assert (x.protocol, x.pointer, x.readonly) == ("buffer", source.address, True)
    assert np.from_dlpack(x).view(np.uint8).tobytes() == b"bytes"
