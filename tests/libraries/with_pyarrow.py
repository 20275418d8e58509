from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from exchange import COMPLEXES, FLOAT8, FLOATS, INTEGERS, MEMORIES, SUBBYTE, Exchange, of_each, refusals

import dlpack


class TestTensor(Exchange):
    take = staticmethod(pa.Tensor.from_dlpack)
    refused: ClassVar = refusals((["bool", *COMPLEXES, "bfloat16", *FLOAT8, *SUBBYTE, "reversed"], pa.ArrowException))
    things: ClassVar = {
        "matrix": lambda: pa.Tensor.from_numpy(np.arange(6).reshape(2, 3)),
        "transposed": lambda: pa.Tensor.from_numpy(np.arange(6.0).reshape(2, 3).T),
    }
    withheld: ClassVar = {"sparse": (lambda: pa.SparseCOOTensor.from_dense_numpy(np.eye(2)), TypeError)}

    @staticmethod
    def address(taken):
        return taken.to_numpy().ctypes.data

    @staticmethod
    def values(taken):
        return taken.to_numpy()

    def test_of_bytes_is_immutable(self):
        assert not pa.Tensor.from_dlpack(dlpack.asdlpack(b"bytes")).is_mutable
        assert pa.Tensor.from_dlpack(dlpack.asdlpack(bytearray(b"bytes"))).is_mutable


VECTORS = ["bytes", "bytearray", "array.array", "mmap", "vector", "read-only vector", "vector 8 bytes off alignment"]
VECTORS += ["empty", "copy of bytes", "copy of every second"]


class TestArray(Exchange):
    take = staticmethod(pa.Array.from_dlpack)
    values = staticmethod(np.asarray)
    refused: ClassVar = refusals(([name for name in MEMORIES if name not in VECTORS], (pa.ArrowException, BufferError)))
    things: ClassVar = {
        **of_each([*INTEGERS, *FLOATS], lambda name: pa.array(np.arange(8).astype(name))),
        "slice": lambda: pa.array(range(8))[2:6],
    }
    withheld: ClassVar = {
        "bools": (lambda: pa.array([True]), BufferError),
        "nulls": (lambda: pa.array([1, None]), BufferError),
        "text": (lambda: pa.array(["text"]), BufferError),
        "lists": (lambda: pa.array([[1, 2], [3]]), BufferError),
        "dates": (lambda: pa.array([1], pa.date32()), BufferError),
        "chunks": (lambda: pa.chunked_array([[1], [2]]), TypeError),
        "table": (lambda: pa.table({"a": [1]}), TypeError),
    }

    @staticmethod
    def address(taken):
        return taken.buffers()[1].address + taken.offset * taken.type.bit_width // 8

    def test_is_read_only(self):
        assert dlpack.asdlpack(pa.array([1, 2])).readonly

    def test_that_is_no_plain_memory_is_refused_in_the_words_of_pyarrow(self):
        with pytest.raises(BufferError, match="Can only use DLPack on arrays with no nulls"):
            dlpack.asdlpack(pa.array([1, None])).__dlpack__(max_version=(1, 3))

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
