"""What the tests of limits do in their processes. The package is not imported yet: that too happens under the limit."""

import ctypes
import importlib
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter

from support import process

DEADLINE = 60  # seconds; what takes longer hangs
RAISED = (MemoryError, OSError, RuntimeError, ImportError)


def import_library():
    """Imports what the package needs of the standard library, which an ordinary user may not be able to read."""
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path[:] = {sys.path!r}; from support import forks; print(*sys.modules)",
    ]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    for name in modules:
        if name.partition(".")[0] not in ("dlpack", "support", "__main__"):
            importlib.import_module(name)


def use(fill=0):
    """Imports the package, starts the core, uses it, takes so many MiB or what the limit leaves, and uses it again."""
    import dlpack
    from support import forks

    much = memoryview(bytearray(16 << 20))[::2]
    forks.use_all()
    dlpack.asdlpack(much, copy=True)
    held = []
    try:
        while len(held) < fill:
            held.append(bytearray(1 << 20))
    except MemoryError:
        pass
    for _ in range(20):
        try:
            forks.use_all()
        except RAISED:
            continue


class Mappings:
    """Takes mappings of this process, of which vm.max_map_count allows so many: single pages whose protections differ
    from their neighbours'."""

    def __init__(self):
        with open("/proc/sys/vm/max_map_count") as file:
            self.most = int(file.read())
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.pages = self.libc.mmap(None, 2 * self.most * mmap.PAGESIZE, 0, flags, -1, 0)
        self.changed = 0

    def _protect(self, page, protection):
        return self.libc.mprotect(self.pages + (2 * page + 1) * mmap.PAGESIZE, mmap.PAGESIZE, protection) == 0

    def leave(self, count):
        """Takes all, and gives so many back: two for each page."""
        while self._protect(self.changed, mmap.PROT_READ):
            self.changed += 1
        for _ in range(count // 2):
            self.changed -= 1
            assert self._protect(self.changed, 0)


def attempt(prepare, fill=0):
    """One use in a child, which prepares first; says how it went: "works", an exception's name, or how the child
    ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(DEADLINE)
        prepare()
        said = b"works"
        try:
            use(fill)
        except RAISED as error:
            said = type(error).__name__.encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"ended with status {status}" if status else said


def report(values, try_value):
    """Prints what happened how often, and under which values a process ended otherwise."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)  # Go's last words, once for each value
    said = {value: try_value(value) for value in values}
    print(json.dumps(Counter(f"{how} under {value}" if "ended" in how else how for value, how in said.items())))


def sweep(limit, reached, values):
    """Tries each value of a resource limit: at the import, or in a child of a process in which the core was started.

    The memory and the threads that there are already come on top.
    """
    number = getattr(resource, limit)
    import_library()
    if reached == "in a child":
        use()
    already = 0
    if limit == "RLIMIT_NPROC" and os.getuid() != 0:
        already = process.threads_of_user()
    elif limit in ("RLIMIT_AS", "RLIMIT_DATA") and reached == "in a child":
        already = int(process.status("VmSize" if limit == "RLIMIT_AS" else "VmData")) << 10

    def try_value(value):
        def prepare():
            process.become_ordinary_user(alone=True)
            resource.setrlimit(number, (already + value, already + value))

        return attempt(prepare, fill=3000 if limit in ("RLIMIT_AS", "RLIMIT_DATA") else 0)

    report(values, try_value)


def sweep_mappings(reached, values):
    """Tries each number of mappings that are left: at the import, after the core's start, or in a child of a process
    in which it was started."""
    import_library()
    if reached == "in a child":
        use()
    mappings = Mappings()
    mappings.leave(1000)  # the rest is taken in each child

    def try_value(value):
        def prepare():
            if reached == "after the start":
                use()
            mappings.leave(value)

        return attempt(prepare)

    report(values, try_value)


def start_at_once(limit, processes):
    """Prints how it went in each of so many processes, of a user whose threads are limited, that start the core at the
    same time and live until all have tried."""
    import_library()
    import dlpack

    process.become_ordinary_user(alone=True)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    begun, begin = os.pipe()
    ended, end = os.pipe()

    def try_start():
        os.close(begin)
        os.close(end)
        os.read(begun, 1)  # until the parent closes the other end
        try:
            dlpack.asdlpack(bytearray(b"bytes"), copy=True)
        except OSError:
            return 1
        finally:
            os.read(ended, 1)
        return 0

    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            signal.alarm(DEADLINE)
            os._exit(try_start())
        children.append(child)
    os.close(begin)
    time.sleep(0.7)  # Go tries for 0.2 s to start a thread
    os.close(end)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    outcomes = {0: "works", 1: "OSError"}
    print(json.dumps(Counter(outcomes.get(status, f"ended with status {status}") for status in statuses)))


def take_keys():
    """All of pthread_key_create's that are left."""
    libc, key = ctypes.CDLL(None), ctypes.c_uint()
    while libc.pthread_key_create(ctypes.byref(key), None) == 0:
        pass


def use_with_threads():
    """One use in this process and in threads, under the limit that it was started under."""
    from support import forks

    try:
        use()
        forks.use_all_in_threads()
    except RAISED as error:
        print(type(error).__name__)
    else:
        print("works")


if __name__ == "__main__":
    use_with_threads()
