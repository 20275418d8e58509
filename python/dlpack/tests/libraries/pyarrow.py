"""The from_dlpack of pyarrow's Array and Tensor, and what else of pyarrow has memory."""

import struct
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import dlpack

from ..capsules import Seen, look, read_managed
from ..checks import gives, withholds
from ..memory import Memory, buffer_address
from . import Consumer

NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}  # the others' are DLPack's
from_dlpack = pa.Array.from_dlpack
tensor_from_dlpack = pa.Tensor.from_dlpack


def seen(array: Any) -> Seen:
    """What pyarrow says of an Array."""
    buffer, itemsize = array.buffers()[1], array.type.bit_width // 8
    part = buffer.slice(array.offset * itemsize, len(array) * itemsize)
    dtype = NAMES.get(str(array.type), str(array.type))
    return Seen(dtype, (len(array),), part.to_pybytes(), part.address, not buffer.is_mutable)


def known(obj: Any, array: Any = None) -> Memory:
    """The same as Memory: an Array is never written."""
    said = seen(obj if array is None else array)
    return Memory(obj, said.dtype, said.shape, said.values, said.address, readonly=True)


def seen_tensor(tensor: Any) -> Seen:
    """What pyarrow says of a Tensor."""
    dtype, address = NAMES.get(str(tensor.type), str(tensor.type)), buffer_address(tensor)
    return Seen(dtype, tuple(tensor.shape), memoryview(tensor).tobytes(), address, not tensor.is_mutable)


def tensor() -> Memory:
    """A tensor that pyarrow has read from a message: the memory is its own."""
    written, floats = pa.BufferOutputStream(), bytearray(struct.pack("6f", *range(6)))
    pa.ipc.write_tensor(tensor_from_dlpack(dlpack.asdlpack(memoryview(floats).cast("f", (2, 3)))), written)
    tensor = pa.ipc.read_tensor(pa.BufferReader(written.getvalue()))
    said = seen_tensor(tensor)
    return Memory(tensor, said.dtype, said.shape, said.values, said.address, readonly=not tensor.is_mutable)


def buffer() -> Memory:
    memory = pa.allocate_buffer(100)
    memoryview(memory).cast("B")[:5] = b"arrow"
    return Memory(memory, "int8", (100,), memory.to_pybytes(), memory.address, readonly=not memory.is_mutable)


def chunked(chunks: list[list[float]]) -> Any:
    return pa.chunked_array(chunks, pa.float64())


def chunked_array() -> Memory:
    return Memory(chunked([[1], [2]]), "float64", (2,), struct.pack("2d", 1, 2))


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Array": lambda: known(pa.array(range(8))),
    "Array, sliced": lambda: known(pa.array(range(8))[2:6]),
    "Table column": lambda: known(pa.table({"a": [1.5, 2.5]}).column(0).chunk(0)),
    "Tensor": tensor,
    "Buffer": buffer,
    "ChunkedArray": chunked_array,
    "ChunkedArray, combined": lambda: known(chunked([[1], [2]]).combine_chunks()),
}


class ArrayFromDLPack(Consumer):
    name = "pyarrow.Array"
    readonly = "stays read-only"

    def take(self, x: Any) -> Any:
        return from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        return seen(taken)


class TensorFromDLPack(Consumer):
    name = "pyarrow.Tensor"
    readonly = "stays read-only"

    def take(self, x: Any) -> Any:
        return tensor_from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        return seen_tensor(taken)


CONSUMERS = [ArrayFromDLPack(), TensorFromDLPack()]


def gives_every_data_type() -> None:
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    gives(*(known(pa.array(range(8)).cast(name)) for name in (*integers, "halffloat", "float", "double")))


def withholds_what_is_no_plain_memory() -> None:
    withholds(
        {
            "booleans": lambda: pa.array([True]),
            "nulls": lambda: pa.array([1, None]),
            "text": lambda: pa.array(["text"]),
            "lists": lambda: pa.array([[1, 2], [3]]),
            "dates": lambda: pa.array([1], pa.date32()),
        }
    )
    withholds({"a table": lambda: pa.table({"a": [1]})}, TypeError)


def says_why_it_withholds_nulls() -> None:
    try:
        dlpack.asdlpack(pa.array([1, None])).__dlpack__(max_version=(1, 3))
    except BufferError as error:
        assert "Can only use DLPack on arrays with no nulls" in str(error), error
    else:
        raise AssertionError("exported")


def serves_a_legacy_consumer() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capsule = dlpack.asdlpack(pa.array([1, 2, 3])).__dlpack__()
    assert [warning.category for warning in caught] == [DeprecationWarning], caught
    assert read_managed(look(capsule)).values == struct.pack("3q", 1, 2, 3)


CHECKS = {
    "gives every data type": gives_every_data_type,
    "withholds what is no plain memory": withholds_what_is_no_plain_memory,
    "says why it withholds nulls": says_why_it_withholds_nulls,
    "serves a legacy consumer": serves_a_legacy_consumer,
}
