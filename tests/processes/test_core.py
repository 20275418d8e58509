"""The Go core: when it starts, what it leaves alone, and how seldom it is asked."""

import _thread
import array
import contextlib
import ctypes
import importlib
import mmap
import os
import resource
import sys
import threading
from pathlib import Path
from random import Random

import ml_dtypes
import numpy as np
import pytest

import dlpack
from support import everything, forks, process, threads
from support.alone import alone, run
from support.capi import Speaks


def test_an_import_needs_nothing_slow_and_shows_what_is_offered():
    folder = str(Path(dlpack.__file__).parents[1])
    code = f"import sys; sys.path.append({folder!r}); import dlpack; print(*sys.modules); print(*dir(dlpack))"
    result = run(sys.executable, "-I", "-S", "-c", code)
    assert result.returncode == 0, result.stderr
    modules, names = map(str.split, result.stdout.splitlines())
    assert not {"ctypes", "dlpack._device", "enum", "multiprocessing", "typing"} & set(modules)
    assert {name for name in names if not name.startswith("_")} == {*dlpack.__all__, "DLDeviceType"} - {"__version__"}


def test_a_name_that_is_imported_at_its_first_use_is_the_class():
    assert dlpack.DLDeviceType is dlpack.asdlpack(b"").device[0].__class__ is dlpack.DLDeviceType
    with pytest.raises(AttributeError, match="module 'dlpack' has no attribute 'DLDeviceTypes'"):
        _ = dlpack.DLDeviceTypes


@alone
def test_structs_is_there_without_an_import_of_its_own():
    assert dlpack.structs is importlib.import_module("dlpack.structs")


INTERFACE = {"version": 3, "typestr": "<f4", "shape": (2, 3), "data": (1 << 40, False)}


def ordinary():
    """An ordinary program: what it wraps, and how."""
    values = np.arange(24.0).reshape(4, 6)
    wrapped = (b"bytes", bytearray(5), b"", array.array("i", [1, 2]), mmap.mmap(-1, 10), (ctypes.c_double * 3)())
    views = (values, values[1:], values.T, values[::-1, ::2], values[:0], values[0, 0], np.array(3), values > 3)
    for source in (*wrapped, *views, *map(memoryview, views), Speaks(__array_interface__=INTERFACE)):
        yield dlpack.asdlpack(source)
    for dtype in ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4:
        yield dlpack.asdlpack(np.ones((2, 2), dtype))
    for dtype in "float32", "Float32", "f4", "<f4", "torch.bfloat16", np.dtype("i2"), "float4_e2m1fnx2":
        yield dlpack.frombuffer(bytearray(48), dtype)
        yield dlpack.frombuffer(bytearray(48), dtype, (2, -1, 3), offset=24)
        yield dlpack.from_pointer(1 << 40, (3, 2), dtype, strides=(-4, 1))


def use_ordinary_memory():
    before = process.threads(), process.open_files(), process.caught_signals(), process.address_space()
    for x in ordinary():
        assert dlpack.asdlpack(x.__dlpack__(max_version=(1, 3))).shape == x.shape
        repr(x)
    assert dlpack._dlpack._core_calls() == 0
    assert (process.threads(), process.open_files(), process.caught_signals()) == before[:3]
    assert process.address_space() - before[3] < 8 << 20  # CPython's own


@alone
def test_an_ordinary_program_starts_nothing():
    """No thread, no descriptor, no signal handler and no addresses: neither here nor in a forked child."""
    use_ordinary_memory()
    for _ in range(3):
        forks.fork_and_join(use_ordinary_memory)


UNUSUAL = {
    "packed items": lambda: dlpack.frombuffer(b"abc", "int4"),
    "a refusal": lambda: dlpack.frombuffer(b"abc", "int99"),
    "a copy of another byte order": lambda: dlpack.frombuffer(bytes(16000), ">f8", copy=None),
}


@pytest.mark.parametrize("name", UNUSUAL)
@alone
def test_unusual_memory_starts_the_core(name):
    files, before = process.open_files(), process.threads()
    with contextlib.suppress(ValueError):
        UNUSUAL[name]()
    assert process.threads() > before
    assert process.opened_since(files) == process.OF_THE_CORE
    assert dlpack._dlpack._core_calls() == 1


def calls_of(function):
    """Returns the result or error of function(), and how often it called the core."""
    before = dlpack._dlpack._core_calls()
    try:
        result = function()
    except Exception as error:
        result = error
    return result, dlpack._dlpack._core_calls() - before


def test_a_shape_beyond_all_memory_is_refused():
    memory = bytearray(64)
    for shape in (2, 2), (2**31, 2**31), (2**62, 2), (2**40, 2**40), (2**63 - 1, 2):
        if max(shape) == 2:
            assert dlpack.frombuffer(memory, "int32", shape).shape == shape
        else:
            with pytest.raises(ValueError, match=r"shape \(\d+, \d+\)"):
                dlpack.frombuffer(memory, "int32", shape)


def lay_out(random, itemsize):
    """A random shape, with strides in bytes of which one in eight is not of whole items."""
    ndim = random.randint(1, 5)
    shape = [random.choice([1, 1, 2, 3, 5]) for _ in range(ndim)]
    steps = [itemsize * random.choice([-7, -2, -1, 0, 1, 1, 2, 3, 50]) for _ in range(ndim)]
    if random.random() < 1 / 8:
        steps[random.randrange(ndim)] += random.choice([-1, 1])
    return shape, steps


@pytest.mark.parametrize("itemsize", [1, 2, 8])
def test_a_layout_is_what_numpy_says(itemsize, effort):
    """Tries a buffer, with strides in bytes, and a capsule, with strides in items."""
    memory = np.arange(1 << 13, dtype=f"u{itemsize}")
    random = Random(itemsize)
    for _ in range(effort(2_000, 100_000)):
        shape, steps = lay_out(random, itemsize)
        values = np.ndarray(shape, memory.dtype, memory, 2000 * itemsize, steps)
        odd = [i for i, n in enumerate(shape) if n > 1 and steps[i] % itemsize]
        if odd:
            with pytest.raises(BufferError, match=f"strides dimension {odd[0]} is "):
                dlpack.asdlpack(memoryview(values))
            continue
        x = dlpack.asdlpack(memoryview(values))
        again = dlpack.asdlpack(x.__dlpack__())
        for y in x, again:
            assert (y.shape, y.pointer) == (values.shape, values.ctypes.data)
            assert [step for step, n in zip(y.strides, shape, strict=True) if n > 1] == [
                step // itemsize for step, n in zip(steps, shape, strict=True) if n > 1
            ]
            np.testing.assert_array_equal(np.from_dlpack(y), values)


def test_memory_without_items_lies_nowhere():
    memory = bytearray(64)
    assert dlpack.frombuffer(memory, "float32", (2, 3), offset=8, strides=(4, 1)).strides == (4, 1)
    for shape in (0, 0), (0, 3), (2, 0):
        x = dlpack.frombuffer(memory, "float32", shape, offset=8, strides=(0, 0))
        assert (x.shape, x.pointer) == (shape, 0)


def test_strides_beyond_the_memory_are_refused():
    memory = bytearray(64)
    assert dlpack.frombuffer(memory, "int32", (2, 3), strides=(4, 1)).strides == (4, 1)
    for strides in (2**62, 1), (2**61, 2**61), (-1, 1), (14, 1), (2**63 - 1, 1), (-(2**63), 1), (4, -1), (1, 2**62):
        with pytest.raises(ValueError, match="strides"):
            dlpack.frombuffer(memory, "int32", (2, 3), strides=strides)
    assert dlpack.frombuffer(memory, "int32", (2, 3), strides=(13, 1)).nbytes == 24


def test_misaligned_memory_of_a_known_type_is_refused():
    memory = memoryview(bytearray(8 * 8))
    start = -dlpack.asdlpack(memory).pointer % 8
    fitting = memory[start : start + 48].cast("d")
    assert dlpack.asdlpack(fitting).shape == (6,)
    for shift in range(1, 8):
        with pytest.raises(BufferError, match=r"aligned|multiple"):
            dlpack.asdlpack(memory[start + shift : start + shift + 48].cast("d"))
    assert calls_of(lambda: dlpack.asdlpack(fitting).shape) == ((6,), 0)


def misfits():
    device = {"shape": (2,), "typestr": "<f4", "data": (1 << 40, False), "version": 3, "stream": None}
    yield "memory of CUDA without a driver", Speaks(__cuda_array_interface__=device), BufferError
    yield "text", Speaks(__array_interface__=np.array(["text"]).__array_interface__), BufferError
    yield "big-endian", memoryview(np.arange(3, dtype=">i4")), BufferError
    yield "pointers", memoryview(bytearray(8)).cast("P"), BufferError


def test_a_refusal_is_not_cached_and_calls_the_core_once():
    for name, source, error in misfits():
        for _ in range(3):
            found, calls = calls_of(lambda source=source: dlpack.asdlpack(source))
            assert (type(found), calls) == (error, 1), name


@alone
def test_threads_that_need_the_core_first_at_once_start_one():
    def start_in_child():
        before = process.libraries()
        threads.in_threads(lambda number: forks.ask_core())
        assert len(process.libraries() - before) == 1

    dlpack.asdlpack(b"bytes")
    for _ in range(10):
        forks.fork_and_join(start_in_child)


@alone
def test_hundreds_of_threads_make_their_first_calls_at_once_on_one_cpu():
    """One after the other: those that wait must leave the CPU to whoever goes on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    much = memoryview(bytearray(4 << 20))[::2]
    forks.ask_core()
    threads.in_threads(lambda number: [dlpack.asdlpack(much, copy=True) for _ in range(2)], 400)


@alone
def test_the_core_has_few_threads_until_the_first_large_copy():
    """Whatever the number of CPUs. Threads that make the first one at once add threads once."""
    much = memoryview(bytearray(4 << 20))[::2]

    def copy_much(number):
        assert dlpack.asdlpack(much, copy=True).nbytes == 2 << 20

    def use_in_steps():
        before = process.threads()
        forks.ask_core()
        if not threads.FREE:
            dlpack.asdlpack(much[:1000], copy=True)
        assert process.threads() - before <= 7
        threads.in_threads(copy_much)
        grown = process.threads() - before
        copy_much(0)
        most = 3 + 4 * (len(os.sched_getaffinity(0)) + 4)
        assert 7 < process.threads() - before <= grown <= most + threads.THREADS  # which may still be on their way out

    use_in_steps()
    for _ in range(5):
        forks.fork_and_join(use_in_steps)


@alone
def test_forks_while_the_core_gets_more_threads_have_a_core_of_their_own():
    much = memoryview(bytearray(4 << 20))[::2]

    def fork_while_it_grows():
        forks.ask_core()
        growing = threading.Thread(target=dlpack.asdlpack, args=(much,), kwargs={"copy": True})
        growing.start()
        forks.fork_and_join(forks.use_all)
        growing.join()

    for _ in range(20):
        forks.fork_and_join(fork_while_it_grows)


@alone
def test_importing_it_anew_works():
    x = dlpack.asdlpack(b"bytes")
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlpack"]:
        del sys.modules[name]
    again = importlib.import_module("dlpack")
    assert again is not dlpack
    assert again.asdlpack(x).shape == again.asdlpack(b"bytes").shape == (5,)


@pytest.mark.skipif(threads.FREE, reason="without a GIL other threads run during every copy")
@pytest.mark.serial
@alone(timeout=120)
def test_a_large_copy_lets_other_threads_run():
    """Without forced switches, another thread runs within asdlpack only if asdlpack releases the GIL."""

    def runs_during(copy):
        ran = []
        ready, gate, finished = locks = [_thread.allocate_lock() for _ in range(3)]

        def wait():
            ready.release()
            gate.acquire()
            ran.append(True)
            finished.release()

        for lock in locks:
            lock.acquire()
        _thread.start_new_thread(wait, ())
        ready.acquire()
        sys.setswitchinterval(1000)
        gate.release()
        copy()
        found = bool(ran)
        sys.setswitchinterval(0.005)
        finished.acquire()
        return found

    small, large = memoryview(bytearray(1 << 16))[::2], memoryview(bytearray(1 << 29))[::2]
    dlpack.asdlpack(small, copy=True)
    assert runs_during(lambda: dlpack.asdlpack(large, copy=True))
    assert not runs_during(lambda: dlpack.asdlpack(small, copy=True))


@alone
def test_the_start_leaves_the_limit_of_descriptors():
    """Go's runtime raises it, also for programs that are started later; select accepts no descriptor above 1023."""
    assert forks.core_calls() == 0
    limits = 512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    forks.ask_core()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


@alone
def test_a_process_without_descriptors_may_use_the_core_that_runs():
    """Go opens its own at the start, not when a garbage collection sets its first timer."""
    everything.use()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    for _ in range(3000):
        with pytest.raises(ValueError, match="floaf32"):
            dlpack.frombuffer(b"aaaa", "floaf32")
        dlpack.frombuffer(bytes(80_000), ">u4", copy=None)


@alone
def test_a_start_without_descriptors_says_so_and_works_when_there_are_some():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    for more in 0, 1:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, limit[1]))
        with pytest.raises(OSError, match="an epoll instance and an eventfd: Too many open files .*raise ulimit -n"):
            forks.ask_core()
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    everything.use()


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 1), (0, 1, 2)])
@alone
def test_a_start_with_closed_standard_descriptors_alone_left_says_so(closed):
    """Go gets none of these, and would end the process."""
    saved = [os.dup(number) for number in closed]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    for number in closed:
        os.close(number)
    outcomes = []
    for more in range(4):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, limit[1]))
        try:
            outcomes.append(forks.ask_core().shape == (8,))
        except OSError as error:
            outcomes.append("an epoll instance and an eventfd: Too many open files (close files" in str(error))
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    for number, copy in zip(closed, saved, strict=True):
        os.dup2(copy, number)
    assert outcomes == [True] * 4
    everything.use()


@alone
def test_the_core_takes_no_standard_descriptor_for_its_own():
    """A program that has closed one may open another file in its place."""
    os.close(0)
    everything.use()
    assert "0" not in process.open_files()
