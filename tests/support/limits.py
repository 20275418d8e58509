"""Code that the tests of limits run in their processes. They import the package only under the limit."""

import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
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


def use():
    """Imports the package, starts the core, and uses it time and again."""
    import dlpack
    from support import forks

    much = memoryview(bytearray(16 << 20))[::2]
    forks.use_all()
    dlpack.asdlpack(much, copy=True)
    for _ in range(20):
        try:
            forks.use_all()
        except RAISED:
            continue


def attempt(prepare):
    """One use in a child, which prepares first; says how it went: "works", an exception's name, or how the child
    ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(DEADLINE)
        prepare()
        said = b"works"
        try:
            use()
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

        return attempt(prepare)

    report(values, try_value)


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
