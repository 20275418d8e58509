"""Helpers for the tests of engines, which hand objects to the processes that they start."""

import os
import shutil
import signal
import sys

import numpy as np

import dlpack

SETTINGS = {  # of Ray, for machines that are slow, or do much else
    "RAY_AUTH_MODE": "disabled",  # by a token that it would keep in the user's home
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "240000",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_enable_metrics_collection": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # it would kill workers for what other programs take
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_register_timeout_seconds": "240",
}


def mpiexec():
    """Returns the mpiexec in Python's folder, or else on PATH."""
    return shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")


def place(address):
    """Returns the page of a file that is mapped at an address: two processes with equal answers share that page."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, access, offset, device, inode, *path = line.split(maxsplit=5)
            first, end = (int(number, 16) for number in span.split("-"))
            if first <= address < end:
                shared = "s" in access
                return shared, path[0].strip() if path else "", (device, inode, int(offset, 16) + address - first)
    raise ValueError(f"nothing is mapped at {address:#x}")


def facts(x):
    padded = x._flags & 4
    return x.dtype, x.shape, padded, bytes(x)


def seen(x):
    """Describes the object that this process received, with the process ID."""
    return os.getpid(), facts(x), x.readonly


def there_and_back(xs):
    return [seen(x) for x in xs], [dlpack.asdlpack(x, copy=True) for x in xs]


def forget(*names):
    """From here on this process lacks these libraries."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in names:
            del sys.modules[name]
    sys.modules.update(dict.fromkeys(names))


class Reader:
    """In a process of an engine: keeps what it was given, and an array that was made of it."""

    def keep(self, x):
        self.array = np.asarray(x)
        return os.getpid(), x.pointer, place(x.pointer), x.readonly

    def total(self):
        return self.array.astype("f8").sum()

    def drop(self):
        self.array = None

    def forget(self, *names):
        forget(*names)

    def there_and_back(self, xs):
        return there_and_back(xs)


def kinds():
    """Kinds of memory that differ in a pickle: types, padded or not, layouts, none at all, read-only."""
    memory = bytearray(range(48))
    return [
        dlpack.frombuffer(memory, "bfloat16", (2, 12)),
        dlpack.frombuffer(memory, "float8_e4m3fn", (6, 8), strides=(1, 6)),
        dlpack.frombuffer(memory, "float32", (2, 3), strides=(6, 2)),
        dlpack.frombuffer(memory, "float4_e2m1fnx2"),
        dlpack.frombuffer(memory, "|V1 int4", (4, 12)),
        dlpack.frombuffer(memory, "float64", (2, 0)),
        dlpack.frombuffer(bytes(memory), "complex64", (6,)),
    ]


def hold(x):
    """Keeps it until the process ends."""
    hold.held = np.asarray(x)
    return os.getpid()


def end_holding(x):
    hold(x)
    os.kill(os.getpid(), signal.SIGKILL)


def address(x):
    return os.getpid(), x.pointer
