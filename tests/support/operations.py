"""Every scenario, errors included, in an order that a seed gives. As a program,

    operations.py COUNT

does COUNT operations, and prints as JSON what has grown meanwhile: Python's blocks, the C heap, resident memory,
references.
"""

import ctypes
import gc
import json
import random
import sys
from typing import Any

from support.process import resident
from support.scenarios import BYTES, NUMBERS, SCENARIOS, attempt, forget

# Objects that all scenarios use: their references are counted.
EVERYONES: list[Any] = [None, True, False, (), b"", "", "shape", "data", "typestr", bytearray, memoryview]
EVERYONES += [type(NUMBERS), ValueError, TypeError, BufferError, BYTES, NUMBERS]


def do(count):
    """Does `count` operations, or a few more, so that each is done equally often."""
    operations = [*SCENARIOS.values()] * 10
    random.Random(1).shuffle(operations)
    done = 0
    while done < count:
        for make, use in operations:
            attempt(make, use)
        forget()
        done += len(operations)
    return done


class Heap(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks used".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in ("free", "keepcost")]


mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap


def state():
    gc.collect()
    gc.collect()
    heap = mallinfo2()
    return {
        "blocks of Python": sys.getallocatedblocks(),
        "bytes of the C heap": heap.used + heap.hblkhd,
        "bytes resident": resident(),
        "references": sum(map(sys.getrefcount, EVERYONES)),
    }


ROUNDS = 6


def main(count):
    """Prints each change from the round with the smallest one: a leak grows in every round, and caches settle."""
    do(100_000)  # until CPython's caches of attributes and glibc's of memory have settled
    state()
    rounds, done = [], 0
    for _ in range(ROUNDS):
        before = state()
        done += do(count // ROUNDS)
        after = state()
        rounds.append({what: after[what] - before[what] for what in before})
    least = {what: min((grown[what] for grown in rounds), key=abs) for what in rounds[0]}
    print(json.dumps({"operations": done, "kinds": len(SCENARIOS)} | least))


if __name__ == "__main__":
    main(int(sys.argv[1]))
