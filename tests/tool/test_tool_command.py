"""`python -m dlpack.tests`: its arguments, and what it says of libraries that are missing or broken."""

import re
import signal
import sys
import venv
from pathlib import Path

import pytest

from dlpack import tests
from dlpack.tests.text import lines
from support.alone import ROOT, run
from support.tool import DLPACK_TESTS, EXCHANGES, exchange, library_of, modules, report


def broken(tmp_path, *arguments, command=DLPACK_TESTS, **code):
    """Returns the report on modules that have this code, which breaks something."""
    for name, text in code.items():
        (tmp_path / f"{name}.py").write_text(text)
    return report(*arguments, command=command, status=1, environ=modules(tmp_path))


def outcomes_of(found):
    return {(library_of(each.consumer), each.provider): each.outcome for each in found.exchanges}


def test_summary_comes_first():
    printed = exchange("numpy", environ={"COLUMNS": "120"}).splitlines()
    assert re.fullmatch(r"\d+ exchanges: \d+ shared, .* 0 failed", printed[0])
    assert any(re.fullmatch(r"  bytearray( +shared){4}", line) for line in printed)


def test_named_libraries_alone_take_part():
    found = report("numpy")
    assert list(found.libraries) == ["numpy"]
    assert {library_of(consumer) for consumer in found.consumers} == {"numpy"}
    assert {each.section for each in found.exchanges} == {"standard library", "layouts", "data types", "numpy"}
    assert not found.failures and not found.checks


def test_run_returns_what_the_command_finds():
    assert outcomes_of(tests.run("numpy")) == outcomes_of(report("numpy"))


def test_closed_standard_descriptors_change_nothing():
    command = [sys.executable, "-m", "dlpack.tests", "numpy"]
    assert run("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command).returncode == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_output_that_can_not_be_written_is_one_line(form):
    command = [sys.executable, "-m", "dlpack.tests", "numpy", *form]
    result = run("sh", "-c", 'exec "$@" >/dev/full', "sh", *command)
    assert (result.returncode, result.stderr) == (1, "standard output: No space left on device\n")


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "soon"])
def test_timeout_that_can_not_be_kept_is_a_usage_error(timeout):
    printed = exchange("--timeout", timeout, status=2)
    assert printed == f"python -m dlpack.tests: argument --timeout: invalid seconds value: '{timeout}'\n"
    with pytest.raises(ValueError):
        tests.run(timeout=timeout)


def test_library_that_is_not_a_name_is_a_type_error():
    with pytest.raises(TypeError, match=r"library \['numpy'\]: expected a name such as 'numpy'"):
        tests.run(["numpy"])


def test_it_needs_nothing_but_python(tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    environ = {"PYTHONPATH": str(ROOT / "python")}
    printed = exchange(python=tmp_path / "venv" / "bin" / "python", environ=environ)
    assert "no library takes part" in printed
    assert re.search(r"^  bytes( +shared)+$", printed, re.MULTILINE)


def test_terminal_shows_what_is_tried():
    script = ["script", "--quiet", "--return", "--command", f"{sys.executable} -m dlpack.tests numpy", "/dev/null"]
    result = run(*script)
    assert result.returncode == 0
    assert re.search(r"^0/1 numpy takes layouts: 1-d +$", result.stdout, re.MULTILINE)
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_ends_it_and_all_that_it_started(number, tmp_path):
    (tmp_path / "torch.py").write_text(
        "import os, pathlib, signal\n"
        "child = os.fork() or signal.pause()\n"
        f"pathlib.Path({str(tmp_path / 'processes')!r}).write_text(f'{{os.getpid()}} {{child}}')\n"
        f"os.kill(int(os.environ['PARENT']), signal.{number})\n"
        "signal.pause()\n"
    )
    code = "import os, runpy, sys; os.environ['PARENT'] = str(os.getpid()); sys.argv[1:] = ['torch']; "
    code += "runpy.run_module('dlpack.tests', run_name='__main__')"
    result = run(sys.executable, "-c", code, environ=modules(tmp_path))
    assert (result.returncode, result.stdout) == (128 + signal.Signals[number], "")
    for process in (tmp_path / "processes").read_text().split():
        state = Path("/proc", process, "stat")
        assert not state.exists() or state.read_text().split()[2] == "Z"  # dead; its new parent has not looked yet


def test_words_of_a_library_are_printed_in_any_encoding(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('gr\u00fc\u00df')")
    environ = {**modules(tmp_path), "PYTHONIOENCODING": "ascii"}
    assert "torch: OSError: gr\\xfc\\xdf" in exchange("torch", status=1, environ=environ)


def test_control_characters_of_a_library_are_escaped(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('loud: \\0\\x1b[31m\\x9b\\u202e\\udcff')")
    printed = exchange("torch", "odd\x1b[31m", status=1, environ=modules(tmp_path))
    said = " ".join(printed.split())
    assert r"torch: OSError: loud: \x00\x1b[31m\x9b\u202e\udcff" in said
    assert r"odd\x1b[31m: unknown library" in said
    assert printed.replace("\n", "").isprintable()


def test_it_works_without_a_standard_error():
    command = f"{sys.executable} -m dlpack.tests numpy 2>&-"
    assert "0 failed" in run("sh", "-c", command).stdout


def test_unknown_library_is_one_line():
    printed = exchange("numpyy", "numpy", status=1)
    assert re.search(r"^ *numpyy: unknown library", printed, re.MULTILINE)
    assert re.search(r"^  bytes( +shared)+$", printed, re.MULTILINE)


def test_library_that_is_not_installed_is_one_line():
    printed = exchange("cupy", "numpy", status=1)
    assert "  cupy: not installed (pip install cupy-cuda13x)\n" in printed


BROKEN = {
    "raises": ("raise OSError('libfoo.so is missing')", "torch: OSError: libfoo.so is missing"),
    "exits": ("raise SystemExit(3)", "torch: SystemExit: 3"),
    "kills the process": ("import os; os.kill(os.getpid(), 9)", "torch: its process died of SIGKILL"),
    "ends the process": ("import os; os._exit(4)", "torch: its process ended with status 4"),
    "hangs": ("import signal; signal.pause()", "torch: still busy after 5 s"),
    "dies of a real-time signal": ("import os; os.kill(os.getpid(), 36)", "torch: its process died of signal 36"),
    "says what is no text": (
        "import os; os.write(1, b'caf\\xe9\\n'); os._exit(3)",
        "torch: its process ended with status 3 (caf\N{REPLACEMENT CHARACTER})",
    ),
    "writes where it should not": (
        "import os, sys; os.write(int(sys.argv[2]), b'5\\n')",
        "torch: wrote b'5' to a file that",
    ),
    "has no from_dlpack": ("", "torch: AttributeError: module 'torch' has no attribute"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_library_that(how, tmp_path):
    """... is one line and one failed column, and the others are tried all the same."""
    code, line = BROKEN[how]
    found = broken(tmp_path, "torch", "numpy", "--timeout", "5", torch=code)
    printed = "\n".join(lines(found))
    assert len(re.findall(rf"^ *{re.escape(line)}", printed, re.MULTILINE)) == 1, printed
    outcomes = outcomes_of(found)
    assert outcomes["numpy", "bytes"] == "shared"
    assert outcomes["torch", "bytes"] == "failed"


DEADLY = {
    "kills its process": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    "hangs": ("signal.pause()", "still busy after 2"),
}


@pytest.mark.parametrize("how", DEADLY)
def test_exchange_that(how, tmp_path):
    """... is one failed cell in each column, and the rest is tried all the same."""
    code, text = DEADLY[how]
    imports = "import os, signal\nfrom dlpack.tests.libraries import layouts\n"
    breaks = f"{imports}layouts.PROVIDERS['columns'] = lambda: {code}\n"
    found = broken(tmp_path, "numpy", "--timeout", "2", sitecustomize=breaks)
    failed = [each for each in found.exchanges if each.failed]
    assert [each.provider for each in failed] == ["columns"] * 4
    assert all(text in each.text for each in failed)


def test_check_that_kills_its_process_is_one_failed_check(tmp_path):
    breaks = "import os\nfrom exchanges import numpy\n"
    breaks += "numpy.CHECKS = {'takes a: b': lambda: os._exit(3), 'goes on': lambda: None}\n"
    found = broken(tmp_path, "numpy", command=EXCHANGES, sitecustomize=breaks)
    assert [(each.name, each.outcome) for each in found.checks] == [("takes a: b", "failed"), ("goes on", "passed")]
    assert outcomes_of(found)["numpy", "bytes"] == "shared"


def test_crash_in_a_reused_process_is_tried_again_in_a_new_one(tmp_path):
    damages = "import os\nfrom dlpack.tests.libraries import layouts\nfrom exchanges import ml_dtypes\n"
    damages += "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # one exchange at a time\n"
    damages += "def check():\n    layouts.PROVIDERS['columns'] = lambda: os._exit(1)\n    raise OSError\n"
    damages += "ml_dtypes.CHECKS = {'damages': check}\n"
    found = broken(tmp_path, "ml_dtypes", "numpy", command=EXCHANGES, sitecustomize=damages)
    assert [each.name for each in found.failures] == ["damages"]
    assert outcomes_of(found)["numpy", "columns"] == "shared"


def test_broken_library_that_takes_nothing_is_not_a_column(tmp_path):
    found = broken(tmp_path, "PIL", "numpy", command=EXCHANGES, PIL="raise OSError('broken')")
    assert found.failures == ["PIL: OSError: broken"]
    assert {library_of(consumer) for consumer in found.consumers} == {"numpy"}


def test_library_whose_every_exchange_kills_is_given_up(tmp_path):
    breaks = "import os\nfrom dlpack.tests.libraries import layouts\n"
    breaks += "layouts.PROVIDERS = {name: lambda: os._exit(1) for name in layouts.PROVIDERS}\n"
    found = broken(tmp_path, "numpy", sitecustomize=breaks)
    assert found.problems == ["numpy: 8 processes died; what was left is not tried"]
