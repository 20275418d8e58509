"""More checks of polars."""

import polars as pl

from dlpack.tests.libraries.polars import NUMBERS, series

from .checks import withholds


def withholds_what_is_no_plain_memory() -> None:
    withholds(
        {
            "booleans": lambda: pl.Series([True]),
            "nulls": lambda: pl.Series([1, None]),
            "text": lambda: pl.Series(["text"]),
            "lists": lambda: pl.Series([[1, 2], [3]]),
            "two chunks": lambda: series().append(series()),
            "two columns": lambda: pl.DataFrame({"a": NUMBERS, "b": NUMBERS}),
        }
    )


CHECKS = {"withholds what is no plain memory": withholds_what_is_no_plain_memory}
