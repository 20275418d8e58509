"""Seeds faults into the package's C, Go and Python, and prints those that no test finds: `make mutants`.

One build of a copy of the tree holds all faults, called mutants: `a < b` becomes `(mutant(7) ? (a <= b) : (a < b))`,
and $DLPACK_MUTANT=7 turns that one on. First each file of tests runs without a mutant, which shows how long each test
takes and which mutants it reaches. Tests that fail there, such as those that read the sources, are left out. Then, for
each mutant, the tests that reach it run until one fails, crashes or hangs. Files that take less time run first.

Results are lines of JSON. A second run continues them, and tries those that lived again. A mutant's id depends on its
file, function, code and change, so it survives changes elsewhere. Keep the results before you remove tests; afterwards
`--again RESULTS` runs the mutants that were killed, and all of them should be killed again.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise, zip_longest
from pathlib import Path

import tree_sitter
import tree_sitter_c
import tree_sitter_go
import tree_sitter_python

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = {"c": tree_sitter_c, "go": tree_sitter_go, "python": tree_sitter_python}
BINARY = "binary_expression", "binary_operator", "boolean_operator", "comparison_operator"
FUNCTIONS = "function_definition", "function_declaration", "method_declaration"
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARISONS |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
LOGIC = {"&&": "||", "||": "&&", "and": "or", "or": "and"}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
CONSTANTS = {"0": "1", "1": "0", "true": "false", "false": "true", "True": "False", "False": "True"}
# Types, and what compilers evaluate.
NO_CODE = "type", "string", "const_declaration", "case_pattern", "preproc_def", "comment"
CHECKS = {"c": "(CODE && !mutant(@))", "go": "(CODE) && !mutant.Is(@)", "python": "((CODE) and not _mutant(@))"}
STRICT = "-Werror=incompatible-pointer-types -Werror=int-conversion"
SIZE = 1 << 16  # of the file in which each mutant that is reached sets a byte
# The core's C and the extension's are linked apart; in the core these are defined twice.
C = """#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#pragma GCC visibility push(hidden)
__attribute__((weak)) int mutant_on = -1;
__attribute__((weak)) char *mutants_seen;
__attribute__((weak, noinline)) _Bool mutant(int number)
{
    if (mutant_on < 0) {
        const char *on = getenv("DLPACK_MUTANT"), *seen = getenv("DLPACK_MUTANTS_SEEN");
        int file = seen ? open(seen, O_RDWR | O_CLOEXEC) : -1;
        void *memory = file < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        mutants_seen = memory == MAP_FAILED ? NULL : memory;
        mutant_on = on ? atoi(on) : 0;
    }
    if (mutants_seen)
        mutants_seen[number] = 1;
    return mutant_on == number;
}
""".replace("SIZE", str(SIZE))
GO = """package mutant

import ("strconv"; "syscall")

var on, seen = begin()

func begin() (int, []byte) {
	text, _ := syscall.Getenv("DLPACK_MUTANT")
	on, _ := strconv.Atoi(text)
	path, _ := syscall.Getenv("DLPACK_MUTANTS_SEEN")
	file, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return on, nil
	}
	seen, _ := syscall.Mmap(file, 0, SIZE, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return on, seen
}

func Is(number int) bool {
	if seen != nil {
		seen[number] = 1
	}
	return on == number
}
""".replace("SIZE", str(SIZE))
PYTHON = b"""
def _mutant(number):
    from os import O_WRONLY, close, environ, open, pwrite
    if path := environ.get("DLPACK_MUTANTS_SEEN"):
        pwrite(file := open(path, O_WRONLY), b"\\1", number)
        close(file)
    return environ.get("DLPACK_MUTANT") == str(number)
"""
# A plugin for pytest, which runs the tests that a file names, and logs what each reached.
PLUGIN = """
import json, os, time
import pytest

SEEN, LOG, ONLY = (os.environ.get(f"DLPACK_MUTANTS_{name}") for name in ("SEEN", "LOG", "ONLY"))

def log(**entry):
    with open(LOG, "a") as file:
        print(json.dumps(entry), file=file)

def reached():
    if not SEEN:
        return []
    with open(SEEN, "r+b") as file:
        seen = file.read()
        file.seek(0)
        file.write(bytes(len(seen)))
    return [number for number, byte in enumerate(seen) if byte == 1]

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    if ONLY:
        with open(ONLY) as file:
            only = set(json.load(file))
        items[:] = [item for item in items if item.nodeid in only]

def pytest_collection_finish():
    log(imports=reached())

def pytest_runtest_logreport(report):
    global failed
    failed = failed or report.failed

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global failed
    failed, begin = False, time.perf_counter()
    log(begin=item.nodeid)
    result = yield
    log(end=item.nodeid, failed=failed, seconds=time.perf_counter() - begin, seen=reached())
    return result
"""


@dataclass
class Mutant:
    id: str
    language: str
    line: int
    file: str
    function: str
    kind: str
    code: str
    change: str
    start: int  # the bytes that are replaced, and by what
    end: int
    text: str
    number: int = 0
    lines: range = range(0)  # in the file with all mutants


RESULT = "id", "language", "file", "line", "function", "kind", "code", "change"


def sources():
    """Returns {language: files}, without those that Linux doesn't compile."""
    c = [path for path in (ROOT / "pyext").glob("*/*.[ch]") if path.stem not in ("darwin", "no_check", "windows")]
    names = "".join(
        f"{{{{range $name := .{kind}}}}}{{{{$.Dir}}}}/{{{{$name}}}}\n{{{{end}}}}" for kind in ("GoFiles", "CgoFiles")
    )
    go = subprocess.run(
        ["go", "list", "-f", names, "./pkg/...", "./pyext/..."], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # Each of tests/libraries needs its library.
    python = [path for path in (ROOT / "python/dlpack").rglob("*.py") if path.parent.name != "libraries"]
    found = {"c": [*c, ROOT / "pkg/cuda/driver.h"], "go": map(Path, go.stdout.split()), "python": python}
    return {language: sorted(str(path.relative_to(ROOT)) for path in files) for language, files in found.items()}


def changes(language, node):
    """Yields (kind, node, its changed code)."""
    code, named = node.text.decode(), node.named_children
    if node.type in BINARY and node.child_count == 3:
        left, operator, right = (child.text.decode() for child in node.children)
        for kind, others in {"comparison": COMPARISONS, "logic": LOGIC, "arithmetic": ARITHMETIC}.items():
            if operator in others:
                yield kind, node, f"{left} {others[operator]} {right}"
    elif code in CONSTANTS and not node.children:
        yield "constant", node, CONSTANTS[code]
    elif node.type == "argument_list" and node.parent.type in ("call_expression", "call"):
        for first, second in pairwise(named):
            if first.text != second.text and not {first.type, second.type} & {"keyword_argument", "comment"}:
                between = node.text[first.end_byte - node.start_byte : second.start_byte - node.start_byte]
                swapped = replaced(node.parent, first, second.text + between + first.text, second.end_byte)
                yield "arguments", node.parent, swapped
    elif node.type in ("if_statement", "elif_clause"):
        yield "check", condition_of(node), ""
    elif node.type == "expression_statement" and named[0].type in ("call_expression", "call"):
        reference = language == "c" and re.match(r"Py_\w+(REF|Ref)\b", code)
        yield "reference" if reference else "statement", named[0] if language == "python" else node, ""
        if reference:
            yield "reference", node, f"{code} {code}"
    elif language == "c" and (reference := re.fullmatch(r"Py_X?NewRef(\(.*\))", code)):
        yield "reference", node, reference[1]
    elif language == "python" and node.type == "return_statement" and named and named[0].type not in ("none", "true"):
        yield "return", named[0], "None"


def replaced(outer, inner, text, end=None):
    """Returns the outer node's code with other text from the inner node's start to its end, or to that one."""
    before, after = inner.start_byte - outer.start_byte, (end or inner.end_byte) - outer.start_byte
    return (outer.text[:before] + text + outer.text[after:]).decode()


def switched(language, kind, node, change):
    """Returns the node to replace and code that does both, with @ for the mutant's number; None if there is none."""
    code = node.text.decode()
    if kind == "check":
        return node, CHECKS[language].replace("CODE", code)
    if language == "python":
        return node, f"(({change or None}) if _mutant(@) else ({code}))"
    if language == "c" and node.type == "expression_statement":
        return node, f"{{ if (mutant(@)) {{ {change} }} else {{ {code} }} }}"
    if language == "c":
        return node, f"(mutant(@) ? ({change}) : ({code}))"
    # Go has no such expression: repeat the smallest condition or statement around the node.
    unit = node
    while (parent := unit.parent) is not None:
        code, changed = unit.text.decode(), replaced(unit, node, change.encode())
        logic = unit.type == "binary_expression" and unit.children[1].type in COMPARISONS | LOGIC
        if logic or parent.type in ("if_statement", "for_clause") and unit == condition_of(parent):
            return unit, f"(mutant.Is(@) && ({changed}) || !mutant.Is(@) && ({code}))"
        if parent.type == "statement_list":
            if unit.type == "return_statement":
                return unit, f"if mutant.Is(@) {{ {changed} }}; {code}"
            if unit.type == "short_var_declaration":
                return unit, f"{code}; if mutant.Is(@) {{ {changed.replace(':=', '=', 1)} }}"
            if unit.type in ("assignment_statement", "expression_statement"):
                return unit, f"if mutant.Is(@) {{ {changed} }} else {{ {code} }}"
            return None
        unit = parent
    return None


def condition_of(node):
    return node.child_by_field_name("condition")


def mutants_of(language, file):
    tree = tree_sitter.Parser(tree_sitter.Language(LANGUAGES[language].language())).parse((ROOT / file).read_bytes())
    count = Counter()

    def visit(node, function):
        if node.type in NO_CODE:
            return
        if node.type in FUNCTIONS:
            name = node
            while inner := name.child_by_field_name("name") or name.child_by_field_name("declarator"):
                name = inner
            function = name.text.decode()
        for kind, changed, change in changes(language, node) if function or language == "python" else ():
            place = switched(language, kind, changed, change)
            if place is not None and b"\n#" not in place[0].text:
                key = file, function, kind, changed.text.decode(), change or "(dropped)"
                count[key] += 1
                around = place[0].start_byte, place[0].end_byte, place[1]
                yield Mutant(digest(key, count[key])[:12], language, changed.start_point[0] + 1, *key, *around)
        for child in node.children:
            if not (node.type.startswith("preproc") and child == condition_of(node)):
                yield from visit(child, function)

    return list(visit(tree.root_node, ""))


def digest(*parts):
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def choose(language, files, options, ids):
    """Returns mutants that don't overlap: those with the ids; else half more than are wanted, since some don't compile,
    evenly over files and over the kinds in each."""
    ranked = []
    for file in files:
        kinds, mutants = Counter(), []
        for mutant in sorted(mutants_of(language, file), key=lambda mutant: digest(options.seed, mutant.id)):
            mutants.append((kinds[mutant.kind], digest(options.seed, file, mutant.kind), mutant))
            kinds[mutant.kind] += 1
        mutants.sort(key=lambda entry: entry[:2])
        ranked += [(rank, digest(options.seed, mutant.id), mutant) for rank, (*_, mutant) in enumerate(mutants)]
    chosen = []
    for *_, mutant in sorted(ranked, key=lambda entry: entry[:2]):
        others = (other for other in chosen if other.file == mutant.file)
        if all(mutant.end <= other.start or other.end <= mutant.start for other in others):
            if mutant.id in ids if ids is not None else len(chosen) < options.count * 3 // 2:
                chosen.append(mutant)
    return chosen


def write(tree, file, mutants):
    """Writes the file's copy with these mutants."""
    source, at, text = (ROOT / file).read_bytes(), 0, b""
    if mutants and file.endswith(".go"):
        at = re.search(rb"^package \w+", source, re.MULTILINE).end()
        text = source[:at] + b'; import "dlpack/pkg/mutant"'
    elif mutants and file.endswith(".py"):  # behind the docstring and imports from __future__
        body = ast.parse(source).body
        head = [each for each in body if getattr(each, "module", "") == "__future__"] or body[: source[:3] == b'"""']
        text = b"".join(source.splitlines(keepends=True)[: head[-1].end_lineno if head else 0])
        at, text = len(text), text + PYTHON
    elif mutants:
        text = b"extern _Bool mutant(int);\n"
    for mutant in sorted(mutants, key=lambda mutant: mutant.start):
        text += source[at : mutant.start]
        first = text.count(b"\n") + 1
        text += mutant.text.replace("@", str(mutant.number)).encode()
        mutant.lines = range(first, text.count(b"\n") + 2)
        at = mutant.end
    (tree / file).write_bytes(text + source[at:])


def build(tree, mutants):
    """Builds both libraries and Go's tests with all mutants that compile; returns those."""
    for place in "pyext/python", "pyext/core", "pkg/cuda":
        (tree / place / "mutant.c").write_text(C)
    (tree / "pkg" / "mutant").mkdir()
    (tree / "pkg" / "mutant" / "mutant.go").write_text(GO)
    files = {mutant.file for mutant in mutants}
    commands = [[sys.executable, "build.py"]]
    if any(file.startswith(("pkg", "pyext/core")) for file in files):
        checked = ["go", "build", "-trimpath", "-gcflags=dlpack/...=-e", "./..."]
        commands = [checked, *commands, ["go", "test", "-trimpath", "-c", "-o", f"{tree}/go-tests/", "./..."]]
    while True:
        errors = set()
        for file in files:
            write(tree, file, [mutant for mutant in mutants if mutant.file == file])
            try:
                file.endswith(".py") and compile((tree / file).read_bytes(), file, "exec")
            except SyntaxError as error:
                errors.add((file, error.lineno))
        for command in commands:
            status, printed = call(command, tree, 900, {"CC": "gcc", "CFLAGS": STRICT})
            if status != 0:
                places = re.findall(r"(?m)^\S*?((?:pyext|pkg)/\w+/\w+\.\w+):(\d+):\d+: (?!warning|note)", printed)
                errors.update((file, int(line)) for file, line in places)
                break
        if status == 0 and not errors:
            return mutants
        wrong = [mutant for mutant in mutants if any((mutant.file, line) in errors for line in mutant.lines)]
        if not wrong:
            sys.exit(f"can't be built:\n{printed}")
        print(f"{len(wrong)} mutants don't compile", flush=True)
        mutants = [mutant for mutant in mutants if mutant not in wrong]


def call(command, cwd, timeout, environ):
    """Returns the exit status, or None if it took longer, and the output."""
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "start_new_session": True}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **environ}, stdout=output, **options)
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")  # some mutants want all memory
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGINT)  # pytest then ends the processes of its tests
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read()


class Tests:
    """The tests of the copied tree. A Go package is one test, and one file."""

    def __init__(self, tree, scratch, paths, state):
        self.tree, self.scratch = tree, scratch
        self.path = {"PYTHONPATH": os.pathsep.join(map(str, (tree / "python", tree / "conformance", scratch)))}
        (scratch / "mutants_plugin.py").write_text(PLUGIN)
        _, listed = self.python(["-m", "pytest", "-qq", "--collect-only", *paths], 900, {})
        files = [f"go {program.stem}" for program in sorted((tree / "go-tests").glob("*.test"))]
        self.found = {}  # {test: [seconds, the numbers of the mutants that it reaches]}
        for file in files + re.findall(r"(?m)^(\S+\.py): \d+$", listed):
            version = contents(tree / file)
            if state.known["files"].get(file, [None])[0] != version:
                state.known["files"][file] = [version, self.look(file)]
                state.save()
            self.found |= state.known["files"][file][1]
        self.cost = Counter()
        for test, (seconds, _) in self.found.items():
            self.cost[file_of(test)] += seconds

    def python(self, arguments, timeout, environ):
        return call([sys.executable, *arguments], self.tree, timeout, self.path | environ)

    def pytest(self, arguments, only, timeout, environ):
        """Returns the exit status and the plugin's log."""
        log, names = self.scratch / "log", self.scratch / "only"
        log.write_text("")
        names.write_text(json.dumps(only))
        environ |= {"DLPACK_MUTANTS_LOG": str(log), "DLPACK_MUTANTS_ONLY": str(names) if only else ""}
        plugins = "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "mutants_plugin"
        status, _ = self.python(["-m", "pytest", "-q", *plugins, "-m", "not serial", *arguments], timeout, environ)
        return status, [json.loads(line) for line in log.read_text().splitlines()]

    def go(self, name, timeout, environ):
        package = next(path for path in self.tree.glob("p*/*") if f"go {path.name}" == name)
        return call([self.tree / "go-tests" / f"{package.name}.test", "-test.failfast"], package, timeout, environ)[0]

    def look(self, file):
        """Returns what is found of the file's tests that pass without a mutant."""
        seen = self.scratch / "seen"
        seen.write_bytes(bytes(SIZE))
        environ = {"DLPACK_MUTANT": "0", "DLPACK_MUTANTS_SEEN": str(seen)}
        begin = time.perf_counter()
        if file.startswith("go "):
            passed = self.go(file, 900, environ) == 0
            numbers = [number for number, byte in enumerate(seen.read_bytes()) if byte == 1]
            return {file: [time.perf_counter() - begin, numbers]} if passed else {}
        _, log = self.pytest([file], [], 1800, environ)
        imports = [number for entry in log for number in entry.get("imports", ())]
        ended = [entry for entry in log if "end" in entry]
        if failed := {entry["end"] for entry in ended if entry["failed"]}:  # some only since they are observed
            _, log = self.pytest([file], sorted(failed), 1800, {"DLPACK_MUTANT": "0"})
            failed -= {entry["end"] for entry in log if not entry.get("failed", True)}
        print(f"{file}: {len(ended)} tests, {len(failed)} of them fail without a mutant", flush=True)
        passed = [entry for entry in ended if entry["end"] not in failed]
        return {entry["end"]: [entry["seconds"], sorted({*imports, *entry["seen"]})] for entry in passed}

    def reaching(self, mutant):
        return [test for test, (_, numbers) in self.found.items() if mutant.number in numbers]

    def batches(self, mutant):
        """Yields lists of tests, a Go package apart, and the time of each list: the longer, the later."""
        tests = sorted(self.reaching(mutant), key=lambda test: self.cost[file_of(test)])
        batch, seconds, limit = [], 0, 2
        for file, group in groupby(tests, file_of):
            if batch and (seconds > limit or file.startswith("go ")):
                yield batch, seconds
                batch, seconds, limit = [], 0, 5 * limit
            group = list(group)
            took = sum(self.found[test][0] for test in group)
            if file.startswith("go "):
                yield group, took
            else:
                batch, seconds = batch + group, seconds + took
        if batch:
            yield batch, seconds

    def kill(self, mutant):
        """Returns the first test that finds the mutant; None if none does."""
        environ = {"DLPACK_MUTANT": str(mutant.number)}
        for tests, seconds in self.batches(mutant):
            limit = 30 + 10 * seconds
            if tests[0].startswith("go "):
                status, log = self.go(tests[0], limit, environ), []
            else:
                status, log = self.pytest(["-x", *dict.fromkeys(map(file_of, tests))], tests, limit, environ)
            if status != 0:
                how = {None: " (hangs)", 1: ""}.get(status, " (crashes)")
                return ([entry["begin"] for entry in log if "begin" in entry] or tests)[-1] + how
        return None


class State:
    """A JSON file next to the results: which mutants don't compile, and what is found of each file of tests."""

    def __init__(self, path, key):
        self.path = path
        self.known = json.loads(path.read_text()) if path.exists() else {}
        if self.known.get("key") != key:
            self.known = {"key": key, "dropped": [], "files": {}}

    def save(self):
        self.path.write_text(json.dumps(self.known))


def file_of(test):
    return test.partition("::")[0].removesuffix(" (hangs)").removesuffix(" (crashes)")


def copy_tree(tree):
    names = call(["git", "ls-files", "-co", "--exclude-standard"], ROOT, 60, {})[1].splitlines()
    for name in *names, "conformance/pytest_dlpack/_abi.py", "conformance/pytest_dlpack/findings.py":
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)


def contents(*paths):
    files = sorted(file for path in paths for file in (path, *path.rglob("*")) if file.is_file())
    return digest([(file.name, digest(file.read_bytes().hex())) for file in files])


def read(path):
    """Returns {id: the last result}."""
    lines = path.read_text().splitlines() if path.exists() else ()
    return {result["id"]: result for result in map(json.loads, lines)}


def shown(mutant):
    code, change = (" ".join(mutant[name].split())[:100] for name in ("code", "change"))
    return f"{mutant['file']}:{mutant['line']} {mutant['kind']}: {code}  ->  {change}"


def report(results, cost):
    first = Counter(file_of(result["killed_by"]) for result in results if result["killed_by"])
    print("\nHow many mutants each file is the first to kill, and its seconds:")
    for file in sorted(cost, key=lambda file: cost[file]):
        print(f"{first[file]:6} {cost[file]:7.1f}  {file}")
    print("\nMutants that live:")
    for result in results:
        if not result["killed_by"]:
            print(f"{result['id']} {result['tests']:5} tests  {shown(result)}")
    for language in LANGUAGES:
        killed = [bool(result["killed_by"]) for result in results if result["language"] == language]
        print(f"{language}: {sum(killed)} of {len(killed)} mutants killed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "mutants.json", metavar="FILE")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only the mutants that were killed in these results")
    parser.add_argument("--only", choices=LANGUAGES, help="only mutants of this language")
    parser.add_argument("--count", type=int, default=100, help="how many mutants of each language")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="begin no mutant after this time")
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="PATH", help="arguments of pytest; Go's tests all run"
    )
    options = parser.parse_args()
    if options.again == options.results:
        parser.error("--again needs other --results, which it adds to")
    end = time.monotonic() + 60 * options.minutes
    ids = options.again and {id for id, result in read(options.again).items() if result["killed_by"]}
    files = {language: files for language, files in sources().items() if options.only in (None, language)}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        scratch, tree = Path(folder), Path(folder) / "tree"
        copy_tree(tree)
        columns = zip_longest(*(choose(language, names, options, ids) for language, names in files.items()))
        chosen = [mutant for row in columns for mutant in row if mutant]
        for number, mutant in enumerate(chosen, 1):
            mutant.number = number
        inputs = "pkg", "pyext", "python", "tests/support", "tests/conftest.py", "build.py"
        key = contents(*(tree / name for name in inputs)), [mutant.id for mutant in chosen]
        state = State(options.results.with_suffix(".tests.json"), digest(key))
        built = build(tree, [mutant for mutant in chosen if mutant.id not in state.known["dropped"]])
        state.known["dropped"] = [mutant.id for mutant in chosen if mutant not in built]
        tests = Tests(tree, scratch, options.tests, state)
        done, count, todo = read(options.results), Counter(), []
        for mutant in built:
            count[mutant.language] += 1
            if ids is not None or count[mutant.language] <= options.count:
                todo.append(mutant)
        for mutant in sorted(todo, key=lambda mutant: mutant.id in done):
            if done.get(mutant.id, {}).get("killed_by"):
                continue
            if time.monotonic() > end:
                break
            result = {name: value for name, value in asdict(mutant).items() if name in RESULT}
            begin = time.monotonic()
            result |= {"tests": len(tests.reaching(mutant)), "killed_by": tests.kill(mutant)}
            result["seconds"] = round(time.monotonic() - begin, 1)
            with options.results.open("a") as file:
                print(json.dumps(result), file=file)
            print(f"{result['killed_by'] or 'LIVES'}: {shown(result)}", flush=True)
    if ids is not None:
        print(f"{len(ids - {mutant.id for mutant in built})} of {len(ids)} are in the code no more")
    report(read(options.results).values(), tests.cost)


if __name__ == "__main__":
    main()
