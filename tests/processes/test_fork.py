"""A forked child inherits a Go runtime without threads. It must work all the same: nothing hangs, nothing dies, and
nothing is left behind."""

import _thread
import contextlib
import ctypes
import gc
import itertools
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

from dlpack import asdlpack
from support import libraries, process
from support.alone import TESTS, alone, python, uses_dev_shm
from support.threads import FREE, ForeignThreads

SECONDS = 200  # of one long form of children; a slow machine forks fewer

PARENTS = ["right after the import", "idle", "just back from Go", "with threads inside Go"]


@pytest.mark.parametrize("parent", PARENTS)
@alone(timeout=280)
def test_children_use_everything_and_fork_five_deep(parent, effort, figure):
    from support import everything, forks

    inherited = []
    if parent != "right after the import":
        everything.use()
        inherited.append(everything.Inherited())
    numbers = itertools.count()
    gc.collect()
    gc.freeze()  # collections in the children need not look at all the modules

    def descend(depth):
        everything.use()
        if depth > 0:
            forks.fork_and_join(lambda: descend(depth - 1))
        else:
            os.write(writing, b".")

    def goes_deep(number):
        return number == 3 or number % 25 == 0

    def child():
        number = next(numbers)
        for held in inherited:
            held.drop()
        everything.use()
        if number % 3 == 0:
            forks.use_all_in_threads(2)
        if goes_deep(number):
            descend(5)

    reading, writing = os.pipe()
    count, end = effort(10, 2500), time.monotonic() + effort(20, SECONDS)
    done = deep = 0
    with forks.Load(3) if parent == "with threads inside Go" else contextlib.nullcontext():
        while done < count and time.monotonic() < end:
            if parent == "just back from Go":
                forks.ask_core()
            deep += 2 * goes_deep(next(numbers) + 1)
            forking = [lambda: forks.fork(child), lambda: process.in_thread(lambda: forks.fork(child))]
            for pid in [fork() for fork in forking]:
                forks.join(pid)
                done += 1
    assert threading.active_count() == 1
    everything.use()
    os.close(writing)
    with open(reading) as leaves:
        assert len(leaves.read()) == deep > 0
    figure("children", done)
    figure("which forked five deep", deep)


@alone(timeout=280)
def test_forks_in_a_row_leave_no_descriptor_and_no_mapping(effort, figure):
    """In parents, in children and in theirs. A table of Python's may become a mapping of its own meanwhile, once."""
    from support import forks

    count = effort(30, 1000)

    def mappings():
        with open("/proc/self/maps") as lines:
            return len(list(lines))

    def state():
        return process.open_files(), mappings(), process.address_space()

    def fork_many(times):
        forks.use_all()
        forks.fork_and_join(forks.use_all)
        files, maps, addresses = state()
        for _ in range(times):
            forks.fork_and_join(forks.use_all)
        files_now, maps_now, addresses_now = state()
        assert files_now == files
        assert maps_now - maps < times
        assert addresses_now - addresses < times << 20  # the core has 2 MiB

    def family():
        fork_many(count // 10)

    fork_many(count)
    forks.fork_and_join(family)
    forks.fork_and_join(lambda: (forks.use_all(), forks.fork_and_join(family)))
    figure("forks", count + 2 * (count // 10))


@alone(timeout=280)
def test_every_generation_of_a_long_line_starts_a_core(effort, figure):
    """Each inherits the dead cores of all before it."""
    from support import forks

    generations = effort(12, 50)

    def descend(left):
        forks.use_all()
        if left:
            forks.fork_and_join(lambda: descend(left - 1))

    descend(generations)
    figure("generations", generations)


@alone
def test_a_fork_of_a_child_that_used_nothing_works():
    from support import forks

    forks.use_all()
    for _ in range(5):
        forks.fork_and_join(lambda: forks.fork_and_join(forks.use_all))


@alone
def test_a_child_that_meets_known_kinds_alone_makes_no_call_into_go():
    from support import forks

    def use_ordinary_memory_without_go():
        before = forks.core_calls()
        forks.use_ordinary_memory()
        assert forks.core_calls() == before

    forks.use_ordinary_memory()
    for _ in range(10):
        forks.fork_and_join(use_ordinary_memory_without_go)


@alone
def test_a_child_exports_and_reads_what_it_inherited():

    import dlpack
    from support import forks

    source = bytearray(range(100))
    x = dlpack.asdlpack(source)
    delegate = dlpack.asdlpack(np.arange(6.0))

    def use():
        assert np.from_dlpack(x).tolist() == list(range(100))
        assert np.from_dlpack(delegate).tolist() == list(range(6))
        assert delegate.shape == (6,)
        assert dlpack.asdlpack(x, copy=True).pointer != x.pointer
        x.__dlpack__()

    for _ in range(10):
        forks.fork_and_join(use)
    use()


@pytest.mark.parametrize("memfds", [True, False])
@pytest.mark.parametrize(("limit", "named"), [("RLIMIT_NOFILE", "ulimit -n"), ("RLIMIT_FSIZE", "ulimit -f")])
@alone
def test_a_child_without_a_copy_of_the_core_names_the_limit(limit, named, memfds):
    from support import forks, seccomp

    forks.use_all()

    def use():
        kind = getattr(resource, limit)
        limits = resource.getrlimit(kind)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which ends a process that writes beyond; Python ignores it
        if not memfds:
            seccomp.forbid(seccomp.NO_MEMFD)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(kind, (free if limit == "RLIMIT_NOFILE" else 4096, limits[1]))
        forks.use_ordinary_memory()
        files = set(os.listdir("/proc/self/fd")) if limit == "RLIMIT_FSIZE" else set()
        error, why = (OSError, "epoll") if limit == "RLIMIT_NOFILE" else (RuntimeError, "fork")
        with pytest.raises(error, match=f"{why}.*raise {named}") as raised:
            forks.ask_core()
        assert "TMPDIR" not in str(raised.value)
        resource.setrlimit(kind, limits)
        assert limit != "RLIMIT_FSIZE" or set(os.listdir("/proc/self/fd")) == files
        forks.use_all()

    forks.fork_and_join(use)


@alone
def test_children_of_a_parent_whose_core_is_starting_work():
    """A start keeps the GIL: the thread that starts the core gets it before the fork or after."""
    from support import forks

    reading, writing = os.pipe()

    def fork_while_the_core_starts():
        ended = _thread.allocate_lock()
        ended.acquire()
        _thread.start_new_thread(lambda: (forks.use_all(), ended.release()), ())
        if forks.core_calls() == 0:
            os.write(writing, b".")
        forks.fork_and_join(forks.use_all)
        ended.acquire()

    for _ in range(20):
        forks.fork_and_join(fork_while_the_core_starts)
    os.close(writing)
    assert os.read(reading, 20), "each core had started before the fork"


@pytest.mark.parametrize("meanwhile", ["the core starts", "Python forks"])
@alone
def test_a_fork_in_which_another_library_takes_the_gil_ends(meanwhile):
    """The handlers that run before a fork run in the opposite order of their registration: this library's runs when
    dlpack's has."""
    with libraries.library("fork_handler") as path:
        library = ctypes.PyDLL(path)
    assert library.register_handler() == 0
    from support import forks

    sys.setswitchinterval(1000)  # nobody else gets the GIL from here on, unless a call lets it go
    assert library.begin_fork() == 0
    if meanwhile == "the core starts":
        forks.ask_core()
    else:
        forks.fork_and_join(lambda: None)
    assert ctypes.CDLL(path).end_fork() == 0
    forks.use_all()
    forks.fork_and_join(forks.use_all)


def hint_of_a_list():
    with pytest.raises(TypeError, match=r"pass numpy\.asarray\(obj\)"):
        asdlpack([1])


@alone
def test_a_child_that_is_forked_while_another_thread_loads_the_hints_may_be_refused():
    """Else it would wait for that thread, which it has not, to end the load."""
    from support import forks

    class Finder:
        """Tells when the hints are looked for."""

        def find_spec(self, name, path=None, target=None):
            if name == "dlpack._ways_out":
                begun.set()

    begun = threading.Event()
    sys.modules.pop("dlpack._ways_out", None)
    sys.meta_path.insert(0, Finder())
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=hint_of_a_list)
    thread.start()
    begun.wait()
    forks.fork_and_join(hint_of_a_list)
    thread.join()


@pytest.mark.skipif(not FREE, reason="with a GIL dicts and lists have no locks")
@alone
def test_a_child_needs_no_lock_that_another_thread_holds():
    """As dict.get takes one of a dict. When the world stops for a fork, who holds it gives it to who waits for it; the
    child has nobody who would let it go."""
    import ml_dtypes

    import dlpack.structs  # noqa: F401
    from support import everything, forks

    def give():
        """Fills what dlpack.to caches of libraries and types, and reads it."""
        for source in np.zeros(1, ml_dtypes.bfloat16), bytes(2):
            for _ in range(3):
                dlpack.to(asdlpack(source), "numpy")
                dlpack.to(source, np.ndarray)

    give()

    class Slow:
        """A key or item that keeps whoever looks for it, with the lock, until the fork."""

        def __hash__(self):
            compared.append(self)
            while not forked:
                pass
            return 0

        def __eq__(self, other):
            return hash(self) != 0

    def look_for_it(container):
        reached.append(threading.get_native_id())
        _ = container.get(Slow()) if type(container) is dict else container == [Slow()] * len(container)

    def is_asleep(thread):
        with open(f"/proc/self/task/{thread}/stat") as fields:
            return fields.read().rpartition(")")[2].split()[0] == "S"

    everything.be_refused()
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "dlpack"]
    values = {id(value): value for module in modules for name, value in vars(module).items() if name[:2] != "__"}
    containers = [value for value in values.values() if value and type(value) in (dict, list)]
    containers.remove(sys.modules)
    for container in [everything.BIG_ENDIAN, *containers]:
        reached, compared, forked = [], [], []
        threads = [threading.Thread(target=look_for_it, args=(container,)) for _ in range(2)]
        threads[0].start()
        while not compared:
            pass
        threads[1].start()
        while len(reached) < 2 or not is_asleep(reached[1]):
            pass
        time.sleep(0.002)  # a lock is given to who has waited for a millisecond; else whoever comes first takes it
        child = forks.fork(lambda: (everything.use(), everything.be_refused(), give()))
        forked.append(child)
        forks.join(child)
        for thread in threads:
            thread.join()
    assert len(containers) > 10


@alone
def test_programs_started_while_the_core_starts_inherit_nothing(effort, figure):
    """By threads that need no GIL. If standard descriptors are closed, sockets stand in for them at that time."""
    import dlpack  # noqa: F401  # the core starts in children
    from support import forks

    system = ctypes.cast(ctypes.CDLL(None).system, ctypes.c_void_p)
    with tempfile.NamedTemporaryFile("r") as found:
        command = ctypes.create_string_buffer(f"ls -l /proc/self/fd >> {found.name}".encode())

        def start_core():
            os.close(0)
            threads = ForeignThreads()
            for _ in range(20):
                threads.start(system, command)
            forks.use_all()
            threads.join()

        children = effort(10, 150)
        for _ in range(children):
            forks.fork_and_join(start_core)
        listed = found.read()
    assert listed.count("total") == 20 * children and "socket:" not in listed
    figure("programs started", 20 * children)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["before the fork", "in the parent", "in the child"])
@alone
def test_a_fork_handler_of_another_library_may_use_the_core(which, started):
    """Registered before dlpack's, it is called while that fork is still going on for dlpack, and in the child before
    dlpack has forgotten the parent's core. How long the start waits for the fork depends on no other thread."""
    used = []
    handlers = [None, None, None]
    handlers[which] = ctypes.CFUNCTYPE(None)(lambda: used.append(dlpack.asdlpack(source, copy=True).nbytes))
    assert ctypes.CDLL(None)["__register_atfork"](*handlers, None) == 0
    import dlpack
    from support import forks

    source = memoryview(bytearray(32 << 20))[::2]  # which Go's threads copy together
    ended = []
    if started:
        forks.use_all()

    def use():
        assert used == ([] if which == 1 else [source.nbytes])
        forks.use_all()

    def compute():
        while not ended:
            sum(range(1000))

    # A handler that runs Python code in the child hangs in CPython, if another thread waited for the GIL at the fork.
    in_child = which == 2
    computing = [] if in_child else [threading.Thread(target=compute) for _ in range(3)]
    for thread in computing:
        thread.start()
    forks.fork_and_join(use)
    ended.append(1)
    for thread in computing:
        thread.join()
    assert used == ([] if which == 2 else [source.nbytes])
    forks.use_all()


INTERRUPTED_FORKS = """
import os, signal
import dlpack

class Interrupted(Exception):
    pass

def interrupt(*_):
    handled.append(1)
    raise Interrupted

def wait_for(attempt):  # not in the loop below: what is raised at its end, Python 3.13 finds no `except` for
    while len(handled) == attempt:
        pass

memory, handled, caught = bytearray(b"x") * (100 << 20), [], 0  # with which a fork takes some milliseconds
signal.signal(signal.SIGALRM, interrupt)
for attempt in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        if os.fork() == 0:
            os._exit(0)
        wait_for(attempt)
    except Interrupted:
        caught += 1
    os.wait()
print(caught)
"""


def test_an_exception_of_a_signal_handler_in_a_fork_is_raised():
    """Python prints the exceptions of functions that it calls at a fork, and goes on. The process runs without pytest:
    pytest imports logging, which registers such functions."""
    result = python(INTERRUPTED_FORKS)
    assert (result.stdout, result.stderr) == ("20\n", "")


@pytest.mark.parametrize("use", ["copy of bytes", "export"])
@alone
def test_ctrl_c_while_a_child_copies_the_core_reaches_the_program(use):
    """Without a memfd: the copy is a temporary file."""
    import dlpack
    from support import forks, seccomp
    from support.capi import Speaks

    array = forks.ask_core()  # the core starts
    producer = Speaks(__dlpack__=array.__dlpack__, __dlpack_device__=lambda: (1, 0))
    interrupts = []

    def interrupt(event, arguments):
        if event == "open" and "dlpack-core" in str(arguments[0]) and not interrupts:
            interrupts.append(event)
            signal.raise_signal(signal.SIGINT)

    def work():
        seccomp.forbid(seccomp.NO_MEMFD)
        sys.addaudithook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            if use == "export":
                dlpack.asdlpack(producer, copy=None).__dlpack__(max_version=(1, 0))
            else:
                forks.ask_core()
        assert interrupts
        forks.use_all()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    forks.fork_and_join(work)


def work(number):
    """Runs in the workers of a pool."""
    from support import forks

    forks.use_all()
    return number


@uses_dev_shm
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@alone(timeout=120)
def test_the_workers_of_multiprocessing_work(method):
    from support import forks

    forks.use_all()
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert pool.map_async(work, range(20)).get(forks.DEADLINE) == list(range(20))


@alone
def test_a_program_started_after_a_call_into_go_works():
    from support import forks

    forks.use_all()
    for _ in range(5):
        program = [sys.executable, "-c", "import dlpack; dlpack.frombuffer(b'1', 'int4')"]
        subprocess.run(program, check=True, timeout=forks.DEADLINE)
        subprocess.run(["true"], check=True, timeout=forks.DEADLINE, preexec_fn=forks.use_all)


@alone
def test_a_child_may_close_all_descriptors_after_a_call_into_go():
    """As subprocess does between preexec_fn and exec. The runtime may look at its own every 10 ms."""

    from dlpack import asdlpack
    from support import forks

    transposed = np.zeros((3000, 3000), "f4").T

    def child():
        asdlpack(transposed, copy=True)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        for _ in range(10):
            asdlpack(transposed, copy=True)

    for _ in range(3):
        forks.join(forks.fork(child))


@alone(timeout=240)
def test_a_thread_that_forked_may_end_in_the_child():
    """Go binds something to each thread that calls it, and its destructor would enter the dead runtime."""
    from support import forks

    children = []

    def fork_and_return():
        forks.ask_core()
        pid = os.fork()
        if pid:
            children.append(pid)

    with forks.Load(2):
        for _ in range(200):
            thread = threading.Thread(target=fork_and_return)
            thread.start()
            thread.join()
            forks.join(children.pop())


@pytest.mark.skipif(not process.is_capable(process.CAP_SYS_CHROOT), reason="needs root with CAP_SYS_CHROOT")
def test_a_fork_after_chroot_prints_nothing_and_its_child_works(tmp_path, package):
    """No module can be imported any more: device types that were not imported before are plain ints."""
    result = python(
        "import os, sys\n"
        f"sys.path.insert(0, {str(package.parent)!r})\n"
        "import dlpack\n"
        "x = dlpack.asdlpack(b'bytes')\n"
        f"os.chroot({str(tmp_path)!r})\n"
        "os.chdir('/')\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0: break\n"
        "    assert os.wait()[1] == 0\n"
        "assert x.device == (1, 0), x.device\n"
        "assert 'on device type 1:0' in repr(x), repr(x)\n"
        "assert dlpack.asdlpack(bytearray(3)).shape == (3,)\n"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_destructor_at_the_end_of_python_forks_and_reads_attributes():
    result = python(
        "import os, dlpack\n"
        "class Late:\n"
        "    def __init__(self): self.x, self.os = dlpack.asdlpack(b'bytes'), os\n"
        "    def __del__(self):\n"
        "        try: child = self.os.fork()\n"
        "        except RuntimeError: child = 0\n"  # from Python 3.12 on
        "        if child: self.os.wait()\n"
        "        print(self.x.device == (1, 0), self.x.shape, repr(self.x).split(',')[1], flush=True)\n"
        "late = Late()\n"  # goes when sys.meta_path is None
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (1 + (sys.version_info < (3, 12))) * "True (5,)  5 bytes on device type 1:0\n"


def test_a_child_forked_in_a_deleter_waits_for_its_threads_deleters():
    result = python(
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "import ctypes, os, threading, time, warnings, dlpack\nfrom support import capi\n"
        "warnings.simplefilter('ignore')  # of the core's threads, from Python 3.12 on\n"
        "class Forks(bytearray):\n"
        "    def __del__(self): os.fork() and os.wait()\n"
        "class Slow(bytearray):\n"
        "    def __del__(self): begun.set(); time.sleep(0.5); print('done', flush=True)\n"
        "def delete(owner):\n"
        "    struct = capi.consume(dlpack.asdlpack(owner).__dlpack__())\n"
        "    deleter, address, owner = ctypes.cast(struct.deleter, ctypes.c_void_p).value, capi.address(struct), None\n"
        "    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)\n"
        "begun, parent = threading.Event(), os.getpid()\n"
        "delete(Forks(b'memory'))\n"
        "if os.getpid() != parent:\n"
        "    threading.Thread(target=lambda: delete(Slow(b'memory')), daemon=True).start()\n"
        "    begun.wait()\n"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


@pytest.mark.skipif(FREE, reason="without a GIL no deleter waits for it")
@alone
def test_a_child_ends_that_was_forked_while_a_threads_deleter_waited():
    """It has one thread, and would wait for that deleter when Python ends."""
    import dlpack
    from support import forks
    from support.capi import address, consume

    with libraries.library("deleters") as path:
        deleters = ctypes.PyDLL(str(path))  # which keeps the GIL
        deleters.take.argtypes = [ctypes.c_void_p]
        deleters.take(address(consume(dlpack.asdlpack(bytearray(8)).__dlpack__(max_version=(1, 3)))))
        sys.setswitchinterval(1000)
        assert deleters.hold_off() == 0
        child = os.fork()
        if child == 0:
            sys.exit()
        sys.setswitchinterval(0.005)
        forks.join(child)
        ctypes.CDLL(str(path)).wait_for_all()


@alone
def test_the_path_of_a_childs_core_leads_to_no_other_file():
    """A debugger that attaches opens it, and would wait for a pipe's writer."""
    paths = []

    class Library(ctypes.Structure):
        _fields_ = [("address", ctypes.c_size_t), ("path", ctypes.c_char_p)]

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Library), ctypes.c_size_t, ctypes.c_void_p)
    def note(library, *_):
        paths.append(library[0].path)
        return 0

    def use():
        forks.use_all()
        pipes = [os.pipe() for _ in range(20)]
        ctypes.CDLL(None).dl_iterate_phdr(note, None)
        (path,) = (path for path in paths if b"/proc/" in path)
        assert not os.path.exists(path), pipes

    import dlpack  # noqa: F401
    from support import forks

    forks.use_all()
    forks.fork_and_join(use)
