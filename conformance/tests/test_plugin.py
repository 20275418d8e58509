"""The plugin: options, fixtures, ids, markers, outcomes and what is shown."""

import os
import re
import subprocess
import sys

import pytest

from pytest_dlpack.rules import RULES

OPTIONS = ["--pyargs", "pytest_dlpack", "--dlpack-producer=library:make", "--dlpack-consumer=library:take"]
NUMPY = "import numpy\nmake = numpy.asarray\ntake = numpy.from_dlpack\n"
WRONG = """
import numpy
class Array:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **keywords): return self.array.__dlpack__(**keywords)
    def __dlpack_device__(self): return "cpu"
make = Array
take = numpy.from_dlpack
"""
LOUD = """
def take(obj):
    raise ValueError("loud: \\0\\x1b[31m\\x9b\\u202e\\udcff")
def make(array):
    raise NotImplementedError("loud: \\0\\x1b[31m\\x9b\\u202e\\udcff")
"""
LOUD_SHOWN = r"loud: \x00\x1b[31m\x9b\u202e\udcff"


def pytest_of(folder, *options, status=0):
    """Runs pytest in a folder, and returns its output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-rsx", "--rootdir=.", *options]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"COLUMNS": "200", "PYTHONPATH": path}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def library(tmp_path):
    (tmp_path / "library.py").write_text(NUMPY)
    return tmp_path


def test_each_rule_is_a_test(library):
    printed = pytest_of(library, *OPTIONS, "--collect-only", "-q")
    assert re.findall(r"test_rule\[(.+)\]", printed) == [*RULES]
    chosen = pytest_of(library, *OPTIONS[:3], "--collect-only", "-q", "-m", "must")
    musts = [rule.id for rule in RULES.values() if (rule.side, rule.severity) == ("producer", "must")]
    assert re.findall(r"test_rule\[(.+)\]", chosen) == musts


def test_outcomes_are_pytests(library):
    (library / "library.py").write_text(WRONG)
    chosen = ["-k", "producer-make or producer-device or size-0-null or on-cuda"]
    printed = pytest_of(library, *OPTIONS, *chosen, status=1)
    for rule, outcome in {
        "producer-make": "PASSED",
        "producer-device": "FAILED",
        "producer-size-0-null": "XFAIL",
        "producer-stream-0-on-cuda": "SKIPPED",
    }.items():
        assert f"test_rule[{rule}] {outcome}" in printed
    rule = RULES["producer-device"]
    text = f"{rule.gist}\nseen: __dlpack_device__ returned 'cpu', expected a tuple of 2\nsource: {rule.source}"
    assert text in printed


MINE = """
import numpy
import pytest

def make(array):
    return numpy.asarray(array)

@pytest.fixture(scope="session")
def dlpack_producer():
    return {producer}

def test_rule(dlpack_rule):
    dlpack_rule()
"""


@pytest.mark.parametrize("producer", ['"library:make"', "make"], ids=["a name", "a function"])
def test_fixtures_name_the_library(producer, library):
    (library / "test_mine.py").write_text(MINE.format(producer=producer))
    printed = pytest_of(library, "-k", "producer-make or consumer-take")
    assert "test_mine.py::test_rule[producer-make] PASSED" in printed and "consumer-take" not in printed
    assert "test_rule[consumer-take] PASSED" in pytest_of(library, OPTIONS[3], "-k", "producer-make or consumer-take")


def test_fixtures_in_conftest_name_the_library_for_the_package(library):
    (library / "conftest.py").write_text(MINE.partition("def test_rule")[0].format(producer="make"))
    printed = pytest_of(library, *OPTIONS[:2], "-k", "producer-make or consumer-take")
    assert "test_rule[producer-make] PASSED" in printed and "consumer-take" not in printed


def test_each_test_file_has_its_own_library(library):
    (library / "test_first.py").write_text(MINE.format(producer="make"))
    (library / "test_second.py").write_text(MINE.format(producer='"nosuch:make"'))
    printed = pytest_of(library, "-k", "producer-make", status=1)
    assert "test_first.py::test_rule[producer-make] PASSED" in printed
    assert "test_second.py::test_rule[producer-make] FAILED" in printed


CLASSES = """
import pytest

class TestFirst:
    @pytest.fixture
    def dlpack_producer(self):
        return "library:make"

    def test_rule(self, dlpack_rule):
        dlpack_rule()

class TestSecond(TestFirst):
    @pytest.fixture(scope="class", params=["nosuch:make", "library:make"])
    def dlpack_producer(self, request):
        return request.param

@pytest.mark.parametrize("dlpack_producer", ["library:make"])
def test_rule(dlpack_rule):
    dlpack_rule()
"""


def test_each_class_and_parameter_has_its_own_library(library):
    (library / "test_mine.py").write_text(CLASSES)
    printed = pytest_of(library, "-k", "producer-make", status=1)
    for test, outcome in {
        "TestFirst::test_rule[producer-make]": "PASSED",
        "TestSecond::test_rule[nosuch:make-producer-make]": "FAILED",
        "TestSecond::test_rule[library:make-producer-make]": "PASSED",
        "test_rule[producer-make-library:make]": "PASSED",
    }.items():
        assert f"test_mine.py::{test} {outcome}" in printed


def test_known_failures_are_strict(library):
    (library / "library.py").write_text(WRONG)
    known = ["-o", "dlpack_xfail=producer-device: the device is a word"]
    assert "the device is a word" in pytest_of(library, *OPTIONS, *known, "-k", "producer-device-of or producer-device")
    (library / "library.py").write_text(NUMPY)
    printed = pytest_of(library, *OPTIONS, *known, "-k", "producer-device", status=1)
    assert "[XPASS(strict)] the device is a word" in printed


def test_control_characters_of_a_library_are_escaped(library):
    """XML has none of them, and a terminal obeys them."""
    (library / "library.py").write_text(LOUD)
    printed = pytest_of(library, *OPTIONS, "-k", "producer-make or consumer-take", "--junitxml=junit.xml", status=1)
    assert printed.count(LOUD_SHOWN) > 1
    assert LOUD_SHOWN in (library / "junit.xml").read_text()
    assert printed.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --dlpack-producer or --dlpack-consumer, or a fixture with such a name"),
        (["--dlpack-producer=numpy"], "producer 'numpy': expected MODULE:NAME"),
        (["--dlpack-producer=a:b", "-o", "dlpack_xfail=nosuch: why"], "nosuch: why: expected RULE: REASON"),
        (["--dlpack-producer=a:b", "-o", "dlpack_xfail=producer-fork"], "producer-fork:: expected RULE: REASON"),
    ],
)
def test_options_of_no_use_are_told_once(options, message, tmp_path):
    printed = pytest_of(tmp_path, "--pyargs", "pytest_dlpack", *options, status=2)
    assert printed.count(message) == 1 and ".py:" not in printed  # no traceback


def test_a_file_that_names_no_library_is_told(tmp_path):
    (tmp_path / "test_mine.py").write_text("def test_rule(dlpack_rule):\n    dlpack_rule()\n")
    printed = pytest_of(tmp_path, status=2)
    assert printed.count("expected --dlpack-producer or --dlpack-consumer, or a fixture with such a name") == 1


def test_a_run_that_asks_for_nothing_imports_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other plugins import numpy
    (tmp_path / "test_mine.py").write_text(
        "import sys\ndef test_it():\n    assert not {'numpy', 'pytest_dlpack.judge', 'dlpack'} & set(sys.modules)\n"
        "    assert 'pytest_dlpack.plugin' in sys.modules\n"
    )
    pytest_of(tmp_path, "-p", "pytest_dlpack.plugin")


def test_a_crash_that_no_rule_is_blamed_for_is_an_error(library):
    (library / "library.py").write_text(
        "import numpy, os\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: os.abort()\n    return numpy.from_dlpack(obj)\nmake = numpy.asarray\n"
    )
    printed = pytest_of(library, *OPTIONS, "-k", "consumer-take or consumer-keeps", status=1)
    assert "consumer-keeps, which is kept in a new process: its process died of SIGABRT" in printed
    assert "2 passed, " in printed and "1 error" in printed
