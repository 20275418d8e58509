"""The order of streams: a kernel writes late on the producer's stream, a consumer reads on another. If nobody
waits, it always reads the old values; if its stream waits, it always reads the new ones."""

import ctypes
import threading

import cupy
import cupyx
import pytest
import torch
from gpu import Gate, another_context, call, download, interface, stream_of, streams, torch_stream, write
from gpu_libraries import LIBRARIES
from numba import cuda as numba_cuda

from dlpack import asdlpack, borrow, from_pointer
from support.capi import consume

ROUNDS = 1000
COUNT = 1024
LATE = 10_000_000  # cycles: some milliseconds
BEFORE = -1.0


class Reader:
    """Reads an object's memory in the order of a stream that its library is told of. Nothing is allocated meanwhile:
    that may wait for the whole device."""

    def __init__(self, stream):
        self.stream = stream
        self.result = self.empty()
        self.host = cupyx.empty_pinned(COUNT, "f4")

    def __call__(self, x):
        self.read(x)
        address = self.library.address(self.result)
        call("cuMemcpyDtoHAsync_v2", self.host.ctypes.data, address, self.host.nbytes, self.stream.ptr)

    def value(self):
        self.stream.synchronize()
        values = set(self.host.tolist())
        assert len(values) == 1, values
        return values.pop()


class Cupy(Reader):
    library = LIBRARIES["cupy"]

    def empty(self):
        return cupy.empty(COUNT, "f4")

    def read(self, x):
        with self.stream:
            cupy.copyto(self.result, cupy.from_dlpack(x))


class Torch(Reader):
    library = LIBRARIES["torch"]

    def empty(self):
        return torch.empty(COUNT, device="cuda:0")

    def read(self, x):
        with torch_stream(self.stream):
            self.result.copy_(torch.from_dlpack(x))


READERS = {"cupy": Cupy, "torch": Torch}


def by_interface(memory, stream):
    return asdlpack(interface(memory.data.ptr, (COUNT,), keep=memory, stream=stream))


def by_pointer(memory, stream):
    return from_pointer(memory.data.ptr, COUNT, "float32", device="cuda", owner=memory, stream=stream)


def by_numba(memory, stream):
    array = numba_cuda.as_cuda_array(memory, sync=False)
    return asdlpack(array.bind(numba_cuda.external_stream(stream)) if stream else array.bind())


WRAPS = {"interface": by_interface, "pointer": by_pointer, "numba": by_numba}


def warm_up(memory, wrap, read, stream):
    """First calls load kernels and take memory, and may wait for the whole device to do so."""
    with Gate() as gate:
        gate.write(stream, memory.data.ptr, COUNT, BEFORE)
        gate.open()
        read(wrap(memory, stream.ptr or 1))
        read.value()


def fill(memory, value):
    memory.fill(value)
    torch.cuda.synchronize()


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("reader", READERS)
def test_the_consumers_stream_waits_for_the_producers(reader, wrap):
    producer, consumer = streams()
    memory, wrap, read = cupy.zeros(COUNT, "f4"), WRAPS[wrap], READERS[reader](consumer)
    warm_up(memory, wrap, read, producer)
    with Gate() as gate:
        for i in range(ROUNDS):
            gate.write(producer, memory.data.ptr, COUNT, i)
            read(wrap(memory, producer.ptr))
            assert not consumer.done  # it waits, and the host does not
            gate.open()
            assert read.value() == i


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("reader", READERS)
def test_without_a_producers_stream_nothing_waits(reader, wrap):
    producer, consumer = streams()
    memory, wrap, read = cupy.zeros(COUNT, "f4"), WRAPS[wrap], READERS[reader](consumer)
    warm_up(memory, wrap, read, producer)
    fill(memory, BEFORE)
    with Gate() as gate:
        for i in range(ROUNDS):
            gate.write(producer, memory.data.ptr, COUNT, i)
            read(wrap(memory, None))
            assert read.value() == (i - 1 if i else BEFORE)
            gate.open()
            producer.synchronize()


def test_a_consumer_that_wants_no_order_gets_none():
    producer, consumer = streams()
    memory, read = cupy.zeros(COUNT, "f4"), Torch(consumer)
    warm_up(memory, by_interface, read, producer)
    fill(memory, BEFORE)
    with Gate() as gate:
        gate.write(producer, memory.data.ptr, COUNT, 1)
        read(by_interface(memory, producer.ptr).__dlpack__(stream=-1))
        assert read.value() == BEFORE
        gate.open()


def test_a_consumer_on_the_producers_stream_needs_no_wait():
    (stream,) = streams(1)
    memory, read = cupy.zeros(COUNT, "f4"), Cupy(stream)
    warm_up(memory, by_interface, read, stream)
    with Gate() as gate:
        for i in range(ROUNDS):
            gate.write(stream, memory.data.ptr, COUNT, i)
            read(by_interface(memory, stream.ptr))
            gate.open()
            assert read.value() == i


@pytest.mark.parametrize("producer", [1, 2, "handle"])
@pytest.mark.parametrize("consumer", [None, 1, 2, "handle"])
def test_the_default_streams_are_ordered_by_their_numbers(producer, consumer):
    by_number = {1: cupy.cuda.Stream.null, 2: cupy.cuda.Stream.ptds}
    written = by_number.get(producer) or streams(1)[0]
    read_on = by_number.get(consumer or 1) or streams(1)[0]
    memory = cupy.zeros(COUNT, "f4")
    result = cupy.zeros(COUNT, "f4")

    def read(x):
        managed = consume(x.__dlpack__(stream=read_on.ptr if consumer == "handle" else consumer))
        call("cuMemcpyAsync", result.data.ptr, managed.dl_tensor.data, result.nbytes, read_on.ptr)
        return managed

    with Gate() as gate:
        for i in range(3):
            gate.write(written, memory.data.ptr, COUNT, i)
            if i == 0:
                gate.open()
            managed = read(by_interface(memory, producer if producer != "handle" else written.ptr))
            assert i == 0 or not read_on.done
            gate.open()
            read_on.synchronize()
            assert download(result.data.ptr, COUNT).tolist() == [i] * COUNT
            managed.deleter(ctypes.addressof(managed))


def test_the_per_thread_stream_of_one_thread_is_waited_for_by_another():
    memory, (consumer,) = cupy.zeros(COUNT, "f4"), streams(1)
    read = Cupy(consumer)
    warm_up(memory, by_interface, read, cupy.cuda.Stream.ptds)
    with Gate() as gate:
        for i in range(10):
            gate.write(cupy.cuda.Stream.ptds, memory.data.ptr, COUNT, i)
            x = by_interface(memory, 2)
            reading = threading.Thread(target=read, args=(x,))
            reading.start()
            reading.join()
            assert not consumer.done
            gate.open()
            assert read.value() == i


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_library_orders_its_stream_for_a_consumers_by_itself(library):
    """It waits for the current one."""
    producer, consumer = streams()
    if library == "torch":
        array, read, current = torch.zeros(COUNT, device="cuda:0"), Cupy(consumer), torch_stream(producer)
    else:
        array, read, current = cupy.zeros(COUNT, "f4"), Torch(consumer), producer
    with current:
        read(asdlpack(array))
        read.value()
        with Gate() as gate:
            for i in range(ROUNDS):
                gate.write(producer, LIBRARIES[library].address(array), COUNT, i)
                read(asdlpack(array))
                assert not consumer.done
                gate.open()
                assert read.value() == i


def test_memory_held_by_dlpack_is_complete_in_the_legacy_streams_order():
    memory, (consumer,) = cupy.zeros(COUNT, "f4"), streams(1)
    read = Torch(consumer)
    warm_up(memory, by_interface, read, cupy.cuda.Stream.null)
    with Gate() as gate:
        for i in range(10):
            gate.write(cupy.cuda.Stream.null, memory.data.ptr, COUNT, i)
            x = asdlpack(memory.__dlpack__(stream=1, max_version=(1, 0)))
            assert x.__cuda_array_interface__["stream"] == 1
            read(x)
            assert not consumer.done
            gate.open()
            assert read.value() == i


def test_borrowed_memory_is_complete_in_the_legacy_streams_order():
    memory, result, (producer,) = cupy.zeros(COUNT, "f4"), cupy.zeros(COUNT, "f4"), streams(1)
    write(producer, memory.data.ptr, COUNT, BEFORE)
    torch.cuda.synchronize()
    with Gate() as gate:
        gate.write(producer, memory.data.ptr, COUNT, 1)
        with borrow(interface(memory.data.ptr, (COUNT,), keep=memory, stream=producer.ptr)) as tensor:
            call("cuMemcpyAsync", result.data.ptr, tensor.contents.data, result.nbytes, 1)
            assert not cupy.cuda.Stream.null.done
            gate.open()
            assert result.tolist() == [1] * COUNT


@pytest.mark.parametrize("take", ["cupy", "numba"])
def test_the_producers_stream_goes_out_by_the_interface(take):
    (producer,) = streams(1)
    memory = cupy.zeros(COUNT, "f4")
    x = by_interface(memory, producer.ptr)
    assert x.__cuda_array_interface__["stream"] == producer.ptr
    assert by_interface(memory, None).__cuda_array_interface__["stream"] is None
    write(producer, memory.data.ptr, COUNT, 5, cycles=LATE)
    taken = cupy.asarray(x) if take == "cupy" else numba_cuda.as_cuda_array(x)  # both wait on the host
    assert producer.done
    assert LIBRARIES[take].values(taken).tolist() == [5] * COUNT


def test_jax_reads_what_was_written_on_the_producers_stream():
    (producer,) = streams(1)
    memory, jax = cupy.zeros(COUNT, "f4"), LIBRARIES["jax"]
    jax.values(jax.take(by_interface(memory, producer.ptr)))
    for i in range(100):
        write(producer, memory.data.ptr, COUNT, i, cycles=LATE)
        assert jax.values(jax.take(by_interface(memory, producer.ptr))).tolist() == [i] * COUNT


def test_streams_of_two_contexts_are_ordered():
    memory, (stream,) = cupy.zeros(COUNT, "f4"), streams(1)
    with another_context() as context, stream_of(context) as other, Gate() as gate:
        gate.hold(other)
        by_interface(memory, other).__dlpack__(stream=stream.ptr)
        assert not stream.done
        gate.open()
        stream.synchronize()
        gate.hold(stream.ptr)
        by_interface(memory, stream.ptr).__dlpack__(stream=other)
        with pytest.raises(RuntimeError, match="CUDA_ERROR_NOT_READY"):
            call("cuStreamQuery", other)
        gate.open()
        call("cuStreamSynchronize", other)
