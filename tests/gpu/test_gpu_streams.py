"""The order of streams: a kernel writes late on the producer's stream, a consumer reads on another. If nobody
waits, it always reads the old values; if its stream waits, it always reads the new ones."""

import cupy
import cupyx
import pytest
import torch
from gpu_libraries import LIBRARIES
from numba import cuda as numba_cuda

from dlpack import asdlpack, from_pointer
from support.cuda_driver import cuda_array
from support.gpu import LATE, Gate, call, streams, torch_stream, write

ROUNDS = 1000
COUNT = 1024
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
    return asdlpack(cuda_array(memory.data.ptr, (COUNT,), "<f4", keep=memory, stream=stream))


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
