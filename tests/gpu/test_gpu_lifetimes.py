"""Memory that libraries take is given back; other threads run meanwhile."""

import builtins
import gc
import sys

import cupy
import numpy as np
import pytest
import torch

from dlpack import asdlpack
from support.alone import alone
from support.gpu import current_context, free_memory, interface_of, stream_of, streams
from support.threads import in_threads

ROUNDS = 10_000
HOST = np.arange(1 << 14, dtype="f4")


def share(array, stream):
    x = asdlpack(interface_of(array, stream=stream.ptr))
    torch.from_dlpack(x)
    cupy.from_dlpack(x)


def pass_through(array, stream):
    torch.from_dlpack(asdlpack(array))


@pytest.mark.parametrize("work", [share, pass_through])
def test_ten_thousand_rounds_leave_the_gpus_memory_as_it_was(work):
    array, (stream,) = cupy.asarray(HOST), streams(1)
    for _ in range(10):
        work(array, stream)
    gc.collect()
    before, references = free_memory(), sys.getrefcount(array)
    for _ in range(ROUNDS):
        work(array, stream)
    gc.collect()
    assert sys.getrefcount(array) == references
    assert before - free_memory() < 2 << 20  # the driver's own unit


def test_threads_without_a_context_share_and_copy_at_once():
    array, primary = cupy.asarray(HOST), current_context()
    torch.cuda.synchronize()

    def work(number):
        with stream_of(primary) as stream:
            for i in range(200):
                x = asdlpack(interface_of(array, stream=stream))
                x.__dlpack__()
                assert (np.from_dlpack(x, device="cpu") == HOST).all()
                up = asdlpack(HOST[i:], copy=None, device="cuda:0")
                beside = asdlpack(up, copy=True)
                assert (np.from_dlpack(beside, device="cpu") == HOST[i:]).all()
                assert current_context() is None

    in_threads(work, 8)


@alone(timeout=120)
def test_gpu_objects_alive_at_exit_do_no_harm():
    x = asdlpack(HOST, copy=None, device="cuda:0")
    builtins.held = [
        x,
        x.__dlpack__(),
        torch.from_dlpack(x),
        cupy.from_dlpack(x),
        asdlpack(interface_of(cupy.zeros(3))),
    ]
