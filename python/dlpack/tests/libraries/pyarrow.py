"""The from_dlpack of pyarrow's Array and Tensor, pyarrow.array, and what else of pyarrow has memory."""

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import dlpack

from ..._abi import Seen, gather
from ..expectations import NO_PADDED, Consumer, Rule, arrow_rules, dtype, layout, not_row_major
from ..findings import Skip
from ..memory import Memory, buffer_address

NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}  # the others' are DLPack's
STAYS = "stays read-only"


def seen(array: Any) -> Seen:
    """Describes an Array as pyarrow does: for lists of one length, their items."""
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
    """Describes a Tensor as pyarrow does."""
    dtype, address = NAMES.get(str(tensor.type), str(tensor.type)), buffer_address(tensor)
    return Seen(dtype, tuple(tensor.shape), memoryview(tensor).tobytes(), address, not tensor.is_mutable)


def tensor() -> Memory:
    """A tensor that pyarrow has read from a message: the memory is its own."""
    if not hasattr(pa.Tensor, "from_dlpack"):
        raise Skip("pyarrow before 26 exports no address of a read-only tensor")
    written, floats = pa.BufferOutputStream(), bytearray(struct.pack("6f", *range(6)))
    pa.ipc.write_tensor(pa.Tensor.from_dlpack(dlpack.asdlpack(memoryview(floats).cast("f", (2, 3)))), written)
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
    """Describes a column of one chunk, which may be another library's, as pyarrow does."""
    return known(obj, pa.chunked_array(obj).chunk(0))


def only_column(table: Any) -> Memory:
    """The same of the only column of a table."""
    return known(table, pa.table(table).column(0).chunk(0))


def two_chunks() -> Memory:
    array, values = chunked([[1], [2]]), struct.pack("2d", 1, 2)
    return Memory(array, "float64", (2,), values, 0, readonly=True, converted="the chunks have to be joined")


def booleans() -> Memory:
    array, values = pa.array([True, False, True]), bytes([1, 0, 1])
    return Memory(array, "bool", (3,), values, 0, readonly=True, converted="DLPack needs a byte an item")


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


def see_array(array: Any) -> Seen:
    return seen(array)._replace(readonly=None)


NUMBERS = Rule("refused", "pyarrow takes int, uint and float", dtype("bool", "complex*", "bfloat16", "float8*"))
VECTORS = [
    NO_PADDED,
    NUMBERS,
    Rule("refused", "an Array has one dimension", lambda memory: len(memory.shape) != 1),
    Rule("refused", "an Array has no gaps", not_row_major),
]

TENSORS = [NUMBERS, layout("pyarrow.Tensor")]
ARROW = [*arrow_rules()]

CONSUMERS = [Consumer("pyarrow.array", pa.array, see_array, "never written", "__arrow_c_array__", rules=ARROW)]
if hasattr(pa.Array, "from_dlpack"):  # since pyarrow 26
    CONSUMERS[:0] = [
        Consumer("pyarrow.Array", pa.Array.from_dlpack, seen, STAYS, rules=VECTORS),
        Consumer("pyarrow.Tensor", pa.Tensor.from_dlpack, seen_tensor, STAYS, rules=TENSORS),
    ]
