"""Ray: all workers read an object in place, in the object store."""

import ctypes
import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager

import pytest
import ray
import torch
from ray._private.internal_api import node_stats

from dlpack import asdlpack
from support.alone import alone
from support.engines import SETTINGS, Reader, facts, kinds, place, there_and_back

STORE = 80 << 20  # bytes; Ray takes no less than 75 MiB
SIZE = STORE // 4
PR_SET_PDEATHSIG = 1


def start(folder):
    """All of it in the folder, which needs no /dev/shm; a start that took too long is begun anew."""
    for attempts in 2, 1, 0:
        try:
            ray.init(
                num_cpus=2,
                object_store_memory=STORE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
                _plasma_directory=folder,
            )
            break
        except Exception:
            ray.shutdown()
            if attempts == 0:
                raise


@contextmanager
def a_node():
    """Ray runs. It ends with this process, and this process with pytest."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(SETTINGS, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))  # workers import what tests do
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a short path, for sockets
        start(folder)
        try:
            yield
        finally:
            ray.shutdown()


def new_reader():
    return ray.remote(num_cpus=0)(Reader).remote()


@alone(timeout=240)
def test_two_workers_read_a_tensor_in_place_in_the_store():
    with a_node():
        tensor = torch.arange(1 << 20).to(torch.bfloat16)
        reference = ray.put(asdlpack(tensor))
        here = ray.get(reference)
        readers = [new_reader() for _ in range(2)]
        kept = [ray.get(reader.keep.remote(reference)) for reader in readers * 2]
        assert len({process for process, *_ in kept} | {os.getpid()}) == 3
        assert kept[:2] == kept[2:]  # the next task of a worker gets the same address
        shared, path, page = place(here.pointer)
        assert shared and "plasma" in path
        assert all(where == (shared, path, page) and readonly for *_, where, readonly in kept)
        assert here.readonly and facts(here)[:2] == ("bfloat16", (1 << 20,)) and bytes(here) == bytes(asdlpack(tensor))
        ctypes.memset(here.pointer, 0, here.nbytes)  # nobody else may: it shows that the workers have no copy
        assert ray.get([reader.total.remote() for reader in readers]) == [0, 0]
        for reader in readers:
            ray.kill(reader)


def used():
    """The bytes of the store that are in use."""
    [node] = ray.nodes()
    stats = node_stats(node["NodeManagerAddress"], node["NodeManagerPort"], include_memory_info=False)
    return stats.store_stats.object_store_bytes_used


def is_freed(size, seconds=60):
    """Waits until less than `size` is used, and returns False if it takes too long: Ray frees memory late."""
    end = time.monotonic() + seconds
    while used() >= size:
        if time.monotonic() > end:
            return False
    return True


@alone(timeout=240)
def test_the_store_keeps_memory_while_it_is_in_use_and_no_longer():
    """Also if a worker that uses it dies."""
    with a_node():
        tensor = torch.ones(SIZE, dtype=torch.uint8)
        made = torch.from_dlpack(ray.get(ray.put(asdlpack(tensor))))
        for _ in range(5):  # more than the store holds
            ray.put(asdlpack(tensor))
        assert used() >= SIZE and made.sum() == SIZE
        del made
        assert is_freed(SIZE)

        reference = ray.put(asdlpack(tensor))
        killed, other = readers = [new_reader() for _ in range(2)]
        (process, *_), _ = ray.get([reader.keep.remote(reference) for reader in readers])
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(killed.total.remote())
        assert ray.get(other.total.remote()) == SIZE
        del reference
        assert used() >= SIZE
        ray.get(other.drop.remote())
        assert is_freed(SIZE)
        ray.kill(other)


@alone(timeout=240)
def test_every_kind_of_memory_goes_there_and_back():
    """To a task, and to a worker without torch."""
    xs = [asdlpack(torch.arange(8, dtype=torch.bfloat16)), *kinds()]
    with a_node():
        reader = new_reader()
        ray.get(reader.forget.remote("torch"))
        for send in ray.remote(there_and_back), reader.there_and_back:
            there, back = ray.get(send.remote(xs))
            for x, (process, *got), y in zip(xs, there, back, strict=True):
                assert process != os.getpid() and got == [facts(x), True]
                assert facts(y) == facts(x)
        ray.get(reader.keep.remote(xs[0]))
        assert ray.get(reader.total.remote()) == 28
        ray.kill(reader)
