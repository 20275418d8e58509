"""Arrays of numpy in every dtype that DLPack shares with it, in every layout, and the protocols that they speak."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from support.capi import Speaks

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()

PROTOCOLS: dict[str, Callable[[Any], object]] = {
    "dltensor": lambda array: array.__dlpack__(),
    "dltensor_versioned": lambda array: array.__dlpack__(max_version=(1, 0)),
    "__dlpack__": lambda array: Speaks(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__),
    "__array_interface__": lambda array: Speaks(__array_interface__=array.__array_interface__, keep=array),
    "__array_struct__": lambda array: Speaks(__array_struct__=array.__array_struct__, keep=array),
    "buffer": memoryview,
}


def numbers(dtype, shape):
    """An array whose items all differ, as far as the dtype can tell."""
    count = math.prod(shape)
    values = np.arange(count) % 2 if dtype == "bool" else np.arange(count) % 100
    return values.reshape(shape).astype(dtype)


def with_strides(dtype, shape, strides):
    """Returns a view with strides in bytes, which matter only in dimensions of several items."""
    return as_strided(numbers(dtype, (24,)), shape=shape, strides=strides)


LAYOUTS = {
    "0-d": lambda dtype: numbers(dtype, ()),
    "one item": lambda dtype: numbers(dtype, (1,)),
    "1-d": lambda dtype: numbers(dtype, (7,)),
    "4-d": lambda dtype: numbers(dtype, (2, 3, 4, 5)),
    "column-major": lambda dtype: numbers(dtype, (4, 3)).T,
    "every second": lambda dtype: numbers(dtype, (9,))[1::2],
    "reversed": lambda dtype: numbers(dtype, (5,))[::-1],
    "reversed columns of every third row": lambda dtype: numbers(dtype, (8, 5))[::3, ::-2],
    "broadcast": lambda dtype: with_strides(dtype, (3, 4), (0, np.dtype(dtype).itemsize)),
    "broadcast scalar": lambda dtype: with_strides(dtype, (2, 2), (0, 0)),
    "size-1 dimensions with odd strides": lambda dtype: with_strides(
        dtype, (1, 3, 1, 2, 1), (7, 2 * np.dtype(dtype).itemsize, 3, np.dtype(dtype).itemsize, -5)
    ),
    "empty": lambda dtype: numbers(dtype, (0,)),
    "empty 3-d": lambda dtype: numbers(dtype, (2, 0, 3)),
    "empty view into the middle": lambda dtype: numbers(dtype, (4, 4))[::2, 2:2],
}


LEGACY = "dltensor"  # its memory counts as read-only


def true_strides(array):
    """Returns the strides to expect, in elements: contiguous if the array is empty, and in dimensions of one item."""
    strides = []
    following = 1
    for size, stride in reversed(list(zip(array.shape, array.strides, strict=True))):
        if array.size == 0 or size == 1:
            stride = following
        else:
            stride //= array.itemsize
        strides.insert(0, stride)
        following = stride * (max(size, 1) if array.size == 0 else size)
    return tuple(strides)
