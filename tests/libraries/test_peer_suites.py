"""DLPack cases from the suites of numpy, torch, jax, tvm-ffi and nanobind that no other file here tries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import tvm_ffi

from dlpack import asdlpack

# test_ways_out_libraries.py has others.
NO_PLAIN_MEMORY = {
    "conjugated": (lambda: torch.conj(torch.tensor([1 + 2j, 3 - 4j])), "conjugate bit"),
    "of jax, deleted": (lambda: deleted(jnp.ones(3)), "__dlpack__"),
}


def deleted(array):
    array.delete()
    return array


@pytest.mark.parametrize("copy", [False, None, True])
@pytest.mark.parametrize("kind", NO_PLAIN_MEMORY)
def test_array_without_plain_memory_is_refused_in_its_librarys_words(kind, copy):
    make, words = NO_PLAIN_MEMORY[kind]
    with pytest.raises(BufferError, match=words):
        asdlpack(make(), copy=copy).__dlpack__(max_version=(1, 0))
    with pytest.raises(BufferError, match=words):
        _ = asdlpack(make(), copy=copy).shape


def test_an_array_that_jax_only_traces_is_refused():
    refused = []

    @jax.jit
    def trace(array):
        with pytest.raises(BufferError, match="Tracer"):
            refused.append(asdlpack(array).shape)
        return array

    trace(jnp.ones(3))
    assert refused == []


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", [(0, 100), (100, 0), (1, 100), (100, 1), (0, 0, 0), (4, 0, 4), (1, 1)], ids=str)
def test_memory_without_items_or_of_one_row_has_both_orders(shape, order):
    x = asdlpack(np.zeros(shape, "i2", order=order))
    flags = np.asarray(x).flags
    assert (flags.c_contiguous, flags.f_contiguous) == (True, True)
    assert torch.from_dlpack(x).is_contiguous() and tvm_ffi.from_dlpack(x).is_contiguous()


def test_a_tensor_of_one_strided_item_is_shared():
    items = torch.rand(16)[::3][:1]
    out = torch.from_dlpack(asdlpack(items))
    assert (out.shape, out.data_ptr(), out.item()) == (items.shape, items.data_ptr(), items.item())
