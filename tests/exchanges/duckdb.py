"""duckdb's relations, which are Arrow streams: each time one is read, its query is run anew."""

import struct
from typing import Any

import duckdb

import dlpack
from dlpack._abi import Seen, look, read_managed


def given(query: str, copy: bool | None = False) -> Seen:
    """Returns the query's answer as a C program sees it."""
    return read_managed(look(dlpack.asdlpack(duckdb.sql(query), copy=copy).__dlpack__(max_version=(1, 3))))


def gives_a_column() -> None:
    for dtype, name, format in (("double", "float64", "d"), ("integer", "int32", "i"), ("utinyint", "uint8", "B")):
        seen = given(f"select i::{dtype} from range(3) as numbers(i)")
        assert seen[:3] == (name, (3,), struct.pack(f"3{format}", 0, 1, 2)), seen
        assert seen.readonly, seen


def gives_a_column_of_arrays() -> None:
    seen = given("select [i, i + 1]::float[2] from range(3) as numbers(i)")
    assert seen[:3] == ("float32", (3, 2), struct.pack("6f", 0, 1, 1, 2, 2, 3)), seen


def gives_booleans_with_copy_none() -> None:
    seen = given("select i = 1 from range(3) as numbers(i)", copy=None)
    assert seen[:3] == ("bool", (3,), bytes([0, 1, 0])), seen


def queries_our_memory() -> None:
    ours: Any = dlpack.asdlpack(memoryview(struct.pack("3d", 1, 2, 3)).cast("d"))
    answer = duckdb.sql("select sum(columns(*)) from ours").fetchall()  # a variable is a table
    assert answer == [(6.0,)], f"the sum of {ours} is {answer}"


CHECKS = {
    "gives a column": gives_a_column,
    "gives a column of arrays": gives_a_column_of_arrays,
    "gives booleans with copy=None": gives_booleans_with_copy_none,
    "queries our memory": queries_our_memory,
}
