"""Drivers of CUDA for tests: libcuda.c, which needs no GPU and is built once, and that of a GPU (gpu.py).

A test runs `with_driver`, alone in a process that finds libcuda.c as libcuda.so.1, or `with_each_driver`, if there is a
GPU also with that. Its parameter driver is what a library that uses CUDA would be: it has a current context, memory,
streams and kernels.
"""

import contextlib
import ctypes
import functools
import importlib.util
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


def with_driver(test=None, *, without=(), runtime=False, on_gpu=False, **options):
    """Decorates a test function: its body runs in a fresh interpreter that has this driver, without some functions. The
    parameter driver is that driver, initialised."""
    if test is None:
        return functools.partial(with_driver, without=without, runtime=runtime, on_gpu=on_gpu, **options)
    parameters = dict(inspect.signature(test).parameters)
    takes_driver = parameters.pop("driver", None)

    @functools.wraps(test)
    def body(cuda_of="fake", **arguments):
        if cuda_of == "GPU":
            from support.gpu import GPU

            with GPU() as gpu:
                test(**arguments, driver=gpu)
        else:
            test(**arguments, **({"driver": Driver()} if takes_driver else {}))

    @functools.wraps(body)
    def run_with_driver(cuda_of="fake", **arguments):
        if cuda_of == "fake":
            alone(body, environ=environ(*without, runtime=runtime), **options)(**arguments)
        elif on_gpu == "alone":
            alone(body, **options)(cuda_of=cuda_of, **arguments)
        else:
            body(cuda_of, **arguments)

    if on_gpu:  # tests/conftest.py has its values
        parameters["cuda_of"] = takes_driver.replace(name="cuda_of")
    run_with_driver.__signature__ = inspect.Signature(parameters.values())
    return run_with_driver


def with_each_driver(test=None, *, alone_on_gpu=False, **options):
    """Decorates a test function that also runs on this machine's GPU, if it has one: in this process, or alone."""
    return with_driver(test, on_gpu="alone" if alone_on_gpu else True, **options)


@functools.cache
def gpus():
    """Returns how many there are; 0 without the libraries that gpu.py needs."""
    if not all(map(importlib.util.find_spec, ("cupy", "torch"))):
        return 0
    count = c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    return 0 if driver.cuInit(0) or driver.cuDeviceGetCount(byref(count)) else count.value


def cuda(device):
    return (DLDeviceType.kDLCUDA, device)


class DriverError(Exception):
    """Holds the code that a driver function returned instead of CUDA_SUCCESS."""


class NotReady(DriverError):
    """CUDA_ERROR_NOT_READY: a stream has work to do."""


def cuda_array(address, shape=(8,), typestr="|u1", keep=None, **keys):
    """An object with the CUDA array interface and nothing else; of no stream unless one is said."""
    interface = {"version": 3, "shape": shape, "typestr": typestr, "data": (address, False), "stream": None, **keys}
    return Speaks(__cuda_array_interface__=interface, keep=keep)


class Live(ctypes.Structure):
    """How many there are of the process; how many contexts this thread has pushed, and its mode."""

    _fields_ = [(name, c_int) for name in ("allocations", "events", "streams", "retained", "orphans", "pushed", "mode")]


class Memory:
    """Memory that the driver knows, full of zeros."""

    def __init__(self, driver, address, nbytes, device, kind, owner=None):
        self.driver, self.address, self.nbytes, self.device, self.kind = driver, address, nbytes, device, kind
        self.owner = owner
        self.write(np.zeros(nbytes, "u1"))

    @property
    def bytes(self):
        return self.driver.bytes_at(self.address, self.nbytes)

    def write(self, array):
        """Writes an array's bytes, when all work on the memory is done."""
        self.driver.write(self, np.ascontiguousarray(array).reshape(-1).view("u1"))

    def array(self, shape=None, typestr="|u1", offset=0, **keys):
        return cuda_array(self.address + offset, (self.nbytes,) if shape is None else shape, typestr, keep=self, **keys)

    def free(self):
        self.driver.free(self)


class CUDA:
    """A driver that is initialised, and has memory, streams and kernels. The primary context of device 0 is current."""

    devices = [0]
    kinds = ["plain", "pool", "managed", "host", "registered"]
    freed_kinds = ["plain", "managed"]  # of which nothing is kept
    to_others: list[dict] = []  # arguments of asdlpack that copy memory of device 0 to other devices
    unit = 1  # fewer bytes may be missing after everything is given back
    rounds = 1_000  # that lose at least a unit if each loses something

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.primary: list[int] = []

    def call(self, name, *arguments):
        """Calls a function; ints are passed with 64 bits."""
        result = getattr(self.library, name)(*(c_uint64(x) if isinstance(x, int) else x for x in arguments))
        if result != 0:
            raise {600: NotReady}.get(result, DriverError)(result)

    def give(self, name, *arguments, of=c_uint64):
        """Calls a function that writes its answer through its first argument; returns the answer."""
        value = of()
        self.call(name, byref(value), *arguments)
        return value.value

    def current(self, device):
        return self.context(self.primary[device])

    @contextlib.contextmanager
    def context(self, context):
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def put(self, array, device=0, kind="plain", stream=None, typestr=None):
        """Returns an object with the CUDA array interface: a copy of the array's memory, of the same shape and strides.
        With a stream, a kernel on it writes that memory."""
        low, high = np.lib.array_utils.byte_bounds(array)
        source = np.frombuffer((ctypes.c_uint8 * max(high - low, 1)).from_address(low), "u1")
        memory = self.allocate(source.size, device, kind)
        if stream is None:
            memory.write(source)
        else:
            staged = self.allocate(source.size, device)
            staged.write(source)
            self.delay(stream)
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
        self.call("cuCtxPopCurrent_v2", byref(c_void_p()))
        return context

    def synchronize(self, stream, device=0):
        with self.current(device):
            self.call("cuStreamSynchronize", stream)

    def read_on(self, stream, address, device=0):
        """Returns the values of the 8 bytes at an address that a kernel on a stream reads."""
        result = self.allocate(8, device)
        self.copy(stream, result, address)
        self.synchronize(stream, device)
        return set(result.bytes.tolist())

    def is_done(self, stream, context=None):
        with self.context(context or self.primary[0]), contextlib.suppress(NotReady):
            self.call("cuStreamQuery", stream)
            return True
        return False

    def available(self, device=0):
        """Bytes that the device has left."""
        free, total = c_size_t(), c_size_t()
        with self.current(device):
            self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value


class Driver(CUDA):
    """The driver of libcuda.c, initialised, with the primary contexts of all devices; that of device 0 is this
    thread's. Its Memory.bytes are an array that writes there: the bytes as they are now, whatever is queued."""

    devices = [*range(DEVICES)]
    to_others = [{"device": "cuda:1", "copy": None}]

    def __init__(self, initialise=True):
        super().__init__()
        self.library.fake_bytes.restype = c_void_p
        self.library.fake_log.restype = ctypes.c_char_p
        if initialise:
            self.initialise()

    def initialise(self):
        self.call("cuInit", 0)
        self.primary = [self.give("cuDevicePrimaryCtxRetain", device) for device in range(DEVICES)]
        self.call("cuCtxSetCurrent", self.primary[0])
        self.clear()

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

    def free(self, memory):
        with self.current(memory.device):
            self.call("cuMemFree_v2", memory.address)

    def bytes_at(self, address, nbytes):
        """The bytes at an address that the driver knows."""
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(self.library.fake_bytes(c_uint64(address))), "u1")

    def write(self, memory, array):
        memory.bytes[: array.size] = array

    def stream(self, device=0, blocking=False, context=None):
        with self.context(context or self.primary[device]):
            return self.give("cuStreamCreate", 0 if blocking else 1)

    def delay(self, stream):
        """Nothing is done before something waits for it."""

    def fill(self, stream, memory, value, context=None):
        """Queues a kernel that fills the memory."""
        with self.context(context or self.primary[memory.device]):
            self.call("fake_launch", stream, memory.address, value, memory.nbytes)

    def copy(self, stream, to, from_address):
        """Queues a kernel that copies."""
        with self.current(to.device):
            self.call("fake_launch_copy", stream, to.address, from_address, to.nbytes)

    @contextlib.contextmanager
    def gate(self):
        yield Gate(self)

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
        """Ends a capture, which must be whole."""
        self.call("cuStreamEndCapture", stream, byref(c_void_p()))

    def clear(self):
        self.library.fake_clear()

    def log(self, *names):
        """The calls since the log was cleared: of these functions, or all."""
        lines = self.library.fake_log().decode().splitlines()
        return [line for line in lines if not names or line.split("(")[0] in names]

    def logged(self, *names):
        """Yields the log, which a GPU's driver does not have."""
        yield self.log(*names)

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


class Gate:
    """Holds up kernels until it is opened: here nothing is done before something waits for it."""

    def __init__(self, driver):
        self.driver = driver

    def fill(self, stream, memory, value):
        self.driver.fill(stream, memory, value)

    def hold(self, stream):
        self.driver.fill(stream, self.driver.allocate(4), 1)

    def open(self):
        pass
