"""polars' Series. polars takes no DLPack: it takes pyarrow's arrays, without a copy."""

import struct
from collections.abc import Callable
from typing import Any

import polars as pl

import dlpack

from ..checks import withholds
from ..memory import Memory, Skip, buffer_address
from .datatypes import FORMATS

NUMBERS = (1, 2, 3)


def series() -> Any:
    return pl.Series(NUMBERS, dtype=pl.Float64)


def by_itself() -> Memory:
    return Memory(series(), "float64", (3,), struct.pack("3d", *NUMBERS))


def to_arrow() -> Memory:
    try:
        from .pyarrow import known
    except ImportError:
        raise Skip("pyarrow is not installed") from None
    return known(series().to_arrow())


def to_numpy() -> Memory:
    try:
        from .numpy import known
    except ImportError:
        raise Skip("numpy is not installed") from None
    return known(series().to_numpy(allow_copy=False))


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Series": by_itself,
    "Series.to_arrow()": to_arrow,
    "Series.to_numpy()": to_numpy,
}


def becomes_a_series_without_a_copy_by_way_of_arrow() -> None:
    try:
        from .pyarrow import from_dlpack, seen
    except ImportError:
        raise Skip("pyarrow is not installed") from None
    for dtype in ("int8", "int64", "uint32", "float32", "float64"):
        source = bytearray(struct.pack(f"3{FORMATS[dtype]}", *NUMBERS))
        view: Any = memoryview(source)
        taken = pl.Series(from_dlpack(dlpack.asdlpack(view.cast(FORMATS[dtype]))))
        del view
        address, expected = seen(taken.to_arrow()).address, buffer_address(source)
        assert address == expected, f"{dtype}: at {address}, expected {expected}"
        assert taken.to_list() == list(NUMBERS), taken
        try:
            source.append(0)
        except BufferError:
            continue
        raise AssertionError("the bytearray can be resized although a Series has its memory")


def speaks_no_protocol_that_asdlpack_reads() -> None:
    withholds({"a DataFrame": lambda: pl.DataFrame({"a": NUMBERS})}, TypeError)


CHECKS = {
    "our memory becomes a Series without a copy, by way of pyarrow": becomes_a_series_without_a_copy_by_way_of_arrow,
    "a DataFrame speaks no protocol that asdlpack reads": speaks_no_protocol_that_asdlpack_reads,
}
