"""Under whatever limit, the import, the core's start and its use work or raise: nothing aborts, nothing hangs."""

import contextlib
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
    """Where an ordinary user finds the package and what the tests do with it."""
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


@of_a_user
@pytest.mark.parametrize("limit", [30, 50, 80, 100])
def test_processes_that_start_the_core_at_once_share_a_limit_of_threads(folder, limit, effort):
    for _ in range(effort(1, 10)):
        happened = what_happens(folder, f"start_at_once({limit}, processes=8)")
        assert set(happened) <= {"works", "OSError"}, happened


@pytest.mark.parametrize("reached", ["at the import", "after the start", "in a child"])
def test_any_number_of_mappings_left_gives_work_or_an_exception(folder, reached, effort, figure):
    """vm.max_map_count; a start takes 100 to 400 of them, by the number of CPUs."""
    values = [*effort([0, 1, 2, 8, 20, 50, 90, 105, 120, 150, 180, 250, 410], range(480))]
    happened = what_happens(folder, f"sweep_mappings({reached!r}, {values})", figure)
    assert happened["works"] == len(values) if reached == "after the start" else 0 < happened["works"] < len(values)


@pytest.mark.parametrize("left", [0, 2, 50, 80])
@alone
def test_a_start_with_few_mappings_left_names_their_limit(left):
    from support import forks

    mappings = limits.Mappings()
    mappings.leave(left)
    with pytest.raises(MemoryError, match="vm.max_map_count") as raised:
        forks.ask_core()
    assert "ulimit" not in str(raised.value)
    mappings.leave(1000)
    forks.use_all()


@pytest.mark.parametrize("reached", ["at the import", "after the start", "in a child"])
@pytest.mark.parametrize("limit", ["RLIMIT_SIGPENDING", "pthread_key_create", "one CPU", "SCHED_IDLE"])
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


@pytest.mark.parametrize("started", [False, True])
@alone
def test_locked_memory_ends_no_process_and_its_limit_is_named(started):
    """mlockall(MCL_FUTURE) counts all that is mapped from then on."""
    import dlpack
    from support import forks

    if started:
        limits.use()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
    process.become_ordinary_user(alone=True)
    future = 2
    assert ctypes.CDLL(None).mlockall(future) == 0
    if not started:
        with pytest.raises(MemoryError, match="ulimit -l, since mlockall"):
            forks.ask_core()
        return
    worked = 0
    for _ in range(200):
        try:
            forks.use_all()
            dlpack.asdlpack(memoryview(bytearray(4 << 20))[::2], copy=True)
        except MemoryError:
            continue
        worked += 1
    assert worked >= 180


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("limit", ["RLIMIT_NPROC", "RLIMIT_AS", "RLIMIT_DATA"])
@alone(timeout=120)
def test_a_limit_that_is_reached_once_the_core_has_started_ends_no_process(limit, grown, effort):
    """Go ends the process where it gets no thread, or no memory: its threads start before it needs them, and some
    memory is kept back. What then gets none raises, until the limit is lifted; a large copy does without threads."""
    import dlpack
    from support import forks

    much = memoryview(bytearray(512 << 20))[::2]
    forks.ask_core()
    if grown:
        dlpack.asdlpack(much[: 8 << 20], copy=True)
    value = {
        "RLIMIT_NPROC": 1,
        "RLIMIT_AS": process.address_space() + 200 * MB,  # which Go may take, and where no large copy fits
        "RLIMIT_DATA": (int(process.status("VmData")) << 10) + 200 * MB,
    }[limit]
    process.become_ordinary_user(alone=True)
    which = getattr(resource, limit)
    before, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value, hard))
    worked, rounds = 0, effort(60, 400)
    for i in range(rounds):
        try:
            forks.use_all()
            if i % 20 == 0:
                dlpack.asdlpack(much, copy=True)
        except MemoryError:
            continue
        worked += 1
    assert worked >= (rounds if limit == "RLIMIT_NPROC" else rounds * 19 // 20)  # without the large copies
    resource.setrlimit(which, (before, hard))
    forks.use_all()
    dlpack.asdlpack(much, copy=True)


@contextlib.contextmanager
def threads_that_wait(count, call):
    """Threads that call once the block has ended, and stay until all have called."""

    def run():
        go_on.wait()
        call()
        called.release()
        end.wait()

    go_on, called, end = threading.Event(), threading.Semaphore(0), threading.Event()
    threading.stack_size(256 << 10)
    for _ in range(count):
        threading.Thread(target=run, daemon=True).start()
    yield
    go_on.set()
    for _ in range(count):
        called.acquire()


@pytest.mark.parametrize("left", [0, 40, 100, 150])
@alone(timeout=120)
def test_first_calls_of_many_threads_with_few_addresses_work_or_raise(left):
    """Go keeps a stack for each of them, and reserves 64 MiB of addresses for these now and then."""
    from support import forks

    def call():
        with one_at_a_time:
            try:
                outcomes.append(forks.ask_core().shape)
            except MemoryError:
                outcomes.append("no memory")

    outcomes, one_at_a_time = [], threading.Lock()
    forks.ask_core()
    with threads_that_wait(600, call):
        limit = process.address_space() + (left << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    assert set(outcomes) <= {(8,), "no memory"} and (8,) in outcomes, outcomes
    os._exit(0)


@pytest.mark.parametrize("left", [0, 60, 200])
@alone(timeout=120)
def test_first_calls_at_once_with_little_memory_left_work_or_raise(left):
    """Their copies take what is left, each while others' first calls need it: what is in reserve is enough for one."""
    import dlpack
    from support import forks

    def call():
        for _ in range(3):
            try:
                dlpack.asdlpack(much, copy=True)
            except MemoryError:
                continue

    much = memoryview(bytearray(2_800_000))[::2]
    forks.ask_core()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with threads_that_wait(100, call):
        resource.setrlimit(resource.RLIMIT_DATA, ((int(process.status("VmData")) << 10) + left * MB, before[1]))
    resource.setrlimit(resource.RLIMIT_DATA, before)
    forks.use_all()
    os._exit(0)


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
    """Of what a library keeps for each thread, the loader allocates some at its first use, or ends the process."""
    library = build_library("exhaust", tmp_path)
    result = python(WITHOUT_MEMORY.format(call=call, library=str(library), tests=str(TESTS)))
    assert (result.returncode, result.stdout in ("works", "raises")) == (0, True), result.stderr


@pytest.mark.parametrize("limit", ["RLIMIT_NPROC", "vm.max_map_count"])
@alone(timeout=120)
def test_threads_at_work_when_no_more_can_be_started_go_on(limit):
    import numpy as np

    import dlpack
    from support import forks

    much = np.zeros((2048, 2048), "f4").T  # a piece of it is not done before others want the processor
    count = 24
    together = threading.Barrier(count + 1)
    worked = []

    def work():
        together.wait()
        for _ in range(4):
            try:
                forks.use_all()
                dlpack.asdlpack(much, copy=True)
            except MemoryError:  # a copy takes a mapping
                assert limit == "vm.max_map_count"
        worked.append(True)

    forks.ask_core()
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    if limit == "RLIMIT_NPROC":
        process.become_ordinary_user(alone=True)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    else:
        limits.Mappings().leave(0)
    together.wait()
    for thread in threads:
        thread.join()
    assert len(worked) == count


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
