"""The from_dlpack of pyarrow's Array and Tensor, pyarrow.array, and what else of pyarrow has memory."""

import struct
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import dlpack

from ..._abi import Seen, gather, look, read_managed
from ..checks import gives, withholds
from ..memory import Memory, Skip, buffer_address
from . import Consumer

NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}  # the others' are DLPack's
from_dlpack: Any = getattr(pa.Array, "from_dlpack", None)  # since pyarrow 26, as Tensor's
tensor_from_dlpack: Any = getattr(pa.Tensor, "from_dlpack", None)


def seen(array: Any) -> Seen:
    """What pyarrow says of an Array: of lists of one length, the items."""
    shape = [len(array)]
    while isinstance(array, pa.FixedShapeTensorArray | pa.FixedSizeListArray):
        is_tensor = isinstance(array, pa.FixedShapeTensorArray)
        shape += array.type.shape if is_tensor else [array.type.list_size]
        array = (array.storage if is_tensor else array).flatten()
    is_bool = isinstance(array, pa.Bool8Array)
    storage = array.storage if is_bool else array
    buffer, itemsize = storage.buffers()[1], storage.type.bit_width // 8
    part = buffer.slice(storage.offset * itemsize, len(storage) * itemsize)
    dtype = "bool" if is_bool else NAMES.get(str(array.type), str(array.type))
    return Seen(dtype, tuple(shape), part.to_pybytes(), part.address, not buffer.is_mutable)


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
    if tensor_from_dlpack is None:
        raise Skip("pyarrow before 26 exports no address of a read-only tensor")
    written, floats = pa.BufferOutputStream(), bytearray(struct.pack("6f", *range(6)))
    pa.ipc.write_tensor(tensor_from_dlpack(dlpack.asdlpack(memoryview(floats).cast("f", (2, 3)))), written)
    tensor = pa.ipc.read_tensor(pa.BufferReader(written.getvalue()))
    said = seen_tensor(tensor)
    return Memory(tensor, said.dtype, said.shape, said.values, said.address, readonly=not tensor.is_mutable)


def buffer() -> Memory:
    memory = pa.allocate_buffer(100)
    memoryview(memory).cast("B")[:5] = b"arrow"
    return Memory(memory, "int8", (100,), memory.to_pybytes(), memory.address, readonly=not memory.is_mutable)


def chunked(chunks: list[list[float | None]]) -> Any:
    return pa.chunked_array(chunks, pa.float64())


def of_column(obj: Any) -> Memory:
    """What pyarrow says of a column of one chunk, which may be another library's."""
    return known(obj, pa.chunked_array(obj).chunk(0))


def only_column(table: Any) -> Memory:
    """The same of the only column of a table."""
    return known(table, pa.table(table).column(0).chunk(0))


def two_chunks() -> Memory:
    return Memory(chunked([[1], [2]]), "float64", (2,), struct.pack("2d", 1, 2), 0, readonly=True, copy=None)


def booleans() -> Memory:
    """Eight items share a byte."""
    array = pa.array([True, False, True])
    return Memory(array, "bool", (3,), bytes([1, 0, 1]), array.buffers()[1].address, readonly=True, copy=None)


def lists() -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(range(12), pa.int32()), 6)


def tensors() -> Memory:
    """Matrices of two columns, each of which lies column by column."""
    memory = known(lists())
    layout = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0])
    memory.obj = pa.ExtensionArray.from_storage(layout, memory.obj)
    memory.shape, memory.strides = (2, 3, 2), (6, 1, 3)
    memory.values = gather(memory.address or 0, memory.shape, memory.strides, 4)
    return memory


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Array": lambda: known(pa.array(range(8))),
    "Array, sliced": lambda: known(pa.array(range(8))[2:6]),
    "Table column": lambda: known(pa.table({"a": [1.5, 2.5]}).column(0).chunk(0)),
    "Tensor": tensor,
    "Buffer": buffer,
    "ChunkedArray": lambda: of_column(chunked([[1, 2]])),
    "ChunkedArray, sliced": lambda: of_column(chunked([[1, 2, 3]])[1:]),
    "ChunkedArray, combined": lambda: known(chunked([[1], [2]]).combine_chunks()),
    "ChunkedArray of two chunks, copy=None": two_chunks,
    "RecordBatch of a column": lambda: only_column(pa.record_batch({"a": [1.5, 2.5]})),
    "Table of a column": lambda: only_column(pa.table({"a": [1.5, 2.5]})),
    "Array of booleans, copy=None": booleans,
    "FixedSizeListArray": lambda: known(lists()),
    "FixedSizeListArray, sliced": lambda: known(lists()[1:]),
    "FixedShapeTensorArray": tensors,
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


class Array(ArrayFromDLPack):
    name = "pyarrow.array"
    readonly = "never written"
    protocol = "__arrow_c_array__"

    def take(self, x: Any) -> Any:
        return pa.array(x)

    def see(self, taken: Any) -> Seen:
        return seen(taken)._replace(readonly=None)


CONSUMERS: list[Consumer] = [*([ArrayFromDLPack(), TensorFromDLPack()] if from_dlpack else []), Array()]


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
            "a dictionary": lambda: pa.array([1, 1]).dictionary_encode(),
            "two chunks": lambda: chunked([[1], [2]]),
            "a column with nulls": lambda: chunked([[1, None]]),
            "two columns": lambda: pa.table({"a": [1], "b": [1]}),
        }
    )


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
    expected = [DeprecationWarning] if from_dlpack else []
    assert [warning.category for warning in caught] == expected, caught
    assert read_managed(look(capsule)).values == struct.pack("3q", 1, 2, 3)


def shares_device_arrays() -> None:
    column = pa.record_batch({"a": [1.5, 2.5]})
    x = dlpack.asdlpack(column)
    assert ("device" in x.protocol) == hasattr(column, "__arrow_c_device_array__"), x
    address = column.column(0).buffers()[1].address
    assert x.pointer == address == pa.array(x).buffers()[1].address


CHECKS = {
    "shares device arrays": shares_device_arrays,
    "gives every data type": gives_every_data_type,
    "withholds what is no plain memory": withholds_what_is_no_plain_memory,
    "says why it withholds nulls": says_why_it_withholds_nulls,
    "serves a legacy consumer": serves_a_legacy_consumer,
}
