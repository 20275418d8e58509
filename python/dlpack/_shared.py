"""dlpack.shared: memory that processes share by the descriptor of an unnamed file, or by a handle on Windows.

The system frees it when its last descriptor or handle and its last mapping are gone, however processes end."""

from __future__ import annotations

import errno
import mmap
import os
import sys
import tempfile
from contextlib import suppress
from functools import partial
from io import FileIO
from multiprocessing import AuthenticationError, current_process, reduction

from ._arguments import dtype_text
from ._dlpack import DLPackObject, from_pointer, frombuffer
from ._foreign import exception_text
from ._memmap import is_memory_out
from ._pickle import are, rebuilt
from ._refusals import refusal, reworded

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, SupportsIndex

DENIED = "a filter denies a system call that it needs: strace -fZ shows which one"
WAYS_OUT = {
    errno.EMFILE: "let some of it go, or raise the limit of descriptors: ulimit -n",
    errno.ENFILE: "the whole system has no descriptor left: fs.file-max",
    errno.EBADF: "the program closed its descriptor, as a daemon does: send it before, or make it afterwards",
    errno.EFBIG: "raise the limit of a file's size: ulimit -f",
    errno.EPERM: DENIED,
    errno.ENOSYS: DENIED,
    errno.EACCES: f"receive it before the process changes its user; or {DENIED}",
}


def shared(shape: SupportsIndex | Sequence[SupportsIndex], dtype: object) -> DLPackObject:
    """Allocate zeroed memory that several processes can map, as a DLPackObject; shape and dtype are as in from_pointer.

    Pass it to another process by multiprocessing: as an argument of a Process, or through a Queue, Pipe or Pool. Each
    process then has the same writable pages, and can pass them on. Nothing locks them: a process may read half of what
    another is writing. Pass a multiprocessing.Lock along, or wait for a message.

    The memory is freed with its last holder in any process, even if that is killed; there is nothing to unlink. Keep a
    process that sends it through a Queue, Pipe or Pool alive until the receiver has it. pickle.dumps copies the memory.

    Raises what from_pointer raises for a shape and a dtype, MemoryError if the memory can't be mapped, and OSError if
    no descriptor is left. The receiver gets a RuntimeError if it has no descriptor left, or if the sender has ended.

    >>> import multiprocessing
    >>> x = shared((2, 3), "float32")
    >>> here, there = multiprocessing.Pipe()  # `there` may be in another process
    >>> here.send(x)
    >>> memoryview(there.recv())[1, 2] = 7
    >>> memoryview(x).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
    """
    try:
        wanted = from_pointer(mmap.PAGESIZE, shape, dtype)  # computes the size, reads nothing
    except BufferError as error:
        raise reworded(error, cure='name a type of DLPack in native byte order, such as "float32"') from None
    try:
        memory = new_memory(max(wanted.nbytes, 1))  # no system maps 0 bytes
    except OSError as error:
        raise worded(error, f"{wanted.nbytes} bytes can't be mapped") from None
    return frombuffer(memory, wanted.dtype, wanted.shape)


def worded(error: OSError, what: str) -> OSError | MemoryError:
    if error.errno is None:  # multiprocessing's "AF_UNIX path too long"
        return OSError(f"dlpack.shared: {what}: {error} (set TMPDIR to a folder with a short path)")
    way_out = f" ({WAYS_OUT[error.errno]})" if error.errno in WAYS_OUT else ""
    text = f"dlpack.shared: {what}: {error.strerror}{way_out}"
    return MemoryError(text) if is_memory_out(error) else OSError(error.errno, text)


class Descriptor(FileIO):
    """An open file. C closes it with its last reference, so that no exception of a signal handler can leave it open."""

    _finalizing = False  # hides FileIO's: else a ResourceWarning says that nobody closed it


class Memory(mmap.mmap):
    """A mapping, with its file to send to other processes. On Windows mmap hides the file, so its name is sent."""

    file: Descriptor
    inode: tuple[int, int] | None
    name: str


if sys.platform == "win32":
    from _winapi import FILE_MAP_READ, FILE_MAP_WRITE, CloseHandle, OpenFileMapping

    ACCESS = FILE_MAP_READ | FILE_MAP_WRITE

    def new_memory(size: int) -> Memory:
        return mapped(f"dlpack.shared-{os.urandom(16).hex()}", size)

    def mapped(name: str, size: int) -> Memory:
        """Maps the memory of that name. Windows keeps it as long as a process has it."""
        memory = Memory(-1, size, tagname=name)
        memory.name = name
        return memory

    def sent(memory: Memory) -> tuple[Any, ...]:
        handle = OpenFileMapping(ACCESS, False, memory.name)
        try:
            return reduction.DupHandle(handle, ACCESS), memory.name, len(memory)
        finally:
            CloseHandle(handle)

    def taken(passed: Any, name: str, size: int) -> Memory:
        handle = passed.detach()
        try:
            return mapped(name, size)
        finally:
            CloseHandle(handle)

else:
    import ctypes
    import fcntl
    import resource
    import socket
    from multiprocessing import connection, resource_sharer
    from multiprocessing.context import get_spawning_popen

    __import__("hmac")  # else multiprocessing imports it at the first receipt: a child forked then would hang
    STDERR = 2  # the last of the standard descriptors
    # Linux's. os and fcntl lack them if CPython was built with a glibc before 2.27.
    LIBC = ctypes.CDLL(None, use_errno=True)
    MFD_CLOEXEC, MFD_ALLOW_SEALING = 1, 2
    F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 1, 2, 4
    MSG_CMSG_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # macOS lacks it

    def new_memory(size: int) -> Memory:
        return mapped(new_file(), size)

    def new_file() -> Descriptor:
        """Opens a file without a name, if possible in memory. Such a file can be sealed: nobody can truncate it, which
        would kill its readers by SIGBUS."""
        if sys.platform == "linux" and hasattr(LIBC, "memfd_create"):
            try:
                return opened(LIBC.memfd_create, b"dlpack.shared", MFD_CLOEXEC | MFD_ALLOW_SEALING)
            except OSError as error:
                if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES):  # a filter of system calls, or noexec
                    raise
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                return copied(file)
        except FileNotFoundError:
            socket.socket().close()  # raises if no descriptor is left, which tempfile calls no usable folder
            raise

    def opened(function: Callable[..., int], *arguments: object) -> Descriptor:
        """Calls a C function, and owns the descriptor that it returns. FileIO makes the call, with two more arguments,
        which C ignores. So no exception of a signal handler can come before the descriptor has its owner."""
        ctypes.set_errno(0)
        try:
            return Descriptor("dlpack.shared", "r+", opener=partial(function, *arguments))
        except ValueError:  # it returned -1
            number = ctypes.get_errno()
            if number == 0:  # an audit hook raised it
                raise
            raise OSError(number, os.strerror(number)) from None

    class Original(int):
        """A descriptor. Programs don't inherit copies made by os.dup, as they do those of C's dup."""

        copy = property(os.dup)

    def copied(file: FileIO) -> Descriptor:
        """Copies a descriptor and owns the copy, as opened does: FileIO calls getattr(Original(...), "copy", flags)."""
        return Descriptor("copy", "r+", opener=partial(getattr, Original(file.fileno())))

    def limit_of_size() -> int:
        try:
            return resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        except OSError:  # a filter of system calls
            return resource.RLIM_INFINITY

    def mapped(file: Descriptor, size: int | None = None) -> Memory:
        """Maps the whole file. A new file is passed with a size, which it gets and keeps."""
        standard = [file]
        try:
            if size is not None:
                # Beyond this limit ftruncate also raises SIGXFSZ, which ends a program that does not ignore it.
                if 0 <= limit_of_size() < size:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                os.ftruncate(file.fileno(), size)
                if sys.platform == "linux":
                    try:
                        fcntl.fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
                    except OSError:  # a temporary file takes no seals
                        pass
            # Occupies closed standard descriptors until mmap has its own: text written to one of them must not end up
            # in the memory.
            while (file := copied(file)).fileno() <= STDERR:
                standard.append(file)
            # Passes the size: given 0, mmap asks for the file's size, and takes a refusal for 0.
            number, size = file.fileno(), size or os.fstat(file.fileno()).st_size
            if sys.version_info >= (3, 13):
                memory = Memory(number, size, trackfd=False)  # else it keeps a second descriptor, for resize
            else:
                memory = Memory(number, size)
        except BaseException:
            file.close()  # a kept error would keep this frame and its file
            raise
        finally:
            standard.clear()
        memory.file, memory.inode = file, inode(file)  # so that any holder can pass it on
        return memory

    def inode(file: Descriptor) -> tuple[int, int] | None:
        try:
            status = os.fstat(file.fileno())
        except PermissionError:  # a filter of system calls
            return None
        return status.st_dev, status.st_ino

    SHARER = vars(resource_sharer)["_resource_sharer"]  # typeshed lacks it
    kept_open: list[socket.socket] = []  # the other ends of sockets on which greenlets wait

    def forget_parents() -> None:
        """Makes a forked child forget the parent's messages, and its temporary folder. multiprocessing does this only
        in its own children. Any other child would send what the parent sends next."""
        if type(SHARER._thread).__module__.startswith("gevent"):
            # A child of gevent keeps the parent's greenlets. The one that serves receivers would fail without end on
            # a closed listener, so it gets a socket that receives nothing.
            with suppress(OSError):
                silent, other = socket.socketpair()
                with silent:
                    os.dup2(silent.fileno(), SHARER._listener._listener._socket.fileno(), inheritable=False)
                kept_open.append(other)
                SHARER._listener = None  # _afterfork would close it
        SHARER._afterfork()
        vars(current_process())["_config"].pop("tempdir", None)

    os.register_at_fork(after_in_child=forget_parents)

    class Sent:
        """Stands for a descriptor in a message. Receivers get the descriptor from a thread, the sharer.

        multiprocessing's own class leaks a copy of the descriptor if that thread can't be started, and later receivers
        hang. Programs inherit the descriptor that it receives. This class does neither."""

        def __init__(self, file: Descriptor) -> None:
            held = [file]

            def send(receiver: connection.Connection, pid: int) -> None:
                reduction.send_handle(receiver, held[0].fileno(), pid)

            # Raises now if descriptors run out: later the sharer would print errors until it gets one for a connection.
            needed = [copied(file) for _ in ("listener", "connection", "copy of the connection")]
            needed.clear()
            try:
                self._id = SHARER.register(send, held.clear)
            except RuntimeError as error:
                with SHARER._lock:  # nobody serves its listener
                    SHARER._listener.close()
                    SHARER._listener = SHARER._address = None
                raise OSError(
                    errno.EAGAIN, f"{error} (raise ulimit -u, or pids of the cgroup, if these forbid it)"
                ) from None

        def detach(self) -> int:
            """Returns the receiver's descriptor. Works once."""
            with (
                SHARER.get_connection(self._id) as connection,
                socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as receiver,
            ):
                room = socket.CMSG_LEN(ctypes.sizeof(ctypes.c_int))
                message, passed, _, _ = receiver.recvmsg(1, room, MSG_CMSG_CLOEXEC)
                if not message:
                    raise EOFError
                if not passed:  # the kernel found no free descriptor
                    acknowledge(receiver)
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                [descriptor] = memoryview(passed[0][2]).cast("i")
                try:
                    if not MSG_CMSG_CLOEXEC:
                        os.set_inheritable(descriptor, False)
                    acknowledge(receiver)
                except BaseException:
                    os.close(descriptor)
                    raise
                return descriptor

    def acknowledge(receiver: socket.socket) -> None:
        """Answers the sender, which waits for it on macOS, and since Python 3.14 everywhere."""
        if getattr(reduction, "ACKNOWLEDGE", True):
            receiver.send(b"A")

    def sent(memory: Memory) -> tuple[Any, ...]:
        now = inode(memory.file)
        if now and memory.inode and now != memory.inode:  # another file has the number now
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        spawning = get_spawning_popen() is not None
        return (reduction.DupFd(memory.file.fileno()) if spawning else Sent(memory.file),)

    def taken(passed: Any) -> Memory:
        return mapped(Descriptor(passed.detach(), "r+"))


def reduced_memory(memory: Memory) -> tuple[Callable[..., Memory], tuple[Any, ...]]:
    try:
        return received, sent(memory)
    except OSError as error:
        raise worded(error, "it can't be passed on") from None


OF_CONNECTIONS: tuple[type[Exception], ...] = EOFError, OSError, AuthenticationError
OF_DAMAGE: tuple[type[Exception], ...] = AttributeError, BufferError, TypeError, ValueError


def received(*passed: Any) -> Memory:
    try:
        return taken(*passed)
    except OF_CONNECTIONS as error:
        raise not_received(error) from error
    except OF_DAMAGE as error:
        raise damaged(error) from error


def damaged(error: Exception) -> Exception:
    return refusal(ValueError, "damaged-message", f"dlpack.shared: the message is damaged: {error}", "send it again")


def not_received(error: Exception) -> Exception:
    """Returns the error for a failed receipt. An OSError would silently end a process of a Pool, which then hangs."""
    if isinstance(error, AuthenticationError):
        said = f"dlpack.shared: it can't be received: {error}"
        cure = "before it is sent, give both processes the same multiprocessing.current_process().authkey"
        return refusal(RuntimeError, "other-key", said, cure)
    if isinstance(error, OSError) and error.errno in (errno.ENOMEM, *WAYS_OUT):
        found = worded(error, "it can't be received")
        return found if isinstance(found, MemoryError) else RuntimeError(found.strerror)
    said = f"dlpack.shared: the memory can't be taken from the process that sent it: {exception_text(error)}"
    cure = "keep that process running, and its folder pymp-... in that for temporary files, which both must see, and "
    return refusal(RuntimeError, "no-sender", said, f"{cure}take it once")


def reduced(x: DLPackObject) -> Any:
    """Returns what multiprocessing sends: for a DLPackObject over shared memory, and its views by frombuffer, the
    memory itself; for any other a pickle."""
    memory = x.obj
    while type(memory) is DLPackObject:
        memory = memory.obj
    if type(memory) is Memory and not x.readonly:
        offset = x.pointer - frombuffer(memory, "uint8").pointer
        if 0 <= offset < len(memory):
            return part, (memory, dtype_text(x.dtype), x.shape, x.strides, offset)
    elif isinstance(memory, mmap.mmap) and memory.__module__ == __name__ and not x.readonly:
        # pickle finds functions by name: those of this import, which don't fit the memory of the other.
        said = "dlpack.shared: the memory was made before the package was imported anew, and can't be passed on"
        raise refusal(RuntimeError, "imported-anew", said, "copy it into memory that is made now")
    return x.__reduce_ex__(4)  # its result fits pickles of every protocol


def part(memory: Memory, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> DLPackObject:
    try:
        if not (are(Memory, memory) and are(tuple, shape, strides) and are(int, offset, *shape, *strides)):
            raise TypeError("a field is of another type than a pickler writes")
        return rebuilt(memory, dtype, shape, strides=strides, offset=offset)
    except OF_DAMAGE as error:
        raise damaged(error) from error


reduction.register(Memory, reduced_memory)
reduction.register(DLPackObject, reduced)
