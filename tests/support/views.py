"""Any view that numpy can make of an array, for hypothesis."""

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from numpy.lib.stride_tricks import as_strided

from support.layouts import DTYPES


@st.composite
def views(draw):
    """An array of any shape, seen through any basic index, transposed anyhow, with some dimensions broadcast."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(nps.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
    data = draw(st.binary(min_size=16, max_size=16)) * (math.prod(shape) * dtype.itemsize // 16 + 1)
    array = np.frombuffer(bytearray(data), "u1")[: math.prod(shape) * dtype.itemsize]
    array = (array & 1 if dtype.kind == "b" else array).view(dtype).reshape(shape)
    array = array[draw(nps.basic_indices(shape, allow_newaxis=True))] if shape else array
    if not isinstance(array, np.ndarray):
        array = np.array(array)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    zeroed = draw(st.lists(st.booleans(), min_size=array.ndim, max_size=array.ndim))
    strides = tuple(0 if zero else stride for zero, stride in zip(zeroed, array.strides, strict=True))
    return as_strided(array, array.shape, strides)


def same(out, array):
    """Equal bit by bit: NaNs have many."""
    return out.shape == array.shape and out.dtype == array.dtype and out.tobytes() == array.tobytes()
