"""copy_into between the host and a GPU, and on one: into memory that is there, in the order of both sides' streams."""

import cupy
import numpy as np
import pytest
import torch
from gpu import download, free_memory, interface, interface_of, managed, pinned, registered, streams, upload, write
from gpu_layouts import COMPACTED, GATHERED, WHOLE, layouts

from dlpack import copy_into


def on_gpu(shape, dtype="f4", value=-1):
    return cupy.full(shape, value, dtype)


@layouts(COMPACTED, GATHERED)
def test_memory_of_the_host_goes_into_that_of_a_gpu(layout):
    array = layout(WHOLE)
    for source in array, array.astype(array.dtype.newbyteorder()):
        room = on_gpu(array.shape)
        address = room.data.ptr
        copy_into(source, room)
        assert room.data.ptr == address
        np.testing.assert_array_equal(room.get(), array)


@layouts(COMPACTED, GATHERED)
def test_memory_of_a_gpu_goes_into_any_of_the_host(layout):
    view, expected = layout(cupy.asarray(WHOLE)), layout(WHOLE)
    wide = np.zeros([2 * n for n in expected.shape], "f4")
    rooms = [
        np.zeros(expected.shape, "f4"),
        np.zeros(expected.shape[::-1], "f4").T,
        np.zeros(expected.shape, ">f4"),
        wide[(..., *[slice(None, None, 2)] * expected.ndim)],
    ]
    for room in rooms:
        copy_into(interface_of(view), room)
        np.testing.assert_array_equal(room, expected)


@layouts(COMPACTED)
def test_memory_of_a_gpu_goes_into_that_of_the_same(layout):
    view, expected = layout(cupy.asarray(WHOLE)), layout(WHOLE)
    room = torch.zeros(expected.shape, device="cuda:0")
    copy_into(interface_of(view), room)
    np.testing.assert_array_equal(room.cpu().numpy(), expected)


def test_overlapping_memory_of_a_gpu_is_read_before_it_is_written():
    items = np.arange(1 << 20, dtype="i4")
    for source, target in (slice(0, -1), slice(1, None)), (slice(1, None), slice(0, -1)):
        memory, expected = cupy.asarray(items), items.copy()
        expected[target] = items[source]
        copy_into(memory[source], memory[target])
        np.testing.assert_array_equal(memory.get(), expected)


@pytest.mark.parametrize("allocate", [managed, pinned, registered])
def test_memory_that_both_reach_is_copied_either_way(allocate):
    with allocate(WHOLE.nbytes) as address:
        upload(address, np.zeros_like(WHOLE))
        shared = interface(address, WHOLE.shape)
        copy_into(WHOLE[::-1], shared)
        for room in np.zeros_like(WHOLE), on_gpu(WHOLE.shape):
            copy_into(shared, room)
            np.testing.assert_array_equal(cupy.asnumpy(room), WHOLE[::-1])
        copy_into(cupy.asarray(WHOLE), shared)
        np.testing.assert_array_equal(download(address, WHOLE.shape), WHOLE)


def test_queued_work_of_both_sides_is_done_before_the_copy():
    source, target = on_gpu(1024), on_gpu(1024)
    first, second = streams()
    torch.cuda.synchronize()
    for i in range(100):
        write(first, source.data.ptr, 1024, i, cycles=1_000_000)
        write(second, target.data.ptr, 1024, -1, cycles=2_000_000)
        copy_into(interface_of(source, stream=first.ptr), interface_of(target, stream=second.ptr))
        assert target.tolist() == [i] * 1024


def test_a_target_that_is_not_row_major_is_refused():
    for room in on_gpu((4, 6)).T, on_gpu((6, 8))[:, ::2], on_gpu((6, 4))[::-1]:
        with pytest.raises(BufferError, match=r"^target: .*is not compact.*\(copy to a "):
            copy_into(np.zeros((6, 4), "f4"), interface_of(room))
        assert (room.get() == -1).all()


def test_nine_thousand_copies_take_no_memory():
    host, room, crop = np.zeros((64, 64), "f4"), on_gpu((64, 64)), on_gpu((64, 100))[:, 8:72]
    copy_into(interface_of(crop), room)
    before = free_memory()
    for _ in range(3_000):
        copy_into(host, room)
        copy_into(interface_of(crop), room)
        copy_into(room, host)
    assert before - free_memory() < 2 << 20
