"""`python -m dlpack`, as it is run: what it prints, and how it says what is wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dlpack
from dlpack._dlpack import _newest_version
from dlpack._libraries import LIBRARIES
from support.alone import run
from support.capi import look

PACKAGE = Path(dlpack.__file__).parent
COMMAND = [sys.executable, "-m", "dlpack"]
NAMES = [library.name for library in LIBRARIES]


def prints(*arguments, **options):
    result = run(*COMMAND, *arguments, **options)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def tells(*arguments, **options):
    return json.loads(prints("--json", *arguments, **options))


def refuses(*arguments, **options):
    """The one line that is printed."""
    result = run(*COMMAND, *arguments, **options)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("python -m dlpack: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("python -m dlpack: ").rstrip("\n")


def path_with(folder):
    """Modules are found in this folder before all others."""
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def install(folder, name, distribution, metadata, source="raise AssertionError('imported')"):
    """An installed library that no one can import."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)
    info = folder / f"{distribution.replace('-', '_')}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata)


@pytest.fixture
def nothing_installed(tmp_path):
    """Options for an interpreter that finds this package and no other."""
    (tmp_path / "dlpack").symlink_to(PACKAGE)
    return [sys.executable, "-S", "-m", "dlpack"], {"PYTHONPATH": str(tmp_path)}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(40)))
    return path


def test_the_report_has_a_line_for_each_fact_in_plain_text():
    text = prints(environ={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    lines = text.splitlines()
    labels = ["dlpack", "package", "extension", "core", "exports", "Python", "platform", "CUDA driver", "libraries"]
    assert [line[:13].rstrip() for line in lines[:9]] == labels
    assert lines[0] == f"dlpack       {dlpack.__version__}"
    assert lines[1] == f"package      {PACKAGE}"
    assert lines[4] == "exports      DLPack {}.{} and legacy".format(*_newest_version)
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert [line for line in lines if line != line.rstrip()] == []


def test_the_report_as_json_has_the_same_facts():
    about = tells()
    system = os.uname()
    assert about["version"] == dlpack.__version__
    assert about["package"] == str(PACKAGE)
    assert about["extension"] == dlpack._dlpack.__file__
    assert about["core"] == str(PACKAGE / "_core.so")
    assert about["python"] == {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": "cpython",
        "free_threaded": "t" in sys.abiflags,
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }
    assert about["platform"] == {
        "system": "Linux",
        "release": system.release,
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "machine": system.machine,
    }
    assert list(about)[-2:] == ["cuda_driver", "libraries"]
    assert Path(about["extension"]).is_file()
    assert Path(about["core"]).is_file()
    version = look(dlpack.asdlpack(b"").__dlpack__(max_version=(99, 0))).version
    assert about["exports"] == [f"{version.major}.{version.minor}", "legacy"]


def test_a_core_that_is_missing_is_reported_and_not_needed(tmp_path, file):
    copy = shutil.copytree(PACKAGE, tmp_path / "dlpack", ignore=shutil.ignore_patterns("_core.so"))
    elsewhere = path_with(tmp_path)
    assert f"{copy / '_core.so'} is missing" in prints(environ=elsewhere)
    assert prints(file, environ=elsewhere).startswith("file ")


def test_installed_libraries_are_listed_with_versions_and_not_imported(tmp_path):
    for library in LIBRARIES:
        install(tmp_path, library.name, library.distributions[0], "Name: x\nVersion: 1.2.3\n")
    libraries = tells(environ=path_with(tmp_path))["libraries"]
    assert libraries == [{"name": each.name, "version": "1.2.3", "speaks": each.speaks} for each in LIBRARIES]
    lines = prints(environ=path_with(tmp_path)).splitlines()[9:]
    assert [line.split()[:2] for line in lines] == [[name, "1.2.3"] for name in NAMES]
    assert len({line.index("1.2.3") for line in lines}) == 1


def test_a_library_without_a_version_is_listed_with_a_question_mark(tmp_path):
    install(tmp_path, "polars", "polars", "")
    (polars,) = [line for line in prints(environ=path_with(tmp_path)).splitlines() if line.startswith("  polars ")]
    assert polars.split()[1] == "?"
    assert {"polars": None}.items() <= {
        each["name"]: each["version"] for each in tells(environ=path_with(tmp_path))["libraries"]
    }.items()


def test_broken_metadata_of_other_distributions_hides_no_conflict(tmp_path):
    line = b"dlpack/__init__.py,,\n"
    found = ("a", b"\xff", line), ("b", b"", b"\xff"), ("c", b"", line), ("pydlpack", b"Name: pydlpack\n", line)
    for name, metadata, record in found:
        info = tmp_path / f"{name}-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_bytes(metadata)
        (info / "RECORD").write_bytes(record)
    assert "pip uninstall --yes dlpack-go pydlpack, then" in tells(environ=path_with(tmp_path))["conflict"]


def test_a_conflict_warning_names_the_line_of_the_import(tmp_path):
    package = shutil.copytree(PACKAGE, tmp_path / "dlpack")
    (package / "capsule.py").touch()  # pydlpack's
    script = tmp_path / "script.py"
    script.write_text("\nimport dlpack\n")
    assert run(sys.executable, script).stderr.startswith(f"{script}:2: UserWarning: {package} holds files of pydlpack;")


def test_without_libraries_there_are_none(nothing_installed, tmp_path):
    command, environ = nothing_installed
    (tmp_path / "onnx").mkdir()  # a folder of models, say, which can be imported as well
    result = run(*command, environ=environ)
    assert result.stdout.splitlines()[-1] == "libraries    none"
    assert json.loads(run(*command, "--json", environ=environ).stdout)["libraries"] == []


@pytest.mark.parametrize(
    ("body", "version"),
    [("*version = 13010; return 0;", "13.1"), ("return 34;", "unknown: cuDriverGetVersion returned 34"), (None, None)],
)
def test_the_version_of_the_cuda_driver_is_read_without_starting_it(tmp_path, body, version):
    driver, source = tmp_path / "libcuda.so.1", tmp_path / "driver.c"
    if body is None:
        driver.write_text("not a library, and the first that is found")
    else:
        start = "#include <stdlib.h>\nint cuInit(unsigned flags) { abort(); }\n"
        source.write_text(f"{start}int cuDriverGetVersion(int *version) {{ {body} }}\n")
        result = run("cc", "-shared", "-fPIC", "-o", driver, source)
        assert result.returncode == 0, result.stderr
    environ = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert tells(environ=environ)["cuda_driver"] == version
    assert f"CUDA driver  {version or 'none'}\n" in prints(environ=environ)


def test_a_file_is_described(file):
    options = [file, "--dtype", "float32", "--shape", "2,3", "--offset", "8"]
    facts = tells(*options)
    lines = dict(line.split(None, 1) for line in prints(*options).splitlines())
    assert list(lines) == list(facts)
    for found, address in (facts, facts["pointer"]), (lines, int(lines["pointer"], 16)):
        assert address % 4096 == 8
        start = f"<dlpack.DLPackObject: float32[2, 3] at {address:#x}, 24 bytes on kDLCPU:0, read-only"
        assert found.pop("repr").startswith(start)
        del found["pointer"]
    assert facts == {
        "file": str(file),
        "file_bytes": 40,
        "offset": 8,
        "owner": "mmap.mmap",
        "protocol": "buffer",
        "version": None,
        "flags": None,
        "device": "kDLCPU:0",
        "dtype": "float32",
        "shape": [2, 3],
        "strides": [3, 1],
        "byte_strides": [12, 4],
        "size": 6,
        "itemsize": 4,
        "nbytes": 24,
        "alignment": 8,
        "contiguous": "C",
        "readonly": True,
    }
    as_text = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
    assert lines == {name: "-" if value is None else str(value) for name, value in as_text.items()}


@pytest.mark.parametrize(
    ("options", "nbytes"),
    [([], 40), (["--dtype", "uint8", "--shape", "40"], 40), (["--dtype", "int4", "--shape", "2"], 1)],
)
def test_a_file_is_bytes_and_all_of_them_unless_said_otherwise(file, options, nbytes):
    facts = tells(file, *options)
    assert (facts["dtype"], facts["nbytes"]) == (options[1] if options else "uint8", nbytes)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [(["--shape", "-1"], [40]), (["--shape", "-1,8"], [5, 8]), (["--dtype", "int64", "--offset", "8"], [4])],
)
def test_one_dimension_may_be_what_is_there(file, arguments, shape):
    assert tells(file, *arguments)["shape"] == shape


def test_an_array_without_items_has_no_address(file):
    assert tells(file, "--shape", "0")["pointer"] == 0
    assert "pointer       0x0\n" in prints(file, "--shape", "0")


def test_an_empty_file_is_an_array_without_items(tmp_path):
    (tmp_path / "empty").touch()
    facts = tells(tmp_path / "empty")
    assert (facts["file_bytes"], facts["shape"]) == (0, [0])


def test_a_file_is_not_read_so_it_may_be_larger_than_memory(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert tells(path, "--dtype", "float64")["shape"] == [1 << 37]


@pytest.mark.parametrize("name", [b"a b\\", "f\u00fcr \U0001f600".encode()])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_any_file_name_can_be_printed(tmp_path, name, locale):
    path = os.path.join(os.fsencode(tmp_path), name)
    with open(path, "wb") as file:
        file.write(b"1")
    for option in [], ["--json"]:
        result = subprocess.run([*COMMAND, path, *option], capture_output=True, env={**os.environ, "LC_ALL": locale})
        assert (result.returncode, result.stderr) == (0, b"")
        if option:
            assert os.fsencode(json.loads(result.stdout)["file"]) == path
        else:
            assert result.stdout.startswith(b"file          " + path + b"\n")


# Begins a colour, a row, a deletion, a command of 8-bit terminals, writing to the left; ends in a byte outside UTF-8.
ODD = "a\x1b[31m\nfile_bytes    9\x7f\x9bA\u202eb\udcff"
ODD_SHOWN = r"a\x1b[31m\nfile_bytes    9\x7f\x9bA\u202eb\udcff"


def test_file_name_of_control_characters_is_one_plain_row(tmp_path):
    path = tmp_path / ODD
    path.write_bytes(b"1")
    lines = prints(path).split("\n")
    assert lines[0] == f"file          {tmp_path}/{ODD_SHOWN}"
    assert lines[1:3] == ["file_bytes    1", "offset        0"]
    assert "".join(lines).isprintable()
    assert tells(path)["file"] == str(path)


@pytest.mark.parametrize(
    "arguments",
    [[ODD], ["README", ODD], [f"--{ODD}"], ["--offset", ODD], [".", "--shape", ODD], ["--json", "--dtype", ODD]],
)
def test_error_shows_control_characters_of_an_argument_escaped(arguments):
    assert refuses(*arguments).isprintable()


def test_report_shows_control_characters_of_a_version_escaped(tmp_path):
    install(tmp_path, "polars", "polars", "Version: 1\x1b[31m\x9b\n")
    text = prints(environ=path_with(tmp_path))
    assert re.search(r"^  polars +1\\x1b\[31m\\x9b +Arrow$", text, re.MULTILINE)
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--offset", "-1"], "offset: expected bytes, an int of 64 bits from 0 on, got -1"),
        (["--dtype", "float32", "--shape", "3,4"], "has 40 bytes; shape and offset need bytes 0 to 48"),
        (["--shape", "-1,-1"], "shape dimension 1 is -1, beside another"),
        (["--dtype", "int32", "--offset", "1", "--shape", "1"], "in Python, memmap says: offset 1: expected a"),
    ],
)
def test_array_that_the_file_does_not_hold_is_refused(file, arguments, message):
    assert message in refuses(file, *arguments)


@pytest.mark.parametrize("shape", ["", ",", "2,,3", "2,3,", "2x3", "(2,3)", "-2", "1.5", "1_0", "9" * 20, "\u0663"])
def test_a_malformed_shape_is_refused(file, shape):
    quoted = json.dumps(shape, ensure_ascii=False)
    assert refuses(file, "--shape", shape) == f"--shape {quoted}: expected numbers such as 2,3, of which one may be -1"


def test_a_file_that_cannot_be_mapped_is_refused(tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    os.mkfifo(tmp_path / "pipe")
    irregular = "only a regular file can be mapped; read this one"
    assert refuses(tmp_path / "none") == f'"{tmp_path}/none": no such file or directory'
    assert refuses(tmp_path) == f'"{tmp_path}": is a directory'
    assert refuses(tmp_path / "pipe") == f'"{tmp_path}/pipe": {irregular}'
    assert refuses("/dev/zero") == f'"/dev/zero": {irregular}'
    assert refuses("/proc/self/status") == '"/proc/self/status": a file without a size can\'t be mapped; read it'
    assert refuses(empty / "below") == f'"{empty}/below": not a directory'
    assert refuses("") == '"": no such file or directory'
    assert refuses("two\nlines") == '"two\\nlines": no such file or directory'


@pytest.mark.parametrize("option", ["--dtype", "--shape", "--offset"])
def test_an_option_for_a_file_needs_the_file(option):
    assert refuses(option, "1") == f"{option} describes FILE; expected FILE too"


def test_unknown_and_malformed_options_are_refused(file):
    assert refuses("--jso") == "unrecognized arguments: --jso"
    assert refuses(file, file) == f"unrecognized arguments: {file}"
    assert refuses(file, "--dtype") == "argument --dtype: expected one argument"
    assert refuses(file, "--shape", "--json") == "argument --shape: expected one argument"
    assert refuses(file, "--offset", "x") == "argument --offset: invalid int value: 'x'"


def test_the_version_is_printed():
    assert prints("--version") == f"dlpack {dlpack.__version__}\n"


def test_help_names_every_option():
    text = prints("--help", environ={"COLUMNS": "80", "NO_COLOR": "1"})
    assert text.startswith("usage: python -m dlpack ")
    assert all(option in text for option in ["FILE", "--dtype", "--shape", "--offset", "--json", "--version"])
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_reader_that_leaves_ends_it_quietly(file):
    for arguments in [], ["--json"], [file]:
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([*COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (result.returncode, result.stderr) == (-signal.SIGPIPE, b"")


def test_output_that_cannot_be_written_is_an_error(file):
    with open("/dev/full", "wb") as full:
        result = subprocess.run([*COMMAND, file], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (2, "python -m dlpack: standard output: no space left on device\n")
    closed = run("sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, file)
    assert (closed.returncode, closed.stderr) == (2, "python -m dlpack: standard output: bad file descriptor\n")


def test_a_conflict_ends_no_program_whose_warnings_are_errors(tmp_path):
    package = shutil.copytree(PACKAGE, tmp_path / "dlpack")
    (package / "capsule.py").touch()  # pydlpack's
    script = tmp_path / "script.py"
    script.write_text("import dlpack\nprint(dlpack.asdlpack(b'abc').nbytes)\n")
    result = run(sys.executable, "-W", "error", script)
    assert (result.returncode, result.stdout) == (0, "3\n"), result.stderr
