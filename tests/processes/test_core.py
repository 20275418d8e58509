"""The Go core: when it starts, what it leaves alone, and how seldom it is asked."""

import _thread
import array
import contextlib
import ctypes
import importlib
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
    assert {name for name in names if not name.startswith("_")} == set(dlpack.__all__) - {"__version__"}


def test_a_name_that_is_imported_at_its_first_use_is_the_class():
    assert dlpack.DLDeviceType is dlpack.asdlpack(b"").device[0].__class__ is dlpack.DLDeviceType
    with pytest.raises(AttributeError, match="module 'dlpack' has no attribute 'DLDeviceTypes'"):
        _ = dlpack.DLDeviceTypes


@alone
def test_structs_is_there_without_an_import_of_its_own():
    assert dlpack.structs is importlib.import_module("dlpack.structs")


@alone
def test_the_core_starts_at_the_first_description():
    files, before = process.open_files(), process.threads()
    dlpack.asdlpack(bytearray(1))
    assert process.threads() > before
    assert process.opened_since(files) == process.OF_THE_CORE
    assert dlpack._dlpack._core_calls() == 1


@alone
def test_what_only_passes_through_never_starts_the_core():
    before = process.threads(), process.caught_signals()
    for values in np.arange(6.0), np.arange(6).reshape(2, 3).T, np.zeros(0), np.array(1.0):
        array = np.from_dlpack(dlpack.asdlpack(values))
        assert np.array_equal(array, values)
        assert values.size == 0 or array.ctypes.data == values.ctypes.data
        assert dlpack.asdlpack(values).__dlpack_device__() == (1, 0)
        repr(dlpack.asdlpack(values).__dlpack__(max_version=(1, 0)))
    assert (process.threads(), process.caught_signals()) == before
    assert dlpack._dlpack._core_calls() == 0


def calls_of(function):
    """What a call returns or raises, and how often it called the core."""
    before = dlpack._dlpack._core_calls()
    try:
        result = function()
    except Exception as error:
        result = error
    return result, dlpack._dlpack._core_calls() - before


def sources():
    values = np.arange(24.0).reshape(4, 6)
    yield from (b"bytes", bytearray(5), array.array("i", [1, 2]), (ctypes.c_double * 3)(), memoryview(values))
    yield from (memoryview(values)[1:], memoryview(values.T), memoryview(values[::-1]), memoryview(np.array(3)))
    yield from (np.ones(3, ml_dtypes.bfloat16), np.ones((2, 2), ml_dtypes.float8_e5m2), np.ones(3, ml_dtypes.int4))


@alone
def test_a_description_asks_the_core_once_at_most_and_never_of_known_kinds():
    for source in sources():
        for most in 1, 0:
            shape, calls = calls_of(lambda source=source: dlpack.asdlpack(source).shape)
            assert isinstance(shape, tuple) and calls <= most, source


def test_bytes_of_any_length_and_place_are_one_kind():
    dlpack.asdlpack(b"1")
    for length in (*range(1, 300), 10**4, 10**6, 10**7):
        for kind in bytes, bytearray:
            assert calls_of(lambda kind=kind, length=length: dlpack.asdlpack(kind(length)).nbytes) == (length, 0)


@alone
def test_a_compact_kind_stays_known_whatever_strides_there_are_beside_it():
    values = np.zeros((130, 90), "u2")
    dlpack.asdlpack(memoryview(values))
    for i in range(1, 100):
        for j in range(1, 30):
            dlpack.asdlpack(memoryview(values[:i, :j]))
    assert calls_of(lambda: dlpack.asdlpack(memoryview(values[:7])).shape) == ((7, 90), 0)


@alone
def test_compact_arrays_of_any_shape_are_one_kind():
    for ndim in 2, 3, 9, 64:
        dlpack.asdlpack(memoryview(np.zeros((1,) * ndim, "u2")))
        for shape in ((1,) * ndim, (2, 3) + (1,) * (ndim - 2), (1,) * (ndim - 2) + (5, 7), (2,) * min(ndim, 10)):
            values = np.arange(np.prod(shape), dtype="u2").reshape(shape + (1,) * (ndim - len(shape)))
            x, calls = calls_of(lambda values=values: dlpack.asdlpack(memoryview(values)))
            assert calls == 0
            assert x.shape == values.shape
            assert x.strides == tuple(stride // 2 for stride in values.strides)
            np.testing.assert_array_equal(np.from_dlpack(x), values)


def test_compact_memory_with_a_shape_beyond_all_memory_is_no_known_kind():
    memory = bytearray(64)
    for shape in (2, 2), (2**31, 2**31), (2**62, 2), (2**40, 2**40), (2**63 - 1, 2):
        if max(shape) == 2:
            assert dlpack.frombuffer(memory, "int32", shape).shape == shape
        else:
            with pytest.raises(ValueError, match=r"shape \(\d+, \d+\)"):
                dlpack.frombuffer(memory, "int32", shape)


@alone
def test_arrays_with_gaps_are_one_kind_in_any_shape_and_strides():
    values = np.arange(8 * 9 * 10, dtype="u2").reshape(8, 9, 10)

    def wrap(values):
        x, calls = calls_of(lambda: dlpack.asdlpack(memoryview(values)))
        assert (x.shape, x.pointer) == (values.shape, values.ctypes.data)
        np.testing.assert_array_equal(np.from_dlpack(x), values)
        return calls

    assert wrap(values[:, ::2]) == 1
    for other in values[1:, 2:5], values.T, values[::-1, :, ::-3], values.transpose(1, 0, 2)[:1], values[:, :1, ::4]:
        assert wrap(other) == 0
    assert wrap(np.broadcast_to(values[0, :, :1], (4, 9, 6))) == 0


def lay_out(random, itemsize):
    """A random shape, with strides in bytes of which one in eight is not of whole items."""
    ndim = random.randint(1, 5)
    shape = [random.choice([1, 1, 2, 3, 5]) for _ in range(ndim)]
    steps = [itemsize * random.choice([-7, -2, -1, 0, 1, 1, 2, 3, 50]) for _ in range(ndim)]
    if random.random() < 1 / 8:
        steps[random.randrange(ndim)] += random.choice([-1, 1])
    return shape, steps


@pytest.mark.parametrize("itemsize", [1, 2, 8])
def test_a_known_kind_in_another_layout_is_what_numpy_says(itemsize, effort):
    """Of memory that its buffer describes, with strides in bytes, and of a capsule, with strides in items."""
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


def test_memory_without_items_is_not_taken_for_a_known_kind():
    memory = bytearray(64)
    assert dlpack.frombuffer(memory, "float32", (2, 3), offset=8, strides=(4, 1)).strides == (4, 1)
    for shape in (0, 0), (0, 3), (2, 0):
        x = dlpack.frombuffer(memory, "float32", shape, offset=8, strides=(0, 0))
        assert (x.shape, x.pointer) == (shape, 0)


def test_a_known_kind_with_strides_beyond_the_memory_is_refused():
    memory = bytearray(64)
    assert dlpack.frombuffer(memory, "int32", (2, 3), strides=(4, 1)).strides == (4, 1)
    for strides in (2**62, 1), (2**61, 2**61), (-1, 1), (14, 1), (2**63 - 1, 1), (-(2**63), 1), (4, -1), (1, 2**62):
        with pytest.raises(ValueError, match="strides"):
            dlpack.frombuffer(memory, "int32", (2, 3), strides=strides)
    assert dlpack.frombuffer(memory, "int32", (2, 3), strides=(13, 1)).nbytes == 24


@alone
def test_more_kinds_than_can_be_remembered_get_the_right_answers():
    """Each offset is a kind."""
    memory = bytearray(4 * 10_000)
    for _ in range(3):
        for extent in range(1, 10_000):
            x = dlpack.frombuffer(memory, "uint8", (extent, 2), offset=extent, strides=(3, 1))
            assert (x.shape, x.strides, x.nbytes) == ((extent, 2), (3 if extent > 1 else 2, 1), 2 * extent)


@alone
def test_where_no_more_kinds_are_remembered_the_known_stay_known():
    """What is remembered is never given up; each offset is a kind, and kinds without one have places of their own."""
    memory = bytes(10_000)

    def wrap(offset):
        x, calls = calls_of(lambda: dlpack.frombuffer(memory, "uint8", offset=offset))
        assert x.nbytes == 10_000 - offset
        return calls

    assert [wrap(offset) for offset in range(1, 9_999)] == [1] * 9_998
    again = [wrap(offset) for offset in range(1, 9_999)]
    assert again[:1000] == [0] * 1000
    assert sum(again) > 5000
    assert all(wrap(offset) <= calls for offset, calls in enumerate(again, 1))
    kinds = [array.array("d", [1.5] * extent) for extent in range(1, 10)]
    assert [calls_of(lambda kind=kind: dlpack.asdlpack(kind))[1] for kind in kinds] == [1] + [0] * 8


def test_an_answer_is_used_only_where_it_holds():
    """The offset of data from its alignment is no part of the key."""
    memory = memoryview(bytearray(8 * 8))
    start = -dlpack.asdlpack(memory).pointer % 8
    fitting = memory[start : start + 48].cast("d")
    assert dlpack.asdlpack(fitting).shape == (6,)
    for shift in range(1, 8):
        with pytest.raises(BufferError, match=r"aligned|multiple"):
            dlpack.asdlpack(memory[start + shift : start + shift + 48].cast("d"))
    assert calls_of(lambda: dlpack.asdlpack(fitting).shape) == ((6,), 0)


def misfits():
    yield "size 0", bytearray(0), None
    yield "size 0 in two dimensions", memoryview(np.zeros((3, 0))), None
    device = {"shape": (2,), "typestr": "<f4", "data": (1 << 40, False), "version": 3, "stream": None}
    yield "memory of CUDA without a driver", Speaks(__cuda_array_interface__=device), BufferError
    yield "text", Speaks(__array_interface__=np.array(["text"]).__array_interface__), BufferError
    yield "big-endian", memoryview(np.arange(3, dtype=">i4")), BufferError
    yield "pointers", memoryview(bytearray(8)).cast("P"), BufferError


def test_what_is_empty_refused_or_on_a_device_is_asked_anew_and_once():
    for name, source, error in misfits():
        for _ in range(3):
            found, calls = calls_of(lambda source=source: dlpack.asdlpack(source))
            assert (type(found), calls) == (error or dlpack.DLPackObject, 1), name


@alone
def test_threads_that_need_the_core_first_at_once_start_one():
    def start_in_child():
        before = process.libraries()
        threads.in_threads(lambda number: dlpack.asdlpack(forks.new_kind()))
        assert len(process.libraries() - before) == 1

    dlpack.asdlpack(b"bytes")
    for _ in range(10):
        forks.fork_and_join(start_in_child)


@alone
def test_hundreds_of_threads_make_their_first_calls_at_once_on_one_cpu():
    """One after the other: those that wait must leave the CPU to whoever goes on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    much = memoryview(bytearray(4 << 20))[::2]
    dlpack.asdlpack(forks.new_kind())
    threads.in_threads(lambda number: [dlpack.asdlpack(much, copy=True) for _ in range(2)], 400)


@alone
def test_the_core_has_few_threads_until_the_first_large_copy():
    """Whatever the number of CPUs. Threads that make the first one at once add threads once."""
    much = memoryview(bytearray(4 << 20))[::2]

    def copy_much(number):
        assert dlpack.asdlpack(much, copy=True).nbytes == 2 << 20

    def use_in_steps():
        before = process.threads()
        dlpack.asdlpack(forks.new_kind())
        if not threads.FREE:
            dlpack.asdlpack(much[:1000], copy=True)
        assert process.threads() - before == 7
        threads.in_threads(copy_much)
        grown = process.threads() - before
        copy_much(0)
        most = 3 + 4 * (len(os.sched_getaffinity(0)) + 4)
        assert 20 < process.threads() - before <= grown <= most + threads.THREADS  # which may still be on their way out

    use_in_steps()
    for _ in range(5):
        forks.fork_and_join(use_in_steps)


@alone
def test_forks_while_the_core_gets_more_threads_have_a_core_of_their_own():
    much = memoryview(bytearray(4 << 20))[::2]

    def fork_while_it_grows():
        dlpack.asdlpack(forks.new_kind())
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
    """With no forced switch of threads, another runs within asdlpack only where the GIL is released."""

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
    """Go's runtime raises it, for programs that are started later, too; select takes no descriptor beyond 1023."""
    assert forks.core_calls() == 0
    limits = 512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert dlpack.asdlpack(b"bytes").shape == (5,)
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
    source = forks.new_kind()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    for more in 0, 1:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, limit[1]))
        with pytest.raises(OSError, match="an epoll instance and an eventfd: Too many open files .*raise ulimit -n"):
            dlpack.asdlpack(source)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    everything.use()


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 1), (0, 1, 2)])
@alone
def test_a_start_with_closed_standard_descriptors_alone_left_says_so(closed):
    """Go gets none of these, and would end the process."""
    source = forks.new_kind()
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
            outcomes.append(dlpack.asdlpack(source).shape == source.shape)
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
