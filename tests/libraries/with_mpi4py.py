"""Both ranks of an MPI world, run by mpiexec."""

import sys

import numpy as np
from mpi4py import MPI

import dlpack

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float32", "float64", "complex64", "complex128"]

world = MPI.COMM_WORLD
rank = world.Get_rank()


def send_and_receive(sent, received):
    if rank == 0:
        world.Send(sent, dest=1)
    else:
        world.Recv(received, source=0)


def send_and_receive_bytes():
    received = bytearray(5)
    send_and_receive(dlpack.asdlpack(b"bytes"), dlpack.asdlpack(received))
    assert rank == 0 or received == b"bytes"


def send_and_receive_every_dtype():
    for dtype in DTYPES:
        values = np.arange(6).reshape(2, 3).astype(dtype)
        received = np.zeros_like(values)
        send_and_receive(dlpack.asdlpack(memoryview(values)), dlpack.asdlpack(memoryview(received)))
        assert rank == 0 or np.array_equal(received, values), dtype


def send_and_receive_a_delegate():
    values = np.arange(6.0)
    received = np.zeros(6)
    send_and_receive(dlpack.asdlpack(values), dlpack.asdlpack(received))
    assert rank == 0 or np.array_equal(received, values)


def reduce_over_both_ranks():
    total = bytearray(8 * 6)
    part = memoryview(np.arange(6.0) * (rank + 1))
    world.Allreduce(dlpack.asdlpack(part), dlpack.asdlpack(memoryview(total).cast("d")))
    assert memoryview(total).cast("d").tolist() == [0, 3, 6, 9, 12, 15]


def refuse_to_receive_into_read_only_memory():
    try:
        world.Allreduce(dlpack.asdlpack(memoryview(np.zeros(1))), dlpack.asdlpack(bytes(8)))
    except BufferError:
        return
    raise AssertionError("received into bytes")


def give_back_what_was_exchanged():
    values = np.zeros(3)
    before = sys.getrefcount(values)
    for _ in range(10):
        world.Allreduce(MPI.IN_PLACE, dlpack.asdlpack(memoryview(values)))
    assert sys.getrefcount(values) == before


assert world.Get_size() == 2
for case in (
    send_and_receive_bytes,
    send_and_receive_every_dtype,
    send_and_receive_a_delegate,
    reduce_over_both_ranks,
    refuse_to_receive_into_read_only_memory,
    give_back_what_was_exchanged,
):
    case()
    print(f"rank {rank}: {case.__name__}", flush=True)
