"""Facts about this process from the kernel."""

import mmap
import os

from support.threads import in_threads

# In front of a command. Root is above the permissions of files, but for this; an ordinary user needs nothing.
HEEDING_PERMISSIONS = ["setpriv", "--bounding-set=-dac_override"] if os.getuid() == 0 else []


def status(field):
    with open("/proc/self/status") as lines:
        return next(line.split(":")[1].split()[0] for line in lines if line.startswith(field + ":"))


CAP_SYS_CHROOT, CAP_SYS_ADMIN = 18, 21  # of capabilities(7)


def is_capable(capability):
    """Whether this process may do what root may."""
    return bool(int(status("CapEff"), 16) >> capability & 1)


def threads():
    return int(status("Threads"))


def caught_signals():
    return int(status("SigCgt"), 16)


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * mmap.PAGESIZE


def address_space():
    return int(status("VmSize")) * 1024


def libraries():
    """Device and inode of every file whose code is mapped."""
    with open("/proc/self/maps") as lines:
        fields = [line.split(maxsplit=5) for line in lines]
    return {(device, inode) for _, protection, _, device, inode, *_ in fields if "x" in protection and inode != "0"}


def open_files():
    """The descriptors and what they lead to, but for the one that this takes."""
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
    return found


OF_THE_CORE = ["anon_inode:[eventfd]", "anon_inode:[eventpoll]"]  # what it has open from its start on


def opened_since(before):
    """Returns the targets of the descriptors that are not in `before`, an answer of open_files."""
    return sorted(path for descriptor, path in open_files().items() if descriptor not in before)


def in_thread(function):
    """Runs the function in a new thread; gives what it returns, and raises what it raises."""
    return in_threads(lambda number: function(), 1)[0]


def become_ordinary_user(alone=False):
    """Root is above limits on processes. Files must be readable to all from here on.

    Alone is a user who runs nothing else: limits on threads count those of a user on the whole machine.
    """
    if os.getuid() == 0:
        user = 20_000 + os.getpid() % 40_000 if alone else 65534
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def threads_of_user():
    """How many run on the whole machine."""
    count = 0
    for process in os.scandir("/proc"):
        try:
            count += process.stat().st_uid == os.getuid() and len(os.listdir(f"{process.path}/task"))
        except (FileNotFoundError, NotADirectoryError, PermissionError, ProcessLookupError):
            continue
    return count
