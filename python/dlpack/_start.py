"""Explain why the core can't start. In a forked child, start it from a copy of its file."""

from __future__ import annotations

import os
from errno import EAGAIN, EFBIG, EINVAL, EMFILE, ENFILE, ENOMEM, ENOSPC, EPERM

from ._dlpack import _start_copy
from ._refusals import refusal

FAILURES = {
    "addresses": (MemoryError, "it reserves {number} MiB of address space, and a limit forbids that ({text})"),
    "memory": (MemoryError, "it maps {number} MiB of private memory, and a limit forbids that ({text})"),
    "no memory": (MemoryError, "no memory"),
    "descriptors": (OSError, "it opens an epoll instance and an eventfd: {text}"),
    "threads": (OSError, "it starts {number} threads or more, and {reason}"),
    "library": (
        RuntimeError,
        "{text} (if the file was damaged, or changed while this process ran: install dlpack-go again, and start the "
        "process again)",
    ),
    "file": (
        RuntimeError,
        "{text}: the file was cut off, or is not a regular file (install dlpack-go again, and start the process again)",
    ),
    "panic": (RuntimeError, "bug in dlpack's core, please report it: a panic"),
    "version": (
        RuntimeError,
        "{path} is of another version than the dlpack that this process has imported; start the process again (if that "
        "changes nothing, install dlpack-go again)",
    ),
    "unreadable": (
        RuntimeError,
        "{path}: {text} (the process has to read this file: put it back, make it readable, or call "
        "asdlpack(memoryview(b'x'), copy=True) before the process changes its root directory, its user or its filter "
        "of system calls, in a forked child again; an application has to bring it along beside the extension, and to "
        "keep it until its last process ends)",
    ),
    "copies": (
        RuntimeError,
        "after a fork it needs a copy of its file, and neither a memfd nor a temporary file could be made and executed "
        "({reason}, or call asdlpack only in the parent): {text}",
    ),
}
NO_COPY = {EMFILE: "close files, raise ulimit -n", ENFILE: "close files, raise fs.file-max", EFBIG: "raise ulimit -f"}
NO_DESCRIPTORS = {**NO_COPY, ENOSPC: "close epoll instances, raise fs.epoll.max_user_watches"}
MEMORY = b"memfd"
MOST_COPIED = 1 << 30  # bytes by one call of sendfile
OF_PLACES = ("cannot open", "failed to map")  # the loader's words for a file that may not be executed
NO_PLACE = "set TMPDIR to a folder from which files may be executed, use the spawn or forkserver start method"
NO_THREAD = {
    EINVAL: "after unshare(CLONE_NEWPID) a process can't start any: fork first",
    EPERM: "a filter of system calls forbids that",
}
LIMITED_THREADS = (
    "a limit forbids that, or their stacks (ulimit -u, -s, -d, -v; pids of the cgroup; vm.overcommit_memory; "
    "SCHED_DEADLINE)"
)


def start_failed(path: bytes, name: str, number: int, text: bytes | None, error: int) -> Exception | None:
    """Returns the exception to raise; None if the core was started in another way."""
    if name in ("library", "copy", "file") and (why := unreadable(path)) is not None:
        return failure(path, "unreadable", text=why)
    if name == "descriptors":
        way_out = NO_DESCRIPTORS[error] if error in NO_DESCRIPTORS else "a filter of system calls forbids that"
        return failure(path, name, text=f"{os.strerror(error)} ({way_out})")
    if name == "copy":
        return start_from_copy(path, number, error)
    if name in ("addresses", "memory"):
        return failure(path, name, number, limit_met(error))
    return failure(path, name, number, words(text), NO_THREAD[error] if error in NO_THREAD else LIMITED_THREADS)


def failure(path: bytes, name: str, number: int = 0, text: str = "", reason: str = "") -> Exception:
    kind, form = FAILURES[name]
    found = form.format(path=words(path), number=number, text=text, reason=reason)
    return refusal(kind, "core-start", f"the Go core can't start: {found}", cause=name)


def words(text: bytes | None) -> str:
    return "" if text is None else text.decode(errors="replace")  # paths need not be UTF-8


def unreadable(path: bytes) -> str | None:
    """Returns why the file can't be read; None if it can, or isn't to blame."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # it may be a FIFO; Windows lacks the flag
        try:
            os.fstat(file)
        finally:
            os.close(file)
    except OSError as error:
        return None if error.errno in (EMFILE, ENFILE) else error.strerror
    return None


def limit_of(name: bytes) -> int | None:
    """Returns the limit that /proc/self/limits has under a name; None if there is none."""
    try:
        with open("/proc/self/limits", "rb") as lines:
            values = [line.removeprefix(name).split()[0] for line in lines if line.startswith(name)]
    except OSError:
        return None
    return int(values[0]) if values and values[0].isdigit() else None


def has_all_mappings() -> bool:
    """True if the process has as many mappings as it may have."""
    try:
        with open("/proc/sys/vm/max_map_count", "rb") as most, open("/proc/self/maps", "rb") as lines:
            return sum(1 for _ in lines) >= int(most.read()) - 2
    except OSError:
        return False


def limit_met(error: int) -> str:
    """Names the limit that made mmap fail with this error."""
    if error == EAGAIN:
        return "ulimit -l, since mlockall locks new memory"
    if error != ENOMEM:
        return "a filter of system calls denies mmap"
    addresses, data = limit_of(b"Max address space"), limit_of(b"Max data size")
    if has_all_mappings():
        return "vm.max_map_count" if addresses is None else "vm.max_map_count, or ulimit -v"
    if data is not None:
        return "ulimit -d" if addresses is None else "ulimit -d, -v"
    return "vm.overcommit_memory" if addresses is None else "ulimit -v"


def start_from_copy(original: bytes, memfd: int, error: int) -> Exception | None:
    """Starts the core from a copy in memory, else from a temporary file; returns None, or the error. Closes memfd."""
    try:
        return start_from_some_copy(original, memfd, error)
    finally:
        if memfd >= 0:
            os.close(memfd)


def start_from_some_copy(original: bytes, memfd: int, error: int) -> Exception | None:
    most = limit_of(b"Max file size")
    # A write beyond raises SIGXFSZ, which may end the process.
    if most is not None and most < os.stat(original).st_size:
        return no_copy(original, [os.strerror(EFBIG)])
    causes = [] if memfd >= 0 else [f"memfd_create: {os.strerror(error)}"]
    for folder in (MEMORY if memfd >= 0 else None, os.environb.get(b"TMPDIR"), b"/tmp", b"/var/tmp", b"/dev/shm"):
        if folder is None:
            continue
        try:
            started = start_in_memory(memfd, original) if folder is MEMORY else start_in(folder, original)
        except OSError as failed:
            causes.append(f"{words(folder)}: {failed.strerror}")
            continue
        name, number, text, error = started
        if name is None:
            return None
        if name != "library":
            return start_failed(original, name, number, text, error)
        causes.append(f"dlopen: {words(text)}")
    return no_copy(original, causes)


def no_copy(original: bytes, causes: list[str]) -> Exception:
    text = "; ".join(causes)
    refusals = {each.split(": ", 2)[-1] for each in causes if each.startswith("dlopen: ")}
    if len(refusals) == 1 and not (refusal := refusals.pop()).startswith(OF_PLACES):
        return failure(original, "library", text=f"{words(original)}: {refusal}")
    limits = [way_out for error, way_out in NO_COPY.items() if os.strerror(error) in text]
    return failure(original, "copies", text=text, reason=limits[0] if limits else NO_PLACE)


def start_in_memory(memfd: int, original: bytes) -> tuple[str | None, int, bytes | None, int]:
    with open(original, "rb", buffering=0) as source:
        while os.sendfile(memfd, source.fileno(), None, MOST_COPIED):
            pass
    # Right even if /proc was mounted for another PID namespace; getpid() is not. The loader must not know the path from
    # an earlier copy, or another package's: so it begins with random "/." and "//".
    begin = "".join(["/." if byte & 1 else "//" for byte in os.urandom(64)])
    return _start_copy(f"{begin}/proc/{os.readlink('/proc/thread-self')}/fd/{memfd}".encode())


def start_in(folder: bytes, original: bytes) -> tuple[str | None, int, bytes | None, int]:
    path = b"%s/dlpack-core-%s" % (folder, os.urandom(6).hex().encode())
    try:
        with (
            open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy,
            open(original, "rb") as source,
        ):
            copy.write(source.read())
        return _start_copy(path)
    finally:
        try:
            os.unlink(path)
        except OSError:  # it was not made
            pass
