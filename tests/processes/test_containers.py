"""Restricted environments: forbidden system calls, a read-only file system, no /proc, odd settings."""

import ctypes
import errno
import locale
import os
import struct
import tempfile
from pathlib import Path

import pytest

import dlpack
from support import chains, everything, forks, process, seccomp
from support.alone import TESTS, alone, python

makes_mounts = pytest.mark.skipif(
    not process.is_capable(process.CAP_SYS_ADMIN), reason="needs root with CAP_SYS_ADMIN: mounts of its own"
)

MALFORMED = {
    "GOMEMLIMIT": ["", "much", "-1", "1", "1KiB", "9" * 40, "\xff"],
    "GODEBUG": ["", "=", ",", "x=y,,=", "gctrace=1", "madvdontneed=x", "cgocheck=9", "asyncpreemptoff=?", "\xff=1"],
    "GOGC": ["", "often", "-1", "0", "1", "9" * 40],
    "GOMAXPROCS": ["", "0", "-3", "many", "1", "9" * 40],
    "GOTRACEBACK": ["", "?", "crash", "9" * 40],
}


def copies_of_the_core():
    """The files whose code is mapped as a copy of the core's."""
    with open("/proc/self/maps") as lines:
        paths = {line.split(maxsplit=5)[5].strip() for line in lines if " r-xp " in line and line.count("/")}
    return [path for path in paths if "dlpack core" in path or "dlpack-core" in path]


@alone
def test_a_child_runs_a_copy_of_the_core_in_memory():
    def use():
        files = process.open_files()
        forks.ask_core()
        assert process.opened_since(files) == process.OF_THE_CORE
        everything.use()
        [copy] = copies_of_the_core()
        assert copy.startswith("/memfd:")

    everything.use()
    forks.fork_and_join(use)


@alone
def test_a_child_that_gets_no_memfd_runs_a_temporary_file():
    def use():
        seccomp.forbid(seccomp.NO_MEMFD)
        before = process.open_files()
        everything.use()
        [copy] = copies_of_the_core()
        assert copy.startswith(folder + "/dlpack-core-")
        assert copy.endswith("(deleted)")
        assert (os.listdir(folder), process.opened_since(before)) == ([], process.OF_THE_CORE)
        forks.fork_and_join(everything.use)

    everything.use()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        for _ in range(5):
            forks.fork_and_join(use)


def forbid_execution(libc):
    """Forbids execution in folders of temporary files. Their files stay visible: this test may run from one of them."""
    no_exec, remount, bind = 0x8, 0x20, 0x1000
    for folder in b"/tmp", b"/var/tmp", b"/dev/shm":
        assert libc.mount(folder, folder, None, bind, None) == 0
        assert libc.mount(b"none", folder, None, remount | bind | no_exec, None) == 0


@makes_mounts
@alone
def test_a_child_in_a_new_pid_namespace_runs_a_copy_in_memory():
    """It keeps the old /proc, which shows another number than getpid() returns. No temporary file may run."""

    def use():
        everything.use()
        assert all(copy.startswith("/memfd:") for copy in copies_of_the_core())

    def first():
        assert os.getpid() == 1 != int(os.readlink("/proc/self"))
        use()
        forks.fork_and_join(lambda: (use(), forks.fork_and_join(use)))

    everything.use()
    libc = enter_namespace()
    forbid_execution(libc)
    new_pids = 0x20000000
    assert libc.unshare(new_pids) == 0
    forks.fork_and_join(first)


@makes_mounts
@alone
def test_a_child_with_the_number_of_a_dead_ancestor_runs_a_copy_in_memory():
    """The loader must not take its copy for its ancestor's, which was opened in a process of the same number."""
    reading, writing = os.pipe()

    def parent():  # process 2 of a new namespace, which ends before its child goes on
        everything.use()
        forks.fork(child)

    def child():
        os.read(reading, 1)
        forbid_execution(libc)
        everything.use()
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write("1")
        grandchild = forks.fork(everything.use)
        assert grandchild == 2
        forks.join(grandchild)

    def first():
        forks.join(forks.fork(parent))
        os.write(writing, b"x")
        assert os.wait()[1] == 0  # the child is this process's now

    libc = enter_namespace()
    new_pids = 0x20000000
    assert libc.unshare(new_pids) == 0
    forks.fork_and_join(first)


def translate(libc, folder, text):
    """Has the C library say this text in another language. The file is one of gettext's: .mo."""
    texts = [b"", text, b"Content-Type: text/plain; charset=UTF-8\n", "übersetzt".encode()]
    at, table = 28 + 8 * len(texts), b""
    for each in texts:
        table += struct.pack("=2I", len(each), at)
        at += len(each) + 1
    path = Path(folder, "xx", "LC_MESSAGES", "libc.mo")
    path.parent.mkdir(parents=True)
    path.write_bytes(struct.pack("=7I", 0x950412DE, 0, 2, 28, 44, 0, 0) + table + b"".join(t + b"\0" for t in texts))
    os.environ["LANGUAGE"] = "xx"
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    libc.bindtextdomain(b"libc", folder.encode())
    libc.dcgettext.restype = ctypes.c_char_p
    assert libc.dcgettext(b"libc", text, locale.LC_MESSAGES) == texts[3]


@makes_mounts
@pytest.mark.parametrize("language", ["English", "another language"])
@alone
def test_a_child_that_can_run_no_copy_names_each_folder_and_takes_tmpdir(language):
    def use():
        seccomp.forbid(seccomp.NO_MEMFD)
        with pytest.raises(RuntimeError, match="set TMPDIR to a folder") as raised:
            forks.ask_core()
        text = str(raised.value)
        assert "memfd_create: Operation not permitted" in text
        for path in "/tmp", "/var/tmp", "/dev/shm":
            assert f"dlopen: {path}/dlpack-core-" in text
        assert text.count("failed to map segment") == 3
        os.environ["TMPDIR"] = folder
        everything.use()

    everything.use()
    os.environ.pop("TMPDIR", None)
    libc = enter_namespace()
    forbid_execution(libc)
    with tempfile.TemporaryDirectory() as folder:
        if language != "English":
            translate(libc, folder + "/languages", b"failed to map segment from shared object")
        assert libc.mount(b"none", folder.encode(), b"tmpfs", 0, None) == 0
        forks.fork_and_join(use)
        assert libc.umount(folder.encode()) == 0


# Changes to the core's file after the import: what makes each, what undoes it, and the error.
MOVED = "os.rename('_core.so', 'moved')", "os.rename('moved', '_core.so')"
REPLACED = f"{MOVED[0]}; os.rename('changed', '_core.so')", "os.replace('moved', '_core.so')"
FILES = {
    "it is moved": (*MOVED, "_core.so: No such file.*put it back, make it readable"),
    "it can't be read": (
        "os.chmod('_core.so', 0); process.become_ordinary_user()",
        "os.chmod('_core.so', 0o755)",
        "_core.so: Permission denied.*put it back, make it readable",
    ),
    "it is a fifo": (  # to open it would wait for a writer
        f"{MOVED[0]}; os.mkfifo('_core.so')",
        "os.replace('moved', '_core.so')",
        "_core.so: the file was cut off, or is not a regular file",
    ),
    "it is of another version": (*REPLACED, "another version .* start the"),
    "it is cut off": (*REPLACED, "_core.so: the file was cut off, .*install dlpack-go again"),
    "it is no library": (*REPLACED, "_core.so: invalid ELF header .* install dlpack-go again"),
}
CHANGED = {
    "it is of another version": lambda core: core.replace(dlpack.__version__.encode(), b"9.9.9"),
    "it is cut off": lambda core: core[:1_500_000],
    "it is no library": lambda core: b"x" * 9999,
}


@pytest.mark.parametrize(("started", "has_memfd"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("what", FILES)
def test_a_core_that_can_not_be_loaded_is_named_until_it_can(package, what, started, has_memfd):
    """As while the package is upgraded. The error says nothing of TMPDIR."""
    core, (change, undo, text) = package / "_core.so", FILES[what]
    if what in CHANGED:
        (package / "changed").write_bytes(CHANGED[what](core.read_bytes()))
    code = f"""if True:
        import os, pytest, time, dlpack
        from support import forks, process, seccomp

        def use():
            if not {has_memfd}:
                seccomp.forbid(seccomp.NO_MEMFD)
            {change}
            before = process.threads()
            with pytest.raises(RuntimeError, match={text!r}) as raised:
                forks.ask_core()
            assert {str(core)!r} in str(raised.value) and "TMPDIR" not in str(raised.value)
            while {what == "it is a fifo"} and process.threads() > before:  # the core's are on their way out
                time.sleep(0.01)
            {undo}
            forks.use_all()

        os.chdir({str(package)!r})
        if {started}:
            forks.use_all()
        forks.fork_and_join(use)"""
    if os.getuid() == 0:
        for path in package, *package.glob("*"):
            os.chown(path, 65534, 65534)
    result = python(code, environ={"PYTHONPATH": f"{package.parent}:{TESTS}"})
    assert result.returncode == 0, result.stderr


@makes_mounts
@pytest.mark.parametrize("started", [False, True])
@alone
def test_a_process_that_changed_its_root_says_what_it_can_not_read(started):
    """And the way out that the error names, a copy before, works: in the process itself, and in a child."""

    def use_before():
        dlpack.asdlpack(memoryview(b"x"), copy=True)
        os.chroot("/proc/self/fdinfo")
        forks.use_all()

    def use_after():
        os.chroot("/proc/self/fdinfo")
        words = "/_core.so: No such file .*asdlpack.memoryview.b'x'., copy=True. before the process changes"
        with pytest.raises(RuntimeError, match=words):
            forks.ask_core()

    if started:
        everything.use()
    enter_namespace()
    forks.fork_and_join(use_after)
    forks.fork_and_join(use_before)


@makes_mounts
@alone
def test_threads_that_can_not_be_started_after_unshare_say_why():
    def use():
        libc = enter_namespace()
        new_pids = 0x20000000
        assert libc.unshare(new_pids) == 0
        with pytest.raises(OSError, match=r"after unshare\(CLONE_NEWPID\) .* fork first"):
            forks.ask_core()
        forks.fork_and_join(forks.use_all)

    forks.fork_and_join(use)


# Calls that are denied, the error that each gives, whether the core was started before, and what is raised.
DENIED = {
    "threads": (["clone", "clone3"], errno.EPERM, False, OSError, "a filter of system calls"),
    "memory": (["mmap"], errno.EPERM, False, MemoryError, "a filter of system calls denies mmap"),
    "a look at its file": (
        ["fstat", "newfstatat"],
        errno.EPERM,
        True,
        RuntimeError,  # it does not say that the file is damaged
        "_core.so: Operation not permitted .* its filter of system calls",
    ),
    # Go ends the process if it can't wait for its eventfd.
    "a watch": (["epoll_ctl"], errno.ENOSPC, False, OSError, "No space .*raise fs.epoll.max_user_watches"),
    "watches": (["epoll_ctl"], errno.EPERM, False, OSError, "not permitted .*a filter of system calls"),
    "waits": (["epoll_pwait"], errno.ENOSYS, False, OSError, "not implemented .*a filter of system calls"),
}


@pytest.mark.parametrize("what", DENIED)
@alone
def test_a_system_call_that_a_start_is_denied_is_named(what):
    calls, error, started, kind, text = DENIED[what]

    def use():
        before = process.open_files()
        seccomp.forbid([(name, 0, 0, error) for name in calls])
        with pytest.raises(kind, match=text) as raised:
            forks.ask_core()
        assert "vm.max_map_count" not in str(raised.value)
        if "fstat" not in calls:  # which a look at the files needs
            assert process.open_files() == before

    if started:
        everything.use()
        forks.fork_and_join(use)
    else:
        use()


@alone
def test_a_child_that_gets_neither_says_so_and_lives():
    def use():
        seccomp.forbid(seccomp.NO_MEMFD + seccomp.NO_NEW_FILES)
        before = process.open_files()
        for _ in range(3):
            forks.use_ordinary_memory()
            with pytest.raises(RuntimeError, match="neither a memfd nor a temporary file could be"):
                forks.ask_core()
        inherited.drop()
        assert process.open_files() == before
        os.close(os.pidfd_open(os.getpid()))

    everything.use()
    inherited = everything.Inherited()
    forks.fork_and_join(use)


def enter_namespace():
    """Mounts of this process's own."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, recursive_private = 0x00020000, 0x4000 | 0x40000
    assert libc.unshare(new_mounts) == 0
    assert libc.mount(b"none", b"/", None, ctypes.c_ulong(recursive_private), None) == 0
    return libc


def under_the_filter_of_docker():
    seccomp.forbid(seccomp.DOCKER)
    assert ctypes.CDLL(None).unshare(0) != 0


def without_new_files():
    seccomp.forbid(seccomp.NO_NEW_FILES)
    assert ctypes.CDLL(None).unshare(0) == 0
    with pytest.raises(OSError, match="Read-only"):
        os.open("a new file", os.O_CREAT | os.O_WRONLY)


def without_proc():
    """A memfd has no path then: a child runs a temporary file."""
    libc = enter_namespace()
    assert libc.mount(b"none", b"/proc", b"tmpfs", 0, None) == 0
    assert os.listdir("/proc") == []
    chains.nest()


def on_a_read_only_file_system():
    libc = enter_namespace()
    mount_setattr, here, recursive, read_only = 442, -100, 0x8000, 1
    attributes = (ctypes.c_uint64 * 4)(read_only, 0, 0, 0)
    arguments = mount_setattr, here, b"/", recursive, attributes, ctypes.sizeof(attributes)
    assert libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)) == 0
    for folder in "/tmp", "/dev/shm", os.getcwd():
        with pytest.raises(OSError, match="Read-only") as refused:
            os.open(f"{folder}/file", os.O_CREAT | os.O_WRONLY)
        assert refused.value.errno == errno.EROFS


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    "enter",
    [
        "under_the_filter_of_docker",
        "without_new_files",
        pytest.param("without_proc", marks=makes_mounts),
        pytest.param("on_a_read_only_file_system", marks=makes_mounts),
    ],
)
@alone
def test_everything_works(enter, started):
    if started:
        everything.use()
    globals()[enter]()
    everything.use()
    everything.use()
    forks.use_all_in_threads()
    for _ in range(3):
        forks.fork_and_join(lambda: (everything.use(), forks.fork_and_join(everything.use)))


SETTINGS = f"""
import ctypes, os, subprocess, sys
sys.path.append({str(TESTS)!r})
from support import forks

def environments():
    "As Python, C, the kernel and a program that is started now see it."
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    with open("/proc/self/environ", "rb") as file:
        blocks = file.read(), subprocess.run(["cat", "/proc/self/environ"], capture_output=True, check=True).stdout
    yield dict(os.environb)
    yield {{name: libc.getenv(name) for name in os.environb}}
    yield from (dict(variable.split(b"=", 1) for variable in block.split(b"\\0") if variable) for block in blocks)

before = dict(os.environb)
forks.use_all()
assert [*environments()] == [before] * 4
forks.fork_and_join(forks.use_all)
"""


@pytest.mark.parametrize("name", [*MALFORMED, "all, of 500"])
def test_no_setting_of_go_reaches_the_core(name, effort, figure):
    """And each stays in the environment, whoever asks."""
    others = {f"GO_{number}": "" for number in range(500)}
    worst = {name: values[1] for name, values in MALFORMED.items()}
    values = [{name: value} for value in MALFORMED.get(name, ())][: effort(2, None)] or [others | worst, worst | others]
    for environ in values:
        result = python(SETTINGS, environ=environ)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), environ
    figure("values", len(values))
