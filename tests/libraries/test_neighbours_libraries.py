"""Beside libraries with runtimes, handlers and threads of their own, in any order, all works as it does alone."""

import os

import pytest

from support.alone import alone


def use_torch(x):
    import torch

    assert torch.from_dlpack(x).data_ptr() == x.pointer


def use_jax(x):
    import jax.numpy

    assert bytes(memoryview(jax.numpy.from_dlpack(x))) == bytes(x)


def use_tensorflow(x):
    import tensorflow

    assert tensorflow.experimental.dlpack.from_dlpack(x.__dlpack__()).numpy().tobytes() == bytes(x)


def use_polars(x):
    import polars

    assert polars.Series(x).to_numpy().tobytes() == bytes(x)


LIBRARIES = {"torch": use_torch, "jax": use_jax, "tensorflow": use_tensorflow, "polars": use_polars}


def check_signals():
    """Handlers run, what is blocked is waited for, an interrupt interrupts; and a wrong address is an error."""
    import signal

    import dlpack
    from support import forks

    much = memoryview(bytearray(16 << 20))[::-1]
    caught = []
    for number in signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD:
        handler = signal.signal(number, lambda number, _: caught.append(number))
        os.kill(os.getpid(), number)
        dlpack.asdlpack(much, copy=True)
        assert caught.pop() == number
        signal.signal(number, handler)
    for number in signal.SIGUSR2, signal.SIGALRM:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        signal.raise_signal(number)  # to this thread: those of a library need not block it
        dlpack.asdlpack(much, copy=True)
        assert signal.sigtimedwait({number}, forks.DEADLINE) is not None
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        dlpack.asdlpack(much, copy=True)
    with pytest.raises(BufferError, match="can't be read"):
        dlpack.asdlpack(dlpack.from_pointer(1 << 20, (9,), "int8"), copy=True)


@alone(timeout=240)
def works_beside(libraries, first):
    """first: whether the libraries are used before the import of dlpack, before the core's start, or after it."""
    import importlib

    import test_neighbours_libraries as tests

    def use_them():
        if first == "the libraries":
            for name in libraries:
                importlib.import_module(name)
        import dlpack

        if first == "the core":
            dlpack.asdlpack(bytes(32 << 20), copy=True)
        for name in libraries:
            importlib.import_module(name)
        x = dlpack.asdlpack(bytearray(range(256)), copy=True)
        for name in libraries:
            tests.LIBRARIES[name](x)

    use_them()
    tests.check_signals()
    use_them()


FIRST = ("the libraries", "the import", "the core")


def test_other_libraries_and_the_core_start_in_any_order(effort, figure):
    everything = [[name] for name in LIBRARIES] + [list(LIBRARIES), list(LIBRARIES)[::-1]]
    orders = effort([(["polars", "torch"], "the core")], [(some, first) for some in everything for first in FIRST])
    for libraries, first in orders:
        works_beside(libraries=libraries, first=first)
    figure("processes", len(orders))
