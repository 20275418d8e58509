"""A build of the package in which any call that can fail can be made to, and what tries that."""

import ctypes
import functools
import gc
import json
import os
import re
import shutil
import sys
import traceback
import weakref

from support.alone import SUPPORT, TESTS, python
from support.builds import build
from support.libraries import build_library

driver = None  # the cuda_driver.Driver whose live objects are counted, if any


def build_faulty(folder):
    """Returns what belongs in PYTHONPATH, and the library that has to be loaded before, for all to see."""
    package = build(folder, cflags=os.environ.get("FAULTS_CFLAGS", ""), edit=edit)  # make coverage has some
    return package, build_library("faults", folder)


POINT = """// Package faults is where the functions of a build for tests panic.
package faults

// #include "faults.h"
import "C"

var (
	zero    int
	nothing *int
)

func Point() {
	switch C.faults_panic() {
	case 1:
		panic("on purpose")
	case 2:
		zero = *nothing
	case 3:
		zero = make([]int, 1)[1+zero]
	case 4:
		zero = 1 / zero
	}
}
"""
PANICS = {1: "on purpose", 2: "nil pointer", 3: "index out of range", 4: "divide by zero"}


def edit(folder):
    for path, before, after in (
        ("pyext/core/core.h", "#include <dlpack/dlpack.h>", '#include "faults.h"\n#include <dlpack/dlpack.h>'),
        ("pkg/cuda/driver.h", "#include <stddef.h>", '#include "faults.h"'),
        ("pyext/ask/table.c", "= DLPACK_USES_TABLE &&", "= !faults_forgets() &&"),
    ):
        text = (folder / path).read_text()
        assert before in text, path
        (folder / path).write_text(text.replace(before, after, 1))
    (folder / "pkg" / "faults").mkdir()
    (folder / "pkg" / "faults" / "faults.go").write_text(POINT)
    for place in "pyext/core", "pkg/cuda", "pkg/faults":
        shutil.copy(SUPPORT / "faults.h", folder / place)
    for path in [*(folder / "pkg").glob("*/*.go"), *(folder / "pyext" / "core").glob("*.go")]:
        if path.parent.name != "faults" and not re.search("_test.go$|cuda/driver", str(path)):
            path.write_text(with_points(path.read_text()))


def with_points(source):
    """Go source, as gofmt leaves it, in which each function of more than a line calls faults.Point, behind what it
    defers first."""
    lines, at = source.split("\n"), 0
    while at < len(lines):
        if lines[at].startswith("func ") and lines[at].endswith(("{", "(", ",")):  # not one that is assembly
            while not lines[at].endswith("{"):
                at += 1
            while lines[at + 1].startswith("\tdefer "):
                at += 1
                while lines[at].endswith("{") or lines[at].startswith("\t\t"):
                    at += 1
            lines.insert(at + 1, "\tfaults.Point()")
        at += 1
    if "\tfaults.Point()" in lines:
        package = next(at for at, line in enumerate(lines) if line.startswith("package "))
        lines.insert(package + 1, 'import "dlpack/pkg/faults"')
    return "\n".join(lines)


def in_faulty(faulty, figure, call, **environ):
    """Calls a function of this module in a fresh interpreter that has such a build, and notes what it reports."""
    package, library = faulty
    result = python(
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\nfrom support import faults; faults.load(); faults.{call}",
        environ={
            "PYTHONPATH": str(package),
            "FAULTS": str(library),
            "PYTHONFAULTHANDLER": "1",
            **environ,
        },
        timeout=250,
    )
    assert (result.returncode, result.stderr) == (0, ""), f"{result.returncode}\n{result.stdout}\n{result.stderr}"
    for what, value in json.loads(result.stdout).items():
        figure(what, value)


def load():
    global faults
    faults = ctypes.CDLL(os.environ["FAULTS"], ctypes.RTLD_GLOBAL)
    faults.faults_disarm.restype = ctypes.c_bool
    faults.faults_live.restype = ctypes.c_long
    faults.faults_arm.argtypes = [ctypes.c_long, ctypes.c_bool]
    faults.faults_arm_panic.argtypes = [ctypes.c_long, ctypes.c_int]
    faults.faults_forget.argtypes = [ctypes.c_bool]


def same_every_time(outcome):
    """Without addresses."""
    if isinstance(outcome, BaseException):
        outcome = f"{type(outcome).__name__}: {outcome}"
    return re.sub("0x[0-9a-f]+", "", outcome) if isinstance(outcome, str) else outcome


class Trial:
    """A scenario, tried with failures, and what it leaves behind."""

    def __init__(self, name, make, use, reason):
        self.name, self.make, self.use, self.reason = name, make, use, reason
        self.attempts = 0
        self.attempt(arm=None)
        self.expected = self.attempt(arm=None)

    def attempt(self, arm):
        """Returns the outcome of one use; arm() makes something fail in it."""
        from support.scenarios import forget, given_back

        self.attempts += 1
        obj = self.make()
        if arm:
            arm()
        try:
            outcome = self.use(obj)
        except BaseException as error:
            error.__traceback__ = None
            outcome = error
        finally:
            self.struck = disarm()
        try:
            source = weakref.ref(obj)
        except TypeError:
            source = None
        outcome = same_every_time(outcome)
        given_back(obj)
        del obj
        forget()
        if source is not None and source() is not None:
            gc.collect()
            assert source() is None, f"{self.name}: the object is still held; {outcome}"
        return outcome

    def check(self, arm):
        """One attempt: it gives what it should, or fails for the reason that was made. An exception may be quoted: a
        repr tells it, and of several protocols each has its say."""
        outcome = self.attempt(arm)
        if outcome == self.expected:
            return
        assert re.search(self.reason, str(outcome)), (
            f"{self.name}: {outcome!r:.500}; expected {self.reason}, or {self.expected!r:.200}"
        )

    def check_leaks(self, arm):
        grown = growth(lambda: self.check(arm))
        assert not grown, f"{self.name}: {grown}"


def growth(attempt):
    """Describes what many attempts leave behind, if it is more each time; else returns None. Tables and CPython's free
    lists stop growing, and do not count."""
    from support.scenarios import forget

    for times in 3, 20, 20, 20, 500, 500:
        before = left_behind()
        for _ in range(times):
            attempt()
        forget()
        grown = [now - then for now, then in zip(left_behind(), before, strict=True)]
        if max(grown) < times:
            return None
    return f"after {times} times more blocks of Python's, allocations of C's, references and what CUDA has: {grown}"


def disarm():
    return faults.faults_disarm()


def left_behind():
    import dlpack

    gc.collect()
    counts = sys.getallocatedblocks(), faults.faults_live(), sys.getrefcount(dlpack.DLPackObject)
    return (*counts, *driver.live().values()) if driver else counts


def trials(reason, every, cuda=False):
    """Returns trials of the scenarios, or of those with a CUDA driver: the first of each `every` scenarios."""
    global driver
    from support import scenarios

    tried = scenarios.SCENARIOS
    if cuda:
        from support.cuda_driver import Driver

        driver = Driver()
        tried = scenarios.of_cuda(driver)
    made = [Trial(name, make, use, reason) for name, (make, use) in [*tried.items()][::every]]
    gc.collect()
    gc.freeze()
    return made


def strike_in_turn(tried, arm):
    """Strikes each trial at its n-th call, for n = 1, 2, ..., until it passes: how often, and in how many attempts."""
    strikes = attempts = 0
    for trial in tried:
        n, struck = 0, True
        while struck:
            n += 1
            armed = functools.partial(arm, n)
            trial.check(armed)
            struck = trial.struck
            trial.check_leaks(armed)
        assert trial.attempt(None) == trial.expected
        strikes += n - 1
        attempts += trial.attempts
    return strikes, attempts


def fail_each_call(with_interrupt, every, cuda=False):
    """Each call of each scenario fails in turn; then the scenario passes."""
    tried = trials("KeyboardInterrupt|MemoryError" if with_interrupt else "MemoryError", every, cuda)
    calls, attempts = strike_in_turn(tried, lambda n: faults.faults_arm(n, with_interrupt))
    report({"calls that failed": calls, "attempts": attempts})


def fail_each_allocation(*, forever):
    """The same of what CPython itself allocates, by one call into the extension: from n on, or the n-th alone."""
    from _testcapi import remove_mem_hooks, set_nomemory  # type: ignore[import-not-found]

    from support import scenarios

    def attempt(make, call, n):
        function = call(make())
        if n > 0:
            set_nomemory(n, 0 if forever else n + 1)
        try:
            outcome = function()
        except BaseException as error:
            remove_mem_hooks()
            error.__traceback__ = None
            outcome = error
        remove_mem_hooks()
        failed = isinstance(outcome, MemoryError)
        return failed, same_every_time(outcome) if isinstance(outcome, BaseException) else type(outcome)

    gc.collect()
    gc.freeze()
    attempts = failures = 0
    for name, (make, call) in scenarios.CALLS.items():
        expected = attempt(make, call, 0)[1]
        n = passed = 0
        while passed < 10:  # some failures do no harm
            n += 1
            for _ in range(3):
                failed, outcome = attempt(make, call, n)
                # PyErr_SetString of CPython 3.11.2 raises without the text if memory for it is missing.
                is_unworded = sys.version_info < (3, 11, 7) and outcome == f"{str(expected).partition(': ')[0]}: "
                assert failed or is_unworded or outcome == expected, (
                    f"{name}: {outcome!r:.500}; expected MemoryError, or {expected!r}"
                )
                attempts += 1
            grown = growth(lambda make=make, call=call, n=n: attempt(make, call, n))
            assert not grown, f"{name}: {grown}"
            passed = 0 if failed else passed + 1
            failures += failed
    report({"allocations that failed": failures, "attempts": attempts})


def panic_in_each_function(kind, every, cuda=False):
    """Each Go function panics in turn, as often as a scenario enters one; then the scenario passes."""
    global driver
    faults.faults_forget(True)
    reason = rf"RuntimeError.*bug in dlpack's core, please report it: .*{PANICS[kind]}"
    if cuda:
        reason += "|no memory that can be read|can't be read; expected an address"  # what is read with care
    tried = trials(reason, every, cuda)
    driver = None  # a panic may leave behind what CUDA has
    panics, attempts = strike_in_turn(tried, lambda n: faults.faults_arm_panic(n, kind))
    report({"panics": panics, "attempts": attempts})


def panic_in_a_large_copy(kind, attempts):
    """A copy that several goroutines share: any of them panics."""
    import numpy as np

    import dlpack

    large = np.arange(2 << 20, dtype="u4").reshape(1024, 2048).T
    expected = large.tobytes()
    dlpack.asdlpack(large, copy=True)
    live = faults.faults_live()
    reason = rf"bug in dlpack's core, please report it: .*{PANICS[kind]}"
    panics = 0
    for n in range(1, attempts + 1):
        faults.faults_arm_panic(n, kind)
        try:
            x = dlpack.asdlpack(large, copy=True)
        except RuntimeError as error:
            assert re.match(reason, str(error)), error
            panics += disarm()
        else:
            assert not disarm()
            assert bytes(x) == expected
            del x
        assert faults.faults_live() == live
    assert bytes(dlpack.asdlpack(large, copy=True)) == expected
    report({"panics": panics, "attempts": attempts})


def panic_at_a_start(kind):
    """The core's entry panics, in a child, which then starts another core."""
    import dlpack

    def child(n):
        faults.faults_arm_panic(n, kind)
        try:
            dlpack.frombuffer(bytearray(6), "int4")
        except RuntimeError as error:
            assert "bug in dlpack's core, please report it" in str(error), error
        struck = disarm()
        assert dlpack.frombuffer(bytearray(6), "int4").shape == (12,)
        return struck

    report({"panics": fail_in_children(child)})


def fail_each_start(*, after_one, most):
    """Makes each call of a core's start, and then of a large copy, fail in a child of its own, which then starts the
    core. With after_one their parent has started one itself. There are at most `most` children: a copy of the core is
    written in 500 pieces."""
    import dlpack

    much = memoryview(bytearray(2 << 20))[::2]
    if after_one:
        dlpack.frombuffer(b"abc", "int4")

    def child(n):
        faults.faults_arm(n, False)
        try:
            dlpack.frombuffer(b"abc", "int4")
            dlpack.asdlpack(much, copy=True)
        except (MemoryError, OSError, RuntimeError) as error:
            assert str(error) in ("", "copy: no memory for 1048576 bytes") or "the Go core" in str(error), error
        struck = disarm()
        assert dlpack.frombuffer(b"abc", "int4").shape == (6,)
        assert dlpack.asdlpack(much, copy=True).nbytes == 1 << 20
        return struck

    failed = fail_in_children(child, most)
    assert failed > 30, "the calls of a start do not fail: are those of pyext/platform wrapped in faults.h?"
    report({"calls that failed": failed})


def fail_each_opening_of_the_driver():
    """Makes each call up to the first use of the CUDA driver fail, in a child of its own."""
    import dlpack

    def child(n):
        from support.cuda_driver import Driver

        array = Driver().allocate(8, 1).array()
        dlpack.frombuffer(b"abc", "int4")  # starts the core
        faults.faults_arm(n, False)
        try:
            dlpack.asdlpack(array)
        except (MemoryError, OSError):
            pass
        struck = disarm()
        assert dlpack.asdlpack(array).device == (2, 1)
        return struck

    report({"calls that failed": fail_in_children(child)})


def fail_each_import():
    """Makes each call of the import fail in a child of its own, which then imports dlpack."""
    import enum  # noqa: F401

    def child(n):
        faults.faults_arm(n, False)
        try:
            import dlpack
        except (ImportError, MemoryError):
            pass
        struck = disarm()
        import dlpack

        assert bytes(dlpack.asdlpack(bytearray(b"abc"))) == b"abc"
        return struck

    assert "dlpack" not in sys.modules
    report({"calls that failed": fail_in_children(child)})


def fail_in_children(child, most=1000):
    """Calls child(n) in a child for each n from 1 on, until it says that nothing failed any more. Returns how often
    something did."""
    for n in range(most):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = 42 if child(n + 1) else 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, 42), f"call {n + 1}: exit status {status}"
        if status == 0:
            return n
    return most


def report(figures):
    print(json.dumps(figures))
