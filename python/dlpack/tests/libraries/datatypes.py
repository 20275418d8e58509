"""Every data type that an array interface can say, six items of each."""

import functools
import struct
from collections.abc import Callable

from ..._abi import FLOAT8
from ..expectations import PADDED
from ..memory import Array, Memory

ONES_AND_ZEROS = (0, 1, 1, 1, 0, 1)

FORMATS = {  # struct's, an item or its parts
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "ff",
    "complex128": "dd",
}


def native(dtype: str) -> Memory:
    """A type that a typestr can say."""
    parts = FORMATS[dtype]
    kind = {"b": "b", "u": "u", "i": "i", "f": "f", "c": "c"}[dtype[0]]
    data = b"".join(struct.pack(f"={parts}", *[value] * len(parts)) for value in ONES_AND_ZEROS)
    return Array(f"<{kind}{len(data) // 6}", dtype, data).memory((6,))


def named(dtype: str, one: bytes) -> Memory:
    """A type that a typestr can't say: the name of the object's dtype tells it, as with ml_dtypes."""
    data = b"".join(one if value else bytes(len(one)) for value in ONES_AND_ZEROS)
    return Array(f"<V{len(one)}", dtype, data).memory((6,))


PROVIDERS: dict[str, Callable[[], Memory]] = {dtype: functools.partial(native, dtype) for dtype in FORMATS}
PROVIDERS["bfloat16"] = functools.partial(named, "bfloat16", struct.pack("=H", 0x3F80))
PROVIDERS |= {f"float8_{kind}": functools.partial(named, f"float8_{kind}", b"\x38") for kind in FLOAT8}
PROVIDERS |= {dtype: functools.partial(named, dtype, b"\x01") for dtype in PADDED}
