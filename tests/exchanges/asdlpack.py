"""Not a library: what asdlpack itself does, seen by a C program."""

import array
import contextlib
import ctypes
import functools
import gc
import mmap
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dlpack
from dlpack._abi import look, read_managed
from dlpack.tests.exchange import hand_over
from dlpack.tests.expectations import PADDED, Rule
from dlpack.tests.findings import Skip, expect
from dlpack.tests.libraries import datatypes, layouts, standard
from dlpack.tests.memory import Memory, of_buffer, references_of

from .checks import gives


def gives_every_data_type() -> None:
    for code in "bBhHiIlLqQfd":
        numbers = array.array(code, [0, 1, 2])
        kind = "float" if code in "fd" else "uint" if code.isupper() else "int"
        gives(of_buffer(numbers, f"{kind}{8 * numbers.itemsize}"))
    gives(of_buffer(memoryview(bytearray(2)).cast("?"), "bool"))


def converts_another_byte_order() -> None:
    numbers = (ctypes.c_int32.__ctype_be__ * 3)(1, 2, 3)
    memory = of_buffer((ctypes.c_int32 * 3)(1, 2, 3), "int32")
    memory.obj, memory.references = numbers, references_of(numbers)
    memory.converted = "the bytes have to be swapped"
    gives(memory)


def frombuffer_gives_every_data_type() -> None:
    for make in datatypes.PROVIDERS.values():
        memory = make()
        if memory.dtype not in PADDED:
            for shape, strides in ((2, 3), ()), ((3, 2), (1, 3)):
                typed = standard.raw(memory.dtype, memory.values, shape, strides)
                typed.resize = None  # it moves the memory
                gives(typed)


def from_pointer_gives_every_data_type() -> None:
    for make in datatypes.PROVIDERS.values():
        memory = make()
        if memory.dtype not in PADDED:
            gives(standard.pointed_to(memory.obj, memory.address or 0, memory.dtype, (2, 3), memory.values))


def is_shared_with_copy_none(memory: Memory) -> None:
    handed = hand_over(standard.VERSIONED, memory, None, Rule("shared", ""))
    expect(handed.outcome == "shared", f"{memory.obj!r} is {handed.outcome}: {handed.text}")


def what_can_be_shared_is_shared_with_copy_none() -> None:
    for make in standard.PROVIDERS.values():
        with contextlib.suppress(Skip):
            memory = make()
            if not memory.withheld:
                is_shared_with_copy_none(memory)


def memory_of_a_known_kind_is_looked_at_all_the_same() -> None:
    is_shared_with_copy_none(layouts.floats((12,)))
    gives(layouts.misaligned())
    shown = {"version": 3, "typestr": "<f4", "data": bytes(48)}
    dlpack.asdlpack(SimpleNamespace(__array_interface__=shown | {"shape": (12,)}))
    refused(lambda: dlpack.asdlpack(SimpleNamespace(__array_interface__=shown | {"shape": (13,)})))


class Producer:
    """It gives capsules of a DLPackObject, and is on a device of its own."""

    def __init__(self, x: dlpack.DLPackObject) -> None:
        self.__dlpack__: Callable[..., Any] = x.__dlpack__

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def on_cuda() -> dlpack.DLPackObject:
    """It is refused: there is nothing at that address."""
    shown = {"version": 3, "typestr": "<f4", "shape": (3,), "data": (64, False)}
    return dlpack.asdlpack(SimpleNamespace(__cuda_array_interface__=shown))


class Interface:
    """It makes its array interface anew each time."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (len(self.data),), "data": memoryview(self.data)}


def in_a_cycle(data: bytearray) -> None:
    interface: Any = Interface(data)
    interface.shared = dlpack.asdlpack(interface)


WAYS_OUT: dict[str, Callable[[dlpack.DLPackObject], Any]] = {
    "a capsule": lambda x: x.__dlpack__(max_version=(1, 3)),
    "__dlpack__": Producer,
    "a buffer": memoryview,
    "__array_interface__": lambda x: SimpleNamespace(__array_interface__=x.__array_interface__, memory=x),
    "__array_struct__": lambda x: SimpleNamespace(__array_struct__=x.__array_struct__),
    "__arrow_c_array__": lambda x: SimpleNamespace(__arrow_c_array__=x.__arrow_c_array__),
}


def what_it_gives_can_be_given_on() -> None:
    for protocol, way in WAYS_OUT.items():
        numbers = array.array("d", range(6))
        memory = of_buffer(numbers, "float64")
        memory.obj, memory.references = way(dlpack.asdlpack(numbers)), None
        memory.readonly = protocol == "__arrow_c_array__"
        gives(memory)
        del memory
        taken = standard.Consumed(dlpack.asdlpack(way(dlpack.asdlpack(numbers))).__dlpack__())
        refused(lambda numbers=numbers: numbers.append(0))  # type: ignore[misc]
        del taken
        numbers.append(0)


def there_and_back(way: Callable[[dlpack.DLPackObject], Any], data: bytearray) -> None:
    standard.Consumed(dlpack.asdlpack(way(dlpack.asdlpack(data))).__dlpack__())


def refused(use: Callable[[], Any]) -> None:
    with contextlib.suppress(BufferError, TypeError, ValueError):
        use()
        raise AssertionError("it was not refused")


USES: tuple[Callable[[bytearray], Any], ...] = (  # what a program does again and again
    lambda data: dlpack.asdlpack(data).__dlpack__(),
    lambda data: standard.Consumed(dlpack.asdlpack(data).__dlpack__(max_version=(1, 3))),
    lambda data: dlpack.asdlpack(memoryview(data).cast("B", (1,) * 62 + (8, 8))).__dlpack__(),
    lambda data: dlpack.asdlpack(dlpack.asdlpack(data).__dlpack__()),
    lambda data: dlpack.asdlpack(Producer(dlpack.asdlpack(data))).shape,
    lambda data: standard.Consumed(dlpack.asdlpack(Producer(dlpack.asdlpack(data))).__dlpack__()),
    lambda data: dlpack.asdlpack(data, copy=True),
    lambda data: dlpack.asdlpack(data).__dlpack__(copy=True),
    lambda data: dlpack.asdlpack(Interface(data)),
    in_a_cycle,
    lambda data: refused(on_cuda),
    lambda data: refused(lambda: dlpack.asdlpack(data).__dlpack__(stream=1)),
    lambda data: refused(lambda: dlpack.asdlpack((ctypes.c_char_p * 8).from_buffer(data))),
    lambda data: refused(lambda: dlpack.asdlpack([0] * 100)),
    lambda data: dlpack.frombuffer(data, "bfloat16", (-1, 2), offset=8).__dlpack__(),
    lambda data: refused(lambda: dlpack.frombuffer(data, "bfloat16", 100)),
    lambda data: dlpack.from_pointer(64, (1,) * 8, "int8", owner=data).__dlpack__(),
    lambda data: dlpack.describe(data),
    lambda data: refused(lambda: memoryview(dlpack.frombuffer(data, "bfloat16"))),
    *(functools.partial(there_and_back, way) for way in WAYS_OUT.values()),
)


def nothing_is_left_behind() -> None:
    if sys.platform == "win32":
        raise Skip("no module of Python tells the resident memory on Windows")
    for i, use in enumerate(USES):
        data = bytearray(64)
        grown = [growth(use, data)]  # Go's garbage is collected from time to time: what leaks grows each time
        while grown[-1] > 1 << 20 and len(grown) < 6:
            grown.append(growth(use, data))
        assert grown[-1] <= 1 << 20, f"use {i}: in each of {len(grown)} times, memory grew: by {grown} bytes"
        gc.collect()
        data.append(0)


def resident() -> int:
    """Bytes of this process that are in memory; elsewhere than on Linux, the most that ever were."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def growth(use: Callable[[bytearray], Any], data: bytearray) -> int:
    before = resident()
    for _ in range(40_000):
        use(data)
    return resident() - before


def what_asdlpack_gave_is_copied_with_copy_true() -> None:
    x = dlpack.asdlpack(bytearray(8))
    for copied in dlpack.asdlpack(x, copy=True), dlpack.asdlpack(Producer(x), copy=True):
        expect(copied.pointer != x.pointer, f"{copied!r} is no copy of {x!r}")


def a_refused_capsule_can_be_taken_again() -> None:
    capsule = dlpack.asdlpack(bytearray(8)).__dlpack__(max_version=(1, 3))
    tensor = look(capsule).dl_tensor
    tensor.dtype.lanes = 0
    refused(lambda: dlpack.asdlpack(capsule))
    tensor.dtype.lanes = 1
    assert dlpack.asdlpack(capsule).shape == (8,)


def shared_memory_is_seen_from_a_second_process() -> None:
    memory = standard.new_shared_memory()
    try:
        taken = standard.Consumed(dlpack.asdlpack(memory.buf).__dlpack__())
        code = "from multiprocessing import resource_tracker, shared_memory; import sys\n"
        code += "resource_tracker.register = lambda *arguments: None\n"  # its maker alone unlinks it
        code += "m = shared_memory.SharedMemory(sys.argv[1]); m.buf[3] = 42; m.close()"
        subprocess.run([sys.executable, "-c", code, memory.name], check=True)
        assert read_managed(taken.managed).values[3] == 42
        del taken
    finally:
        memory.close()
        memory.unlink()


CHECKS = {
    "shared memory is seen from a second process": shared_memory_is_seen_from_a_second_process,
    "gives on what it gave, by each protocol": what_it_gives_can_be_given_on,
    "gives every data type": gives_every_data_type,
    "gives every data type by frombuffer": frombuffer_gives_every_data_type,
    "gives every data type by from_pointer": from_pointer_gives_every_data_type,
    "converts another byte order": converts_another_byte_order,
    "shares with copy=None what can be shared": what_can_be_shared_is_shared_with_copy_none,
    "looks at memory of a known kind all the same": memory_of_a_known_kind_is_looked_at_all_the_same,
    "copies with copy=True what it gave": what_asdlpack_gave_is_copied_with_copy_true,
    "leaves nothing behind": nothing_is_left_behind,
    "leaves a refused capsule as it was": a_refused_capsule_can_be_taken_again,
}
