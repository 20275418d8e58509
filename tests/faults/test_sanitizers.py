"""The libraries under the tools that watch memory as a program runs: AddressSanitizer with its leak detector,
UndefinedBehaviorSanitizer, Go's race detector, checkptr and cgocheck2, valgrind. Each also finds what was put in for it
to find."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from support.alone import ROOT, SUPPORT, TESTS, run
from support.builds import build, copy_sources, seed

HOST = SUPPORT / "core_host.c"

# Undefined behaviour ends the process: its report goes only to stderr.
SANITIZERS = (
    "-fsanitize=address,undefined -fsanitize-recover=address -fno-sanitize-recover=undefined "
    "-fno-omit-frame-pointer -fno-lto -g -O1"
)

# Tests that need no library but numpy and ml_dtypes, and those of the CUDA driver that are about lifetimes.
CORE = ["inputs/test_capsules.py", "outputs/test_export.py", "inputs/test_malformed_tensors.py"]
SUITE = [
    *CORE,
    "lifetimes/test_hostile.py",
    "inputs/test_array_interface.py",
    "outputs/test_buffer_out.py",
    "functions/test_copy.py",
    "cuda/test_cuda_failures.py",
    "inputs/test_delegation.py",
    "functions/test_errors.py",
    "outputs/test_exchange_api.py",
    "inputs/test_formats.py",
    "inputs/test_known_types.py",
    "functions/test_large_copies.py",
    "inputs/test_ml_dtypes.py",
    "lifetimes/test_ownership.py",
    "functions/test_properties.py",
    "inputs/test_protocols.py",
    "lifetimes/test_free_threaded.py",
    "lifetimes/test_threads.py",
]
NOT_SO = [
    "functions/test_large_copies.py::test_a_thread_bound_to_one_cpu_copies_by_itself",  # sanitizers start threads
]


def succeeds(*command, **options):
    result = run(*command, **{"timeout": 600, **options})
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def path(package):
    return f"{package}:{TESTS}"


def operations(count):
    """Objects that are left at the exit are given back before: numpy, for one, doesn't delete tensors any more then."""
    code = f"print(operations.do({count})); vars(operations).clear(); gc.collect()"
    return sys.executable, "-c", f"import gc; from support import operations; {code}"


def pytest_of(names, **options):
    deselected = [option for test in NOT_SO for option in ("--deselect", f"tests/{test}")]
    files = [f"tests/{name}" for name in names]
    result = run(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--capture=sys",  # what is undefined is told on stderr
        *deselected,
        *files,
        cwd=ROOT,
        timeout=1700,
        **options,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr
    return int(re.search(r"(\d+) passed", result.stdout)[1])


class Sanitized:
    """How a program runs with a sanitized build, and what was reported of it."""

    def __init__(self, package, folder):
        self.package = package
        self.reports = folder / "reports"
        self.reports.mkdir()

    def environ(self, **options):
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
        assert os.path.isabs(runtime), "no libasan.so: install gcc's (Debian: libgcc-12-dev)"
        asan = {
            "log_path": self.reports / "asan",
            "halt_on_error": 0,
            "allocator_may_return_null": 1,  # MemoryError is tested
            "quarantine_size_mb": 32,
            "handle_segv": 0,  # Go has handlers of its own
            "handle_sigbus": 0,
            "handle_sigfpe": 0,
            "detect_leaks": 0,
            **options,
        }
        return {
            "LD_PRELOAD": runtime,
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": path(self.package),
            "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in asan.items()),
            "LSAN_OPTIONS": "exitcode=0",  # Python leaks itself
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }

    def errors(self):
        """Reports, but for leaks of others: those have no frame of the extension's."""
        text = "\n".join(path.read_text() for path in self.reports.iterdir())
        parts = re.split(r"\n(?=[^\n]*(?:ERROR: |fatal error|(?:Direct|Indirect) leak ))", "\n" + text)
        return [
            part
            for part in parts[1:]
            if "ERROR: LeakSanitizer" not in part and (" leak of " not in part or "/pyext/" in part)
        ]


@pytest.fixture(scope="module")
def sanitized_build(request, tmp_path_factory):
    """In the short form Go's own code is as it always is: it takes minutes to build otherwise."""
    flags = ["-asan"] if request.config.getoption("long") else []
    return build(tmp_path_factory.mktemp("sanitized"), *flags, cflags=SANITIZERS)


@pytest.fixture
def sanitized(sanitized_build, tmp_path):
    return Sanitized(sanitized_build, tmp_path)


def test_mixed_operations_are_clean_and_leak_nothing(sanitized, effort, figure):
    """In the long form with whole stacks, so that also what Python allocated in a call of the extension's is found."""
    environ = sanitized.environ(detect_leaks=1, fast_unwind_on_malloc=effort(1, 0))
    count = effort(700, 100_000)
    done = succeeds(*operations(count), environ=environ).stdout
    figure("operations under AddressSanitizer, its leak detector and UndefinedBehaviorSanitizer", int(done))
    assert not sanitized.errors()


def test_the_suite_is_clean(sanitized, effort, figure):
    passed = pytest_of(effort(CORE, SUITE), environ=sanitized.environ())
    figure("tests under AddressSanitizer and UndefinedBehaviorSanitizer", passed)
    assert not sanitized.errors()


MEMORY_FAULTS = [
    (  # a leak
        "pyext/give/export_arrow.c",
        "        free(block);\n    }\n}\n\nstatic void release_schema",
        "    }\n}\n\nstatic void release_schema",
    ),
    (  # a use after free
        "pyext/object/export.c",
        "        Py_DECREF(block->owner);\n        free(block);\n",
        "        free(block);\n        Py_DECREF(block->owner);\n",
    ),
    (  # a write behind a block
        "pyext/object/object.c",
        "(dims = malloc(3 * ndim * sizeof *dims)) == NULL",
        "(dims = malloc(3 * ndim * sizeof *dims - 8)) == NULL",
    ),
]
INT_FAULT = ("pyext/give/type.c", "(values[i])", "(values[i] + (values[i] == 123 ? INT64_MAX : 0))")


@pytest.mark.long
def test_seeded_faults_are_found(tmp_path):
    package = build(tmp_path, cflags=SANITIZERS, edit=seed(*MEMORY_FAULTS, INT_FAULT))
    sanitized = Sanitized(package, tmp_path)
    run(*operations(700), environ=sanitized.environ(detect_leaks=1), timeout=600)
    found = "\n".join(sanitized.errors())
    for report, function in (
        ("leak of", "make_block"),
        ("heap-use-after-free", "destroy_capsule"),
        ("heap-buffer-overflow", "object_describe"),
    ):
        assert re.search(rf"{report}(.*\n)+?.* in {function} ", found), found[:5000]
    result = run(sys.executable, "-c", "import dlpack; dlpack.asdlpack(bytes(123)).shape", environ=sanitized.environ())
    assert result.returncode != 0
    assert "runtime error: signed integer overflow" in result.stderr


def go(*arguments, **environ):
    return succeeds("go", *arguments, cwd=ROOT, environ={"CC": "gcc", **environ})


@pytest.mark.long
def test_the_go_packages_have_no_races():
    go("test", "-race", "./...")


# These count allocations, or look at the stack's address: AddressSanitizer changes both.
NOT_SO_IN_GO = {
    "TestArrowDataBeginsAtItsOffset",
    "TestCopyAllocatesNothing",
    "TestCopyIntoAllocatesNothing",
    "TestDescribeAllocatesNothing",
    "TestIntoAllocatesNothing",
    "TestReservedStackIsNotMovedByDeepCalls",
}


@pytest.mark.long
def test_the_go_packages_and_their_tests_keep_to_their_memory():
    """Each package's tests also run to the end: a report would end them early."""
    environ = {"CC": "gcc", "ASAN_OPTIONS": "allocator_may_return_null=1"}
    result = run("go", "test", "-asan", "./...", cwd=ROOT, environ=environ, timeout=600)
    output = result.stdout + result.stderr
    assert not re.findall("ERROR: AddressSanitizer.*|fatal error: .*", output)
    assert set(re.findall(r"^--- FAIL: (\w+)", output, re.MULTILINE)) == NOT_SO_IN_GO, output


def host(folder, sources=ROOT):
    """Builds without -pie: with it the race detector finds no room for its own memory."""
    archive, program = folder / "core.a", folder / "host"
    succeeds("go", "build", "-race", "-buildmode=c-archive", "-o", archive, "./pyext/core", cwd=sources)
    include = sources / "pyext" / "core"
    succeeds("gcc", "-O1", "-g", "-no-pie", "-pthread", f"-I{include}", HOST, archive, "-o", program)
    return program


HALT = {"GORACE": "halt_on_error=1"}  # at its end a program of C says nothing of races


@pytest.mark.long
def test_threads_of_c_race_nowhere_in_the_core(tmp_path, figure):
    calls = int(succeeds(host(tmp_path), 200, environ=HALT).stdout)
    figure("rounds of calls in threads of C under the race detector", calls)


def fault_in_go(statement, declaration=""):
    """A statement that each call of the core runs."""
    describe = "func describe(request *C.struct_request, answer *C.struct_answer) error {\n"
    return "pyext/core/main.go", describe, f"{declaration}\n{describe}\t{statement}\n"


@pytest.mark.long
def test_a_seeded_race_is_found(tmp_path):
    """Between workers of a copy: what calls C in between counts as ordered."""
    piece = "func (j *job) copyPiece(i int) {\n"
    copy_sources(tmp_path, seed(("pkg/strided/share.go", piece, f"var copied int\n\n{piece}\tcopied++\n")))
    result = run(host(tmp_path, tmp_path), 20, environ=HALT, timeout=600)
    assert result.returncode == 66 and "WARNING: DATA RACE" in result.stderr


CHECKPTR = "-gcflags=all=-d=checkptr"
CGOCHECK2 = ("build.py", '"CGO_ENABLED": "1"', '"CGO_ENABLED": "1", "GOEXPERIMENT": "cgocheck2"')
NO_POINTER = fault_in_go("nowhere = (*byte)(unsafe.Pointer(number))", "var number, nowhere = uintptr(1), (*byte)(nil)")
POINTER_IN_C = fault_in_go("*(**int)(unsafe.Pointer(&request.data)) = new(int)")


@pytest.mark.long
@pytest.mark.parametrize(("flags", "edits"), [([CHECKPTR], []), ([], [CGOCHECK2])], ids=["checkptr", "cgocheck2"])
def test_go_breaks_no_rule_of_pointers(tmp_path, figure, flags, edits):
    package = build(tmp_path, *flags, edit=seed(*edits))
    done = succeeds(*operations(300_000), environ={"PYTHONPATH": path(package)}).stdout
    figure("operations", int(done))
    names = [*CORE, "functions/test_copy.py", "functions/test_properties.py", "cuda/test_cuda_copies.py"]
    figure("tests", pytest_of(names, environ={"PYTHONPATH": path(package)}))


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "edits", "message"),
    [
        ([CHECKPTR], [NO_POINTER], "checkptr: pointer arithmetic computed bad pointer value"),
        ([], [CGOCHECK2, POINTER_IN_C], "Go pointer"),
    ],
    ids=["checkptr", "cgocheck2"],
)
def test_a_seeded_breach_of_the_rules_of_pointers_is_found(tmp_path, flags, edits, message):
    package = build(tmp_path, *flags, edit=seed(*edits))
    result = run(*operations(1), environ={"PYTHONPATH": path(package)}, timeout=600)
    assert result.returncode != 0 and message in result.stderr


class Memcheck:
    """Runs a program under valgrind and keeps this package's errors: those with a frame in the extension, and invalid
    reads, writes and frees in the core. Go's own stacks and the interpreter's are full of false errors."""

    OURS = "_dlpack.abi3.so"
    CORE = "_core.so"

    def __init__(self, folder):
        self.reports = folder / "valgrind"
        self.reports.mkdir()

    def command(self, *command):
        valgrind = shutil.which("valgrind")
        assert valgrind, "no valgrind: install it (Debian: valgrind)"
        options = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite", "--xml=yes"]
        return [valgrind, *options, f"--xml-file={self.reports}/%p.xml", "--num-callers=40", *command]

    def errors(self):
        return [error for path in self.reports.iterdir() for error in self.errors_in(path)]

    def errors_in(self, path):
        for error in ElementTree.parse(path).iter("error"):
            kind = error.findtext("kind")
            objects = [Path(frame.findtext("obj", "")).name for frame in error.find("stack").iter("frame")]
            functions = [frame.findtext("fn", "?") for frame in error.find("stack").iter("frame")]
            in_go = self.CORE in objects[:1] and kind in ("InvalidRead", "InvalidWrite", "InvalidFree")
            if self.OURS in objects or in_go:
                yield kind, functions


@pytest.mark.long
def test_mixed_operations_are_clean_under_valgrind(tmp_path, figure):
    package = build(tmp_path, cflags="-g -O1 -fno-lto")
    memcheck = Memcheck(tmp_path)
    environ = {"PYTHONMALLOC": "malloc", "PYTHONPATH": path(package)}
    done = succeeds(*memcheck.command(*operations(2000)), environ=environ).stdout
    figure("operations under valgrind", int(done))
    assert not memcheck.errors()


@pytest.mark.long
def test_seeded_faults_are_found_by_valgrind(tmp_path):
    package = build(tmp_path, cflags="-g -O1 -fno-lto", edit=seed(*MEMORY_FAULTS))
    memcheck = Memcheck(tmp_path)
    environ = {"PYTHONMALLOC": "malloc", "PYTHONPATH": path(package)}
    run(*memcheck.command(*operations(1)), environ=environ, timeout=600)
    found = {(kind, function) for kind, functions in memcheck.errors() for function in functions[:3]}
    assert found >= {
        ("Leak_DefinitelyLost", "make_block"),
        ("InvalidRead", "destroy_capsule"),
        ("InvalidWrite", "object_describe"),
    }
