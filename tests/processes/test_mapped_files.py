"""memmap and the system: mappings and descriptors, how long they live, and paths that lead to other things."""

import errno
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from dlpack import asdlpack, frombuffer, memmap
from support.alone import alone
from support.process import open_files
from support.refusals import refused

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def mappings(path):
    """How often the file is mapped."""
    with open("/proc/self/maps") as lines:
        return sum(line.rstrip().endswith(str(path)) for line in lines)


def descriptors(path):
    """How often the file is open."""
    return list(open_files().values()).count(str(path))


@pytest.mark.parametrize("mode", ["r", "c", "r+", "w+"])
def test_the_mapping_ends_with_its_last_consumer_and_no_descriptor_stays(path, mode):
    x = memmap(path, "float32", 1000, mode=mode)
    kept = 1 if sys.version_info < (3, 13) else 0  # an older mmap keeps a descriptor for resize
    holders = [x, np.from_dlpack(x), np.asarray(x), memoryview(x)]
    del x
    while holders:
        assert (mappings(path), descriptors(path)) == (1, kept)
        holders.pop(0)
    assert (mappings(path), descriptors(path)) == (0, 0)


def test_the_memory_outlives_the_name_of_its_file(path):
    array = np.from_dlpack(memmap(path, "uint8"))
    path.unlink()
    assert bytes(array) == CONTENT


def test_refusals_leave_no_descriptor_and_no_mapping(path):
    errors = []
    for arguments in ("nope",), ("uint64", 10**6), (">f4",), ("float32", (-1, -1)), (5,):
        with pytest.raises((BufferError, TypeError, ValueError)) as raised:
            memmap(path, *arguments)
        errors.append(raised.value)
    assert (mappings(path), descriptors(path)) == (0, 0)
    with pytest.raises(IsADirectoryError):
        memmap(path.parent, "uint8")
    assert descriptors(path.parent) == 0


def test_copy_on_write_of_more_than_all_memory_is_mapped(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    for mode in "c", "r", "r+":
        x = memmap(tmp_path / "sparse", "bfloat16", (-1, 1 << 20), mode=mode)
        assert x.shape == (1 << 19, 1 << 20)
        assert not np.from_dlpack(frombuffer(x, "uint8", 10, offset=1 << 39)).any()


def test_a_new_file_gets_its_size_and_the_permissions_of_any_file(tmp_path):
    array = np.asarray(memmap(tmp_path / "new", "bfloat16", (2, 3), offset=5002, mode="w+"))
    array[1, 2] = 1
    assert (tmp_path / "new").read_bytes() == bytes(5012) + b"\x80\x3f"
    (tmp_path / "other").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def pipe(path):
    os.mkfifo(path.parent / "pipe")
    return path.parent / "pipe"


NOT_FILES = {
    "a directory": (lambda path: path.parent, errno.EISDIR),
    "a missing name": (lambda path: path.parent / "none" / "file", errno.ENOENT),
    "an empty name": (lambda path: "", errno.ENOENT),
    "a name below a file": (lambda path: path / "below", errno.ENOTDIR),
    "a pipe": (pipe, errno.ENODEV),
    "a device": (lambda path: "/dev/zero", errno.ENODEV),
    "a file of /proc": (lambda path: "/proc/self/comm", errno.ENODEV),
}


@pytest.mark.timeout(20)  # opening a pipe may wait without end
@pytest.mark.parametrize("mode", ["r", "c", "r+", "w+"])
@pytest.mark.parametrize("what", NOT_FILES)
def test_no_file_is_an_os_error_that_names_it(path, what, mode):
    make, number = NOT_FILES[what]
    name = make(path)
    with pytest.raises(OSError) as raised:
        memmap(name, "uint8", 3, mode=mode)
    assert (raised.value.errno, raised.value.filename) == (number, os.fspath(name))
    assert str(raised.value).endswith(f": {os.fspath(name)!r}")


def test_a_missing_file_is_created_by_no_other_mode(tmp_path):
    for mode in "r", "c", "r+":
        with pytest.raises(FileNotFoundError):
            memmap(tmp_path / "none", "uint8", 3, mode=mode)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("shape", "offset"), [(2**62, 0), (2**62, 2**62 - 8), (2, 2**63 - 1)], ids=repr)
def test_a_new_size_that_no_file_can_have_leaves_an_old_one_as_it_is(path, shape, offset):
    with pytest.raises(OSError) as raised:
        memmap(path, "uint8", shape, offset=offset, mode="w+")
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == CONTENT


@alone
def test_a_limit_of_addresses_is_a_memory_error():
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(1 << 40)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 38, 1 << 38))
        with pytest.raises(MemoryError, match=r"^dlpack\.memmap: "):
            memmap(file.name, "uint8")
        assert memmap(file.name, "uint8", 100).shape == (100,)


def cut_short():
    """A mapped file whose second page is gone."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(2 * mmap.PAGESIZE)
        x = memmap(file.name, "uint8")
        file.truncate(mmap.PAGESIZE)
        return x


@alone
def test_a_copy_of_a_file_that_was_cut_short_raises():
    x = cut_short()
    assert not np.from_dlpack(x)[: mmap.PAGESIZE].any()
    refused(lambda: asdlpack(x, copy=True), "unreadable")


@alone(status=-signal.SIGBUS)
def test_another_read_of_a_file_that_was_cut_short_ends_the_process():
    np.from_dlpack(cut_short()).any()


LEASE = """
import fcntl, signal, sys

file = open(sys.argv[1], "rb")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print("leased", flush=True)
signal.sigwait([signal.SIGIO])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"""


@pytest.mark.timeout(20)  # after 45 seconds the kernel takes the lease away
def test_the_lease_of_a_file_server_is_waited_for(path):
    """The kernel refuses an open that may not wait, and asks the lease's holder to give it back."""
    with subprocess.Popen([sys.executable, "-c", LEASE, path], stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"leased\n"
        assert np.from_dlpack(memmap(path, "uint8", 3, mode="r+")).tolist() == [0, 1, 2]
    assert server.returncode == 0
