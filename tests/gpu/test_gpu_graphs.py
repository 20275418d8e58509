"""Streams that capture a graph: what can't be part of the graph is refused before it breaks the capture."""

import cupy
import numpy as np
import pytest
import torch
from cupy.cuda import runtime
from gpu import interface, streams, write

from dlpack import asdlpack, from_pointer

COUNT = 64
MODES = {
    "global": runtime.streamCaptureModeGlobal,
    "thread local": runtime.streamCaptureModeThreadLocal,
    "relaxed": runtime.streamCaptureModeRelaxed,
}


@pytest.fixture
def memory():
    memory = cupy.zeros(COUNT, "f4")
    write(cupy.cuda.Stream.null, memory.data.ptr, COUNT, 0)  # a kernel is loaded at its first launch, not in a capture
    torch.cuda.synchronize()
    return memory


def on_stream(memory, stream):
    return asdlpack(interface(memory.data.ptr, (COUNT,), keep=memory, stream=stream))


class Capture:
    """Captures a kernel on a stream while the test does something else, and proves that the graph is whole."""

    def __init__(self, memory, mode="global", non_blocking=True):
        self.memory, self.mode = memory, MODES[mode]
        (self.stream,) = streams(1, non_blocking)

    def __enter__(self):
        self.stream.begin_capture(self.mode)
        return self.stream

    def __exit__(self, error, *_):
        if not error:
            write(self.stream, self.memory.data.ptr, COUNT, 42)
        graph = self.stream.end_capture()
        graph.launch(self.stream)
        self.stream.synchronize()
        assert error or self.memory.tolist() == [42] * COUNT


@pytest.mark.parametrize("mode", MODES)
def test_memory_of_no_stream_is_shared_in_a_capture(memory, mode):
    with Capture(memory, mode) as stream:
        on_stream(memory, None).__dlpack__(stream=stream.ptr)
        on_stream(memory, None).__dlpack__()


@pytest.mark.parametrize("mode", MODES)
def test_memory_of_the_capturing_stream_is_shared_on_it(memory, mode):
    with Capture(memory, mode) as stream:
        on_stream(memory, stream.ptr).__dlpack__(stream=stream.ptr)
        from_pointer(memory.data.ptr, COUNT, "float32", device="cuda", stream=stream.ptr).__dlpack__(stream=stream.ptr)


def test_two_streams_of_one_capture_are_ordered_in_the_graph(memory):
    first, second = streams()
    result = cupy.zeros(COUNT, "f4")
    first.begin_capture(MODES["global"])
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


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_outside_the_capture_is_refused(memory, mode):
    (outside,) = streams(1)
    with Capture(memory, mode) as stream:
        with pytest.raises(BufferError, match="capture|CAPTURE"):
            on_stream(memory, outside.ptr).__dlpack__(stream=stream.ptr)
        with pytest.raises(BufferError, match="capture|CAPTURE"):
            on_stream(memory, stream.ptr).__dlpack__(stream=outside.ptr)
        with pytest.raises(BufferError, match="capture|CAPTURE"):
            on_stream(memory, stream.ptr).__dlpack__(stream=1)


def test_streams_of_two_captures_are_refused(memory):
    (other,) = streams(1)
    other.begin_capture(MODES["relaxed"])
    with Capture(memory, "relaxed") as stream, pytest.raises(BufferError, match="capture|CAPTURE"):
        on_stream(memory, other.ptr).__dlpack__(stream=stream.ptr)
    write(other, memory.data.ptr, COUNT, 43)
    other.end_capture().launch(other)
    other.synchronize()
    assert memory.tolist() == [43] * COUNT


def test_the_legacy_stream_is_left_alone_while_a_blocking_stream_captures(memory):
    (outside,) = streams(1)
    with Capture(memory, non_blocking=False), pytest.raises(BufferError, match="capture|CAPTURE"):
        on_stream(memory, outside.ptr).__dlpack__(stream=1)


@pytest.mark.parametrize("mode", MODES)
def test_streams_outside_are_ordered_as_ever_while_another_captures(memory, mode):
    first, second = streams()
    with Capture(memory, mode):
        on_stream(memory, first.ptr).__dlpack__(stream=second.ptr)


@pytest.mark.parametrize("mode", MODES)
def test_copies_go_on_while_a_stream_captures(memory, mode):
    host = np.arange(COUNT, dtype="f4")
    source = cupy.asarray(host)
    x = on_stream(source, None)
    torch.cuda.synchronize()
    with Capture(memory, mode):
        down = np.from_dlpack(x, device="cpu")
        up = asdlpack(host, copy=None, device="cuda:0")
        beside = asdlpack(x, copy=True)
        pointers = up.pointer, beside.pointer
        del up, beside  # freed in the capture
    assert all(pointers)
    np.testing.assert_array_equal(down, host)


def test_a_copy_of_what_a_capture_writes_is_refused(memory):
    with Capture(memory) as stream, pytest.raises(BufferError, match="capture|CAPTURE"):
        np.from_dlpack(on_stream(memory, stream.ptr), device="cpu")


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
