"""Under whatever limit, the import, the core's start and its use work or raise: nothing aborts, nothing hangs."""

import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import threading

import pytest

from support import limits, process
from support.alone import SUPPORT, TESTS, alone, python
from support.libraries import build_library

MB = 1 << 20

SHORT = {
    "RLIMIT_AS": [megabytes * MB for megabytes in (60, 1200, 1700, 1800, 3300)],
    "RLIMIT_DATA": [megabytes * MB for megabytes in (8, 120, 160, 260)],
    "RLIMIT_NPROC": [1, 7, 8, 9, 20, 32],
    "RLIMIT_NOFILE": range(3, 12, 2),
    "RLIMIT_FSIZE": [0, 4096],
}
LONG = {
    "RLIMIT_AS": range(30 * MB, 3600 * MB, 4 * MB),
    "RLIMIT_DATA": range(2 * MB, 320 * MB, 2 * MB),
    "RLIMIT_NPROC": range(1, 40),
    "RLIMIT_NOFILE": range(3, 30),
    "RLIMIT_FSIZE": [0, 1, 4096, MB, 2 * MB, 4 * MB],
}


@pytest.fixture
def folder(package):
    """Returns a folder from which an ordinary user can import the package and the tests' helpers."""
    shutil.copytree(SUPPORT, package.parent / "support", ignore=shutil.ignore_patterns("__pycache__"))
    return package.parent


def what_happens(folder, call, figure=None):
    """How often a process worked or raised, as a function of limits.py tells."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from support import limits; limits.{call}"
    result = python(code, timeout=900)
    assert result.returncode == 0, result.stderr
    happened = json.loads(result.stdout)
    assert set(happened) <= {"works", "MemoryError", "OSError", "RuntimeError", "ImportError"}, happened
    for what, times in happened.items():
        if figure:
            figure(what, times)
    return happened


@alone
def test_an_import_changes_nothing_of_the_process():
    libc = ctypes.CDLL(None)
    for name in "libpthread.so.0", "libdl.so.2":  # a wheel for glibc 2.17 names them; since 2.34 they are empty
        ctypes.CDLL(name)

    def state():
        actions = []
        for number in range(1, signal.NSIG):
            action = ctypes.create_string_buffer(256)
            libc.sigaction(number, None, action)
            actions.append((action.raw[:16], action.raw[136:140]))  # handler, mask and flags
        stack = ctypes.create_string_buffer(64)
        libc.sigaltstack(None, stack)
        with open("/proc/self/limits") as file:
            limits = file.read()
        return {
            "threads": process.threads(),
            "actions": actions,
            "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            "alternate stack": stack.raw,
            "files": process.open_files(),
            "environment": dict(os.environ),
            "limits": limits,
            "affinity": os.sched_getaffinity(0),
            "umask and more": [
                process.status(field) for field in ("Umask", "Seccomp", "NoNewPrivs", "SigBlk", "SigIgn")
            ],
            "working directory": os.getcwd(),
            "hooks": (sys.excepthook, sys.getswitchinterval(), signal.getsignal(signal.SIGINT)),
        }

    before, libraries, space = state(), process.libraries(), process.address_space()
    import dlpack

    assert {what: now for what, now in state().items() if now != before[what]} == {}
    assert process.address_space() - space < 16 << 20
    assert len(process.libraries() - libraries) == 1
    assert dlpack._dlpack._core_calls() == 0


# A user's limit counts all threads of the user.
of_a_user = pytest.mark.skipif(os.getuid() != 0, reason="needs root, who can become a user that runs nothing else")


@pytest.mark.parametrize("reached", ["at the import", "in a child"])
@pytest.mark.parametrize(
    "limit", [pytest.param(name, marks=of_a_user if name == "RLIMIT_NPROC" else ()) for name in SHORT]
)
def test_an_ordinary_user_under_a_limit_gets_work_or_an_exception(folder, limit, reached, effort, figure):
    values = list(effort(SHORT, LONG)[limit])
    happened = what_happens(folder, f"sweep({limit!r}, {reached!r}, {values})", figure)
    if limit not in ("RLIMIT_FSIZE", "RLIMIT_NOFILE"):
        assert 0 < happened.get("works", 0) < len(values), happened


@pytest.mark.parametrize("reached", ["at the import", "after the start", "in a child"])
@pytest.mark.parametrize(
    "limit",
    [
        *("RLIMIT_SIGPENDING", "pthread_key_create", "one CPU"),
        pytest.param("SCHED_IDLE", marks=pytest.mark.serial),  # gets only what others leave
    ],
)
@alone
def test_a_limit_on_what_the_core_does_not_need_changes_nothing(limit, reached):
    if reached != "at the import":
        limits.use()
    if limit == "RLIMIT_SIGPENDING":
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))
    elif limit == "pthread_key_create":
        limits.take_keys()
    elif limit == "one CPU":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    else:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    from support import forks

    def use():
        limits.use()
        forks.use_all_in_threads()

    if reached == "in a child":
        forks.fork_and_join(use)
    else:
        use()


@alone
def test_locked_memory_whose_limit_is_met_is_named():
    """mlockall(MCL_FUTURE) counts all that is mapped from then on."""
    from support import forks

    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
    process.become_ordinary_user(alone=True)
    future = 2
    assert ctypes.CDLL(None).mlockall(future) == 0
    with pytest.raises(MemoryError, match="ulimit -l, since mlockall"):
        forks.ask_core()


WITHOUT_MEMORY = """
import ctypes, os, resource, sys, threading, dlpack
sys.path.insert(0, {tests!r})
from support import process

exhaust, turn = ctypes.PyDLL({library!r}), threading.Event()
memory = bytearray(4)
x = dlpack.asdlpack(memory)

def use():
    global x
    turn.wait()
    exhaust.take_all()
    try:
        {call}
        said = b"works"
    except (MemoryError, TypeError) as error:
        said = b"raises"
    exhaust.give_all_back()
    os.write(1, said)
    os._exit(0)

thread = threading.Thread(target=use)
thread.start()
limit = (int(process.status("VmData")) << 10) + (120 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
turn.set()
thread.join()
"""


@pytest.mark.parametrize(
    "call", ["x = None", "dlpack.asdlpack(memory)", "dlpack.asdlpack(memory, copy=True)", "dlpack.asdlpack(1)"]
)
def test_a_threads_first_call_without_any_memory_works_or_raises(call, tmp_path):
    """The loader allocates some thread-local variables of a library at first use, or ends the process."""
    library = build_library("exhaust", tmp_path)
    result = python(WITHOUT_MEMORY.format(call=call, library=str(library), tests=str(TESTS)))
    assert (result.returncode, result.stdout in ("works", "raises")) == (0, True), result.stderr


@pytest.mark.parametrize("size", [100_003, 1 * MB, 3 * MB + 1, 64 * MB, 1024 * MB, resource.RLIM_INFINITY])
def test_stacks_of_any_size_work_or_raise(package, size):
    """The limit that a process starts under is the size of its threads' stacks, Go's too."""
    code = (
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_STACK, ({size}, resource.getrlimit(resource.RLIMIT_STACK)[1]))\n"
        f"os.execv(sys.executable, [sys.executable, {str(SUPPORT / 'limits.py')!r}])"
    )
    result = python(code, environ={"PYTHONPATH": f"{package.parent}:{TESTS}"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() in (["works"] if size <= 64 * MB else ["works", "OSError", "MemoryError"])


@pytest.mark.parametrize("before", ["nothing", "the start", "nested calls"])
@alone
def test_a_first_call_with_little_stack_left_works_or_raises(before):
    """Go takes RLIMIT_STACK for the size of the main thread's stack, even where more of it is in use. The call starts
    the core, or another thread has done so. Nested calls measure the stack, under another limit. In all children it
    lies at the same place."""
    import dlpack
    from support import forks
    from support.capi import Speaks

    if before == "nested calls":
        x = dlpack.asdlpack(bytearray(4))
        for _ in range(10):
            x = dlpack.asdlpack(Speaks(__dlpack__=x.__dlpack__, __dlpack_device__=lambda: (1, 0)))
        x.__dlpack__()

    def call():
        forks.ask_core()

    ends = set()
    for kilobytes in range(8, 256, 4):
        child = os.fork()
        if child == 0:
            status = 2
            try:
                if before == "the start":
                    thread = threading.Thread(target=call)
                    thread.start()
                    thread.join()
                resource.setrlimit(resource.RLIMIT_STACK, (kilobytes << 10, resource.RLIM_INFINITY))
                call()
                status = 0
            except MemoryError as error:
                status = 1 if str(error).endswith("less left (ulimit -s, or threading.stack_size)") else 3
            finally:
                os._exit(status)
        ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert ends == {0, 1}


@alone
def test_a_later_call_with_little_stack_left_raises():
    """A thread's first call finds a lot. Each sort calls Python from C, which takes more of the stack."""
    from support import forks

    said = []

    def descend(key=None):
        try:
            forks.ask_core()
        except MemoryError as error:
            said.append(str(error))
        else:
            sorted([key], key=descend)

    threading.stack_size(256 << 10)
    thread = threading.Thread(target=descend)
    thread.start()
    thread.join()
    assert [text.startswith("the Go core needs 16 KiB of stack") for text in said] == [True]
