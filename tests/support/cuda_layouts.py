"""Layouts to copy from memory of CUDA, by what can make a compact copy of them."""

import numpy as np


def numbers(*shape, dtype="i4"):
    """1, 2, and so on."""
    return np.arange(1, 1 + np.prod(shape)).astype(dtype).reshape(shape)


# The driver, in blocks: how many, each of how many bytes, or of slices x rows x bytes.
BLOCKS = {
    "compact": (numbers(4, 5, 6), "1 of 480"),
    "scalar": (numbers(), "1 of 4"),
    "some slices": (numbers(6, 4, 5)[1:4], "1 of 240"),
    "columns": (numbers(6, 8)[:, 2:7], "1 of 1x6x20"),
    "a block": (numbers(5, 6, 7)[1:4, 2:5, 3:6], "1 of 3x3x12"),
    "every second slice": (numbers(6, 4, 5)[::2, 1:3, 1:4], "1 of 3x2x12"),
    "every third row": (numbers(4, 9, 5)[:, ::3], "1 of 1x12x20"),
    "slices in another order": (numbers(3, 4, 5).transpose(1, 0, 2), "3 of 1x4x20"),
    "slices that begin between two rows": (numbers(4, 50)[:, :40].reshape(4, 2, 20)[:, :, :15], "2 of 1x4x60"),
    "rows backwards": (numbers(7, 5)[::-1], "7 of 20"),
    "rows backwards of slices": (numbers(3, 4, 5)[:, ::-1, 1:], "4 of 1x3x16"),
    "rows as far apart as a pitch may be": (numbers(3, 1 << 18)[:, :5], "1 of 1x3x20"),
    "rows further apart than a pitch may be": (numbers(3, 1 << 19)[:, :5], "3 of 20"),
    "as many blocks as there may be": (numbers(1024, 2)[::-1], "1024 of 8"),
    "a row over and over": (np.broadcast_to(numbers(5), (7, 5)), "7 of 20"),
    "windows of two dimensions": (np.lib.stride_tricks.sliding_window_view(numbers(6, 7), (3, 4)), "12 of 1x4x16"),
    "five dimensions": (numbers(2, 3, 4, 2, 10)[:, 1:, ::2, :, 2:8], "2 of 4x2x24"),
    "bytes": (numbers(7, 9, dtype="u1")[1:, 3:], "1 of 1x6x6"),
    "empty": (numbers(0, 3), ""),
}
COMPACTED = {name: array for name, (array, _) in BLOCKS.items()}
# The host alone: one copy brings all bytes between the items.
GATHERED = {
    "transposed": numbers(4, 5).T,
    "backwards": numbers(9)[::-1],
    "backwards in all dimensions": numbers(3, 4, 5)[::-1, ::-1, ::-1],
    "every second column": numbers(6, 8)[:, ::2],
    "each item over and over": np.broadcast_to(numbers(3, 1), (3, 4)),
    "one row more backwards than there may be blocks": numbers(1025, 2)[::-1],
}
# Nobody but the library that owns them: the gaps are larger than the items.
SPARSE = {
    "every third item": numbers(90)[::3],
    "every third column of every third row": numbers(9, 9)[::3, ::3],
    "every third row of a transposed matrix": numbers(9, 9).T[::3],
    "rows backwards of every second item": numbers(4000, 2, 4)[::-2, :, ::2],
}
