"""How wrapping grows with the dimensions, with the objects that are alive and with threads, and the memory that objects
and capsules take."""

import math
import sys
from collections.abc import Iterator

from timing import THREADS, Pairs, Row, Table, Worker, beside, in_turn

NDIMS = [1, 2, 4, 8, 16, 32, 64]
LIVE = [0, 1_000, 10_000, 100_000, 1_000_000]

OBJECTS: Pairs = [
    ("asdlpack(some_bytearray)", "memoryview(some_bytearray)", None),
    ("asdlpack(some_bytes)", "memoryview(some_bytes)", None),
    ("asdlpack(ndarray)", "memoryview(ndarray)", None),
    ("asdlpack(ndarray)", "ndarray[:]", 1.5),
    ("asdlpack(some_bytearray)", "floor.hold(some_bytearray)", None),
    ("asdlpack(some_bytearray)", "floor.describe(some_bytearray)", None),
    ("asdlpack(interface)", "numpy.asarray(interface)", None),
    ("asdlpack(some_bytearray)", "torch.frombuffer(some_bytearray, dtype=torch.uint8)", None),
    ("asdlpack(some_bytearray)", "tvm_ffi.from_dlpack(ndarray)", None),
]
CAPSULES: Pairs = [
    ("wrapped.__dlpack__()", "ndarray.__dlpack__()", None),
    ("wrapped.__dlpack__()", "tensor.__dlpack__()", None),
    ("wrapped.__dlpack__(max_version=(1, 1))", "ndarray.__dlpack__(max_version=(1, 1))", None),
]


def dimensions(rounds: int) -> Table:
    views = [(f"asdlpack(view_{ndim})", f"memoryview(view_{ndim})", None) for ndim in NDIMS]
    exports = [(f"asdlpack(view_{ndim}).__dlpack__()", f"array_of_{ndim}.__dlpack__()", None) for ndim in NDIMS]
    arrays = [
        (f"numpy.from_dlpack(asdlpack(array_of_{ndim}))", f"numpy.from_dlpack(array_of_{ndim})", None) for ndim in NDIMS
    ]
    with Worker() as worker:
        return beside("by dimensions", worker, [*views, *exports, *arrays], rounds)


def objects_alive(rounds: int) -> Table:
    """Each count in a process of its own; they take turns."""
    workers = {count: Worker() for count in LIVE}
    pairs = {count: (f"asdlpack(shared_{count})", f"memoryview(shared_{count})") for count in LIVE}
    for _ in range(rounds):
        least = {count: [worker.sample("loop", it) for it in pairs[count]] for count, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    rows = [Row(pairs[count][0], least[count][0], pairs[count][1], least[count][1]) for count in LIVE]
    return Table("by objects alive", "ns", rows)


def threads(python: str, path: str | None, rounds: int) -> Table:
    """Divides the time by all threads' calls. Without the GIL, twice the threads halve it, while there are CPUs."""
    pair = ("asdlpack(some_bytearray)", "memoryview(some_bytearray)")
    with Worker(python, path) as worker:
        gil = "with the GIL" if worker.about["gil"] else "without the GIL"
        title = f"by threads, Python {worker.about['python']} {gil}"
        rows = []
        for count in THREADS:
            (ours,), (peer,) = in_turn([worker], pair, rounds, f"{count} threads")
            rows.append(Row(f"{pair[0]} in {count}", ours, f"{pair[1]} in {count}", peer))
        return Table(title, "ns", rows)


def memory(pydlpack: str | None) -> Iterator[Table]:
    """Each statement in a process of its own, so that none finds memory that another has freed."""

    def measure(statement: str, python: str = sys.executable, path: str | None = None) -> float:
        with Worker(python, path) as worker:
            return worker.sample("memory", statement)

    statements = dict.fromkeys(statement for row in (*OBJECTS, *CAPSULES) for statement in row[:2])
    taken = {statement: measure(statement) for statement in statements}
    objects, capsules = (
        [Row(it, taken[it], peer, taken[peer], goal) for it, peer, goal in pairs] for pairs in (OBJECTS, CAPSULES)
    )
    if pydlpack:  # it makes no second capsule of an object
        it = objects[0].what
        objects.append(Row(it, taken[it], "pydlpack's", measure(it, pydlpack, path="")))
    for title, rows in {"an object": objects, "a capsule": capsules}.items():
        yield Table(f"memory of {title}", "bytes", [row for row in rows if not math.isnan(row.ratio)])
