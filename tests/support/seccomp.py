"""Filters of system calls, as containers have them: what they forbid fails for the rest of this process's life."""

import ctypes
import errno
import os
import platform
import struct

# x86_64's and aarch64's numbers; None: aarch64 has no such call.
DENIED_BY_DOCKER = {
    "get_mempolicy": (239, 236),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "mbind": (237, 235),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "ptrace": (101, 117),
    "set_mempolicy": (238, 237),
    "setns": (308, 268),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
CALLS = DENIED_BY_DOCKER | {
    "open": (2, None),
    "creat": (85, None),
    "dup": (32, 23),
    "fcntl": (72, 25),
    "fstat": (5, 80),
    "ftruncate": (77, 46),
    "ioctl": (16, 29),
    "newfstatat": (262, 79),
    "prlimit64": (302, 261),
    "openat": (257, 56),
    "clone": (56, 220),
    "clone3": (435, 435),
    "memfd_create": (319, 279),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "sigaltstack": (131, 132),
    "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22),
}
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW* of clone's flags
LOAD, JUMP_IF_EQUAL, JUMP_IF_ANY, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000

# Calls that a runtime could use, and that Docker's default profile forbids a container without further capabilities:
# name of the call, index of the argument that is checked, its forbidden bits (0: every call is forbidden), the error.
DOCKER = [
    ("clone", 0, NEW_NAMESPACES, errno.EPERM),
    ("clone3", 0, 0, errno.ENOSYS),
    *((name, 0, 0, errno.EPERM) for name in DENIED_BY_DOCKER),
]
NO_MEMFD = [("memfd_create", 0, 0, errno.EPERM)]
NO_NEW_FILES = [
    ("open", 1, os.O_CREAT, errno.EROFS),
    ("creat", 0, 0, errno.EROFS),
    ("openat", 2, os.O_CREAT, errno.EROFS),
]


def forbid(rules):
    """Installs a filter with these rules; it allows all other calls."""
    machine = ("x86_64", "aarch64").index(platform.machine())
    program = [(LOAD, 0, 0, 0)]  # the number of the call
    for name, argument, bits, error in rules:
        number = CALLS[name][machine]
        if number is None:
            continue
        if bits:
            program += [
                (JUMP_IF_EQUAL, 0, 4, number),
                (LOAD, 0, 0, 16 + 8 * argument),
                (JUMP_IF_ANY, 0, 1, bits),
                (RETURN, 0, 0, FAIL | error),
                (LOAD, 0, 0, 0),
            ]
        else:
            program += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | error)]
    program.append((RETURN, 0, 0, ALLOW))
    instructions = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    memory = ctypes.create_string_buffer(instructions)
    filter = struct.pack("@HP", len(program), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, mode = 38, 22, 2
    for arguments in (no_new_privileges, 1, 0, 0, 0), (seccomp, mode, filter, 0, 0):
        if libc.prctl(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)) != 0:
            raise OSError(ctypes.get_errno(), "prctl: this kernel takes no seccomp filter, which this test needs")
