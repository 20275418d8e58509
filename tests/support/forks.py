"""Code that the fork tests run in their processes."""

import ctypes
import gc
import os
import select
import signal
import threading
import traceback

import dlpack
from dlpack import _dlpack
from support.alone import pidfd_open
from support.threads import in_threads

DEADLINE = 30  # seconds; a child that takes longer hangs

NIBBLES = bytes(4)


def ask_core():
    """Describes memory by a call into Go, which C can't: items that share bytes are not in Go's table."""
    x = dlpack.frombuffer(NIBBLES, "int4")
    assert x.shape == (8,)
    return x


def use_ordinary_memory():
    """Nothing in here needs Go."""
    source = bytearray(b"known")
    x = dlpack.asdlpack(source)
    assert (x.shape, x.strides, x.dtype, x.readonly) == ((5,), (1,), "uint8", False)
    assert dlpack.asdlpack(x.__dlpack__()).pointer == x.pointer
    assert dlpack.asdlpack(x.__dlpack__(max_version=(1, 3))).pointer == x.pointer
    x.__dlpack__()
    repr(x)


def use_all():
    """Ordinary memory, what asks Go, a copy, a conversion, and what is refused."""
    use_ordinary_memory()
    ask_core()
    copy = dlpack.asdlpack(memoryview(b"0123456789")[::-2], copy=True)
    assert bytes(memory_of(copy)) == b"97531"
    for refused, error in (1, TypeError), (memoryview(bytearray(8)).cast("P"), BufferError):
        try:
            dlpack.asdlpack(refused)
        except error:
            continue
        raise AssertionError(refused)
    gc.collect()


def memory_of(x):
    return (ctypes.c_char * x.nbytes).from_address(x.pointer)


def use_all_in_threads(count=4):
    in_threads(lambda number: use_all(), count)


def fork(child):
    """Forks a child that runs the function. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        child()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def join(pid):
    """Waits for a child that must end by itself, and well."""
    descriptor = pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = poll.poll(DEADLINE * 1000)
    os.close(descriptor)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended, "a child hangs"
    assert status == 0, f"a child ended with status {status}"


def fork_and_join(child):
    join(fork(child))


class Load:
    """Threads that ask Go and copy, for as long as the with statement lasts."""

    def __init__(self, count=4):
        self.ended = False
        self.started = threading.Barrier(count + 1)
        self.failures = []
        self.threads = [threading.Thread(target=self._work) for _ in range(count)]

    def _work(self):
        much = memoryview(bytearray(4 << 20))[::2]
        self.started.wait()
        try:
            while not self.ended:
                for _ in range(20):
                    ask_core()
                dlpack.asdlpack(much, copy=True)
        except BaseException:
            self.failures.append(traceback.format_exc())

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.started.wait()
        return self

    def __exit__(self, *_):
        self.ended = True
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures


core_calls = _dlpack._core_calls
