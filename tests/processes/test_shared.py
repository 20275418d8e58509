"""dlpack.shared: processes write the same pages, whoever of them ends first, and nothing is left of them."""

import contextlib
import copy
import ctypes
import errno
import itertools
import mmap
import multiprocessing.util
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from multiprocessing import reduction, resource_sharer, resource_tracker
from multiprocessing.reduction import ForkingPickler

import ml_dtypes
import numpy as np
import pytest

import dlpack
from support import forks, layouts, seccomp, small_types
from support.alone import TESTS, alone, python, uses_dev_shm
from support.process import address_space, open_files
from support.threads import in_threads

METHODS = ["fork", "forkserver", "spawn"]
OTHERS = "uint1", "float32x4", "bfloat16x2", "float4_e2m1fnx2", ml_dtypes.bfloat16, ml_dtypes.int4, float


def passed(x):
    """As another process gets it, which here is this one: mapped anew."""
    return ForkingPickler.loads(ForkingPickler.dumps(x))


def files(process="self"):
    """The numbers of the shared files that a process has open or mapped."""
    with open(f"/proc/{process}/maps", errors="replace") as lines:  # any name that another program's file has
        found = {int(line.split()[4]) for line in lines if "dlpack.shared" in line}
    for descriptor in os.listdir(f"/proc/{process}/fd"):
        try:
            if "dlpack.shared" in os.readlink(f"/proc/{process}/fd/{descriptor}"):
                found.add(os.stat(f"/proc/{process}/fd/{descriptor}").st_ino)
        except FileNotFoundError:  # that of os.listdir
            continue
    return found


def holders(file):
    """The processes that keep it alive."""
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if file in files(process):
                found.add(int(process))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def wait_for_sharer():
    """Its thread closes a descriptor after it has sent it. All have been sent."""
    assert not resource_sharer._resource_sharer._cache
    resource_sharer.stop()


def add_one(x):
    array = np.from_dlpack(x)
    array += 1
    return x


def answer(take, give):
    give(add_one(take()))
    take()  # lives until the answer has been taken


def by_argument(context, x):
    process = context.Process(target=add_one, args=(x,))
    process.start()
    process.join()
    return x


def by_queue(context, x):
    here, there = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(here.get, there.put))
    process.start()
    here.put(dlpack.frombuffer(x, "float32", (2, 3)))  # nothing but the queue holds this one
    y = there.get()
    here.put(None)
    process.join()
    return y


def by_pipe(context, x):
    here, there = context.Pipe()
    process = context.Process(target=answer, args=(there.recv, there.send))
    process.start()
    here.send(x)
    y = here.recv()
    here.send(None)
    process.join()
    return y


def by_pool(context, x):
    with context.Pool(1) as pool:
        y = pool.apply(add_one, (x,))
        pool.close()
        pool.join()
    return y


@uses_dev_shm
@pytest.mark.parametrize("method", METHODS)
@alone(timeout=120)
def test_a_process_writes_the_pages_that_it_is_given_and_gives_back(method):
    context = multiprocessing.get_context(method)
    x = dlpack.shared((2, 3), "float32")
    [file] = files()
    for count, way in enumerate((by_argument, by_queue, by_pipe, by_pool), 1):
        y = way(context, x)
        assert np.from_dlpack(x).tolist() == np.from_dlpack(y).tolist() == [[count] * 3] * 2, way
        assert files() == {file}
        assert holders(file) == {os.getpid()}
        add_one(y)
        assert np.from_dlpack(x)[0, 0] == count + 1
        np.from_dlpack(x)[:] = count
    wait_for_sharer()
    del x, y
    assert holders(file) == set()


def make(connection):
    x = add_one(dlpack.shared(4, "int32"))
    connection.send(x)
    connection.recv()


def add_one_and_wait(x, connection):
    add_one(x)
    connection.send(os.getpid())
    connection.recv()


@pytest.mark.parametrize("method", METHODS)
@alone(timeout=120)
def test_a_killed_process_takes_nothing_from_the_others_and_leaves_nothing(method):
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    first = context.Process(target=make, args=(there,))
    first.start()
    x = here.recv()
    [file] = files()
    assert holders(file) == {os.getpid(), first.pid}
    first.kill()
    first.join()
    assert holders(file) == {os.getpid()}
    others = [context.Process(target=add_one_and_wait, args=(x, there)) for _ in range(2)]
    for other in others:
        other.start()
        assert here.recv() == other.pid
    assert np.from_dlpack(x).tolist() == [3] * 4
    array = np.from_dlpack(x)
    del x
    assert holders(file) >= {os.getpid(), *(other.pid for other in others)}
    others[0].kill()
    others[0].join()
    assert array.tolist() == [3] * 4
    del array
    assert holders(file) == {others[1].pid}
    others[1].kill()
    others[1].join()
    assert holders(file) == set()


@alone
def test_a_forked_child_has_the_same_pages_and_passes_them_on():
    x = dlpack.shared(3, "float32")
    add_one(passed(x))
    forks.fork_and_join(lambda: add_one(x))
    process = multiprocessing.get_context("fork").Process(target=lambda: add_one(passed(x)))
    process.start()
    process.join()
    assert np.from_dlpack(x).tolist() == [3] * 3


@alone
def test_a_child_of_a_plain_fork_passes_on_its_own():
    """multiprocessing's sharer numbers what it sends; a child goes on from its parent's last number."""
    x, y = dlpack.shared(1, "int8"), dlpack.shared(1, "int8")
    memoryview(x)[0], memoryview(y)[0] = 1, 2
    passed(x)
    here, there = multiprocessing.Pipe()
    if os.fork() == 0:
        there.send_bytes(ForkingPickler.dumps(x))
        there.recv()
        os._exit(0)
    of_child, of_parent = here.recv_bytes(), ForkingPickler.dumps(y)
    assert (bytes(ForkingPickler.loads(of_child)), bytes(ForkingPickler.loads(of_parent))) == (b"\1", b"\2")
    here.send(None)
    os.wait()


DAEMON = """
import multiprocessing, os, dlpack
x = dlpack.shared(1, "int8")
memoryview(x)[0] = 7
here, there = multiprocessing.Pipe()
here.send(x)
there.recv()
ended, of_parent = os.pipe()
if os.fork() == 0:
    os.close(of_parent)
    os.read(ended, 1)  # the parent has ended, and removed its folder of sockets
    here.send(x)
    print(bytes(there.recv()))
"""


def test_a_daemon_passes_on_memory_after_its_parent_has_ended():
    both = f"import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', {DAEMON!r}], text=True))"
    result = python(both)  # it waits for the end of what both print
    assert result.stdout.strip() == r"b'\x07'", result.stderr


@pytest.mark.skipif(hasattr(multiprocessing.util, "_SUN_PATH_MAX"), reason="this Python then takes another folder")
def test_a_folder_whose_path_is_too_long_for_a_socket_is_named(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    code = "import dlpack, multiprocessing as m; m.Pipe()[0].send(dlpack.shared(1, 'int8'))"
    result = python(code, environ={"TMPDIR": str(folder)})
    assert "it can't be passed on: AF_UNIX path too long (set TMPDIR to a folder with a short path)" in result.stderr


@alone
def test_every_dtype_is_zeroed_writable_and_passed():
    for dtype in *layouts.DTYPES, *small_types.ALL, *OTHERS:
        x = dlpack.shared((2, 4), dtype)
        wanted = dlpack.frombuffer(bytearray(x.nbytes), dtype, (2, 4))
        y = passed(x)
        for each in x, y:
            assert (each.dtype, each.shape, each._flags) == (wanted.dtype, (2, 4), wanted._flags)
            assert (bytes(each), each.readonly, each.pointer % mmap.PAGESIZE) == (bytes(wanted), False, 0)
        assert y.pointer != x.pointer
        np.asarray(dlpack.frombuffer(y, "uint8"))[:] = range(1, y.nbytes + 1)
        assert bytes(x) == bytes(range(1, x.nbytes + 1))


@alone
def test_memory_without_items_and_scalars_are_passed():
    for shape in (0, (2, 0, 3), ()):
        x = dlpack.shared(shape, "float64")
        y = passed(x)
        assert x.shape == y.shape == ((0,) if shape == 0 else shape)
    np.asarray(y)[()] = 5
    assert np.asarray(x) == 5


@alone
def test_views_are_passed_as_the_same_pages_and_once():
    x = dlpack.shared(8, "int16")
    view = dlpack.frombuffer(dlpack.frombuffer(x, "uint8"), "int16", (2, 2), offset=6, strides=(2, -1))
    same, y, again = passed([x, view, dlpack.frombuffer(x, "int32", offset=8)])
    np.asarray(same)[:] = range(8)
    assert np.asarray(y).tolist() == np.asarray(view).tolist() == [[3, 2], [5, 4]]
    assert again.pointer - same.pointer == 8
    assert len(files()) == 1 and same.obj is y.obj is again.obj is not x.obj


@alone
def test_all_else_is_pickled_as_ever():
    x = dlpack.shared(3, "float32")
    array = np.from_dlpack(x)
    assert copy.copy(x).pointer == dlpack.asdlpack(x).pointer == x.pointer
    copies = [copy.deepcopy(x), dlpack.asdlpack(x, copy=True), passed(dlpack.asdlpack(array))]
    copies += [pickle.loads(pickle.dumps(x, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    read_only = passed(dlpack.from_pointer(x.pointer, 3, "float32", readonly=True, owner=x))
    array += 1
    assert all(bytes(each) == bytes(12) for each in (*copies, passed(copies[0]), read_only)) and read_only.readonly
    buffers = []
    y = pickle.loads(pickle.dumps(x, 5, buffer_callback=buffers.append), buffers=buffers)
    assert y.pointer == x.pointer
    for other in (b"bytes", bytearray(b"bytes"), np.arange(6.0).reshape(2, 3).T):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            y = pickle.loads(ForkingPickler.dumps(dlpack.asdlpack(other), protocol))
            assert np.array_equal(np.asarray(y), np.asarray(dlpack.asdlpack(other)))
            assert y.readonly is isinstance(other, bytes)


@alone
def test_memory_made_and_passed_in_threads_leaves_nothing():
    common = [dlpack.shared(1, "int64")]

    def work(number):
        for count in range(20):
            x = dlpack.shared(1000, "int64")
            np.from_dlpack(passed(x))[:] = number + count
            assert np.from_dlpack(x).tolist() == [number + count] * 1000
            passed(common[0])

    in_threads(work, 8)
    wait_for_sharer()
    [file] = files()
    assert os.stat(f"/proc/self/fd/{common[0].obj.file.fileno()}").st_nlink == 0
    assert resource_tracker._resource_tracker._fd is None
    assert holders(file) == {os.getpid()}
    array = np.from_dlpack(common.pop())
    assert files() == {file}
    del array
    assert files() == set()


@alone
def test_memory_never_received_is_kept_until_the_sharer_stops():
    ForkingPickler.dumps(dlpack.shared(1, "int8"))
    assert len(files()) == 1
    resource_sharer.stop()
    assert files() == set()


@alone
def test_nobody_can_change_its_length():
    x = dlpack.shared(mmap.PAGESIZE, "uint8")
    for each in x, passed(x):
        for length in 0, 2 * mmap.PAGESIZE:
            with pytest.raises(PermissionError):
                os.ftruncate(each.obj.file.fileno(), length)
        for change in each.obj.close, lambda each=each: each.obj.resize(1):
            with pytest.raises(BufferError):
                change()
    add_one(x)


@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES, errno.ENOSYS])
@alone
def test_without_memfd_it_is_a_temporary_file_without_a_name(error):
    seccomp.forbid([("memfd_create", 0, 0, error)])
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        x = dlpack.shared(3, "float32")
        assert os.listdir(folder) == []
        assert os.readlink(f"/proc/self/fd/{x.obj.file.fileno()}").startswith(folder)
        add_one(passed(x))
        assert np.from_dlpack(x).tolist() == [1] * 3
        resource_sharer.stop()


REFUSED = {
    "negative": ((3, -2), "int8", ValueError, "shape dimension 1 is negative: -2"),
    "unknown": (-1, "int8", ValueError, "shape dimension 0 is -1, which needs memory of a known size"),
    "None": (None, "int8", TypeError, "shape: expected an int.*None needs memory of a known size"),
    "no int": ("3", "int8", TypeError, "shape: expected an int"),
    "beyond 64 bits": ((2**62, 4), "int8", ValueError, "too large"),
    "beyond all addresses": (2**60, "int8", MemoryError, f"dlpack.shared: {2**60} bytes can't be mapped"),
    "no dtype": (3, "floot", ValueError, '"floot": unknown.*did you mean'),
    "no name": (3, None, TypeError, "dtype: expected a name"),
    "big-endian": (3, ">f4", BufferError, 'big-endian.*such as "float32"'),
    "times": (3, np.dtype("M8[s]"), BufferError, "times; DLPack holds numbers .name a type of DLPack"),
}


@pytest.mark.parametrize(("shape", "dtype", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_shape_or_dtype_says_so(shape, dtype, error, text):
    wait_for_sharer()  # an earlier test's may not be closed yet
    before = files()
    with pytest.raises(error, match=text):
        dlpack.shared(shape, dtype)
    assert files() == before


@alone
def test_a_limit_of_the_size_of_files_says_so():
    """Also to a program that takes SIGXFSZ back, which Python ignores: it would end the process."""
    dlpack.shared(1, "int8")
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    dlpack.shared(4096, "int8")
    with pytest.raises(OSError, match="4097 bytes can't be mapped: File too large .*ulimit -f") as raised:
        dlpack.shared(4097, "int8")
    assert raised.value.errno == errno.EFBIG
    assert files() == set()


def send_often(connection, count):
    x = dlpack.shared(1, "int8")
    for _ in range(count):
        connection.send(x)
    connection.recv()


@alone
def test_without_descriptors_it_is_neither_made_nor_passed_nor_received():
    here, there = multiprocessing.get_context("fork").Pipe()
    sender = multiprocessing.get_context("fork").Process(target=send_often, args=(there, 16))
    sender.start()
    x, y = dlpack.shared(1, "int8"), here.recv()
    messages = [here.recv_bytes() for _ in range(15)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []

    def take_all():
        with pytest.raises(OSError, match="Too many"):
            while True:
                taken.append(os.dup(0))

    take_all()
    with pytest.raises(OSError, match="it can't be passed on: Too many open files .*ulimit -n"):
        ForkingPickler.dumps(x)
    for attempt, kind, what in (
        (lambda: dlpack.shared(3, "int8"), OSError, "3 bytes can't be mapped"),
        (lambda: ForkingPickler.loads(messages.pop()), RuntimeError, "it can't be received"),
    ):
        take_all()
        done = None
        while done is None:
            try:
                done = attempt()
            except kind as error:
                assert f"dlpack.shared: {what}: Too many open files (let some of it go, or raise" in str(error)
                os.close(taken.pop())
        assert len(taken) < 62
        del done
    del x, y
    assert files() == set()
    here.send(None)
    sender.join()


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
@pytest.mark.parametrize("denied", ["fcntl", "ftruncate", "ioctl", "mmap"])
@alone
def test_a_system_call_that_a_filter_denies_is_named_as_the_cause(denied, error):
    dlpack.shared(3, "int8")
    seccomp.forbid([(denied, 0, 0, error)])
    with pytest.raises(OSError, match=f"3 bytes can't be mapped: {os.strerror(error)} .a filter denies") as raised:
        dlpack.shared(3, "int8")
    assert raised.value.errno == error
    assert files() == set()


@alone
def test_an_exception_of_an_audit_hook_is_raised_unchanged():
    def refuse(event, arguments):
        if event == "open" and arguments[0] == "dlpack.shared":
            raise ValueError("no more files")

    sys.addaudithook(refuse)
    ctypes.set_errno(errno.EMFILE)
    with pytest.raises(ValueError, match="^no more files$"):
        dlpack.shared(3, "int8")
    assert files() == set()


@uses_dev_shm
def test_a_pool_says_why_its_process_received_nothing():
    """It ends, at an OSError silently, and the Pool waits."""
    code = f"""if True:
        import errno, multiprocessing, os, sys
        sys.path.insert(0, {str(TESTS)!r})
        import dlpack
        from support import seccomp

        x, rules = dlpack.shared(3, "int8"), [("fcntl", 0, 0, errno.EPERM)]
        pool = multiprocessing.get_context("fork").Pool(1, seccomp.forbid, (rules,))
        [process] = multiprocessing.active_children()
        pool.apply_async(bytes, (x,))
        process.join()
        os._exit(0)"""
    assert "it can't be received: Operation not permitted (a filter denies" in python(code).stderr


@pytest.mark.parametrize("denied", ["fcntl", "fstat", "ioctl"])
@alone
def test_what_can_not_be_received_under_a_filter_says_so(denied):
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    sender = context.Process(target=send_often, args=(there, 2), daemon=True)
    sender.start()
    here.recv()
    seccomp.forbid([(name, 0, 0, errno.EPERM) for name in (denied, *(["newfstatat"] if denied == "fstat" else []))])
    with pytest.raises(RuntimeError, match="it can't be received: Operation not permitted .a filter denies"):
        here.recv()


@alone
def test_a_filter_of_what_it_can_do_without_changes_nothing():
    dlpack.shared(3, "int8")
    seccomp.forbid([(name, 0, 0, errno.EPERM) for name in ("prlimit64", "fstat", "newfstatat")])
    assert bytes(dlpack.shared(3, "int8")) == bytes(3)


@alone
def test_no_descriptor_for_a_temporary_file_is_not_called_a_missing_folder():
    """As tempfile does."""
    dlpack.shared(3, "int8")
    seccomp.forbid(seccomp.NO_MEMFD)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    with pytest.raises(OSError, match="Too many open files .*ulimit -n"):
        dlpack.shared(3, "int8")


@pytest.mark.parametrize("left", range(5))
@alone
def test_few_descriptors_left_to_pass_it_on_are_named_and_kept(left):
    """With less, tempfile finds no folder, or multiprocessing's thread serves no receiver."""
    x = dlpack.shared(3, "int8")
    unlimited = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, unlimited[1]))
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))
    for number in taken[:left]:
        os.close(number)
    if left < 3:
        with pytest.raises(OSError, match="it can't be passed on: Too many open files .*ulimit -n"):
            ForkingPickler.dumps(x)
    else:
        ForkingPickler.dumps(x)
    resource.setrlimit(resource.RLIMIT_NOFILE, unlimited)
    resource_sharer.stop()
    assert set(map(int, open_files())) == {*range(32)} - set(taken[:left])


@alone
def test_it_is_passed_on_once_a_thread_can_be_started():
    """With multiprocessing's own class, later receivers hang if the sharer's thread can't be started."""
    x = dlpack.shared(3, "int8")

    def refused(thread):
        raise RuntimeError("can't start new thread")

    start, threading.Thread.start = threading.Thread.start, refused
    before = open_files()
    with pytest.raises(OSError, match="it can't be passed on: can't start new thread .*ulimit -u") as raised:
        ForkingPickler.dumps(x)
    assert raised.value.errno == errno.EAGAIN
    assert open_files() == before
    threading.Thread.start = start
    add_one(passed(x))
    assert bytes(x) == b"\1\1\1"


@alone
def test_memory_too_large_for_the_receiver_is_a_memory_error():
    message, limit = ForkingPickler.dumps(dlpack.shared(1 << 30, "int8")), address_space() + (1 << 28)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with pytest.raises(MemoryError, match="^dlpack.shared: it can't be received: Cannot allocate memory$"):
        ForkingPickler.loads(message)
    resource_sharer.stop()


def pickle_and_end(connection):
    connection.send_bytes(ForkingPickler.dumps(dlpack.shared(1, "int8")))


@alone
def test_a_sender_that_ended_or_was_asked_twice_is_an_error():
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=pickle_and_end, args=(there,))
    process.start()
    message = here.recv_bytes()
    process.join()
    twice = bytes(ForkingPickler.dumps(dlpack.shared(1, "int8")))
    ForkingPickler.loads(twice)
    for each in message, twice:
        with pytest.raises(
            RuntimeError, match=r"sent it: \w+.* \(keep that process running, and its folder .*take it once"
        ):
            ForkingPickler.loads(each)
    wait_for_sharer()
    assert files() == set()


@alone
def test_a_damaged_message_says_so():
    """A length of -1 would be inferred, and True would count as 1."""
    x = dlpack.shared((2, 3), "float32")
    function, arguments = dlpack._shared.reduced(x)
    odd = [None, True, -1, 1.0, 1 << 70, "", "f4", ">f4", b"float32", float, [2, 3], (2, -1), (True, 6), (3.0, 1)]
    for position, each in itertools.product(range(5), [*odd, bytes(24)]):
        damaged = [*arguments]
        damaged[position] = each
        with pytest.raises(ValueError, match="the message is damaged: .*send it again"):
            function(*damaged)
    function, arguments = dlpack._shared.reduced_memory(x.obj)
    unfinished = type(*arguments).__new__(type(*arguments))
    for damaged in (), (5,), (None,), (*arguments, 1), (unfinished,):
        with pytest.raises(ValueError, match="the message is damaged"):
            function(*damaged)
    assert bytes(function(*arguments)) == bytes(24)
    wait_for_sharer()


@alone
def test_processes_with_other_keys_are_told_to_have_the_same():
    """As those have that multiprocessing did not start."""
    message = ForkingPickler.dumps(dlpack.shared(3, "int8"))
    current = multiprocessing.current_process()
    key, current.authkey = current.authkey, b"another"
    with pytest.raises(RuntimeError, match="digest sent was rejected .*same multiprocessing.current_process...authkey"):
        ForkingPickler.loads(message)
    current.authkey = key
    assert bytes(ForkingPickler.loads(message)) == bytes(3)


@alone
def test_memory_whose_descriptor_the_program_closed_is_not_passed_on():
    """As a daemon closes all. Another file gets the number: the receiver would write there."""
    x = dlpack.shared(4, "uint8")
    number = x.obj.file.fileno()
    os.close(number)
    with pytest.raises(OSError, match="it can't be passed on: Bad file descriptor .*the program closed its descriptor"):
        passed(x)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), number)
        with pytest.raises(OSError, match="the program closed its descriptor, as a daemon does"):
            passed(x)
    memoryview(x)[0] = 7
    assert memoryview(x)[0] == 7


def answer_each(connection):
    x = dlpack.shared(1, "int8")
    while True:
        connection.recv()
        connection.send(x)


def receiver():
    here, there = multiprocessing.get_context("fork").Pipe()
    multiprocessing.get_context("fork").Process(target=answer_each, args=(there,), daemon=True).start()

    def receive():
        here.send(None)
        here.recv()

    return receive


def by_posix_spawn(command, stdout):
    process = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1)])
    os.waitpid(process, 0)


def by_subprocess(command, stdout):
    subprocess.run(command, stdout=stdout, close_fds=False, check=True)


def descriptors_of_programs(start, count):
    """Starts `count` programs, and returns the numbers of all descriptors that any of them had."""
    with tempfile.TemporaryFile("w+") as stdout:
        for _ in range(count):
            start(["/bin/ls", "/proc/self/fd"], stdout.fileno())
        stdout.seek(0)
        return set(stdout.read().split())


@pytest.mark.parametrize("role", ["maker", "maker of files", "receiver"])
@alone(timeout=280)
def test_programs_started_meanwhile_inherit_no_descriptor(role, effort, figure):
    """Nor one that starts between a descriptor's opening and its mark. Memory would outlive its holders by it."""
    if role == "maker of files":
        seccomp.forbid(seccomp.NO_MEMFD)
    each, ended = effort(150, 1_500), threading.Event()
    starts = [by_posix_spawn, by_subprocess]
    before = set.union(*(descriptors_of_programs(start, 1) for start in starts))

    def repeat(work):
        while not ended.is_set():
            work()

    works = [receiver() if role == "receiver" else lambda: dlpack.shared(1, "int8") for _ in starts]
    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    found = in_threads(lambda number: descriptors_of_programs(starts[number], each), len(starts))
    ended.set()
    for thread in threads:
        thread.join()
    assert set.union(*found) == before
    figure("programs started", len(starts) * each)


@alone
def test_received_as_on_macos_it_is_marked_and_acknowledged():
    """There the receipt itself can't mark it, and the sender waits for an answer."""
    x = dlpack.shared(3, "int8")
    reduction.ACKNOWLEDGE, dlpack._shared.MSG_CMSG_CLOEXEC = True, 0  # type: ignore[misc]
    add_one(passed(x))
    descriptor = dlpack._shared.Sent(x.obj.file).detach()
    assert not os.get_inheritable(descriptor)
    assert os.fstat(descriptor).st_ino in files() and bytes(x) == b"\1\1\1"


def test_a_program_that_is_started_does_not_inherit_it():
    x = dlpack.shared(1, "int8")
    code = f"import os; os.fstat({x.obj.file.fileno()})"
    result = subprocess.run([sys.executable, "-c", code], close_fds=False, capture_output=True, text=True)
    assert "Bad file descriptor" in result.stderr


@alone
@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)])
def test_its_descriptors_never_replace_closed_standard_ones(closed):
    """Daemons close these. Their output must not be written into the memory."""
    passed(dlpack.shared(3, "uint8"))  # multiprocessing's own descriptors are what they will be
    kept = [os.dup(number) for number in closed]
    for number in closed:
        os.close(number)
    x = dlpack.shared(3, "uint8")
    y = passed(x)
    wait_for_sharer()
    taken = [number for number in closed if os.path.exists(f"/proc/self/fd/{number}")]
    for number, copied in zip(closed, kept, strict=True):
        os.dup2(copied, number)
        os.close(copied)
    assert not taken
    memoryview(x)[1] = 7
    assert memoryview(y).tolist() == [0, 7, 0]


def interrupted(function, after):
    """Calls the function and raises KeyboardInterrupt before instruction number `after`, as a signal handler may.
    Returns False if the function ended before that."""
    left = after

    def trace(frame, event, argument):
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    sys._getframe().f_trace_opcodes = True  # CPython 3.12 looks for it only when tracing begins (gh-103615)
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return left <= 0


@alone
def test_memory_of_a_package_imported_before_is_not_sent_as_a_copy():
    before = dlpack.shared(3, "uint8")
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlpack"]:
        del sys.modules[name]
    import dlpack as anew

    x = anew.shared(3, "uint8")
    with pytest.raises(RuntimeError, match="imported anew.*copy it into memory that is made now"):
        passed(before)
    anew.copy_into(before, x)
    np.asarray(passed(x))[:] = 5
    assert bytes(x) == b"\5\5\5"
    wait_for_sharer()


@alone
def test_an_interrupt_at_any_instruction_leaves_nothing():
    def make_and_drop():
        dlpack.shared(3, "uint8")

    make_and_drop()
    before, after = set(os.listdir("/proc/self/fd")), 1
    while interrupted(make_and_drop, after):
        assert not files()
        assert set(os.listdir("/proc/self/fd")) == before
        after += 1
    assert after > 100


@alone
def test_unclosed_memory_raises_no_resource_warning():
    """python -X dev would show it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dlpack.shared(3, "uint8")
        passed(dlpack.shared(3, "uint8"))
        wait_for_sharer()
    assert not told and not files()
