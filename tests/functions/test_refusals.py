"""Errors as data: the Go core's keys are those that Python has words for, the documents list the reasons, and errors
have them."""

import ast
import re
import sys

import pytest

from dlpack import _errors, _sayings, frombuffer
from dlpack._errors import KINDS, refused
from support.alone import ROOT, python

SAYINGS = ROOT / "pkg" / "dlpack" / "sayings.go"
SOURCES = [
    path
    for folder in ("pkg", "pyext/core")
    for path in sorted((ROOT / folder).rglob("*.go"))
    if path != SAYINGS and not path.name.endswith("_test.go")
]
TABLES = {"Subject": _sayings.SUBJECTS, "Saying": _sayings.SAYINGS, "Cure": _sayings.CURES, "Word": _sayings.WORDS}


def constants(kind):
    """The names and keys of one type of pkg/dlpack/sayings.go."""
    return re.findall(rf'^(?:\t|const )(\w+) +{kind} += "([a-z0-9-]+)"', SAYINGS.read_text(), re.MULTILINE)


def test_sayings_go_has_constants_and_nothing_else_that_has_a_key():
    assert sum(len(constants(kind)) for kind in TABLES) == len(re.findall('"', SAYINGS.read_text())) / 2


@pytest.mark.parametrize("kind", TABLES)
def test_python_has_words_for_exactly_the_keys_of_go(kind):
    keys = [key for _, key in constants(kind)]
    assert len(set(keys)) == len(keys)
    assert set(keys) == TABLES[kind].keys() - {""}


def test_go_uses_each_key_and_no_other():
    text = "".join(re.sub(r"//.*", "", path.read_text()) for path in SOURCES)
    inside = "".join(re.sub(r"//.*", "", path.read_text()) for path in SOURCES if path.parent == SAYINGS.parent)
    for kind in TABLES:
        for name, _ in constants(kind):
            assert re.search(rf"\b{name}\b", inside) or re.search(rf"\bdlpack\.{name}\b", text), name
    for maker in (
        r"\b(?:Malformed|Unsupported|NeedsCopy|OutOfMemory|Cured|AddSubject|refuse)\(",
        r"explain\([^,]+, ",
        r'(?:malformed|unsupported)\((?:\w+|"[^"]+"), [\w.]+, ',
        r'Worded\("\w+", ',
    ):
        assert re.search(maker, text)
        assert not re.search(maker + '["`]', text)
    assert not re.search(r"\b(?:Saying|Subject|Cure|Word)\(", text)


COMPUTED = {"reason", "old.reason"}


def refusals_of_python():
    """The reasons of _errors' tables and of all calls of `refusal`, each with the names of its details."""
    for path in sorted((ROOT / "python" / "dlpack").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refusal":
                reason = node.args[1]
                if isinstance(reason, ast.Constant) and reason.value:
                    yield reason.value, [word.arg for word in node.keywords if word.arg]
                assert isinstance(reason, ast.Constant) or ast.unparse(reason) in COMPUTED, path
    for reason, (attribute, *_) in _errors.REFUSALS.items():
        yield reason, [attribute, "shape"] if attribute == "strides" else [attribute]
    for _, reason, said, *_ in _errors.REFUSALS_OF_C.values():
        yield reason, _errors.names_in(said)


def test_c_refuses_by_exactly_the_keys_that_python_has_words_for():
    text = "".join(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) for path in (ROOT / "pyext").rglob("*.c"))
    calls = re.findall(r"(?:const char \*key = [^;]*;\s*return )?check_in_python\(python\.refuse_in_words,[^;]*;", text)
    assert len(calls) == text.count("python.refuse_in_words")
    keys = [re.findall(r'"([a-z]+(?:-[a-z]+)+)"', call) for call in calls]
    assert all(keys)
    assert {key for of_call in keys for key in of_call} == _errors.REFUSALS_OF_C.keys()


def test_the_documents_list_each_reason_and_its_values():
    values = {}
    for reason, names in refusals_of_python():
        values.setdefault(reason, set()).update(names)
    assert values.keys() >= {"no-protocol", "core-start", "damaged-message", "structure", "read-only"}
    for saying, template in _sayings.SAYINGS.items():
        names = ["text" if name == "type" else name for name in re.findall(r"\{(\w+)\}", template)]
        values.setdefault(_sayings.REASON_OF.get(saying, saying), set()).update(names)
    assert _sayings.REASON_OF.keys() <= _sayings.SAYINGS.keys()
    assert len(_sayings.REASON_OF) == len(" ".join(_sayings.REASONS.values()).split())
    text = (ROOT / "docs" / "errors.md").read_text().partition("| reason |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \|(.*)\|$", text, re.MULTILINE)
    assert [reason for reason, _ in rows] == sorted(values)
    assert {reason: set(re.findall(r"`(\w+)`", names)) for reason, names in rows} == values


def sent(*texts):
    return "\x1e".join(["\x1f".join(texts[:5]), *texts[5:]]).encode()


@pytest.mark.parametrize("status", KINDS)
def test_the_status_is_the_kind_of_error(status):
    assert type(refused(status, sent("", "no-memory", "", ""))) is KINDS[status]


@pytest.mark.parametrize(
    ("texts", "text", "details"),
    [
        (["source", "too-large", "", ""], "source: shape ... of items", {"side": "source"}),
        (["", "no-memory-for", "", "#", "bytes", "7"], "for 7 bytes", {"bytes": 7}),
        (["", "misaligned", "copy", "#", "address", "0x1f"], "data 0x1f is misaligned", {"address": 31}),
        (["", "objects", "", "'\"", "field text", "x", "{y}"], 'x "{y}": Python', {"field": "x", "text": "{y}"}),
        (["", "objects", "", "'~", "field text", "x", "y"], 'x "y"...: Python', {"field": "x", "text": "y..."}),
        (["", "tensor-size", "", "=", "found", "missing"], "shape is missing", {"found": "missing"}),
        (["", "unknown-arrow", "", ",", "expected", "a b c"], "one of a, b or c", {"expected": ("a", "b", "c")}),
        (["", "unknown-arrow", "", ",", "expected", "a"], "one of a", {"expected": ("a",)}),
        (["", "unknown-name", "nearest", "/|", "names", "a b c"], '(did you mean "a" or "b" or "c"?)', {}),
        (
            ["", "no-lanes", "", "###", "code bits lanes", "2", "8", "0"],
            "dtype code 2, bits 8, lanes 0: no lanes",
            {"code": 2, "bits": 8, "lanes": 0},
        ),
    ],
)
def test_each_form_of_a_value_is_shown_and_kept(texts, text, details):
    error = refused(1, sent(*texts))
    assert text in str(error)
    assert error.details == details


def test_details_are_not_shared_by_refusals_of_the_same_data():
    data = sent("", "no-memory-for", "", "#", "bytes", "7")
    refused(3, data).details["bytes"] = 8
    assert refused(3, data).details == {"bytes": 7}


def test_the_words_are_loaded_at_the_first_refusal():
    code = """
import sys, dlpack
loaded = "dlpack._sayings" in sys.modules
try:
    dlpack.frombuffer(b"1234", "flaot32")
except ValueError as error:
    print(loaded, "dlpack._sayings" in sys.modules, error.reason)
"""
    assert python(code).stdout == "False True data-type\n"


def test_without_the_words_an_error_keeps_its_kind_and_data(monkeypatch):
    monkeypatch.setattr(_errors, "in_words", None)
    monkeypatch.setitem(sys.modules, "dlpack._sayings", None)
    with pytest.raises(ValueError, match="negative-dimension .*dimension length 0 -2"):
        frombuffer(b"1234", "uint8", -2)
