"""The end of a process: whatever is alive, it ends with its own status and prints nothing."""

import shlex
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.alone import JOBS, SUPPORT, TESTS, python, run

SOURCE = SUPPORT / "host.c"

BEGINNING = (
    f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
    "import ctypes, os, signal, threading, dlpack\nfrom support import forks\n"
    "x = dlpack.asdlpack(bytearray(b'bytes'))\n"
    "much = memoryview(bytearray(32 << 20))[::-1]\n"
    "def in_threads(work, count=4):\n"
    "    ready = threading.Barrier(count + 1)\n"
    "    def run():\n"
    "        ready.wait()\n"
    "        while True: work()\n"
    "    for _ in range(count): threading.Thread(target=run, daemon=True).start()\n"
    "    ready.wait()\n"
)
FOREVER = (
    "forever = ctypes.pythonapi.Py_IncRef\n"
    "forever.argtypes, forever.restype = (ctypes.py_object,), None\n"  # as a static of another extension does
)
PLAIN = "import numpy as np, dlpack\nx = dlpack.asdlpack(bytearray(b'bytes'))\n"
INTERPRETERS = (
    "try: import _interpreters as interpreters\n"
    "except ImportError: import _xxsubinterpreters as interpreters\n"
    "def ask(interpreter):\n"
    "    assert interpreters.run_string(interpreter, '''\n"
    "try: import dlpack\n"
    "except ImportError as error: assert 'main interpreter' in str(error)\n"
    "else: raise AssertionError\n"
    "''') is None\n"
    "    return interpreter\n"
)
# The last lines of programs with few imports, which exit with status 0.
EXITS = {
    "with everything alive": "keep = x, x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), np.from_dlpack(x)",
    "with capsules in a cycle": "keep = [x.__dlpack__(), x]; keep.append(keep); del x",
    "with an object in its own source": "class Memory(bytearray): pass\nm = Memory(9); m.x = dlpack.asdlpack(m)",
    "with a capsule in sys": "import sys; sys.keep = x.__dlpack__(), dlpack.asdlpack(x.__dlpack__())",
    "with a capsule in builtins": "import builtins; builtins.keep = np.from_dlpack(x); del x",
    "using all in atexit": (
        "import atexit\n"
        "keep = x.__dlpack__()\n"
        "@atexit.register\n"
        "def last():\n"
        "    assert np.from_dlpack(dlpack.asdlpack(keep)).tolist() == list(b'bytes')\n"
        "    dlpack.frombuffer(bytes(7), 'int4')"
    ),
    "using all in a finaliser": (
        "class Last:\n"
        "    def __del__(self):\n"
        "        memoryview and dlpack.frombuffer(bytes(11), 'int4').__dlpack__()\n"
        "last = Last(); last.self = last"
    ),
    "with a delegate and its import": "y = dlpack.asdlpack(np.arange(3)); y.shape; keep = y.__dlpack__()",
    "with a copy": "y = dlpack.asdlpack(x, copy=True); keep = y, y.__dlpack__()",
    "in a forked child too": (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')  # of the core's threads, from Python 3.12 on\n"
        "child = os.fork()\n"
        "keep = x.__dlpack__(), dlpack.frombuffer(bytes(13), 'int4')\n"
        "if child: assert os.wait()[1] == 0"
    ),
    "before a deleter is called": (
        f"import ctypes, sys; sys.path.insert(0, {str(TESTS)!r}); from support import capi\n"
        "for version in (None, (1, 0)):\n"
        "    managed = capi.consume(x.__dlpack__(max_version=version))\n"
        "    deleter = ctypes.cast(managed.deleter, ctypes.c_void_p)\n"
        "    ctypes.CDLL(None).__cxa_atexit(deleter, ctypes.c_void_p(capi.address(managed)), None)"
    ),
    "while threads that it does not know call deleters": (
        f"import ctypes, sys; sys.path.insert(0, {str(TESTS)!r}); from support import capi\n"
        "start = ctypes.CDLL(None).pthread_create\n"
        "start.argtypes = (ctypes.c_void_p,) * 4\n"
        "managed = [capi.consume(dlpack.asdlpack(bytearray(9)).__dlpack__()) for _ in range(200)]\n"
        "starts = [(ctypes.cast(m.deleter, ctypes.c_void_p), capi.address(m)) for m in managed]\n"
        "class Last:\n"
        "    def __del__(self, start=start, starts=starts, thread=ctypes.c_ulong(), byref=ctypes.byref):\n"
        "        for deleter, address in starts: start(byref(thread), None, deleter, address)\n"
        "last = Last(); last.self = last"
    ),
}
# The last lines of programs, and their exit status.
MORE = {
    "with capsules in statics of other extensions": (
        f"{FOREVER}for it in x, x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), memoryview(x): forever(it)",
        0,
    ),
    "with the package's own modules in statics": (
        f"{FOREVER}for name in list(sys.modules): 'dlpack' in name and forever(sys.modules[name])",
        0,
    ),
    "with copies in statics, as a producer too": (
        f"{FOREVER}y = dlpack.asdlpack(much, copy=True)\n"
        "for it in y, y.__dlpack__(), dlpack.asdlpack(y.__dlpack__()), memoryview(y), y.__arrow_c_array__():\n"
        "    forever(it)",
        0,
    ),
    "while daemon threads copy": ("in_threads(lambda: dlpack.asdlpack(much, copy=True).__dlpack__())", 0),
    "while daemon threads meet new kinds": ("in_threads(forks.use_all)", 0),
    "while daemon threads share and drop": (
        "import numpy\nin_threads(lambda: numpy.from_dlpack(dlpack.asdlpack(bytearray(9))), 8)",
        0,
    ),
    "while a daemon thread starts the core": (
        "threading.Thread(target=lambda: forks.ask_core(), daemon=True).start()",
        0,
    ),
    "while a finaliser copies": (
        "class Last:\n"
        "    def __del__(self, asdlpack=dlpack.asdlpack, much=much): asdlpack(much, copy=True)\n"
        "in_threads(lambda: dlpack.asdlpack(much, copy=True))\n"
        "last = Last(); last.self = last",
        0,
    ),
    "by SystemExit, with a copy at work": ("in_threads(lambda: dlpack.asdlpack(much, copy=True)); sys.exit(3)", 3),
    "by os._exit, with a copy at work": ("in_threads(lambda: dlpack.asdlpack(much, copy=True)); os._exit(4)", 4),
    "by SIGTERM, with a copy at work": (
        "in_threads(lambda: dlpack.asdlpack(much, copy=True)); os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
        -15,
    ),
    "by SIGTERM that comes in its only thread's copy": (
        "parent = os.getpid()\n"
        "if os.fork() == 0: os.kill(parent, signal.SIGTERM); os._exit(0)\n"
        "while True: dlpack.asdlpack(much, copy=True)",
        -15,
    ),
    "by exit() of C, with a copy at work": (
        "in_threads(lambda: dlpack.asdlpack(much, copy=True)); ctypes.CDLL(None).exit(5)",
        5,
    ),
    "by exec, with a copy at work": (
        "in_threads(lambda: dlpack.asdlpack(much, copy=True))\n"
        "program = 'import dlpack; dlpack.asdlpack(bytes(9), copy=True); raise SystemExit(6)'\n"
        "os.execv(sys.executable, [sys.executable, '-c', program])",
        6,
    ),
    "in a forked child, by its own end": (
        "in_threads(forks.use_all)\n"
        "child = os.fork()\n"
        "keep = forks.ask_core().__dlpack__(), x.__dlpack__()\n"
        "if child: os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "sys.exit(7)",
        7,
    ),
    "after sub-interpreters that were refused": (
        f"{INTERPRETERS}for _ in range(3):\n"
        "    interpreter = ask(interpreters.create())\n"
        "    forks.use_all()\n"
        "    interpreters.destroy(interpreter)\n"
        "    forks.use_all()\n"
        "alive = ask(interpreters.create())\n"
        "keep = x.__dlpack__()",
        0,
    ),
}


def ends(program, status, times):
    """Runs the program so often, on all processors, and checks its end; returns how often."""
    with ThreadPoolExecutor(JOBS) as pool:
        for result in pool.map(lambda _: program(), range(times)):
            assert (result.returncode, result.stdout, result.stderr) == (status, "", "")
    return times


@pytest.mark.parametrize("how", [*EXITS, *MORE])
def test_the_process_ends_with_its_status_and_prints_nothing(how, effort, figure):
    code, status = (PLAIN + EXITS[how], 0) if how in EXITS else (BEGINNING + MORE[how][0], MORE[how][1])
    figure("ends", ends(lambda: python(code), status, effort(1, 100)))


def test_a_sub_interpreter_that_asks_first_takes_nothing_from_the_main_one(effort, figure):
    code = f"{INTERPRETERS}interpreter = ask(interpreters.create())\n{PLAIN}interpreters.destroy(ask(interpreter))\n"
    code += "assert bytes(dlpack.asdlpack(x, copy=True)) == b'bytes'"
    figure("ends", ends(lambda: python(code), 0, effort(1, 100)))


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """host.c, built with the Python that runs the tests inside."""
    program = tmp_path_factory.mktemp("host") / "host"
    version, folder = sysconfig.get_config_var("LDVERSION"), sysconfig.get_config_var("LIBDIR")
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED")
    inside = [f"-L{folder}", f"-Wl,-rpath,{folder}"] if shared else [f"-L{sysconfig.get_config_var('LIBPL')}"]
    libraries = shlex.split(" ".join(sysconfig.get_config_vars("LINKFORSHARED", "LIBS", "SYSLIBS")))
    command = ["cc", "-Wall", "-Wextra", "-Werror", f"-I{sysconfig.get_path('include')}", SOURCE, "-o", program]
    subprocess.run([*command, *inside, f"-lpython{version}", *libraries, "-pthread"], check=True)
    return program


PROGRAM = """
import array, gc, sys
sys.path[:0] = {path!r}
import dlpack

sources = [bytearray(range(9)), memoryview(bytes(range(6))).cast("B", (2, 3)), array.array("b", range(5))]
capsules = [x.__dlpack__() for x in [dlpack.asdlpack(source) for source in sources] * 20]
capsules += [dlpack.asdlpack(source, copy=True).__dlpack__() for source in sources]
capsules += [dlpack.asdlpack(dlpack.asdlpack(source).__dlpack__()).__dlpack__() for source in sources]
keep = dlpack.asdlpack(sources[0]), dlpack.asdlpack(sources[0]).__dlpack__()
"""


@pytest.mark.parametrize("begins", [1, 4])
@pytest.mark.parametrize("when", ["during", "after", "threads", "never"])
def test_tensors_outlive_a_python_inside_another_program(host, when, begins, effort, figure):
    import dlpack

    program = PROGRAM.format(path=[str(Path(dlpack.__file__).parents[1])])
    home = {"PYTHONHOME": sysconfig.get_config_var("prefix"), "PYTHONPATH": ""}
    times = ends(lambda: run(host, program, begins, when, environ=home), 0, effort(1, 100))
    figure("ends of Python", times * begins)
