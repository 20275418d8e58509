"""readonly= and owner= with torch and other libraries."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

from dlpack import asdlpack, frombuffer
from support.refusals import refused


def is_shared_until_written(tensor):
    return torch._C._is_cow_tensor(tensor)


@pytest.mark.parametrize("copy", [False, None])
def test_lazy_clone_stays_shared_if_it_is_exported_read_only(copy):
    tensor = torch.arange(4.0)
    clone = torch._lazy_clone(tensor)
    x = asdlpack(clone, readonly=True, copy=copy)
    assert (x.obj is clone, x.readonly, is_shared_until_written(clone)) == (True, True, True)
    assert np.from_dlpack(x).tolist() == [0, 1, 2, 3]
    clone[0] = 9  # it gets memory of its own
    assert np.from_dlpack(x).tolist() == [0, 1, 2, 3]
    other = torch._lazy_clone(tensor)
    assert asdlpack(other).size == 4
    assert not is_shared_until_written(other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(3.0, requires_grad=True),
        lambda: torch.conj(torch.ones(3, dtype=torch.complex64)),
        lambda: torch.conj(torch.ones(3, dtype=torch.complex64)).imag,
        lambda: torch.ones(3).to_sparse(),
    ],
    ids=["requires grad", "conjugated", "negated", "sparse"],
)
def test_read_only_tensor_is_refused_as_others_are(make):
    with pytest.raises(BufferError) as other:
        asdlpack(make()).__dlpack__()
    with pytest.raises(BufferError) as caught:
        asdlpack(make(), readonly=True)
    assert (caught.value.reason, caught.value.details) == (other.value.reason, other.value.details)


def test_copies_of_a_read_only_tensor():
    tensor = torch.arange(3)
    x = asdlpack(tensor, readonly=True, copy=True)
    assert (x.readonly, x.obj, x.pointer == tensor.data_ptr()) == (True, None, False)
    assert np.from_dlpack(x).tolist() == [0, 1, 2]


def test_read_only_wrapper_of_torch_is_read_only():
    tensor = torch.arange(3)
    x = asdlpack(ReadOnlyTensorWrapper(tensor))
    assert (x.readonly, x.pointer) == (True, tensor.data_ptr())
    assert not np.from_dlpack(x).flags.writeable
    refused(lambda: asdlpack(ReadOnlyTensorWrapper(tensor), readonly=False), "read-only")


def test_readonly_false_is_safe_for_torch():
    with pytest.raises(BufferError):
        asdlpack(b"read-only", readonly=False)
    torch.from_dlpack(asdlpack(b"read-only", readonly=False, copy=None)).fill_(1)
    memory = bytearray(3)
    torch.from_dlpack(asdlpack(memory, readonly=False)).fill_(1)
    assert memory == bytes([1, 1, 1])


def test_owner_lives_as_long_as_a_tensor_does():
    class Pixmap:
        def __init__(self):
            self.samples = bytearray(48)

    pixmap = Pixmap()
    gone = weakref.ref(pixmap)
    tensor = torch.from_dlpack(frombuffer(pixmap.samples, "uint8", (4, 4, 3), owner=pixmap))
    del pixmap
    part = tensor[1:, 0]
    del tensor
    gc.collect()
    assert gone() is not None
    del part
    assert gone() is None
