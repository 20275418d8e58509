"""Whatever numpy can show, torch and Arrow show again, or refuse."""

from functools import partial

import mlx.core
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dlpack import asdlpack, frombuffer
from support.layouts import PROTOCOLS
from support.refusals import refused
from support.views import same, views


def from_arrow(x):
    """The items of an array, below its extension types and lists of fixed size."""
    items = pyarrow.array(x)
    while isinstance(items, pyarrow.ExtensionArray | pyarrow.FixedSizeListArray):
        items = items.storage if isinstance(items, pyarrow.ExtensionArray) else items.flatten()
    return items.to_numpy().view(x.dtype).reshape(x.shape)


@settings(max_examples=300)
@given(views(), st.sampled_from(list(PROTOCOLS)), st.booleans())
def test_every_view_goes_from_every_protocol_to_torch(array, protocol, copy):
    x = asdlpack(PROTOCOLS[protocol](array), copy=copy)
    if any(stride < 0 for stride in x.strides):
        with pytest.raises((BufferError, ValueError, RuntimeError)):  # whichever of them torch means by it
            torch.from_dlpack(x)
    else:
        check(torch.from_dlpack(x).numpy(), array, copy)


@settings(max_examples=300)
@given(views(), st.sampled_from(list(PROTOCOLS)), st.booleans())
def test_every_view_goes_from_every_protocol_to_arrow(array, protocol, copy):
    x = asdlpack(PROTOCOLS[protocol](array), copy=copy)
    said = copy or array.size == 0 or array.flags.c_contiguous
    if array.ndim == 0 or array.dtype.kind == "c" or not said:
        with pytest.raises(BufferError):
            from_arrow(x)
    else:
        check(from_arrow(x), array, copy)


def check(out, array, copy):
    assert same(out, array)
    if array.size:
        assert (out.ctypes.data == array.ctypes.data) == (not copy)


def test_frombuffer_takes_no_strided_memory_of_mlx():
    """mlx exports strided memory even to consumers that ask for bytes without strides."""
    values = mlx.core.arange(8)
    assert memoryview(frombuffer(values[2:], "int32")).tolist() == [2, 3, 4, 5, 6, 7]
    for strided in values[::2], values.reshape(2, 4).T:
        refused(partial(frombuffer, strided, "int32"), "not-compact")
