"""Layouts to copy from, by what can make a compact copy of them."""

import numpy as np
import pytest

WHOLE = np.arange(6 * 8 * 10, dtype="f4").reshape(6, 8, 10)

COMPACTED = {  # on the device too
    "compact": lambda a: a,
    "some planes": lambda a: a[1:4],
    "rows": lambda a: a[:, 2:7],
    "a block": lambda a: a[1:5, 2:6, 3:9],
    "every second plane": lambda a: a[::2],
    "every third row": lambda a: a[:, ::3],
    "planes turned around": lambda a: a[::-1],
    "rows turned around": lambda a: a[:, ::-1, 1:],
    "planes and rows exchanged": lambda a: a.transpose(1, 0, 2),
    "one item": lambda a: a[2, 3, 4, ...],
    "no items": lambda a: a[:, :0],
    "five dimensions": lambda a: a.reshape(2, 3, 4, 2, 10)[:, 1:, ::2, :, 2:8],
}
GATHERED = {  # by the host alone
    "transposed": lambda a: a.T,
    "turned around": lambda a: a[::-1, ::-1, ::-1],
    "every second item": lambda a: a[..., ::2],
    "items turned around": lambda a: a[:, :, ::-1],
}
SPARSE = {"one column": lambda a: a[:, :, 3], "every fifth item": lambda a: a[..., ::5]}


def layouts(*tables):
    both = {name: layout for table in tables for name, layout in table.items()}
    return pytest.mark.parametrize("layout", both.values(), ids=both.keys())
