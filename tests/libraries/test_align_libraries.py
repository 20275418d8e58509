"""Consumers of memory aligned to 64 bytes: jax copies other memory, apache-tvm refuses it."""

import jax.numpy
import numpy as np
import pytest
import torch
import tvm

from dlpack import asdlpack

MAKERS = {
    "numpy": lambda array: array,
    "memoryview": memoryview,
    "torch": torch.from_numpy,
    "DLPackObject": lambda array: asdlpack(memoryview(array)),
}


def at(address):
    """Numbers whose address is that one modulo 64."""
    memory = np.arange(256, dtype="u1")
    start = (address - memory.ctypes.data) % 64
    return memory[start : start + 128].view("f4")


def taken_at(x):
    """Returns the addresses of the memory in jax and in tvm."""
    array, tensor = jax.numpy.from_dlpack(x), tvm.runtime.from_dlpack(x)
    return {array.unsafe_buffer_pointer(), np.from_dlpack(tensor).ctypes.data}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_jax_and_tvm_share_what_is_aligned(make):
    aligned, other = at(0), at(16)
    assert taken_at(asdlpack(make(aligned), align=64)) == {aligned.ctypes.data}
    with pytest.raises(BufferError, match="is a multiple of 16; expected one of 64"):
        asdlpack(make(other), align=64)
    for array, copy in (other, None), (other, True), (aligned, True):
        x = asdlpack(make(array), align=64, copy=copy)
        assert taken_at(x) == {x.pointer}
        assert x.pointer != array.ctypes.data
        assert np.from_dlpack(x).tolist() == array.tolist()


def test_without_it_jax_copies_and_tvm_refuses():
    x = asdlpack(at(16))
    assert jax.numpy.from_dlpack(x).unsafe_buffer_pointer() != x.pointer
    with pytest.raises(RuntimeError, match="not aligned to 64 bytes"):
        tvm.runtime.from_dlpack(x)
