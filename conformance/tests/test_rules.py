"""The rules of DLPack: each finds the fault that is seeded for it, and none finds a fault in the reference."""

import functools
import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from pytest_dlpack.findings import difference
from pytest_dlpack.judge import Judge, specs
from pytest_dlpack.rules import RULES

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "python" / "dlpack" / "include"
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
    subprocess.run(["gcc", *flags, HERE / "reference.c", "-o", folder / "reference.so"], check=True)
    return folder


@pytest.fixture(autouse=True)
def on_path(folder, tmp_path, monkeypatch):
    for each in folder, tmp_path:
        monkeypatch.syspath_prepend(each)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(folder), os.environ.get("PYTHONPATH", "")]))


def judged(chosen="", producer=None, consumer=None, timeout=None):
    """A judge that has tried the rules of the sides whose ids match."""
    with Judge(specs(producer, consumer), timeout) as judge:
        for rule in RULES.values():
            if rule.side in judge.specs and re.search(chosen, rule.id):
                judge.verdict(rule)
    return judge


def broken(judge, severity):
    return {
        rule: verdict.text
        for rule, verdict in judge.verdicts.items()
        if (verdict.outcome, RULES[rule].severity) == ("broken", severity)
    }


def outcomes(judge):
    return {rule: verdict.outcome for rule, verdict in judge.verdicts.items()}


def conforms(judge):
    return not broken(judge, "must") and not judge.problems


@pytest.mark.parametrize("rule", RULES)
def test_a_seeded_fault_is_found_by_its_rule(rule, monkeypatch):
    monkeypatch.setenv("FAULT", rule)
    if rule in DEVICES:
        monkeypatch.setenv("DEVICE", DEVICES[rule])
    with Judge(REFERENCE, 30) as judge:
        found = judge.verdict(RULES[rule])
    assert found.outcome == "broken", found


@pytest.mark.parametrize("device", [None, "2", "10", "21"])
def test_the_reference_conforms(device, monkeypatch):
    if device:
        monkeypatch.setenv("DEVICE", device)
    judge = judged(**REFERENCE)
    assert (broken(judge, "must"), broken(judge, "should"), judge.problems) == ({}, {}, [])
    skipped = {rule for rule, outcome in outcomes(judge).items() if outcome == "skipped"}
    if not device:
        assert skipped == set(DEVICES)
    else:
        assert not {rule for rule in skipped if DEVICES.get(rule) == device}


def test_numpy_follows_all_but_some_recommendations():
    """numpy/_core/src/multiarray/dlpack.c: fill_dl_tensor_information copies the data pointer whatever the size;
    from_dlpack compares the major version by >, knows no NULL shape or data, and adds byte_offset unchecked. The error
    for another device became a BufferError in numpy 2.5."""
    judge = judged(producer="numpy:asarray", consumer="numpy:from_dlpack")
    shoulds = {"producer-size-0-null", "consumer-older-major", "consumer-malformed-shape", "consumer-malformed-data"}
    shoulds |= {"consumer-malformed-extent"} | ({"consumer-unknown-device"} if np.__version__ < "2.5" else set())
    assert (broken(judge, "must"), {*broken(judge, "should")}, judge.problems) == ({}, shoulds, [])
    assert "SIGSEGV" in broken(judge, "should")["consumer-malformed-shape"]


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
    "ends the process": ("os._exit(0)", "its process ended with status 0"),
    "writes where it should not": (
        "[os.write(file, b'5\\n') for file in range(3, 9) if os.path.exists(f'/dev/fd/{file}')]",
        "wrote b'5' to a file that",
    ),
    "prints": ("print('hello'); os.write(1, b'hello'); os.write(2, b'hello')", WELL),
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
    judge = judged(
        "producer-make|consumer-take|producer-keywords|consumer-keeps",
        **REFERENCE | {side: "library:bad"},
        timeout=3,
    )
    if told == WELL:
        assert conforms(judge), judge.verdicts
    else:
        first, other = [verdict for rule, verdict in judge.verdicts.items() if rule.startswith(side)]
        assert (first.outcome, other.outcome) == ("broken", "skipped")
        assert told in first.text and len(first.text) <= 2000
    assert {each for rule, each in outcomes(judge).items() if not rule.startswith(side)} == {"kept"}


def test_a_library_that_forks_at_its_import_gets_its_own_verdicts(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, reference\nos.fork()\nmake, take = reference.make, reference.take\n"
    )
    judge = judged(producer="library:make", consumer="library:take")
    assert outcomes(judge) == outcomes(judged(**REFERENCE))
    assert conforms(judge)


def test_a_library_of_vectors_alone_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy, reference\ndef make(array):\n    if array.ndim != 1: raise NotImplementedError\n"
        "    return reference.make(array)\n"
        "def take(obj):\n    array = numpy.from_dlpack(obj)\n"
        "    if array.ndim != 1: raise BufferError('a vector only')\n    return array\n"
    )
    judge = judged("^(?!.*malformed)", producer="library:make", consumer="library:take")
    assert (broken(judge, "must"), judge.problems) == ({}, [])
    assert outcomes(judge)["consumer-null-shape-of-0-dimensions"] == "skipped"


def test_a_library_of_read_only_scalars_alone_conforms(tmp_path):
    """As numpy#32029 exports numpy's scalars."""
    (tmp_path / "library.py").write_text(
        "import reference\ndef make(array):\n    if array.ndim: raise NotImplementedError\n"
        "    scalar = array.copy()\n    scalar.flags.writeable = False\n    return reference.make(scalar)\n"
    )
    judge = judged(producer="library:make")
    assert (broken(judge, "must"), broken(judge, "should"), judge.problems) == ({}, {}, [])
    assert {"producer-make", "producer-lifetime", "producer-exchange-api-allocator"} <= {
        rule for rule, outcome in outcomes(judge).items() if outcome == "kept"
    }


def test_a_device_type_that_is_an_enum_conforms(tmp_path):
    """The standard's type of __dlpack_device__ is tuple[Enum, int]; Open3D's is no IntEnum."""
    (tmp_path / "library.py").write_text(
        "import enum, reference\nDevice = enum.Enum('Device', {'CPU': 1})\nclass make:\n"
        "    def __init__(self, array): self.array = reference.make(array)\n"
        "    def __dlpack_device__(self): return Device.CPU, 0\n"
        "    def __dlpack__(self, dl_device=None, **keywords):\n"
        "        if dl_device is not None: dl_device = getattr(dl_device[0], 'value', dl_device[0]), dl_device[1]\n"
        "        return self.array.__dlpack__(dl_device=dl_device, **keywords)\n"
    )
    judge = judged("device|stream", producer="library:make")
    assert (broken(judge, "must"), judge.problems) == ({}, [])
    assert outcomes(judge)["producer-stream-on-cpu"] == "kept"


def test_a_consumer_that_frees_on_another_thread_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy, threading\nclass Late:\n    def __init__(self, array): self.array = array\n"
        "    def __dlpack_device__(self): return 1, 0\n"
        "    def __dlpack__(self, **keywords): return self.array.__dlpack__(**keywords)\n"
        "    def __del__(self): threading.Timer(0.02, id, [self.array]).start()\n"
        "def take(obj): return Late(numpy.from_dlpack(obj))\n"
    )
    judge = judged("deleter|many|null-manager", consumer="library:take")
    assert (broken(judge, "must"), judge.problems) == ({}, [])


def test_a_consumer_whose_results_speak_the_buffer_protocol_alone_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy\ndef take(obj):\n    array = numpy.from_dlpack(obj)\n    return memoryview(array)\n"
    )
    judge = judged("^consumer-(?!malformed)", consumer="library:take")
    assert (broken(judge, "must"), judge.problems) == ({}, [])


def test_a_make_that_changes_the_data_type_is_told_to_refuse(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference\ndef make(array):\n    return reference.make(array.astype('float32'))\n"
    )
    judge = judged("producer-data-types", producer="library:make")
    text = "bool: dtype (code, bits, lanes) is (2, 32, 1), expected (6, 8, 1) (make raises NotImplementedError for"
    assert broken(judge, "must")["producer-data-types"].startswith(text)


def test_a_slow_library_is_not_taken_for_a_leak_or_a_hang(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, time\nclass make:\n    def __init__(self, array): self.array = reference.make(array)\n"
        "    def __dlpack_device__(self): return 1, 0\n"
        "    def __dlpack__(self, **keywords):\n        time.sleep(0.001)\n"
        "        return self.array.__dlpack__(**keywords)\n"
    )
    judge = judged("release-of-structure", producer="library:make")
    assert judge.verdicts["producer-release-of-structure"] == ("skipped", "it takes too long to be done 20000 times")


@pytest.mark.parametrize(
    "start",
    ["subprocess.Popen(['sleep', '60'])", "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"],
    ids=["leaves a process behind", "ignores its children"],
)
def test_a_library_with_children_keeps_the_rules_on_them(start, tmp_path):
    (tmp_path / "library.py").write_text(f"import reference, signal, subprocess\n{start}\nmake = reference.make\n")
    judge = judged("after-exit|producer-fork", producer="library:make")
    assert set(outcomes(judge).values()) == {"kept"}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("return 'cpu'", "__dlpack_device__ returned 'cpu', expected a tuple of 2"),
        ("return None", "__dlpack_device__ returned None, expected a tuple of 2"),
        ("return (1,)", "__dlpack_device__ returned (1,), expected a tuple of 2"),
        ("raise OSError('no device')", "OSError: no device"),
    ],
    ids=["a word", "None", "a tuple of 1", "an error"],
)
def test_a_device_that_is_not_a_pair_breaks_one_rule(code, text, tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference\nclass make:\n    def __init__(self, array): self.array = reference.make(array)\n"
        f"    def __dlpack_device__(self): {code}\n"
        "    def __dlpack__(self, **keywords): return self.array.__dlpack__(**keywords)\n"
    )
    judge = judged("device|stream|copy", producer="library:make")
    assert (broken(judge, "must"), judge.problems) == ({"producer-device": text}, [])


def test_an_interpreter_without_assertions_finds_the_same(monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    assert conforms(judged("exchange-api", producer="reference:make"))


def test_a_consumer_of_one_data_type_alone_conforms(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy\ndef take(obj):\n    array = numpy.from_dlpack(obj)\n"
        "    if array.dtype != 'float64': raise BufferError('expected float64')\n    return array\n"
    )
    judge = judged("^consumer-(?!malformed)", consumer="library:take")
    assert conforms(judge) and len(broken(judge, "should")) < 6
    assert outcomes(judge)["consumer-lanes"] == "kept"


def test_a_library_that_can_not_be_imported_is_one_broken_rule(tmp_path):
    (tmp_path / "library.py").write_text("import nosuch")
    judge = judged("make|take", producer="library:make", consumer="reference:nosuch")
    assert broken(judge, "must") == {
        "producer-make": "ModuleNotFoundError: No module named 'nosuch'",
        "consumer-take": "AttributeError: module 'reference' has no attribute 'nosuch'",
    }


def test_a_rule_that_kills_the_process_after_others_is_tried_alone(tmp_path):
    """Damage by an earlier rule is reported, and not blamed on this one."""
    (tmp_path / "library.py").write_text(
        "import os, reference\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: os.abort()\n    return reference.take(obj)\n"
    )
    judge = judged("consumer-take|consumer-keeps", consumer="library:take")
    assert [*outcomes(judge).values()] == ["kept", "kept"]
    assert judge.problems == ["consumer-keeps, which is kept in a new process: its process died of SIGABRT"]


def test_each_death_is_told_with_its_own_last_words(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, reference\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n    if calls == 3:\n"
        "        os.write(1, b'line\\n' * 10_000 + b'the last'); os.abort()\n    return reference.take(obj)\n"
    )
    judge = judged("consumer-take|max-version|consumer-keeps", consumer="library:take")
    told = "which is kept in a new process: its process died of SIGABRT (the last)"
    assert judge.problems == [f"{rule}, {told}" for rule in ("consumer-max-version", "consumer-keeps")]


def test_a_death_is_seen_if_a_forked_child_lives_on(tmp_path):
    """The child keeps the pipe open whose end would show the death."""
    (tmp_path / "library.py").write_text(
        "import os, signal\ndef take(obj):\n    if not os.fork(): signal.pause()\n    os.abort()\n"
    )
    judge = judged("consumer-take", consumer="library:take")
    assert judge.verdicts["consumer-take"] == ("broken", "its process died of SIGABRT")


def test_after_two_rules_that_hang_the_others_are_not_tried(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, signal\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: signal.pause()\n    return reference.take(obj)\n"
    )
    judge = judged("consumer-(take|[a-k])", consumer="library:take", timeout=3)
    found = [*outcomes(judge).values()]
    assert found[0] == "kept" and found.count("broken") == 2 and found[-1] == "skipped"


def test_a_rule_that_hangs_ends_soon_without_a_timeout_too(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, signal\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: signal.pause()\n    return reference.take(obj)\n"
    )
    judge = judged("consumer-take|consumer-legacy", consumer="library:take")
    [text] = broken(judge, "should").values()
    assert 8 <= int(re.fullmatch(r"still busy after (\d+) s", text)[1]) < 30


class Interrupted(BaseException):
    pass


def interrupt(number, frame):
    raise Interrupted


def test_a_rule_that_is_interrupted_leaves_no_answer_to_the_next(tmp_path, monkeypatch):
    """pytest-timeout raises in a signal handler."""
    (tmp_path / "library.py").write_text(
        "import os, reference, signal\ncalls = 0\ndef take(obj):\n    global calls; calls += 1\n"
        "    if calls == 3: os.kill(os.getppid(), signal.SIGUSR1); signal.pause()\n    return reference.take(obj)\n"
    )
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Judge(specs(None, "library:take")) as judge:
            assert judge.verdict(RULES["consumer-take"]) == ("kept", "")
            with pytest.raises(Interrupted):
                judge.verdict(RULES["consumer-legacy"])
            assert judge.verdict(RULES["consumer-max-version"]) == ("kept", "")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_rule_that_hangs_ends_with_the_process_that_asked(tmp_path):
    (tmp_path / "library.py").write_text(
        "import os, signal\ndef take(obj):\n    os.open('fifo', os.O_WRONLY)\n    os.kill(os.getppid(), 9)\n"
        "    signal.pause()\n"
    )
    code = "from pytest_dlpack.judge import Judge; from pytest_dlpack.rules import RULES; "
    code += "Judge({'consumer': 'library:take'}).verdict(RULES['consumer-take'])"
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) as process:
        assert (tmp_path / "fifo").read_text() == ""  # until the last process that has it open ends
    assert process.returncode == -signal.SIGKILL


def test_a_library_is_found_if_sys_path_holds_an_object(tmp_path, monkeypatch):
    (tmp_path / "library.py").write_text("import reference\nmake = reference.make\n")
    monkeypatch.syspath_prepend(tmp_path / "with ' \" and space")
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path])
    judge = judged("producer-make|after-exit", producer="library:make")
    assert {*outcomes(judge).values()} == {"kept"}


@pytest.mark.parametrize("function", [functools.partial(id, 1), lambda array: array, "numpy", "a-b:c", 5, int.__add__])
def test_a_function_that_has_no_name_is_refused(function):
    with pytest.raises(ValueError, match=f"producer {re.escape(repr(function))}: expected MODULE:NAME of a function"):
        specs(function, None)


def test_a_library_whose_process_never_ends_is_not_blamed_on_the_deleter(tmp_path):
    (tmp_path / "library.py").write_text(
        "import reference, threading\nthreading.Thread(target=threading.Event().wait).start()\nmake = reference.make\n"
    )
    judge = judged("producer-make|after-exit", producer="library:make")
    assert judge.verdicts == {
        "producer-make": ("kept", ""),
        "producer-deleter-after-exit": ("skipped", "its process did not end in 4 s, without the deleter too"),
    }


def test_values_that_differ_far_behind_are_shown():
    assert difference(b"\0" * 40, b"\0" * 39 + b"\1").endswith("00 01... from byte 32 on")
    assert difference(b"\1", b"\2") == "01..., expected 02..."


def test_rules_have_an_id_a_gist_and_a_source():
    for rule in RULES.values():
        assert re.fullmatch(r"(producer|consumer)-[a-z0-9-]+", rule.id)
        assert rule.gist.endswith(".") and "\n" not in rule.gist
        assert re.match(r"dlpack\.h 1\.3|Python specification|array API 20\d\d\.12|no text says", rule.source)
        assert rule.severity in ("must", "should")


def test_a_broken_rule_that_a_chosen_one_needs_is_reported(tmp_path):
    (tmp_path / "library.py").write_text("make = id\n")
    judge = judged("producer-device-of-capsule", producer="library:make")
    assert broken(judge, "must").keys() == {"producer-make"}
