"""A CUDA driver for tests without a GPU: libcuda.c, built once, and its functions for a test that runs with it.

A test runs `with_driver`, alone in a process that finds this libcuda.so.1. There `Driver()` is what a library that uses
CUDA would be: it initialises the driver, has a current context, memory, streams and kernels.
"""

import contextlib
import ctypes
import functools
import inspect
import os
import tempfile
import threading
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

import numpy as np

from dlpack import DLDeviceType
from support.alone import alone
from support.capi import Speaks
from support.libraries import build_library

DEVICES = 3

LEGACY, PER_THREAD = 1, 2
GLOBAL, THREAD_LOCAL, RELAXED = range(3)

COPIES = [f"cuMemcpy{kind}" for kind in ("DtoHAsync_v2", "HtoDAsync_v2", "DtoDAsync_v2", "3DAsync_v2", "PeerAsync")]
CPU = (DLDeviceType.kDLCPU, 0)

_folders: list[tempfile.TemporaryDirectory] = []  # removed when this process ends


@functools.cache
def environ(*without, runtime=False):
    """Returns environment variables that put this driver first, without some of its functions. runtime: CUDA's runtime
    as well, as far as libcudart.c has it."""
    folder = tempfile.TemporaryDirectory()
    _folders.append(folder)
    library = build_library("libcuda", folder.name, *(f"-D{name}=without_{name}" for name in without))
    library.rename(library.with_suffix(".so.1"))
    preload = {"LD_PRELOAD": str(build_library("libcudart", folder.name))} if runtime else {}
    return {"LD_LIBRARY_PATH": os.pathsep.join([folder.name, os.environ.get("LD_LIBRARY_PATH", "")]), **preload}


def with_driver(test=None, *, without=(), runtime=False, **options):
    """Decorates a test function: its body runs in a fresh interpreter that has this driver, without some functions. The
    parameter driver is that driver, initialised."""
    if test is None:
        return functools.partial(with_driver, without=without, runtime=runtime, **options)
    parameters = dict(inspect.signature(test).parameters)
    takes_driver = parameters.pop("driver", None) is not None

    @functools.wraps(test)
    def body(**arguments):
        test(**arguments, **({"driver": Driver()} if takes_driver else {}))

    @functools.wraps(body)
    def run_with_driver(**arguments):
        alone(body, environ=environ(*without, runtime=runtime), **options)(**arguments)

    run_with_driver.__signature__ = inspect.Signature(parameters.values())
    return run_with_driver


def cuda(device):
    return (DLDeviceType.kDLCUDA, device)


class DriverError(Exception):
    """Holds the code that a driver function returned instead of CUDA_SUCCESS."""


def cuda_array(address, shape=(8,), typestr="|u1", keep=None, **keys):
    """An object with the CUDA array interface and nothing else; of no stream unless one is said."""
    interface = {"version": 3, "shape": shape, "typestr": typestr, "data": (address, False), "stream": None, **keys}
    return Speaks(__cuda_array_interface__=interface, keep=keep)


def numbers(*shape, dtype="i4"):
    """1, 2, and so on."""
    return np.arange(1, 1 + np.prod(shape)).astype(dtype).reshape(shape)


class Live(ctypes.Structure):
    """How many there are of the process; how many contexts this thread has pushed, and its mode."""

    _fields_ = [(name, c_int) for name in ("allocations", "events", "streams", "retained", "orphans", "pushed", "mode")]


class Memory:
    """Memory that the driver knows, and its bytes as a numpy array: as they are now, whatever is queued."""

    def __init__(self, driver, address, nbytes, device, kind, owner=None):
        self.driver, self.address, self.nbytes, self.device, self.kind = driver, address, nbytes, device, kind
        self.owner = owner
        self.bytes = driver.bytes_at(address, nbytes)
        self.bytes[...] = 0

    def array(self, shape=None, typestr="|u1", offset=0, **keys):
        return cuda_array(self.address + offset, (self.nbytes,) if shape is None else shape, typestr, keep=self, **keys)

    def free(self):
        with self.driver.current(self.device):
            self.driver.call("cuMemFree_v2", self.address)


class Driver:
    """The driver, initialised, with the primary contexts of all devices; that of device 0 is this thread's."""

    def __init__(self, initialise=True):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.library.fake_bytes.restype = c_void_p
        self.library.fake_log.restype = ctypes.c_char_p
        if initialise:
            self.initialise()

    def initialise(self):
        self.call("cuInit", 0)
        self.primary = [self.give("cuDevicePrimaryCtxRetain", device) for device in range(DEVICES)]
        self.call("cuCtxSetCurrent", self.primary[0])
        self.clear()

    def call(self, name, *arguments):
        """Calls a function; ints are passed with 64 bits."""
        result = getattr(self.library, name)(*(c_uint64(x) if isinstance(x, int) else x for x in arguments))
        if result != 0:
            raise DriverError(result)

    def give(self, name, *arguments, of=c_uint64):
        """Calls a function that writes its answer through its first argument; returns the answer."""
        value = of()
        self.call(name, byref(value), *arguments)
        return value.value

    @contextlib.contextmanager
    def current(self, device):
        with self.context(self.primary[device]):
            yield

    @contextlib.contextmanager
    def context(self, context):
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", None)

    def allocate(self, nbytes, device=0, kind="plain", context=None):
        """Memory of a device (plain, managed, pool) or of the host as CUDA knows it (host, registered)."""
        owner = None
        with self.context(context or self.primary[device]):
            if kind == "plain":
                address = self.give("cuMemAlloc_v2", nbytes)
            elif kind == "managed":
                address = self.give("cuMemAllocManaged", nbytes, 1)
            elif kind == "pool":
                address = self.give("cuMemAllocAsync", nbytes, LEGACY)
            elif kind == "host":
                address = self.give("cuMemHostAlloc", nbytes, 0)
            else:
                owner = (ctypes.c_uint8 * nbytes)()
                address = ctypes.addressof(owner)
                self.call("cuMemHostRegister_v2", address, nbytes, 0)
        return Memory(self, address, nbytes, device, kind, owner)

    def bytes_at(self, address, nbytes):
        """The bytes at an address that the driver knows, as an array that writes there."""
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(self.library.fake_bytes(c_uint64(address))), "u1")

    def put(self, array, device=0, kind="plain", stream=None, typestr=None):
        """Returns an object with the CUDA array interface: a copy of the array's memory, of the same shape and strides.
        With a stream, a kernel on it writes that memory."""
        low, high = np.lib.array_utils.byte_bounds(array)
        source = np.frombuffer((ctypes.c_uint8 * max(high - low, 1)).from_address(low), "u1")
        memory = self.allocate(source.size, device, kind)
        if stream is None:
            memory.bytes[...] = source
        else:
            staged = self.allocate(source.size, device)
            staged.bytes[...] = source
            self.copy(stream, memory, staged.address)
        return memory.array(
            array.shape,
            typestr or array.dtype.str,
            array.__array_interface__["data"][0] - low,
            strides=array.strides,
            stream=stream,
        )

    def new_context(self, device):
        """Another context than the primary one; it is current nowhere."""
        context = self.give("cuCtxCreate_v2", 0, device)
        self.call("cuCtxPopCurrent_v2", None)
        return context

    def stream(self, device=0, blocking=False, context=None):
        with self.context(context or self.primary[device]):
            return self.give("cuStreamCreate", 0 if blocking else 1)

    def fill(self, stream, memory, value, context=None):
        """Queues a kernel that fills the memory."""
        with self.context(context or self.primary[memory.device]):
            self.call("fake_launch", stream, memory.address, value, memory.nbytes)

    def copy(self, stream, to, from_address):
        """Queues a kernel that copies."""
        with self.current(to.device):
            self.call("fake_launch_copy", stream, to.address, from_address, to.nbytes)

    def synchronize(self, stream, device=0):
        with self.current(device):
            self.call("cuStreamSynchronize", stream)

    def order(self, producer, consumer):
        """Has the consumer's stream wait for the producer's, with an event of the current context."""
        event = self.give("cuEventCreate", 2)
        try:
            self.call("cuEventRecord", event, producer)
            self.call("cuStreamWaitEvent", consumer, event, 0)
        finally:
            self.call("cuEventDestroy_v2", event)

    def begin_capture(self, stream, mode=GLOBAL):
        self.call("cuStreamBeginCapture_v2", stream, mode)

    def end_capture(self, stream):
        self.call("cuStreamEndCapture", stream, byref(c_void_p()))

    def clear(self):
        self.library.fake_clear()

    def log(self, *names):
        """The calls since the log was cleared: of these functions, or all."""
        lines = self.library.fake_log().decode().splitlines()
        return [line for line in lines if not names or line.split("(")[0] in names]

    def fail(self, name, nth, result, count=1):
        """Has the nth next call of a function (None: of any) fail, and those after it up to this count. Those that give
        something back, or wait, do so nevertheless."""
        self.library.fake_fail(None if name is None else name.encode(), nth, count, result)

    def failures_left(self):
        """How many calls that are to fail have not come. From here on none fails."""
        left = self.library.fake_failures_left()
        self.fail(None, 0, 0, count=0)
        return left

    def while_inside(self, name, call):
        """Returns what call() returns. Its first call of the driver function `name` waits for another Python thread. If
        the caller holds the GIL there, that thread can't run, and the function fails."""

        def meet():
            self.library.fake_wait_paused()
            self.library.fake_resume()

        self.library.fake_pause(name.encode())
        thread = threading.Thread(target=meet)
        thread.start()
        try:
            return call()
        finally:
            thread.join()

    def live(self):
        live = Live()
        self.library.fake_live(byref(live))
        return {name: getattr(live, name) for name, _ in Live._fields_}

    def available(self, device=0):
        """Bytes that the device has left."""
        free, total = c_size_t(), c_size_t()
        with self.current(device):
            self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value
