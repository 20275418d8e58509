"""Signals are the program's: its handlers, masks, timers and system calls are what they are without Go."""

import concurrent.futures
import ctypes
import functools
import gc
import itertools
import os
import signal
import subprocess
import threading
import time

import pytest

import dlpack
from support import forks, process
from support.alone import alone, python
from support.libraries import build_library
from support.threads import in_threads

FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGABRT"}


def names(*omitted):
    """Returns all signals that a program may handle and block, but for these."""
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return sorted(numbers - {getattr(signal, name) for some in omitted for name in some})


@pytest.fixture(scope="module")
def handlers(tmp_path_factory):
    return str(build_library("handler", tmp_path_factory.mktemp("handlers")))


@pytest.fixture(scope="module")
def faulty_allocator(tmp_path_factory):
    return str(build_library("faulty_allocator", tmp_path_factory.mktemp("allocator")))


HOW = {
    "string_at(0)": ("SIGSEGV", "ctypes.string_at(0)"),
    "a write in C": ("SIGSEGV", "libc.memset(8, 1, 64)"),
    "a call of no function": ("SIGSEGV", "ctypes.CFUNCTYPE(None)(16)()"),
    "a stack overflow": ("SIGSEGV", "faulthandler._stack_overflow()"),
    "raise(SIGSEGV)": ("SIGSEGV", "faulthandler._sigsegv()"),
    "a page behind its file's end": ("SIGBUS", "page[0]"),
    "abort()": ("SIGABRT", "libc.abort()"),
    "raise(SIGFPE)": ("SIGFPE", "faulthandler._sigfpe()"),
}
ENABLED = ("before the import", "before the core's start", "after it", "never")
WHERE = {
    "the main thread": "crash()",
    "another thread": "in_thread(crash)",
    "a thread that uses the core": "in_thread(lambda: (use(), crash()))",
    "a forked child": "end_as(fork(crash))",
    "a forked child that uses the core": "end_as(fork(lambda: (use(), crash())))",
}
# Each way to fault, each time to enable and each place, in a few processes.
SAMPLE = list(zip(HOW, itertools.cycle(ENABLED), itertools.cycle(WHERE)))
EVERY = list(itertools.product(HOW, ENABLED, WHERE))


# In an allocator that a copy calls, and that Go thus waits for.
BELOW_GO = {
    "a write in C below Go": ("SIGSEGV", "ctypes.c_void_p.in_dll(libc, 'written').value = 8; use(1 << 20)"),
    "raise(SIGBUS) below Go": ("SIGBUS", "ctypes.c_int.in_dll(libc, 'raised').value = 7; use(1 << 20)"),
}


def ends_by_its_signal(how, enabled, where, environ=None):
    """Whether a process that faults ends by the fault's signal, and faulthandler, where enabled, says where."""
    number, fault = (HOW | BELOW_GO)[how]
    enable = {when: "faulthandler.enable()" if when == enabled else "" for when in ENABLED}
    result = python(
        "import ctypes, faulthandler, mmap, os, resource, tempfile, threading\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        f"{enable['before the import']}\n"
        "import dlpack\n"
        "libc = ctypes.CDLL(None)\n"
        "with tempfile.TemporaryFile() as file:\n"
        "    file.truncate(mmap.PAGESIZE)\n"
        "    page = mmap.mmap(file.fileno(), mmap.PAGESIZE)\n"
        "    file.truncate(0)\n"
        "def use(size=6): dlpack.frombuffer(bytes(size), '>u2', copy=None)\n"
        "def in_thread(function):\n"
        "    thread = threading.Thread(target=function)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "def fork(function):\n"
        "    return os.fork() or (function(), os._exit(0))\n"
        "def end_as(child):\n"
        "    os.kill(os.getpid(), os.WTERMSIG(os.waitpid(child, 0)[1]))\n"
        f"def crash(): {fault}\n"
        f"{enable[ENABLED[1]]}\n"
        "dlpack.frombuffer(b'bytes', 'int4')\n"
        f"{enable['after it']}\n"
        f"{WHERE[where]}\n",
        environ=environ,
    )
    # faulthandler has a stack of its own in the thread that enables it alone: others can't say that theirs is used up.
    may_be_silent = how == "a stack overflow" and where == "another thread"
    tells = "in crash" in result.stderr
    return result.returncode == -getattr(signal, number) and (tells == (enabled != "never") or may_be_silent)


def test_a_fault_ends_the_process_by_its_signal_and_its_place_is_told(effort, figure):
    cases = effort(SAMPLE, EVERY)
    assert [case for case in cases if not ends_by_its_signal(*case)] == []
    figure("faults", len(cases))


@pytest.mark.parametrize("how", BELOW_GO)
def test_a_fault_in_c_that_go_called_ends_the_process_by_its_signal(how, faulty_allocator):
    """Go by itself prints a report, waits up to 10 s, and ends the process by SIGABRT or SIGQUIT."""
    environ = {"LD_PRELOAD": faulty_allocator}
    cases = itertools.product([how], ENABLED, WHERE)
    assert [case for case in cases if not ends_by_its_signal(*case, environ)] == []


@pytest.mark.parametrize("where", ["main", "thread", "child"])
@alone
def test_a_copy_that_faults_with_all_signals_blocked_raises(where):
    """Many programs block all signals when they start a thread. A blocked fault ends the process."""

    def copy_nothing():
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for _ in range(2):
            with pytest.raises(BufferError, match="can't be read; expected an address that is mapped"):
                dlpack.asdlpack(dlpack.from_pointer(4096, (2,), "float32"), copy=True)
            forks.ask_core()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before

    def in_thread():
        process.in_thread(copy_nothing)

    if where == "child":
        forks.use_all()
    {"main": copy_nothing, "thread": in_thread, "child": lambda: forks.fork_and_join(in_thread)}[where]()


@pytest.mark.parametrize("send", ["kill", "sigqueue"])
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGPIPE", "SIGALRM"])
def test_a_signal_that_is_sent_ends_the_process(name, send):
    result = python(
        "import ctypes, os, resource, signal, dlpack\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        f"signal.signal(signal.{name}, signal.SIG_DFL)\n"  # Python ignores SIGPIPE
        "dlpack.frombuffer(b'bytes', 'int4')\n"
        f"ctypes.CDLL(None).{send}(os.getpid(), signal.{name}, None)\n"
        "print('alive', flush=True)\n"
    )
    assert (result.returncode, result.stdout) == (-getattr(signal, name), "")


@pytest.mark.parametrize("installed", ["before", "after"])
@alone
def test_a_handler_of_every_signal_runs_once_for_each(installed):
    """Whether it was installed before the core's start or after; Go's preemption and Go's faults never call it."""
    caught = dict.fromkeys(names(FAULTS - {"SIGABRT", "SIGFPE", "SIGTRAP", "SIGILL"}), 0)

    def count(number, frame):
        caught[number] += 1

    def install():
        for number in caught:
            signal.signal(number, count)

    if installed == "before":
        install()
    forks.use_all()
    if installed == "after":
        install()
    much = memoryview(bytearray(16 << 20))[::-1]
    for times in 1, 2:
        for number in caught:
            os.kill(os.getpid(), number)
            assert caught[number] == times, number
        with forks.Load(2):
            for _ in range(5):
                dlpack.asdlpack(much, copy=True)
        assert set(caught.values()) == {times}, caught


@alone
def test_the_core_takes_two_signals_and_leaves_the_others_as_they_are():
    """Programs that are started later also inherit the same."""

    def inherited():
        kinds = "SigBlk", "SigIgn", "SigCgt"
        with subprocess.Popen(["cat", "/proc/self/status"], stdout=subprocess.PIPE, restore_signals=False) as program:
            assert program.stdout is not None
            return [line for line in program.stdout.read().decode().splitlines() if line.startswith(kinds)]

    process.in_thread(lambda: None)  # with it, the C library takes a signal of its own
    for start in forks.ask_core, lambda: dlpack.asdlpack(bytes(32 << 20), copy=True):
        for ignored in (), (signal.SIGPIPE, signal.SIGURG), (signal.SIGPIPE, signal.SIGFPE, signal.SIGUSR1):
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            before, caught = inherited(), process.caught_signals()
            child = os.fork()
            if not child:
                start()
                taken = process.caught_signals() & ~caught
                assert taken == 1 << signal.SIGSEGV - 1 | 1 << signal.SIGBUS - 1, hex(taken)
                assert caught & ~process.caught_signals() == 0
                assert inherited() == before
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            for number in ignored:
                signal.signal(number, signal.SIG_DFL)


@alone
def test_a_forked_child_has_the_fault_handlers_from_before_the_core():
    """The handlers of a runtime that has lost its threads may never return."""

    def in_child(generations):
        assert process.caught_signals() & faults == 0
        forks.ask_core()
        assert process.caught_signals() & faults == faults
        if generations > 1:
            forks.fork_and_join(lambda: in_child(generations - 1))

    faults = 1 << signal.SIGSEGV - 1 | 1 << signal.SIGBUS - 1
    in_child(3)


@pytest.mark.parametrize("where", ["main", "thread", "child"])
@alone
def test_each_signal_that_is_blocked_and_waited_for_arrives(where):
    numbers = names(FAULTS)  # Go would unblock SIGCHLD, SIGPROF, SIGRTMIN and SIGSTKFLT
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    much = memoryview(bytearray(16 << 20))[::-1]

    def wait():
        import dlpack

        for number in numbers:
            os.kill(os.getpid(), number)
            forks.use_all()
            assert signal.sigtimedwait({number}, forks.DEADLINE) is not None, number
        os.kill(os.getpid(), signal.SIGTERM)
        dlpack.asdlpack(much, copy=True)
        assert signal.sigwait({signal.SIGTERM}) == signal.SIGTERM

    forks.use_all()
    {"main": wait, "thread": lambda: process.in_thread(wait), "child": lambda: forks.fork_and_join(wait)}[where]()


def calls():
    """Each scenario and the large copies: what to call, by name."""
    from support import scenarios  # here, since numpy has threads, which take signals

    much = memoryview(bytes(16 << 20))[::-1]
    large = {"a large copy": lambda: dlpack.asdlpack(much, copy=True), "the garbage collector": gc.collect}
    return {name: functools.partial(scenarios.attempt, *pair) for name, pair in scenarios.SCENARIOS.items()} | large


MASKS = {
    "nothing": (),
    "everything": signal.valid_signals(),
    "what Go would unblock": (signal.SIGCHLD, signal.SIGPROF, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE),
    "what calls defer": (signal.SIGINT, signal.SIGALRM, signal.SIGURG),
}


@alone(timeout=300)
def test_no_function_changes_the_signal_mask_of_its_thread(effort, figure):
    def check():
        for call in calls().items():
            for mask in MASKS.items():
                signal.pthread_sigmask(signal.SIG_SETMASK, mask[1])
                before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
                call[1]()
                after = signal.pthread_sigmask(signal.SIG_SETMASK, ())
                assert after == before, (call[0], mask[0], after ^ before)

    def check_in_new_threads():
        """Go changes the mask of a thread at its first call."""
        for name, call in calls().items():
            for what, mask in MASKS.items():

                def around(call=call, mask=mask):
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
                    call()
                    return before ^ signal.pthread_sigmask(signal.SIG_BLOCK, ())

                assert process.in_thread(around) == set(), (name, what)

    rounds = effort(1, 20)
    for _ in range(rounds):
        check()
        check_in_new_threads()
        forks.fork_and_join(check)
        forks.fork_and_join(check_in_new_threads)
    figure("calls between two looks at the mask", rounds * 4 * len(MASKS) * len(calls()))


@pytest.mark.serial
@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("timer", ["REAL", "PROF", "VIRTUAL"])
@alone(timeout=300)
def test_handlers_of_other_libraries_that_lack_sa_onstack_have_room(handlers, timer, cpus, effort, figure):
    """Three threads share large copies, and make small ones, while the signal comes 2,000 times a second."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    library, count = ctypes.CDLL(handlers), effort(5, 200)
    much = memoryview(bytes(range(256)) * (64 << 12))[::-1]  # 64 MB
    expected = bytes(much)
    dlpack.asdlpack(much, copy=True)
    ctypes.c_long.in_dll(library, "needed").value = 128 << 10
    library.handle({"REAL": signal.SIGALRM, "PROF": signal.SIGPROF, "VIRTUAL": signal.SIGVTALRM}[timer], False)

    def copy():
        for _ in range(count):
            x = dlpack.asdlpack(much, copy=True)
            for _ in range(10_000):
                little = dlpack.asdlpack(much[:64], copy=True)
            assert bytes(forks.memory_of(little)) == expected[:64]
        assert bytes(forks.memory_of(x)) == expected

    signal.setitimer(getattr(signal, f"ITIMER_{timer}"), 5e-4, 5e-4)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        copies = [pool.submit(copy) for _ in range(2)]
        copy()
    for done in copies:
        done.result()
    signal.setitimer(getattr(signal, f"ITIMER_{timer}"), 0)
    assert ctypes.c_long.in_dll(library, "handled").value > 10
    figure("copies of 64 MB", 3 * count)


@alone
def test_a_handler_in_c_that_forks_while_the_core_starts_returns(handlers):
    """The signal comes when the thread's mask is put back; the fork takes the lock that the start had."""
    library = ctypes.CDLL(handlers)
    library.fork_at(signal.SIGALRM)
    handled = ctypes.c_long.in_dll(library, "handled")
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    assert forks.ask_core().shape == (8,)
    while not handled.value:
        pass


@pytest.mark.parametrize("on_stack", [False, True])
@alone
def test_a_start_of_the_core_changes_no_flag_of_a_handler(on_stack, handlers):
    """SA_ONSTACK, which Go adds elsewhere, is for the program to choose."""
    numbers = names({"SIGSEGV", "SIGBUS"})

    def start_core():
        before = [library.flags_of(number) for number in numbers]
        forks.ask_core()
        assert dlpack._dlpack._core_calls() > 0
        assert [library.flags_of(number) for number in numbers] == before

    library = ctypes.CDLL(handlers)
    for number in numbers:
        library.handle(number, on_stack)
    start_core()
    child = os.fork()
    if not child:
        start_core()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@alone
def test_handlers_with_sa_onstack_have_160_kib_in_the_cores_threads(handlers):
    """Go gives a thread without an alternate stack one of 32 KiB. Go's own memory lies below that."""
    library = ctypes.CDLL(handlers)
    ctypes.c_long.in_dll(library, "needed").value = 160 << 10
    handled, overflowed = (ctypes.c_long.in_dll(library, name) for name in ("handled", "overflowed"))

    def handle():
        for _ in range(2):
            forks.use_all()
            count = handled.value
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            assert (handled.value, overflowed.value) == (count + 1, 0)
        forks.use_all()

    library.handle(signal.SIGUSR1, True)
    for _ in range(2):
        handle()
        process.in_thread(handle)
        forks.fork_and_join(handle)
        forks.fork_and_join(lambda: process.in_thread(handle))
        process.in_thread(lambda: forks.fork_and_join(handle))


@pytest.mark.parametrize("name", ["SIGURG", "SIGPIPE", "SIGFPE"])
@alone(timeout=120)
def test_a_handler_stays_while_its_signal_comes_at_the_cores_start(name, handlers, effort, figure):
    """Go installs handlers of its own for these three in other programs. Another process sends the signal all the
    while; a thread that waits for a byte takes it."""
    library, number, rounds = ctypes.CDLL(handlers), getattr(signal, name), effort(20, 500)
    handled = ctypes.c_long.in_dll(library, "handled")

    def send_to(process):
        while True:
            os.kill(process, number)

    def start_core():
        library.handle(number, False)
        before = library.flags_of(number)
        reading, writing = os.pipe()
        process = os.getpid()
        sender = forks.fork(lambda: send_to(process))
        thread = threading.Thread(target=os.read, args=(reading, 1))
        thread.start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        count = handled.value
        while handled.value == count:  # until the thread takes them
            os.sched_yield()
        forks.ask_core()
        os.kill(sender, signal.SIGKILL)
        os.waitpid(sender, 0)
        os.write(writing, b"!")
        thread.join()  # whatever took the last one has returned
        assert library.flags_of(number) == before

    for _ in range(rounds):
        forks.fork_and_join(start_core)
    figure("starts", rounds)


@alone(timeout=300)
def test_handlers_that_lack_sa_onstack_have_room_in_a_first_call(handlers, effort, figure):
    """Go prepares a thread at its first call, of which there are many here, while SIGPROF comes as often as it can."""

    library, least, rounds = ctypes.CDLL(handlers), effort(50, 1000), 0
    handled = ctypes.c_long.in_dll(library, "handled")
    forks.ask_core()
    library.handle(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, 1e-4, 1e-4)
    while rounds < least or handled.value == 0:
        rounds += 1
        in_threads(lambda number: forks.ask_core(), 20)
    signal.setitimer(signal.ITIMER_PROF, 0)
    figure("threads", 20 * rounds)


@pytest.mark.serial
@alone(timeout=300)
def test_timers_call_their_handlers_and_a_profiler_samples_its_functions(effort, figure):
    samples = {"wrap": 0, "copy": 0}
    ticks = {signal.SIGALRM: 0, signal.SIGVTALRM: 0, signal.SIGPROF: 0}

    def sample(number, frame):
        ticks[number] += 1
        while frame is not None:
            if frame.f_code.co_name in samples and number == signal.SIGPROF:
                samples[frame.f_code.co_name] += 1
            frame = frame.f_back

    def wrap():
        forks.use_all()

    def copy():
        for _ in range(3):
            dlpack.asdlpack(much, copy=True)

    much = memoryview(bytearray(16 << 20))[::-1]
    signal.signal(signal.SIGALRM, sample)  # before the core's start; the others after it
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    copy()
    for timer, number in (signal.ITIMER_VIRTUAL, signal.SIGVTALRM), (signal.ITIMER_PROF, signal.SIGPROF):
        signal.signal(number, sample)
        signal.setitimer(timer, 1e-3, 1e-3)
    seconds = effort(0.5, 20)
    end = time.monotonic() + seconds
    while time.monotonic() < end or not all(samples.values()):
        wrap()
        copy()
    for timer in signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF:
        signal.setitimer(timer, 0)
    assert all(ticks.values()), ticks
    figure("seconds", seconds)


@pytest.mark.serial
@alone(timeout=300)
def test_ctrl_c_in_a_long_copy_interrupts_when_the_copy_is_done(effort, figure):
    """Another process sends each SIGINT when it hears that a copy begins."""
    much = memoryview(bytearray(32 << 20))[::-1]
    reading, writing = os.pipe()
    parent, count = os.getpid(), effort(10, 500)

    def send():
        os.close(writing)
        for number in range(count):
            os.read(reading, 1)
            time.sleep(number % 10 * 2e-3)  # so that it comes in any part of the copy
            os.kill(parent, signal.SIGINT)

    sender = forks.fork(send)
    os.close(reading)
    dlpack.asdlpack(much, copy=True)
    within = 0
    for _ in range(count):
        before, begun = forks.core_calls(), 0
        try:
            os.write(writing, b"!")
            while True:  # a lost one hangs
                begun += 1
                dlpack.asdlpack(much, copy=True)
        except KeyboardInterrupt:
            ended = forks.core_calls() - before
            assert ended in (begun - 1, begun)
            within += ended == begun
    assert within > count / 2
    os.close(writing)
    forks.join(sender)
    assert dlpack.asdlpack(much, copy=True).nbytes == len(much)
    figure("interrupts", count)


@pytest.mark.serial
@pytest.mark.parametrize("by_a_timer", [False, True], ids=["ever", "but by its own timer"])
@alone(timeout=300)
def test_no_system_call_of_the_program_is_interrupted(handlers, by_a_timer, effort, figure):
    """Threads wait in system calls and copy by turns, so that a signal meant for Go would come to a call of theirs."""
    library, seconds = ctypes.CDLL(handlers), 1 if by_a_timer else effort(1, 20)
    library.wait_a_while.restype = ctypes.c_char_p
    reading, _ = os.pipe()
    end = time.monotonic() + seconds
    interrupted = []

    def work():
        much = memoryview(bytearray(9 << 20))[::-1]
        while time.monotonic() < end:
            dlpack.asdlpack(much, copy=True)
            interrupted.append(library.wait_a_while(reading))

    with forks.Load(2):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        if by_a_timer:
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # here, so that it comes there
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for thread in threads:
            thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert interrupted
    assert any(interrupted) == by_a_timer
    figure("seconds", seconds)
