"""How tests run programs: nothing hangs the run, nothing outlives its test, and what fails says why."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.alone import TESTS, alone, is_gone, python, run


@alone
def compare(left, right):
    assert left == right


@alone(timeout=1)
def hang():
    signal.pause()


@alone(status=3, stdout="printed\n", stderr="")
def end(status, text):
    print(text)
    sys.exit(status)


@alone
def count(effort, figure):
    if amount := effort(0, 3):
        figure("work", amount)


def test_a_child_does_the_effort_and_gives_the_figures():
    counted = {}
    count(effort=lambda short, long: long, figure=counted.__setitem__)
    assert counted == {"work": 3}
    with pytest.raises(AssertionError):  # a proof that counted nothing
        count(effort=lambda short, long: short, figure=counted.__setitem__)


def test_a_failed_assertion_in_a_child_shows_its_values():
    with pytest.raises(pytest.fail.Exception, match="assert 3 == 4"):
        compare(left=3, right=4)


def test_the_end_of_a_child_is_compared_with_what_is_expected():
    end(status=3, text="printed")
    for status, text in (0, "printed"), (3, "other"):
        with pytest.raises(pytest.fail.Exception, match=f"exit status {status}\n{text}"):
            end(status=status, text=text)


def test_children_may_be_started_by_several_threads():
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: compare(left=number, right=number), range(20)))


def test_a_child_that_hangs_is_a_failure_when_its_time_is_over():
    with pytest.raises(pytest.fail.Exception, match="still running after 1 s"):
        hang()


def test_alone_lets_a_child_run_longer_than_other_tests_may():
    @alone(timeout=900)
    def test():
        pass

    assert [mark.args for mark in test.pytestmark] == [(930,)]


FORKS = "import os, signal\nchild = os.fork()\nif child == 0: {}signal.pause()\nprint(child, flush=True)\n{}"


@pytest.mark.parametrize("hangs", [False, True])
def test_processes_started_by_a_program_end_with_it(hangs):
    if hangs:
        with pytest.raises(pytest.fail.Exception) as failure:
            python(FORKS.format("", "signal.pause()"), timeout=1)
        pid = str(failure.value).split("\n")[1]
    else:
        pid = python(FORKS.format("", "")).stdout
    assert is_gone(pid, 20)


def test_a_process_that_left_the_session_is_not_waited_for():
    pid = int(python(FORKS.format("os.setsid(); ", ""), timeout=10).stdout)
    os.kill(pid, signal.SIGKILL)
    assert is_gone(pid, 20)


INTERRUPTED = """
import pytest
from support.alone import python

@pytest.mark.timeout(1)
def test_too_long():
    python("import os, signal; open({path!r}, 'w').write(str(os.getpid())); signal.pause()")
"""


def pytest_of(test, tmp_path, *command):
    (tmp_path / "test_it.py").write_text(test)
    options = ["-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path / "test_it.py"]
    return run(*command, sys.executable, "-m", "pytest", *options, environ={"PYTHONPATH": str(TESTS)}, timeout=40)


def test_a_test_whose_time_is_over_leaves_no_program_behind(tmp_path):
    result = pytest_of(INTERRUPTED.format(path=str(tmp_path / "pid")), tmp_path)
    assert result.returncode == 1 and "Timeout" in result.stdout
    assert is_gone((tmp_path / "pid").read_text(), 20)


HEEDS = """
from support.alone import python

def test_signals():
    code = "import signal; print(*(signal.getsignal(it) is signal.SIG_IGN for it in map(signal.Signals, range(1, 4))))"
    assert python(code).stdout == "False False False\\n"
"""


def test_a_run_in_the_background_starts_programs_that_heed_signals(tmp_path):
    """A shell's background job ignores SIGINT and SIGQUIT, what nohup starts SIGHUP."""
    ignore = "import os, signal, sys\nfor it in range(1, 4): signal.signal(it, signal.SIG_IGN)\n"
    command = [sys.executable, "-c", f"{ignore}os.execv(sys.argv[1], sys.argv[1:])"]
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    result = pytest_of(HEEDS, tmp_path, *command)
    assert result.returncode == 0, result.stdout
