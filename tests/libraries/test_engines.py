"""dask.distributed, joblib and mpi4py carry a DLPackObject between processes, of which none needs the library that made
its memory. Ray has test_ray.py."""

import gc
import os
import signal
import sys
import tempfile
import threading
import time
import weakref
from contextlib import contextmanager
from pathlib import Path

import joblib
import pytest
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dlpack import asdlpack
from support.alone import alone, run
from support.engines import address, end_holding, facts, forget, hold, kinds, mpiexec, seen, there_and_back


def tensors():
    """Row- and column-major, and large enough for buffers of their own."""
    tensor = torch.arange(1 << 18).to(torch.bfloat16).reshape(4, -1)
    return [asdlpack(tensor), asdlpack(tensor.T)]


class Memory(bytearray):
    """Which can be referred to weakly."""


def watched():
    """Memory that fits in a pipe, and an event that is set when nobody holds it."""
    memory, gone = Memory(1 << 10), threading.Event()
    weakref.finalize(memory, gone.set)
    return asdlpack(memory), gone


def is_set(gone, seconds=60):
    """True if the event is set in time. Collects garbage: an engine's threads may leave cycles when they end."""
    end = time.monotonic() + seconds
    while not gone.wait(0.1) and time.monotonic() < end:
        gc.collect()
    return gone.is_set()


def same(xs, there, back):
    """Checks what another process received and sent back. Read-only memory may arrive as writable
    memory of the engine."""
    for x, (process, got, readonly), y in zip(xs, there, back, strict=True):
        assert process != os.getpid() and got == facts(y) == facts(x)
        assert x.readonly or not readonly


@contextmanager
def dask_cluster():
    """Its client, and the names of its two workers, which are processes."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.comm.timeouts.connect": "120s",
        "distributed.scheduler.active-memory-manager.start": False,  # it drops the second worker's copy
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set({"temporary-directory": folder, **settings}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster, timeout="120s") as client,
    ):
        yield client, list(client.scheduler_info()["workers"])


@alone(timeout=200)
def test_dask_sends_it_as_one_buffer_to_workers_without_torch():
    from distributed.protocol import deserialize, serialize

    for x in tensors():
        header, frames = serialize(x)
        assert asdlpack(frames[1]).pointer == x.pointer == deserialize(header, frames).pointer
    xs = tensors() + kinds()
    with dask_cluster() as (client, workers):
        client.run(forget, "torch")
        sent = client.scatter(xs, broadcast=True)
        for worker in workers:
            same(xs, *client.submit(there_and_back, sent, workers=worker, pure=False).result())
            here, again = (client.submit(address, sent[0], workers=worker, pure=False).result() for _ in range(2))
            assert here == again and here[0] != os.getpid()


@alone(timeout=200)
def test_dask_goes_on_if_its_worker_dies():
    x, gone = watched()
    expected = facts(x)
    with dask_cluster() as (client, workers):
        sent = client.scatter(x, broadcast=True)
        del x
        assert is_set(gone)  # the client keeps nothing
        process, _ = (client.submit(hold, sent, workers=worker, pure=False).result() for worker in workers)
        os.kill(process, signal.SIGKILL)
        assert client.submit(seen, sent, workers=workers[1], pure=False).result()[1] == expected


@alone(timeout=200)
def test_joblib_sends_it_to_workers_without_torch():
    xs = tensors() + kinds()
    with joblib.Parallel(n_jobs=2) as parallel:
        parallel([joblib.delayed(forget)("torch")] * 8)
        for there, back in parallel([joblib.delayed(there_and_back)(xs)] * 8):
            same(xs, there, back)


@alone(timeout=200)
def test_joblib_raises_if_its_worker_dies_and_goes_on():
    x, gone = watched()
    with pytest.raises(TerminatedWorkerError):
        joblib.Parallel(n_jobs=2)([joblib.delayed(end_holding)(x)] * 2)
    assert joblib.Parallel(n_jobs=2)([joblib.delayed(seen)(x)] * 2)[1][1] == facts(x)
    joblib.externals.loky.get_reusable_executor().shutdown()
    del x
    assert is_set(gone)


def test_joblib_writes_it_to_a_file_and_reads_it(tmp_path):
    xs = tensors() + kinds()
    joblib.dump(xs, tmp_path / "file")
    assert [(facts(x), x.readonly) for x in joblib.load(tmp_path / "file")] == [(facts(x), x.readonly) for x in xs]


RANK = """
import sys
sys.path[:] = {path!r}
import test_engines
test_engines.be_a_rank()
"""


def be_a_rank():
    from mpi4py import MPI
    from mpi4py.util import pkl5

    comm = pkl5.Intracomm(MPI.COMM_WORLD)
    if comm.rank == 0:
        for x in tensors():
            _, [buffer] = pkl5.pickle.dumps_oob(x)
            assert buffer.address == x.pointer
        xs = tensors() + kinds()
        comm.send(xs, dest=1)
        same(xs, *comm.recv(source=1))
        comm.bcast(xs)
    else:
        forget("torch")
        xs = comm.recv(source=0)
        comm.send(there_and_back(xs), dest=0)
        assert [facts(x) for x in comm.bcast(None)] == [facts(x) for x in xs]
    ranks = comm.gather(comm.rank)
    if comm.rank == 0:  # what two ranks print may be mixed
        print(ranks)


def test_mpi4py_sends_it_as_one_buffer_to_a_rank_without_torch():
    path = [str(Path(__file__).parent), *sys.path]
    result = run(mpiexec(), "-n", 2, sys.executable, "-m", "mpi4py", "-c", RANK.format(path=path), timeout=200)
    assert result.stdout == "[0, 1]\n", result.stderr
