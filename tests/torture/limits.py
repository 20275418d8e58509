"""What the tests of limits do in their processes. The package is not imported yet: that too happens under the limit."""

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter

import process

DEADLINE = 60  # seconds; what takes longer hangs
RAISED = (MemoryError, OSError, RuntimeError, ImportError)


def import_library():
    """Imports what the package needs of the standard library, which an ordinary user may not be able to read."""
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; import forks; print(*sys.modules)"]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    for name in modules:
        if name.partition(".")[0] not in ("dlpack", "forks", "__main__"):
            importlib.import_module(name)


def use(fill=0):
    """Imports the package, starts the core, uses it, takes so many MiB or what the limit leaves, and uses it again."""
    import forks

    import dlpack

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


def attempt(limit, value):
    """One use in a child, under the limit; says how it went: "works", an exception's name, or how the child ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(DEADLINE)
        process.become_ordinary_user()
        resource.setrlimit(limit, (value, value))
        said = b"works"
        try:
            use(fill=3000 if limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA) else 0)
        except RAISED as error:
            said = type(error).__name__.encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"ended with status {status} under {value}" if status else said


def sweep(limit, values):
    """Prints what happened how often."""
    import_library()
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)  # Go's last words, once for each value
    print(json.dumps(Counter(attempt(getattr(resource, limit), value) for value in values)))


def use_with_threads():
    """One use in this process and in threads, under the limit that it was started under."""
    import forks

    try:
        use()
        forks.use_all_in_threads()
    except RAISED as error:
        print(type(error).__name__)
    else:
        print("works")


if __name__ == "__main__":
    use_with_threads()
