"""Checks that hold in every interpreter, whatever it counts, frees or warns of."""

import ctypes
import gc
import importlib
import sys

import numpy as np
import pytest

import dlpack
from dlpack import structs
from support import operations, scenarios
from support.alone import alone, run
from support.capi import Memory
from support.refusals import refused

since_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython 3.12 and later")


class Buffer:
    """A class of Python's own with a buffer (PEP 688), which Python knows from 3.12 on."""

    def __init__(self):
        self.memory = Memory(b"abcd")
        self.released = 0

    def __buffer__(self, flags):
        return memoryview(self.memory)

    def __release_buffer__(self, view):
        self.released += 1
        view.release()


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_a_buffer_method_is_a_buffer_where_python_knows_it(max_version):
    buffer = Buffer()
    if sys.version_info < (3, 12):
        refused(lambda: dlpack.asdlpack(buffer), "no-protocol", TypeError)
        return
    x = dlpack.asdlpack(buffer)
    array = np.from_dlpack(x)
    unused = x.__dlpack__(max_version=max_version)
    assert (x.protocol, x.dtype, array.tobytes()) == ("buffer", "uint8", b"abcd")
    with pytest.raises(BufferError):
        buffer.memory.append(0)
    del x, array
    assert buffer.released == 0
    del unused
    gc.collect()
    assert buffer.released == 1
    buffer.memory.append(0)


@since_312
def test_an_error_of_a_buffer_method_is_the_error():
    class Refuses:
        def __buffer__(self, flags):
            raise BufferError("not today")

    with pytest.raises(BufferError, match="not today"):
        dlpack.asdlpack(Refuses())


def test_a_process_with_strict_settings_prints_nothing():
    """`-X dev` checks what is allocated, and shows each warning; `-W error` makes it an error."""
    code = """
import os
import dlpack
os.wait() if os.fork() else os._exit(0)
x = dlpack.asdlpack(bytearray(3), copy=None)
kept = x.__dlpack__(), memoryview(x), dlpack.asdlpack(x.__dlpack__(max_version=(1, 0)))
"""
    for options in ["-X", "dev"], ["-W", "error"], ["-X", "faulthandler", "-X", "dev", "-W", "error"]:
        result = run(sys.executable, *options, "-c", code)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@alone(timeout=280)
def test_operations_leave_no_reference_behind(effort, figure):
    """Counts blocks of memory. A debug build also counts references, but misses numpy's: numpy isn't a debug build.
    Free lists and the like fill up in the first round; the second shows what each operation leaks.

    Also counts references to None, True and False. They are immortal and uncounted in later versions, but the stable
    ABI of 3.11 counts them. After a billion leaked ones, None is no longer what `is None` looks for."""

    def collect():
        gc.collect()
        gc.collect()  # without a GIL the first one leaves some to the next

    def counts():
        return [ctypes.c_uint32.from_address(id(it)).value for it in (None, True, False)]

    count = effort(40_000, 1_000_000)
    operations.do(count)
    collect()
    before, blocks = counts(), sys.getallocatedblocks()
    operations.do(count)
    collect()
    grown = sys.getallocatedblocks() - blocks
    assert grown < count / len(scenarios.SCENARIOS), f"{grown} more after {count} operations"
    assert counts() == before or sys.version_info < (3, 12)
    figure("operations", 2 * count)


@since_312
@alone
def test_a_deleter_called_in_a_sub_interpreter_returns():
    """It would have to wait for the main interpreter's GIL, which its own thread keeps others from: so it leaves the
    memory. In 3.11 nothing tells a thread that it is in a sub-interpreter."""
    interpreters = importlib.import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    memory = bytearray(8)
    capsule = dlpack.asdlpack(memory).__dlpack__()
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    managed = get_pointer(capsule, b"dltensor")
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), b"used_dltensor")
    deleter = structs.DLManagedTensor.from_address(managed).deleter
    address = ctypes.cast(deleter, ctypes.c_void_p).value
    legacy = ("legacy",) if sys.version_info >= (3, 13) else ()
    inside = interpreters.create(*legacy) if legacy else interpreters.create(isolated=False)
    code = f"import ctypes; ctypes.PYFUNCTYPE(None, ctypes.c_void_p)({address})({managed})"
    failed = interpreters.run_string(inside, code)
    assert failed is None, failed
    with pytest.raises(BufferError):
        memory.append(0)
    interpreters.destroy(inside)
