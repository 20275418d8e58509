"""Beside another Go runtime, and without static TLS, all works as it does alone, or says why not."""

import concurrent.futures
import ctypes
import os
import shutil
import signal
import subprocess
import time

import pytest

from support.alone import ROOT, alone, python
from support.libraries import build_library


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory):
    """The path of the Go library of neighbour/, built."""
    library = tmp_path_factory.mktemp("neighbour") / "neighbour.so"
    command = ["go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-o", library]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GO") or name == "GOCACHE"}
    environment |= {"GOTOOLCHAIN": "local", "CGO_ENABLED": "1", "GOFLAGS": ""}
    subprocess.run([*command, "./tests/support/neighbour"], cwd=ROOT, env=environment, check=True)
    return str(library)


GO_FIRST = ("the neighbour", "the import", "the core")


@alone(timeout=300)
def works_beside_go(library, first, seconds, forks_too):
    """Both runtimes collect garbage, fault and recover, in the same threads, while signals arrive."""
    neighbour = None

    def load():
        nonlocal neighbour
        neighbour = ctypes.CDLL(library)
        neighbour.turn.restype = ctypes.c_longlong
        neighbour.work(2)
        neighbour.take()

    if first == "the neighbour":
        load()
    import dlpack
    from support import forks

    if first == "the import":
        load()
    forks.ask_core()
    if first == "the core":
        load()
    assert neighbour is not None

    caught = {signal.SIGUSR1: 0, signal.SIGALRM: 0}

    def count(number, _):
        caught[number] += 1

    for number in caught:
        signal.signal(number, count)
    much = memoryview(bytes(range(256)) * (4 << 12))[::-1]
    expected = bytes(much)
    end = time.monotonic() + seconds

    def work():
        done = 0
        while time.monotonic() < end:
            forks.use_all()
            x = dlpack.asdlpack(much, copy=True)
            assert bytes(forks.memory_of(x)) == expected
            with pytest.raises(BufferError, match="can't be read"):
                dlpack.asdlpack(dlpack.from_pointer(1 << 20, (9,), "int8"), copy=True)
            assert neighbour.turn() == 499_999_500_000
            done += 1
        return done

    signal.setitimer(signal.ITIMER_REAL, 2e-3, 2e-3)
    sent = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        works = [pool.submit(work) for _ in range(4)]
        while not all(each.done() for each in works):
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)  # Python's end by default: Go takes it
            sent += 1
            if forks_too:
                forks.fork_and_join(forks.use_all)
            concurrent.futures.wait(works, 2e-3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert sum(each.result() for each in works) > 0
    counts = [ctypes.c_longlong() for _ in range(3)]
    while not all(number.value for number in counts):  # on one CPU, the neighbour may not have got to its signals yet
        os.sched_yield()
        neighbour.counted(*map(ctypes.byref, counts))
    assert caught[signal.SIGUSR1] == sent
    assert caught[signal.SIGALRM] > 0


def test_another_go_runtime_in_the_process_changes_nothing(neighbour, effort, figure):
    cases = effort([("the core", 0.5, False)], [(first, 10, fork) for first in GO_FIRST for fork in (False, True)])
    for first, seconds, fork in cases:
        works_beside_go(library=neighbour, first=first, seconds=seconds, forks_too=fork)
    starts = effort(0, 60)
    for start in range(starts):
        works_beside_go(library=neighbour, first=GO_FIRST[start % 3], seconds=0.2, forks_too=start % 2 == 0)
    figure("processes", len(cases) + starts)


def test_a_value_that_another_library_keeps_stays_in_a_forked_child(tmp_path):
    """Go's own is dropped there: its destructor would enter the parent's runtime."""
    result = python(
        "import ctypes, os\n"
        "import dlpack\n"
        "keys = ctypes.CDLL(None)\n"
        "ctypes.c_ssize_t.in_dll(keys, 'value').value = 7\n"
        "before = keys.kept_value()\n"
        "dlpack.frombuffer(b'bytes', 'int4')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(keys.kept_value())\n"
        "print(before, keys.kept_value(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
        environ={"LD_PRELOAD": str(build_library("keys", tmp_path))},
    )
    assert (result.returncode, result.stdout) == (0, "0 7 7\n"), result.stderr


@pytest.fixture(scope="module")
def tls_libraries(tmp_path_factory):
    """Libraries that take 512, 64 and 8 bytes of static TLS."""
    return [str(build_library("tls", tmp_path_factory.mktemp("tls"), f"-DSIZE={size}")) for size in (512, 64, 8)]


@pytest.mark.parametrize("when", ["before the import", "before the core's start", "in a forked child"])
@alone
def test_without_static_tls_the_core_raises_what_the_loader_said(tls_libraries, when):
    def use_up():
        for library in tls_libraries:
            with pytest.raises(OSError, match="static TLS"):
                for number in range(10_000):
                    ctypes.CDLL(shutil.copy(library, f"{library}.{when}.{number}"))

    if when == "before the import":
        use_up()
    import numpy as np

    import dlpack
    from support import forks

    def check():
        source = np.arange(6.0)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="core can't start: .*static TLS"):
                forks.ask_core()
            with pytest.raises(RuntimeError, match="core can't start"):
                dlpack.asdlpack(np.arange(2000, dtype=">f8"), copy=True)
        assert bytes(dlpack.asdlpack(source, copy=True)) == source.tobytes()  # which needs no core
        assert np.from_dlpack(dlpack.asdlpack(source)).ctypes.data == source.ctypes.data  # needs no core

    if when == "in a forked child":
        forks.use_all()
        use_up()
        forks.fork_and_join(check)
        forks.use_all()
    else:
        if when == "before the core's start":
            use_up()
        check()
