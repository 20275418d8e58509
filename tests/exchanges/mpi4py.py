"""mpi4py's buffers, and messages between two processes."""

import contextlib
import ctypes
import dataclasses
import functools
import importlib
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import mpi4py

import dlpack
from dlpack._abi import Seen, look, read_managed
from dlpack.tests.exchange import numbers
from dlpack.tests.expectations import PADDED, Consumer, Rule, dtype
from dlpack.tests.findings import Skip
from dlpack.tests.libraries import datatypes
from dlpack.tests.memory import Memory, references_of

mpi4py.rc.initialize = False  # the import alone would start MPI
try:
    MPI: Any = importlib.import_module("mpi4py.MPI")
except RuntimeError:  # the wheel brings no MPI
    raise Skip("mpi4py finds no MPI library") from None


def known(buffer: Any) -> Memory:
    """Describes a buffer as mpi4py does."""
    values, address, readonly = buffer.tobytes(), buffer.address, buffer.readonly
    return Memory(
        buffer, "uint8", (buffer.nbytes,), values, address, readonly=readonly, references=references_of(buffer)
    )


def allocated() -> Any:
    buffer = MPI.buffer.allocate(64, clear=True)
    buffer[:5] = b"bytes"
    return buffer


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "buffer": lambda: known(allocated()),
    "buffer, read-only": lambda: known(allocated().toreadonly()),
}


class Delegate:
    """Answers with the capsules of another object."""

    def __init__(self, obj: Any) -> None:
        self.x: dlpack.DLPackObject = dlpack.asdlpack(obj)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.x.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def see(buffer: Any) -> Seen:
    """Describes a buffer as mpi4py does: bytes; what they stand for is in the capsule that it keeps."""
    seen = read_managed(look(buffer.obj))
    assert buffer.nbytes == len(seen.values), f"{buffer.nbytes} bytes, expected {len(seen.values)}"
    return seen._replace(address=buffer.address, readonly=buffer.readonly)


def not_contiguous(memory: Memory) -> bool:
    """True if it is neither row-major nor column-major, which is row-major with the dimensions turned around."""
    turned = dataclasses.replace(memory, shape=memory.shape[::-1], strides=memory.strides[::-1])
    return not memory.packed and not turned.packed


RULES = [
    Rule("shared", "", dtype(*PADDED)),
    Rule("refused", "a message is row-major or column-major", not_contiguous),
]

# mpi4py would take the buffer of x itself; a Delegate offers only DLPack.
CONSUMERS = [Consumer("mpi4py", lambda x: MPI.buffer(Delegate(x)), see, "stays read-only", rules=RULES)]


def rank() -> int:
    number: int = MPI.COMM_WORLD.Get_rank()
    return number


def pass_on(sent: Any, received: Any) -> None:
    """From rank 0 to rank 1."""
    if rank() == 0:
        MPI.COMM_WORLD.Send(sent, dest=1)
    else:
        MPI.COMM_WORLD.Recv(received, source=0)


def now(memory: Memory) -> bytes:
    """The items as they are now."""
    return ctypes.string_at(memory.address or 0, len(memory.values))


def clear(memory: Memory) -> None:
    ctypes.memset(memory.address or 0, 0, len(memory.values))


def each_data_type() -> Iterator[tuple[str, Memory]]:
    """Before version 5 Open MPI has no float16."""
    known = False
    with contextlib.suppress(MPI.Exception):
        known = bool(MPI.Datatype.fromcode("e").Get_name())
    for name, make in datatypes.PROVIDERS.items():
        if known or name != "float16":
            yield name, make()


def sends_and_receives_every_data_type() -> None:
    for name, memory in each_data_type():
        if rank() == 1:
            clear(memory)
        pass_on(dlpack.asdlpack(memory.obj), dlpack.asdlpack(memory.obj))
        assert now(memory) == memory.values, f"{name}: {now(memory).hex(' ')}, expected {memory.values.hex(' ')}"


def adds_up_over_both_ranks() -> None:
    for name in sorted(datatypes.FORMATS.keys() - {"bool", "float16"}):  # MPI can't add these
        part, total = datatypes.PROVIDERS[name](), datatypes.PROVIDERS[name]()
        MPI.COMM_WORLD.Allreduce(dlpack.asdlpack(part.obj), dlpack.asdlpack(total.obj))
        found, expected = numbers(now(total), name), [2 * number for number in numbers(part.values, name)]
        assert found == expected, f"{name}: {found}, expected {expected}"


def refuses_to_receive_into_read_only_memory() -> None:
    received = bytes(8)
    try:
        MPI.COMM_WORLD.Allreduce(dlpack.asdlpack(memoryview(bytes(8))), dlpack.asdlpack(received))
    except BufferError:
        return
    raise AssertionError(f"received {received!r}")


def gives_the_memory_of_a_window() -> None:
    window = MPI.Win.Allocate(64)
    buffer = window.tomemory()
    x = dlpack.asdlpack(buffer)
    assert (x.pointer, x.nbytes, x.readonly) == (buffer.address, 64, False), x
    del x, buffer
    window.Free()


ON_TWO_RANKS = {
    "sends and receives every data type": sends_and_receives_every_data_type,
    "adds up over both ranks": adds_up_over_both_ranks,
    "refuses to receive into read-only memory": refuses_to_receive_into_read_only_memory,
    "gives the memory of a window": gives_the_memory_of_a_window,
}


def on_two_ranks(name: str) -> None:
    """Starts both by mpiexec: each calls be_a_rank."""
    mpiexec = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
    if mpiexec is None:
        raise Skip("no mpiexec beside Python or on PATH")
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import be_a_rank; be_a_rank({name!r})"
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # as in most containers
    command = [mpiexec, "-n", "2", sys.executable, "-c", code]
    ranks = subprocess.run(command, env=os.environ | as_root, capture_output=True, text=True)
    assert ranks.returncode == 0, f"exit status {ranks.returncode}: {' '.join(ranks.stderr.split())}"


def be_a_rank(name: str) -> None:
    MPI.Init()
    try:
        assert MPI.COMM_WORLD.Get_size() == 2, f"{MPI.COMM_WORLD.Get_size()} ranks, expected 2"
        ON_TWO_RANKS[name]()
    except BaseException:
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)  # the other one would wait for this one
    MPI.Finalize()


CHECKS = {name: functools.partial(on_two_ranks, name) for name in ON_TWO_RANKS}
