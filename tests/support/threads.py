"""Many threads at once, some of which Python does not know."""

import ctypes
import sysconfig
import threading

FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
THREADS = 16


def in_threads(work, count=THREADS):
    """Runs work(number) in `count` threads that start together. Returns what they return."""
    together = threading.Barrier(count)
    results, failures = [None] * count, []

    def run(number):
        try:
            together.wait()
            results[number] = work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:  # no memory for another one: the others would wait for it
        together.abort()
        raise
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


class ForeignThreads:
    """Threads that the operating system starts, of which Python knows nothing: each runs a C function on a pointer."""

    def __init__(self):
        self._threads, self._libc = [], ctypes.CDLL(None)
        self._libc.pthread_create.argtypes = (ctypes.c_void_p,) * 4
        self._libc.pthread_join.argtypes = (ctypes.c_ulong, ctypes.c_void_p)

    def start(self, function, pointer):
        thread = ctypes.c_ulong()
        assert self._libc.pthread_create(ctypes.byref(thread), None, function, pointer) == 0
        self._threads.append(thread)

    def join(self):
        for thread in self._threads:
            assert self._libc.pthread_join(thread, None) == 0
