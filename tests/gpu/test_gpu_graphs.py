"""Graphs that a GPU runs: what was ordered in their capture is ordered in them."""

import cupy
import pytest
import torch

from dlpack import asdlpack
from support.cuda_driver import GLOBAL, cuda_array
from support.gpu import streams, write

COUNT = 64


@pytest.fixture
def memory():
    memory = cupy.zeros(COUNT, "f4")
    write(cupy.cuda.Stream.null, memory.data.ptr, COUNT, 0)  # a kernel is loaded at its first launch, not in a capture
    torch.cuda.synchronize()
    return memory


def on_stream(memory, stream):
    return asdlpack(cuda_array(memory.data.ptr, (COUNT,), "<f4", keep=memory, stream=stream))


def test_two_streams_of_one_capture_are_ordered_in_the_graph(memory):
    first, second = streams()
    result = cupy.zeros(COUNT, "f4")
    first.begin_capture(GLOBAL)
    write(first, memory.data.ptr, COUNT, 7)
    second.wait_event(first.record())  # this is how a stream joins a capture
    write(first, memory.data.ptr, COUNT, 8, cycles=1_000_000)
    on_stream(memory, first.ptr).__dlpack__(stream=second.ptr)
    with second:
        result.data.copy_from_device_async(memory.data, memory.nbytes, second)
    first.wait_event(second.record())
    graph = first.end_capture()
    for _ in range(100):
        memory.fill(0)
        result.fill(0)
        torch.cuda.synchronize()
        graph.launch(first)
        first.synchronize()
        assert result.tolist() == [8] * COUNT


def test_a_graph_of_torch_works_on_wrapped_memory(memory):
    result = torch.zeros(COUNT, device="cuda:0")
    result.copy_(torch.from_dlpack(on_stream(memory, None))).add_(result)  # loads the kernels
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        result.copy_(torch.from_dlpack(on_stream(memory, stream)))
        result.add_(torch.from_dlpack(on_stream(memory, None)))
        with pytest.raises(BufferError, match="capture|CAPTURE"):
            torch.from_dlpack(on_stream(memory, 1))
    for value in range(3):
        memory.fill(value)
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        assert result.tolist() == [2 * value] * COUNT
