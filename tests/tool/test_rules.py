"""The rules of DLPack: each finds the fault that is seeded for it, and nothing is found where there is none."""

import json
import os
import re
import signal
import sys
import sysconfig
import tomllib
from xml.etree import ElementTree

import numpy as np
import pytest

from dlpack import asdlpack, tests
from dlpack.tests.exchange import difference
from dlpack.tests.judge import Judge
from dlpack.tests.rules import RULES
from dlpack.tests.rules.rule import HEADER
from support.alone import INCLUDE, ROOT, is_gone, run
from support.capi import Speaks, on_device
from support.tool import exchange

REFERENCE = {"producer": "reference:make", "consumer": "reference:take"}
DEVICES = {
    "producer-stream-below-minus-1": "2",
    "producer-stream-0-on-cuda": "2",
    "producer-streams-1-and-2-on-rocm": "10",
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the reference, compiled."""
    folder = tmp_path_factory.mktemp("reference")
    flags = ["-shared", "-fPIC", "-Werror", f"-I{INCLUDE}", f"-I{sysconfig.get_path('include')}"]
    result = run("gcc", *flags, ROOT / "tests" / "tool" / "reference.c", "-o", folder / "reference.so")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(autouse=True)
def on_path(folder, tmp_path, monkeypatch):
    for each in folder, tmp_path:
        monkeypatch.syspath_prepend(each)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(folder), os.environ.get("PYTHONPATH", "")]))


def broken(found, severity):
    return {each.rule: each.text for each in found.broken(severity)}


@pytest.mark.parametrize("rule", RULES)
def test_a_seeded_fault_is_found_by_its_rule(rule, monkeypatch):
    monkeypatch.setenv("FAULT", rule)
    if rule in DEVICES:
        monkeypatch.setenv("DEVICE", DEVICES[rule])
    with Judge(REFERENCE, 30) as judge:
        found = judge.verdict(RULES[rule])
    assert found.outcome == "broken", found


@pytest.mark.parametrize("device", [None, "2", "10"])
def test_the_reference_conforms(device, monkeypatch):
    if device:
        monkeypatch.setenv("DEVICE", device)
    found = tests.conformance(**REFERENCE)
    assert (broken(found, "must"), broken(found, "should"), found.problems) == ({}, {}, [])
    skipped = {each.rule for each in found.verdicts if each.outcome == "skipped"}
    if not device:
        assert skipped == set(DEVICES)
    else:
        assert not {rule for rule in skipped if DEVICES.get(rule) == device}


def by_buffer(array):
    return asdlpack(memoryview(array))


def by_interface(array):
    return asdlpack(Speaks(__array_interface__=array.__array_interface__, array=array))


def by_capsule(array):
    return asdlpack(by_interface(array).__dlpack__(max_version=(1, 3)))


def by_producer(array):
    inner = by_interface(array)
    return asdlpack(Speaks(__dlpack__=inner.__dlpack__, __dlpack_device__=inner.__dlpack_device__))


def on_cuda(array):
    return on_device((2, 0))


def on_rocm(array):
    return on_device((10, 0))


def taken(obj):
    x = asdlpack(obj)
    assert x.ndim >= 0  # asdlpack asks when it has to
    return x


@pytest.mark.parametrize("make", [by_buffer, by_interface, by_capsule, by_producer])
def test_this_package_conforms_as_a_producer(make):
    found = tests.conformance(producer=f"{__name__}:{make.__name__}", name="dlpack")
    assert (broken(found, "must"), broken(found, "should"), found.problems) == ({}, {}, [])


@pytest.mark.parametrize("make", [on_cuda, on_rocm])
def test_this_package_refuses_the_same_streams_of_gpus(make):
    found = tests.conformance(producer=f"{__name__}:{make.__name__}", expression="stream or device")
    assert (broken(found, "must"), broken(found, "should"), found.problems) == ({}, {}, [])


def test_this_package_conforms_as_a_consumer():
    found = tests.conformance(consumer=f"{__name__}:taken", name="dlpack")
    assert (broken(found, "must"), broken(found, "should"), found.problems) == ({}, {}, [])


def test_numpy_follows_all_but_some_recommendations():
    """numpy/_core/src/multiarray/dlpack.c: fill_dl_tensor_information copies the data pointer whatever the size;
    from_dlpack compares the major version by >, knows no NULL shape or data, and adds byte_offset unchecked. The error
    for another device became a BufferError in numpy 2.5."""
    found = tests.conformance(producer="numpy:asarray", consumer="numpy:from_dlpack")
    shoulds = {"producer-size-0-null", "consumer-older-major", "consumer-malformed-shape", "consumer-malformed-data"}
    shoulds |= {"consumer-malformed-extent"} | ({"consumer-unknown-device"} if np.__version__ < "2.5" else set())
    assert (broken(found, "must"), {*broken(found, "should")}, found.problems) == ({}, shoulds, [])
    assert "SIGSEGV" in broken(found, "should")["consumer-malformed-shape"]


WELL = "conforms"
HABITS = {
    "raises": ("raise OSError('no device')", "OSError: no device"),
    "raises what has no text": ("raise OSError", "OSError"),
    "raises what fails to tell": (
        "raise type('Bad', (Exception,), {'__str__': lambda self: 1 / 0})",
        "Bad: (its text can't be had)",
    ),
    "raises what is no Exception": ("raise SystemExit(3)", "SystemExit: 3"),
    "returns nonsense": ("return 42", "returned int"),
    "returns what has a long name": ("return type('A' * 100_000, (), {})()", "returned AAAA"),
    "returns nothing": ("return None", "returned NoneType"),
    "hangs": ("signal.pause()", "still busy after 3 s"),
    "kills the process": ("os.kill(os.getpid(), 9)", "its process died of SIGKILL"),
    "ends the process": ("os._exit(0)", "its process ended"),
    "writes where it should not": ("os.write(int(sys.argv[2]), b'5\\n')", "wrote b'5' to a file that"),
    "prints": ("print('hello'); os.write(2, b'hello')", WELL),
    "reads": ("sys.stdin.read()", WELL),
    "forks": ("os.fork()", WELL),
}


@pytest.mark.parametrize("side", REFERENCE)
@pytest.mark.parametrize("habit", HABITS)
def test_a_make_or_take_that(habit, side, tmp_path):
    """... is one broken rule, and the rules of the other side are tried."""
    code, told = HABITS[habit]
    (tmp_path / "library.py").write_text(
        f"import os, reference, signal, sys\ndef bad(x):\n    {code}\n    return reference.{REFERENCE[side][-4:]}(x)\n"
    )
    found = tests.conformance(
        **REFERENCE | {side: "library:bad"},
        expression="make or take or producer-keywords or consumer-keeps",
        timeout=3,
    )
    outcomes = {each.rule: each for each in found.verdicts}
    if told == WELL:
        assert found.ok, str(found.broken("must"))
    else:
        first, *others = [each for rule, each in outcomes.items() if rule.startswith(side)]
        assert (first.outcome, {each.outcome for each in others}) == ("broken", {"skipped"})
        assert told in first.text and len(first.text) <= 2000
    assert {each.outcome for rule, each in outcomes.items() if not rule.startswith(side)} == {"kept"}


def test_a_library_that_forks_at_its_import_gets_its_own_verdicts(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, reference\nos.fork()\nmake, take = reference.make, reference.take\n"
    )
    found = tests.conformance(producer="library:make", consumer="library:take")
    alone = tests.conformance(**REFERENCE)
    assert [(each.rule, each.outcome) for each in found.verdicts] == [
        (each.rule, each.outcome) for each in alone.verdicts
    ]
    assert found.ok


def test_a_library_of_vectors_alone_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy, reference\ndef make(array):\n    if array.ndim != 1: raise NotImplementedError\n"
        "    return reference.make(array)\n"
        "def take(obj):\n    array = numpy.from_dlpack(obj)\n"
        "    if array.ndim != 1: raise BufferError('a vector only')\n    return array\n"
    )
    found = tests.conformance(producer="library:make", consumer="library:take", expression="not malformed")
    assert (broken(found, "must"), found.problems) == ({}, [])
    assert {each.rule: each.outcome for each in found.verdicts}["consumer-null-shape-of-0-dimensions"] == "skipped"


def test_a_consumer_that_frees_on_another_thread_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy, threading\nclass Late:\n    def __init__(self, array): self.array = array\n"
        "    def __dlpack_device__(self): return 1, 0\n"
        "    def __dlpack__(self, **keywords): return self.array.__dlpack__(**keywords)\n"
        "    def __del__(self): threading.Timer(0.02, id, [self.array]).start()\n"
        "def take(obj): return Late(numpy.from_dlpack(obj))\n"
    )
    found = tests.conformance(consumer="library:take", expression="deleter or many or null-manager")
    assert (broken(found, "must"), found.problems) == ({}, [])


def test_a_make_that_changes_the_data_type_is_told_to_refuse(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference\ndef make(array):\n    return reference.make(array.astype('float32'))\n"
    )
    found = tests.conformance(producer="library:make", expression="producer-data-types")
    text = "bool: dtype (code, bits, lanes) is (2, 32, 1), expected (6, 8, 1) (make raises NotImplementedError for"
    assert broken(found, "must")["producer-data-types"].startswith(text)


def test_a_slow_library_is_not_taken_for_a_leak_or_a_hang(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, time\nclass make:\n    def __init__(self, array): self.array = reference.make(array)\n"
        "    def __dlpack_device__(self): return 1, 0\n"
        "    def __dlpack__(self, **keywords):\n        time.sleep(0.001)\n"
        "        return self.array.__dlpack__(**keywords)\n"
    )
    found = tests.conformance(producer="library:make", expression="release-of-structure")
    assert [(each.outcome, each.text) for each in found.verdicts] == [
        ("skipped", "it takes too long to be done 20000 times")
    ]


def test_a_library_that_leaves_a_process_behind_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, subprocess\nsubprocess.Popen(['sleep', '60'])\nmake = reference.make\n"
    )
    found = tests.conformance(producer="library:make", expression="after-exit")
    assert [each.outcome for each in found.verdicts] == ["kept"]


def test_a_library_that_ignores_its_children_keeps_the_rule_on_forks(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nmake = reference.make\n"
    )
    found = tests.conformance(producer="library:make", expression="producer-fork")
    assert [each.outcome for each in found.verdicts] == ["kept"]


def test_a_device_that_is_no_tuple_breaks_one_rule(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference\nclass make:\n    def __init__(self, array): self.array = reference.make(array)\n"
        "    def __dlpack_device__(self): return 'cpu'\n"
        "    def __dlpack__(self, **keywords): return self.array.__dlpack__(**keywords)\n"
    )
    found = tests.conformance(producer="library:make", expression="producer-device or dl-device")
    text = "__dlpack_device__ returned 'cpu', expected a tuple of 2"
    assert (broken(found, "must"), found.problems) == ({"producer-device": text}, [])


def test_an_interpreter_without_assertions_finds_the_same(monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    assert tests.conformance(producer="reference:make", expression="exchange-api").ok


def test_a_consumer_of_one_data_type_alone_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy\ndef take(obj):\n    array = numpy.from_dlpack(obj)\n"
        "    if array.dtype != 'float64': raise BufferError('expected float64')\n    return array\n"
    )
    found = tests.conformance(consumer="library:take", expression="consumer and not malformed")
    assert found.ok and len(found.broken("should")) < 6
    assert {each.rule: each.outcome for each in found.verdicts}["consumer-lanes"] == "kept"


def test_a_library_that_can_not_be_imported_is_one_broken_rule(tmp_path):
    (tmp_path / "library.py").write_text("import nosuch")
    printed = exchange("--producer", "library:make", "--consumer", "reference:nosuch", "--name", "Mine", status=1)
    assert printed.startswith("Mine does not conform: 0 rules kept, 2 broken")
    assert "seen: ModuleNotFoundError: No module named 'nosuch'" in printed
    assert "seen: AttributeError: module 'reference' has no attribute 'nosuch'" in printed


def test_a_rule_that_kills_the_process_after_others_is_tried_alone(tmp_path):
    """What an earlier rule has damaged is told, and not blamed on this one."""
    (tmp_path / "library.py").write_text(
        "import os, reference\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: os.abort()\n    return reference.take(obj)\n"
    )
    found = tests.conformance(consumer="library:take", expression="consumer-take or consumer-keeps")
    assert [each.outcome for each in found.verdicts] == ["kept", "kept"]
    assert found.problems == ["consumer-keeps, which else is kept: its process died of SIGABRT"]
    assert not found.ok


def test_each_death_is_told_with_its_own_last_words(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, reference\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n    if calls == 3:\n"
        "        os.write(1, b'line\\n' * 10_000 + b'the last'); os.abort()\n    return reference.take(obj)\n"
    )
    found = tests.conformance(consumer="library:take", expression="consumer-take or max-version or consumer-keeps")
    rules = "consumer-max-version", "consumer-keeps"
    assert found.problems == [f"{rule}, which else is kept: its process died of SIGABRT (the last)" for rule in rules]


def test_a_death_is_seen_where_a_forked_child_lives_on(tmp_path):
    """The child has the pipe by which the process would tell of its end."""
    (tmp_path / "library.py").write_text(
        "import os, signal\ndef take(obj):\n    if not os.fork(): signal.pause()\n    os.abort()\n"
    )
    with Judge({"consumer": "library:take"}, 5) as judge:  # seconds, in which numpy is imported, too
        found = judge.verdict(RULES["consumer-take"])
    assert (found.outcome, found.text) == ("broken", "its process died of SIGABRT")


def test_after_two_rules_that_hang_the_others_are_not_tried(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, signal\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: signal.pause()\n    return reference.take(obj)\n"
    )
    with Judge({"consumer": "library:take"}, 1) as judge:
        outcomes = [judge.verdict(rule).outcome for rule in judge.rules()[:6]]
    assert outcomes[0] == "kept" and outcomes.count("broken") == 2 and outcomes[-1] == "skipped"


def test_a_rule_that_hangs_ends_soon_without_a_timeout_too(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, signal\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: signal.pause()\n    return reference.take(obj)\n"
    )
    found = tests.conformance(consumer="library:take", expression="consumer-take or consumer-legacy")
    [text] = broken(found, "should").values()
    assert 8 <= int(re.fullmatch(r"still busy after (\d+) s", text)[1]) < 30


def test_a_library_whose_process_never_ends_is_not_blamed_on_the_deleter(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, threading\nthreading.Thread(target=threading.Event().wait).start()\nmake = reference.make\n"
    )
    found = tests.conformance(producer="library:make", expression="producer-make or after-exit")
    assert [(each.outcome, each.text) for each in found.verdicts[:1] + found.verdicts[-1:]] == [
        ("kept", ""),
        ("skipped", "its process did not end in 3 s, without the deleter too"),
    ]


def test_the_command_writes_the_results(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "producer-copied-flag")
    options = [*("--producer", "reference:make"), *("-k", "copied or size or cuda")]
    for name in "json", "junitxml":
        options += [f"--{name}", tmp_path / name]
    printed = exchange(*options, status=1)
    assert re.match(
        r"reference does not conform: \d rules kept, 1 broken, .*\n\nBroken\n  producer-copied-flag: ", printed
    )
    written = json.loads((tmp_path / "json").read_text())
    assert (written["name"], written["ok"], written["problems"]) == ("reference", False, [])
    assert {each["rule"]: each["outcome"] for each in written["verdicts"]}["producer-copied-flag"] == "broken"
    suite = ElementTree.parse(tmp_path / "junitxml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["producer-copied-flag"]


def test_the_page_has_the_verdict_and_what_is_broken_before_all_rules(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "producer-copied-flag")
    options = ["--producer", "reference:make", "--name", "<Mine>", "-k", "copied or size", "--html", tmp_path / "html"]
    exchange(*options, status=1)
    page = (tmp_path / "html").read_text()
    parts = ["&lt;Mine&gt; does not conform", "<h2>Broken</h2>", "seen: <code>copy=True: flags are 0x0", "All rules"]
    assert [page.index(part) for part in parts] == sorted(page.index(part) for part in parts)
    assert "<Mine>" not in page and "src=" not in page and "href=" not in page
    listed = page[page.index("All rules") :]
    assert "must, broken" in listed and "must, kept" in listed and HEADER in listed


def test_a_name_of_odd_characters_breaks_no_output(tmp_path):
    name = "<b>&\x1b[31m\nA\udcff\u00e9"
    options = ["--producer", "reference:make", "--name", name, "-k", "producer-make or on-cuda"]
    files = ["--json", tmp_path / "json", "--html", tmp_path / "html", "--junitxml", tmp_path / "junitxml"]
    printed = exchange(*options, *files, environ={"COLUMNS": "1", "PYTHONIOENCODING": "ascii"})
    assert printed.startswith("<b>&\\x1b[31m\\nA\\udcff\\xe9 conforms: 1 rules kept,")
    assert json.loads((tmp_path / "json").read_text())["name"] == name
    suite = ElementTree.parse(tmp_path / "junitxml").getroot()
    assert suite.get("name") == "dlpack: <b>&\\x1b[31m\\nA\\udcff\u00e9"


LOUD = """
import reference
def take(obj):
    raise ValueError("loud: \\0\\x1b[31m\\x9b\\u202e\\udcff")
def make(array):
    raise NotImplementedError("loud: \\0\\x1b[31m\\x9b\\u202e\\udcff")
"""
LOUD_SHOWN = r"loud: \x00\x1b[31m\x9b\u202e\udcff"


def test_outputs_of_rules_show_control_characters_escaped(tmp_path):
    """XML and HTML have none of them, and a terminal obeys them."""
    (tmp_path / "library.py").write_text(LOUD)
    files = [tmp_path / name for name in ("html", "junitxml")]
    options = ["--producer", "library:make", "--consumer", "library:take", "-k", "producer-make or consumer-take"]
    printed = exchange(*options, *[it for file in files for it in (f"--{file.name}", file)], status=1)
    for text in printed, *(file.read_text() for file in files):
        assert LOUD_SHOWN in " ".join(text.split())
        assert text.replace("\n", "").isprintable()
    messages = [case.find("failure").get("message") for case in ElementTree.parse(files[1]).getroot()]
    assert len(messages) == 2 and all(message.endswith(LOUD_SHOWN) for message in messages)


def test_values_that_differ_far_behind_are_shown():
    assert difference(b"\0" * 40, b"\0" * 39 + b"\1").endswith("00 01... from byte 32 on")
    assert difference(b"\1", b"\2") == "01..., expected 02..."


def test_the_results_as_data_have_a_short_repr():
    found = tests.conformance(producer="reference:make", expression="producer-make or producer-device")
    assert repr(found) == "<reference conforms: 3 rules kept, 0 broken, 0 recommended not, 0 skipped>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--producer", "numpy"], "producer 'numpy': expected MODULE:NAME"),
        (["--consumer", "a:b:c"], "consumer 'a:b:c': expected MODULE:NAME"),
        (["--consumer", ".a:b"], "consumer '.a:b': expected MODULE:NAME"),
        (["--consumer", "a:b", "--json", "x", "--html", "./x"], "x: expected a file for each of --json, --html"),
        (["--consumer", "a:b", "-k", "("], "expected words joined"),
        (["--consumer", "a:b", "--timeout", "0"], "timeout 0: expected seconds"),
        (["--consumer", "a:b", "numpy"], "libraries: not with --producer"),
        (["--junitxml", "x"], "junitxml: not without --producer"),
    ],
)
def test_an_argument_of_no_use_is_a_usage_error(options, message):
    assert message in exchange(*options, status=2)


def check_that_sigterm_ends_the_command(*options):
    """The library sends it to PARENT, the process that tries the rules."""
    code = "import os, runpy, sys; os.environ['PARENT'] = str(os.getpid()); "
    code += f"sys.argv[1:] = {options}; runpy.run_module('dlpack.tests', run_name='__main__')"
    result = run(sys.executable, "-c", code, timeout=20)
    assert (result.returncode, result.stdout) == (128 + signal.SIGTERM, "")


def test_a_signal_ends_the_command_and_all_that_it_started(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, pathlib, signal\ndef make(array):\n"
        f"    pathlib.Path({str(tmp_path / 'process')!r}).write_text(str(os.getpid()))\n"
        "    os.kill(int(os.environ['PARENT']), signal.SIGTERM)\n    signal.pause()\n"
    )
    check_that_sigterm_ends_the_command("--producer", "library:make", "--consumer", "reference:take")
    assert is_gone((tmp_path / "process").read_text(), 0)


def test_a_signal_during_a_later_rule_starts_no_process_again(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, pathlib, reference, signal\nrunning = pathlib.Path(__file__).with_name('running')\n"
        "calls = 0\ndef take(obj):\n    global calls; calls += 1\n    if calls == 3 or running.exists():\n"
        "        with running.open('a') as file: file.write(f'{os.getpid()}\\n')\n"
        "        os.kill(int(os.environ['PARENT']), signal.SIGTERM)\n        signal.pause()\n"
        "    return reference.take(obj)\n"
    )
    check_that_sigterm_ends_the_command("--consumer", "library:take", "-k", "consumer-keeps")
    [process] = (tmp_path / "running").read_text().split()
    assert is_gone(process, 0)


def test_an_expression_that_chooses_no_rule_is_a_failure():
    assert "-k 'nosuch': chooses nothing" in exchange("--producer", "reference:make", "-k", "nosuch", status=1)


def rules_by_pytest(*options, status, folder):
    """What pytest says where the package is installed, so that its plugin is found."""
    described = folder / "plugin_of_dlpack-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-dlpack\nVersion: 1\n")
    plugin = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    (described / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{k} = {v}\n" for k, v in plugin.items()))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-rsx", *options]
    result = run(*command, cwd=folder, environ={"COLUMNS": "200"}, timeout=120)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout


def test_each_rule_is_a_test_of_pytest(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "consumer-read-only")
    printed = rules_by_pytest(
        *("--pyargs", "dlpack.tests", "--dlpack-producer", "reference:make", "--dlpack-consumer", "reference:take"),
        "--dlpack-skip=producer-fork=no forks here",
        status=0,
        folder=tmp_path,
    )
    assert "test_rule[producer-make] PASSED" in printed
    assert "test_rule[consumer-read-only] XFAIL" in printed
    assert "no forks here" in printed
    assert re.search(r"\d+ passed, 5 skipped, 1 xfailed", printed)


def test_pytest_shows_control_characters_of_a_library_escaped(tmp_path):
    (tmp_path / "library.py").write_text(LOUD)
    options = [
        "--dlpack-producer=library:make",
        "--dlpack-consumer=library:take",
        "-k",
        "producer-make or consumer-take",
    ]
    printed = rules_by_pytest("--pyargs", "dlpack.tests", *options, status=1, folder=tmp_path)
    assert printed.count(LOUD_SHOWN) > 1
    assert printed.replace("\n", "").isprintable()


def test_a_broken_rule_is_a_failed_test_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "producer-copied-flag")
    (tmp_path / "test_mine.py").write_text("def test_rule(dlpack_rule):\n    dlpack_rule()\n")
    options = ["test_mine.py", "--dlpack-producer=reference:make", "-k", "copied"]
    printed = rules_by_pytest(*options, status=1, folder=tmp_path)
    assert "test_rule[producer-copied-flag] FAILED" in printed
    assert "A copy is flagged as one.\nseen: copy=True: flags are 0x0\nsource: array API 2023.12" in printed
    assert "1 failed, 1 passed" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected a producer, a consumer or both"),
        (["--dlpack-producer=numpy"], "producer 'numpy': expected MODULE:NAME"),
        (["--dlpack-producer=a:b", "--dlpack-skip=nosuch=why"], "nosuch=why: expected a rule and a reason"),
        (["--dlpack-producer=a:b", "--dlpack-skip=producer-fork"], "producer-fork=: expected a rule and a reason"),
    ],
)
def test_an_option_of_pytest_of_no_use_is_told(options, message, tmp_path):
    printed = rules_by_pytest("--pyargs", "dlpack.tests", *options, status=2, folder=tmp_path)
    assert message in printed and ".py:" not in printed  # no traceback


def test_without_numpy_that_is_told(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\")")
    printed = exchange("--producer", "reference:make", status=2)
    assert "the rules need numpy: ModuleNotFoundError: No module named 'numpy'" in printed
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others need numpy
    options = ["-p", "dlpack._pytest", "--pyargs", "dlpack.tests", "--dlpack-producer=reference:make"]
    printed = rules_by_pytest(*options, status=2, folder=tmp_path)
    assert "dlpack_rule: No module named 'numpy'" in printed and ".py:" not in printed


def test_rules_say_what_they_are_and_where_they_are_from():
    for rule in RULES.values():
        assert re.fullmatch(r"(producer|consumer)-[a-z0-9-]+", rule.id)
        assert rule.gist.endswith(".") and "\n" not in rule.gist
        assert re.match(r"dlpack\.h 1\.3|Python specification|array API 20\d\d\.12|no text says", rule.source)
        assert rule.severity in ("must", "should")


def test_a_broken_rule_that_a_chosen_one_needs_is_reported(tmp_path):
    (tmp_path / "library.py").write_text("make = id\n")
    found = tests.conformance(producer="library:make", expression="producer-device-of-capsule")
    assert not found.ok
    assert broken(found, "must").keys() == {"producer-make"}
