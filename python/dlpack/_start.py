"""Explain why the core can't start. Start it from a temporary file in a forked child if C can't copy it in memory."""

from __future__ import annotations

import os
from errno import EFBIG, EINVAL, EMFILE, ENFILE, ENOSPC, EPERM

from ._dlpack import _start_copy
from ._refusals import refusal

FAILURES = {
    "addresses": (MemoryError, "it reserves {number} MiB of address space, and a limit forbids that ({text})"),
    "memory": (MemoryError, "it maps {number} MiB of private memory, and a limit forbids that ({text})"),
    "stack": (
        MemoryError,
        "it needs {number} KiB of stack, and this thread has less left (ulimit -s, or threading.stack_size)",
    ),
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
    if name == "file size":
        return no_copy(path, [os.strerror(EFBIG)])
    if name == "copy":
        return start_from_file(path, cause(text, error))
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


def cause(text: bytes | None, error: int) -> str:
    return f"{words(text)}: {os.strerror(error)}" if error else f"dlopen: {words(text)}"


def start_from_file(original: bytes, in_memory: str) -> Exception | None:
    """Starts the core from a temporary file; returns None, or the error."""
    causes = [in_memory]
    for folder in (os.environb.get(b"TMPDIR"), b"/tmp", b"/var/tmp", b"/dev/shm"):
        if folder is None:
            continue
        path = b"%s/dlpack-core-%s" % (folder, os.urandom(6).hex().encode())
        try:
            name, number, text, error = start_from(path, original)
        except OSError as failed:
            causes.append(f"{words(folder)}: {failed.strerror}")
            continue
        if name is None:
            return None
        if name != "library":
            return start_failed(original, name, number, text, error)
        causes.append(cause(text, error))
    return no_copy(original, causes)


def no_copy(original: bytes, causes: list[str]) -> Exception:
    text = "; ".join(causes)
    refusals = {each.split(": ", 2)[-1] for each in causes if each.startswith("dlopen: ")}
    if len(refusals) == 1 and not (refusal := refusals.pop()).startswith(OF_PLACES):
        return failure(original, "library", text=f"{words(original)}: {refusal}")
    limits = [way_out for error, way_out in NO_COPY.items() if os.strerror(error) in text]
    return failure(original, "copies", text=text, reason=limits[0] if limits else NO_PLACE)


def start_from(path: bytes, original: bytes) -> tuple[str | None, int, bytes | None, int]:
    with open(original, "rb") as source:
        code = source.read()
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            copy.write(code)
        return _start_copy(path)
    finally:
        try:
            os.unlink(path)
        except OSError:  # it was not made
            pass
