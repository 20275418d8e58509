"""A GPU for tests: its driver, every kind of its memory, and kernels that are held up until the test lets them go.
`GPU` is the driver that the tests of tests/cuda get there."""

import os

os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"  # the fewer, the sooner streams share a queue, and wait for each other

import contextlib
import ctypes
import mmap
import threading
from ctypes import byref, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_ushort, c_void_p

import cupy
import numpy as np
import torch

from support import cuda_driver
from support.capi import Speaks
from support.cuda_driver import LEGACY, PER_THREAD

LATE = 10_000_000  # cycles: some milliseconds

_driver = ctypes.CDLL("libcuda.so.1")

# The libraries' context of device 0, which all of them share, is current in the main thread from here on.
torch.zeros(1, device="cuda:0")
cupy.zeros(1)


def call(function, *arguments):
    """Calls the driver; ints are addresses, handles and sizes, so 64 bits wide."""
    result = getattr(_driver, function)(*(c_uint64(it) if isinstance(it, int) else it for it in arguments))
    if result:
        name = ctypes.c_char_p()
        _driver.cuGetErrorName(result, byref(name))
        raise RuntimeError(f"{function}: {(name.value or str(result).encode()).decode()}")


def current_context():
    context = c_void_p()
    call("cuCtxGetCurrent", byref(context))
    return context.value


def capture_mode():
    """The thread's: to be asked, it has to be exchanged."""
    mode = c_int(0)
    call("cuThreadExchangeStreamCaptureMode", byref(mode))
    before = mode.value
    call("cuThreadExchangeStreamCaptureMode", byref(mode))
    return before


def free_memory():
    """Bytes of the current device."""
    torch.cuda.synchronize()
    free, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value


@contextlib.contextmanager
def inside(context):
    call("cuCtxPushCurrent_v2", context)
    try:
        yield
    finally:
        call("cuCtxPopCurrent_v2", byref(c_void_p()))


@contextlib.contextmanager
def another_context(device=0):
    """Makes a context other than the one that the libraries share. It is not current."""
    context = c_void_p()
    call("cuCtxCreate_v2", byref(context), 0, device)
    call("cuCtxPopCurrent_v2", byref(c_void_p()))
    try:
        yield context.value
    finally:
        call("cuCtxDestroy_v2", context.value)


@contextlib.contextmanager
def stream_of(context):
    """The handle of a stream that does not wait for the default ones."""
    stream = c_void_p()
    with inside(context):
        call("cuStreamCreate", byref(stream), 1)  # CU_STREAM_NON_BLOCKING
    try:
        yield stream.value
    finally:
        with inside(context):
            call("cuStreamDestroy_v2", stream.value)


# Memory, by its address. Each gives back what it took.


@contextlib.contextmanager
def allocated(size, allocate="cuMemAlloc_v2", free="cuMemFree_v2", *more):
    address = c_uint64()
    call(allocate, byref(address), size, *more)
    try:
        yield address.value
    finally:
        call(free, address.value)


def managed(size):
    return allocated(size, "cuMemAllocManaged", "cuMemFree_v2", 1)  # CU_MEM_ATTACH_GLOBAL


def pinned(size):
    return allocated(size, "cuMemHostAlloc", "cuMemFreeHost", 0)


@contextlib.contextmanager
def of_a_pool(size):
    """It is of no context."""
    address = c_uint64()
    call("cuMemAllocAsync", byref(address), size, 0)
    call("cuStreamSynchronize", 0)
    try:
        yield address.value
    finally:
        call("cuMemFreeAsync", address.value, 0)


@contextlib.contextmanager
def registered(size):
    with mmap.mmap(-1, size) as memory:
        view = c_uint8.from_buffer(memory)
        address = ctypes.addressof(view)
        call("cuMemHostRegister_v2", address, size, 0)
        try:
            yield address
        finally:
            call("cuMemHostUnregister", address)
            del view


class Location(ctypes.Structure):
    """CUmemLocation; its type 1 is a device."""

    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp; its type 1 is memory that does not move."""

    _fields_ = [
        ("type", c_int),
        ("requestedHandleTypes", c_int),
        ("location", Location),
        ("win32HandleMetaData", c_void_p),
        ("compressionType", c_uint8),
        ("gpuDirectRDMACapable", c_uint8),
        ("usage", c_ushort),
        ("reserved", c_uint8 * 4),
    ]


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc; flags 3 are reading and writing."""

    _fields_ = [("location", Location), ("flags", c_int)]


@contextlib.contextmanager
def virtual(size, device=0):
    """Virtual memory management: an address range, and memory mapped there. It is of no context."""
    prop = AllocationProp(type=1, location=(1, device))
    granularity, address, handle = c_size_t(), c_uint64(), c_uint64()
    call("cuMemGetAllocationGranularity", byref(granularity), byref(prop), 0)
    size += -size % granularity.value
    with contextlib.ExitStack() as undo:
        call("cuMemAddressReserve", byref(address), size, 0, 0, 0)
        undo.callback(call, "cuMemAddressFree", address.value, size)
        call("cuMemCreate", byref(handle), size, byref(prop), 0)
        undo.callback(call, "cuMemRelease", handle.value)
        call("cuMemMap", address.value, size, 0, handle.value, 0)
        undo.callback(call, "cuMemUnmap", address.value, size)
        call("cuMemSetAccess", address.value, size, byref(AccessDesc((1, device), 3)), 1)
        yield address.value


def upload(address, array):
    """Copies a numpy array to an address of a GPU, or to one of the host that CUDA knows."""
    array = np.ascontiguousarray(array)
    call("cuMemcpy", address, array.ctypes.data, array.nbytes)
    call("cuCtxSynchronize")


def download(address, shape, dtype="f4"):
    array = np.empty(shape, dtype)
    call("cuCtxSynchronize")
    call("cuMemcpy", array.ctypes.data, address, array.nbytes)
    return array


def interface_of(array, **changes):
    """Returns an object with the array's __cuda_array_interface__ and no other protocol."""
    return Speaks(__cuda_array_interface__={**array.__cuda_array_interface__, **changes}, keep=array)


# Work that takes as long as the test wants.

_write = cupy.RawKernel(
    r"""
    extern "C" __global__ void write_late(const volatile unsigned int *gate, unsigned int turn, long long cycles,
                                          float *out, int count, float value) {
        const long long start = clock64();
        while (*gate < turn || clock64() - start < cycles) {
        }
        for (int i = threadIdx.x; i < count; i += blockDim.x) {
            out[i] = value;
        }
    }
    """,
    "write_late",
)


def write(stream, address, count, value, cycles=0, gate=None, turn=0):
    """Queues a kernel on a stream of cupy that writes after `cycles` cycles of the GPU's clock."""
    gate = gate or address  # it is read all the same
    arguments = (np.uint64(gate), np.uint32(turn), np.int64(cycles), np.uint64(address), np.int32(count))
    with stream:
        _write((1,), (32,), (*arguments, np.float32(value)))


class Gate:
    """Holds up a kernel until it is opened. Reads before that see the old values. A wait on the host would never end.
    So that it ends as a failed test, the gate opens by itself after a while."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.turn = 0
        self.forced = False

    def __enter__(self):
        self.address = self.stack.enter_context(pinned(4))  # of every context, as all such memory
        self.flag = c_uint32.from_address(self.address)
        self.flag.value = 0
        self.guard = threading.Timer(30, self._force)
        self.guard.start()
        return self

    def __exit__(self, error, *_):
        self.guard.cancel()
        self.guard.join()
        self.flag.value = 2**32 - 1
        call("cuCtxSynchronize")
        self.stack.close()
        assert error or not self.forced, "something waited on the host for a stream"

    def _force(self):
        self.forced = True
        self.flag.value = 2**32 - 1

    def write(self, stream, address, count, value):
        """Queues a kernel that writes when the gate is opened."""
        self.turn += 1
        write(stream, address, count, value, gate=self.address, turn=self.turn)

    def hold(self, stream):
        """Holds up a stream of any context, by its handle."""
        self.turn += 1
        call("cuStreamWaitValue32_v2", stream, self.address, self.turn, 0)  # CU_STREAM_WAIT_VALUE_GEQ

    def open(self):
        self.flag.value = self.turn


def streams(count=2, non_blocking=True):
    return [cupy.cuda.Stream(non_blocking=non_blocking) for _ in range(count)]


def torch_stream(stream):
    """For a with statement: makes a stream of cupy the current one of torch."""
    return torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr))


class GPU(cuda_driver.CUDA):
    """Device 0, in the context that the libraries share. Its Memory.bytes are a copy, made when all work is done."""

    kinds = [*cuda_driver.CUDA.kinds, "virtual"]
    freed_kinds = ["plain", "managed", "host", "registered", "virtual"]
    unit = 2 << 20
    rounds = 10_000
    allocates = {
        "plain": allocated,
        "pool": of_a_pool,
        "managed": managed,
        "host": pinned,
        "registered": registered,
        "virtual": virtual,
    }

    def __init__(self):
        super().__init__()
        self.primary = [current_context()]
        self.cupy_streams = {LEGACY: cupy.cuda.Stream.null, PER_THREAD: cupy.cuda.Stream.ptds}
        self.undo = contextlib.ExitStack()
        self.taken = {}  # what gives memory back, by its address

    def __enter__(self):
        self.before = self.live()
        self.scratch = self.allocate(4)
        self.captures = 0
        write(cupy.cuda.Stream.null, self.scratch.address, 1, 0)  # a kernel is loaded at its first launch
        call("cuCtxSynchronize")
        return self

    def __exit__(self, *_):
        self.undo.close()
        assert self.live() == self.before
        call("cuCtxSynchronize")  # reports an error in the context, as every later call would

    def live(self):
        return {"context": current_context(), "mode": capture_mode()}

    def available(self, device=0):
        return free_memory()

    def clear(self):
        """Does nothing: a GPU keeps no log."""

    def logged(self, *names):
        return ()

    def allocate(self, nbytes, device=0, kind="plain", context=None):
        context, taken = context or self.primary[0], contextlib.ExitStack()

        def give_back():
            with inside(context):
                taken.close()

        with inside(context):
            address = taken.enter_context(self.allocates[kind](nbytes))
        self.undo.callback(give_back)
        return cuda_driver.Memory(self, address, nbytes, device, kind, owner=give_back)

    def free(self, memory):
        memory.owner()

    def bytes_at(self, address, nbytes):
        array = download(address, nbytes, "u1")
        array.flags.writeable = False  # it is a copy
        return array

    def write(self, memory, array):
        upload(memory.address, array)

    def new_context(self, device):
        return self.undo.enter_context(another_context(device))

    def stream(self, device=0, blocking=False, context=None):
        if context:
            return self.undo.enter_context(stream_of(context))
        (stream,) = streams(1, non_blocking=not blocking)
        self.cupy_streams[stream.ptr] = stream
        return stream.ptr

    def delay(self, stream):
        write(self.cupy_streams[stream], self.scratch.address, 0, 0, cycles=LATE)

    def kernel(self, stream, memory, value):
        """The arguments of write that fill memory with a byte."""
        return self.cupy_streams[stream], memory.address, memory.nbytes // 4, np.full(4, value, "u1").view("f4")[0]

    def fill(self, stream, memory, value):
        write(*self.kernel(stream, memory, value), cycles=LATE)

    def copy(self, stream, to, from_address):
        call("cuMemcpyAsync", to.address, from_address, to.nbytes, stream)

    @contextlib.contextmanager
    def gate(self):
        with Gate() as gate:
            gate.fill = lambda *fill: gate.write(*self.kernel(*fill))
            yield gate

    def begin_capture(self, stream, mode=cuda_driver.GLOBAL):
        self.cupy_streams[stream].begin_capture(mode)

    def end_capture(self, stream):
        """Ends a capture with a kernel, and proves that the graph is whole."""
        on, found = self.cupy_streams[stream], np.zeros(1, "f4")
        self.captures += 1
        write(on, self.scratch.address, 1, self.captures)
        graph = on.end_capture()
        graph.launch(on)
        on.synchronize()
        call("cuMemcpy", found.ctypes.data, self.scratch.address, 4)
        assert found[0] == self.captures
