"""nanoarrow's arrays, and nanoarrow.Array, which takes Arrow's."""

import json
from collections.abc import Callable
from typing import Any

import nanoarrow as na

from dlpack._abi import Seen, compact, gather
from dlpack.tests.expectations import Consumer, arrow_rules
from dlpack.tests.memory import Memory, buffer_address

from .checks import gives

NAMES = {"half_float": "float16", "float": "float32", "double": "float64"}  # the others' are DLPack's


def extents(schema: Any) -> list[int]:
    """The shape of a list: its format ends with the length, unless it is a tensor."""
    metadata = dict(schema.metadata.items()) if schema.metadata else {}
    if metadata.get(b"ARROW:extension:name") == b"arrow.fixed_shape_tensor":
        shape: list[int] = json.loads(metadata[b"ARROW:extension:metadata"])["shape"]
        return shape
    return [int(schema.format.removeprefix("+w:"))]


def seen(array: Any) -> Seen:
    """Describes an array as nanoarrow does: for lists of one length, their items."""
    array = na.c_array(array)
    schema, view, shape, first = array.schema, array.view(), [len(array)], array.offset
    while schema.n_children == 1:
        shape += extents(schema)
        first *= view.layout.child_size_elements
        schema, view = schema.child(0), view.child(0)
        first += view.offset
    is_bool = schema.metadata is not None and b"arrow.bool8" in dict(schema.metadata.items()).values()
    dtype = "bool" if is_bool else NAMES.get(view.storage_type, view.storage_type)
    items = view.buffer(1)
    itemsize = items.element_size_bits // 8
    address = buffer_address(items) + first * itemsize
    return Seen(dtype, tuple(shape), gather(address, tuple(shape), compact(tuple(shape)), itemsize), address)


def known(array: Any) -> Memory:
    """The same as Memory: an array is never written."""
    said = seen(array)
    return Memory(array, said.dtype, said.shape, said.values, said.address, readonly=True)


def booleans() -> Memory:
    array = na.Array([True, False, True], na.bool_())
    return Memory(array, "bool", (3,), bytes([1, 0, 1]), 0, readonly=True, converted="DLPack needs a byte an item")


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Array": lambda: known(na.Array(range(6), na.int32())),
    "Array of booleans, copy=None": booleans,
    "CArray, sliced": lambda: known(na.c_array(range(6), na.int32())[2:4]),
}


CONSUMERS = [Consumer("nanoarrow", na.Array, seen, "never written", "__arrow_c_array__", rules=[*arrow_rules()])]


def gives_every_data_type() -> None:
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    gives(*(known(na.c_array(range(6), getattr(na, name)())) for name in (*integers, "float32", "float64")))


CHECKS = {
    "gives every data type": gives_every_data_type,
}
