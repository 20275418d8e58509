"""`python -m dlpack.tests`: its arguments, and what it says of libraries that are missing or broken."""

import json
import re
import signal
import sys
import venv
from pathlib import Path

import pytest

from dlpack import tests
from dlpack._libraries import LIBRARIES
from support.alone import ROOT, run
from support.tool import exchange, library_of


def modules_of(folder):
    """The package, and modules of this folder before all others."""
    return {"PYTHONPATH": f"{folder}:{ROOT / 'python'}"}


def tried(tmp_path, *options, **modules):
    """What is printed and found where these modules are installed, which break something if there are any."""
    for name, code in modules.items():
        (tmp_path / f"{name}.py").write_text(code)
    file = tmp_path / "report.json"
    printed = exchange(*options, "--json", file, status=1 if modules else 0, environ=modules_of(tmp_path))
    return printed, tests.Report.from_dict(json.loads(file.read_text()))


def test_the_named_libraries_alone_take_part(tmp_path):
    printed, found = tried(tmp_path, "numpy", "--html", tmp_path / "report.html")
    assert list(found.libraries) == ["numpy"]
    assert {library_of(consumer) for consumer in found.consumers} == {"numpy"}
    assert {each.section for each in found.exchanges} == {"standard library", "layouts", "data types", "numpy"}
    assert re.search(r"^  bytearray  .*shared$", printed, re.MULTILINE)
    assert "\x1b" not in printed
    page = (tmp_path / "report.html").read_text()
    assert "bytearray" in page and "numpy" in page


def test_closed_standard_descriptors_change_nothing(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "dlpack.tests", "numpy", "-k", "float32", "--json", str(report)]
    assert run("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command).returncode == 0
    assert tests.Report.from_dict(json.loads(report.read_text())).exchanges


@pytest.mark.parametrize("rich", [True, False])
def test_output_that_can_not_be_written_is_one_line(tmp_path, rich):
    report = tmp_path / "report.json"
    if not rich:
        (tmp_path / "rich.py").write_text("raise OSError")
    command = [sys.executable, "-m", "dlpack.tests", "numpy", "-k", "float32", "--json", str(report)]
    result = run("sh", "-c", 'exec "$@" >/dev/full', "sh", *command, environ=modules_of(tmp_path))
    assert (result.returncode, result.stderr.splitlines()[-1]) == (1, "standard output: No space left on device")
    assert result.stderr.count("\n") == (1 if rich else 2)  # that there is no rich
    assert tests.Report.from_dict(json.loads(report.read_text())).exchanges


def test_an_expression_chooses(tmp_path):
    expression = "numpy and (bytearray or MMAP) and not (read-only or mem)"
    _, found = tried(tmp_path, "numpy", "-k", expression)
    assert {each.provider for each in found.exchanges} == {"bytearray", "mmap"}


@pytest.mark.parametrize("expression", ["numpy and", "(", "not", "a b", "a (b)", "not " * 30_000 + "a"])
def test_an_expression_that_is_none_is_a_usage_error(expression):
    assert "expected words joined by and, or, not" in exchange("-k", expression, status=2)
    with pytest.raises(ValueError, match="expected words"):
        tests.run(expression=expression)


@pytest.mark.parametrize(
    "arguments", [("--timeout", "0"), ("--timeout", "-1"), ("--timeout", "nan"), ("--timeout", "inf"), ("--jobs", "0")]
)
def test_an_argument_of_no_use_is_a_usage_error(arguments, tmp_path):
    file = tmp_path / "report.json"
    file.write_text("an earlier report")
    assert f"{arguments[0].strip('-')} {arguments[1]}: expected" in exchange(*arguments, "--json", file, status=2)
    assert file.read_text() == "an earlier report"


def test_a_library_that_is_no_name_is_a_type_error():
    with pytest.raises(TypeError, match=r"library \['numpy'\]: expected a name such as 'numpy'"):
        tests.run(["numpy"])


def test_an_expression_that_chooses_nothing_is_a_failure():
    assert "-k 'nosuch': chooses nothing" in exchange("numpy", "-k", "nosuch", status=1)


def test_it_needs_nothing_but_python(tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    printed = exchange("-k", "C and not leaves", python=python, environ={"PYTHONPATH": str(ROOT / "python")})
    assert "pip install 'dlpack-go[tests]'" in printed
    assert "no library takes part" in printed
    assert re.search(r"^  bytes( +shared)+$", printed, re.MULTILINE)


def test_a_terminal_shows_colours_and_a_bar():
    script = ["script", "--quiet", "--return", "--command", f"{sys.executable} -m dlpack.tests numpy", "/dev/null"]
    result = run(*script, environ={"TERM": "xterm-256color", "COLUMNS": "100"})
    assert result.returncode == 0
    assert re.search(r"bytearray +\x1b\[32m +shared\x1b\[0m", result.stdout)
    assert re.search(r"━.*0/1", result.stdout)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_and_all_that_it_started(number, tmp_path):
    (tmp_path / "torch.py").write_text(
        "import os, pathlib, signal\n"
        "child = os.fork() or signal.pause()\n"
        f"pathlib.Path({str(tmp_path / 'processes')!r}).write_text(f'{{os.getpid()}} {{child}}')\n"
        f"os.kill(int(os.environ['PARENT']), signal.{number})\n"
        "signal.pause()\n"
    )
    code = "import os, runpy, sys; os.environ['PARENT'] = str(os.getpid()); sys.argv[1:] = ['torch']; "
    code += "runpy.run_module('dlpack.tests', run_name='__main__')"
    result = run(sys.executable, "-c", code, environ=modules_of(tmp_path))
    assert (result.returncode, result.stdout) == (128 + signal.Signals[number], "")
    for process in (tmp_path / "processes").read_text().split():
        state = Path("/proc", process, "stat")
        assert not state.exists() or state.read_text().split()[2] == "Z"  # dead; its new parent has not looked yet


def test_what_a_library_says_is_printed_in_any_encoding(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('gr\u00fc\u00df')")
    environ = {**modules_of(tmp_path), "PYTHONIOENCODING": "ascii"}
    printed = exchange("torch", "--html", tmp_path / "report.html", status=1, environ=environ)
    assert "torch: OSError: gr\\xfc\\xdf" in printed
    assert "gr\u00fc\u00df" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("rich", [True, False])
def test_terminal_shows_control_characters_of_a_library_escaped(tmp_path, rich):
    (tmp_path / "torch.py").write_text("raise OSError('loud: \\0\\x1b[31m\\x9b\\u202e\\udcff')")
    if not rich:
        (tmp_path / "rich.py").write_text("raise OSError")
    missing = tmp_path / "none\x1b[31m" / "file"
    printed = exchange("torch", "odd\x1b[31m", "--json", missing, status=1, environ=modules_of(tmp_path))
    said = " ".join(printed.split())
    assert r"torch: OSError: loud: \x00\x1b[31m\x9b\u202e\udcff" in said
    assert r"odd\x1b[31m: unknown library" in said
    assert r"none\x1b[31m/file: No such file" in said
    assert printed.replace("\n", "").isprintable()


def test_a_broken_rich_is_no_rich(tmp_path):
    (tmp_path / "rich.py").write_text("raise OSError")
    assert "no colours" in exchange("numpy", "-k", "bytes", environ=modules_of(tmp_path))


def test_it_works_without_a_standard_error():
    command = f"{sys.executable} -m dlpack.tests numpy -k bytes 2>&-"
    assert "0 failed" in run("sh", "-c", command).stdout


def test_a_library_that_it_does_not_know_is_one_line():
    printed = exchange("numpyy", "numpy", "-k", "numpy and bytes", status=1)
    assert re.search(r"^ *numpyy: unknown library", printed, re.MULTILINE)
    assert re.search(r"^  bytes( +shared)+$", printed, re.MULTILINE)


def test_a_library_that_is_not_installed_is_one_line():
    absent = next(each for each in LIBRARIES if each.name == "mxnet")
    printed = exchange(absent.name, "numpy", "-k", "numpy and bytes", status=1)
    assert f"{absent.name}: not installed (pip install {absent.distributions[0]})" in printed


def test_a_file_that_can_not_be_written_is_one_line(tmp_path):
    printed = exchange("numpy", "-k", "bytes", "--html", tmp_path, "--json", tmp_path / "a" / "b", status=1)
    assert f"--html {tmp_path}: Is a directory" in printed.replace("\n  ", " ")
    assert "No such file or directory" in printed
    assert "--json /dev/full: No space left on device" in exchange("numpy", "--json", "/dev/full", status=1)


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
def test_a_library_that(how, tmp_path):
    """... is one line and one failed column, and the others are tried all the same."""
    code, line = BROKEN[how]
    printed, found = tried(tmp_path, "torch", "numpy", "-k", "bytes", "--timeout", "5", torch=code)
    assert len(re.findall(rf"^ *{re.escape(line)}", printed, re.MULTILINE)) == 1, printed
    outcomes = {(each.consumer, each.provider): each.outcome for each in found.exchanges}
    assert outcomes["numpy", "bytes"] == "shared"
    assert outcomes["torch", "bytes"] == "failed"


DEADLY = {
    "kills its process": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    "hangs": ("signal.pause()", "still busy after 2"),
}


@pytest.mark.parametrize("how", DEADLY)
def test_an_exchange_that(how, tmp_path):
    """... is one failed cell in each column, and the rest is tried all the same."""
    code, text = DEADLY[how]
    imports = "import os, signal\nfrom dlpack.tests.libraries import layouts\n"
    breaks = f"{imports}layouts.PROVIDERS['columns'] = lambda: {code}\n"
    _, found = tried(tmp_path, "numpy", "-k", "column or broadcast", "--timeout", "2", sitecustomize=breaks)
    outcomes = {each.provider: (each.outcome, each.text) for each in found.exchanges}
    assert outcomes["columns"][0] == "failed" and text in outcomes["columns"][1]
    assert outcomes["one column"][0] == outcomes["broadcast"][0] == "shared"


def test_a_check_that_kills_its_process_is_one_failed_check(tmp_path):
    breaks = "import os\nfrom dlpack.tests.libraries import numpy\n"
    breaks += "numpy.CHECKS = {'takes a: b': lambda: os._exit(3), 'goes on': lambda: None}\n"
    _, found = tried(tmp_path, "numpy", "-k", "bytes or takes or goes", sitecustomize=breaks)
    assert [(each.name, each.outcome) for each in found.checks] == [("takes a: b", "failed"), ("goes on", "passed")]
    assert "bytes" in [each.provider for each in found.exchanges if each.outcome == "shared"]


def test_a_crash_in_a_reused_process_is_tried_again_in_a_new_one(tmp_path):
    damages = "import os\nfrom dlpack.tests.libraries import layouts, ml_dtypes\n"
    damages += "def check():\n    layouts.PROVIDERS['columns'] = lambda: os._exit(1)\n    raise OSError\n"
    damages += "ml_dtypes.CHECKS = {'damages': check}\n"
    options = "--jobs", "1", "-k", "columns or damages"
    _, found = tried(tmp_path, "ml_dtypes", "numpy", *options, sitecustomize=damages)
    assert [(each.name, each.outcome) for each in found.checks] == [("damages", "failed")]
    assert {(each.provider, each.outcome) for each in found.exchanges} == {("columns", "shared")}


def test_a_broken_library_that_takes_nothing_is_no_column(tmp_path):
    printed, found = tried(tmp_path, "PIL", "numpy", "-k", "bytes", PIL="raise OSError('broken')")
    assert "PIL: OSError: broken" in printed
    assert {library_of(consumer) for consumer in found.consumers} == {"numpy"}


def test_a_library_whose_every_exchange_kills_is_given_up(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nfrom dlpack.tests.libraries import layouts\n"
        "layouts.PROVIDERS = {name: lambda: os._exit(1) for name in layouts.PROVIDERS}\n"
    )
    printed = exchange("numpy", "-k", "layouts or types", status=1, environ=modules_of(tmp_path))
    assert "numpy: 8 processes died; what was left is not tried" in printed
