"""How many calls into Go programs make: where memory is of a kind that C remembers, there is none.

Each program is a generator of what is wrapped and exported. It runs in a process of its own, since what is remembered
is the process's."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from objects import Interface, numpy
from timing import Row, Table

CALLS = 5_000


def bytes_of_any_length() -> Iterator[Any]:
    """Messages off a network."""
    while True:
        yield bytes(random.randint(1, 10_000))


def slices_of_bytes() -> Iterator[Any]:
    """Records of a file."""
    memory = memoryview(bytearray(1 << 20))
    while True:
        start = random.randrange(len(memory) - 1)
        yield memory[start : random.randint(start + 1, len(memory))]


def batches_of_images() -> Iterator[Any]:
    """All of one size, but fewer at the end of an epoch."""
    images = numpy().empty((32, 3, 224, 224), "u1")
    while True:
        yield from [memoryview(images)] * 30
        yield memoryview(images[: random.randrange(1, 32)])


def batches_of_sentences() -> Iterator[Any]:
    """Of any number, each as long as its longest."""
    tokens = numpy().zeros(64 * 512, "i8")
    while True:
        count, length = random.randint(1, 64), random.randint(1, 512)
        yield Interface(tokens[: count * length].reshape(count, length))


def windows() -> Iterator[Any]:
    """Rows of a matrix, so many at a time."""
    matrix = numpy().zeros((10_000, 64), "f4")
    while True:
        start = random.randrange(len(matrix) - 128)
        yield memoryview(matrix[start : start + 128])


def crops() -> Iterator[Any]:
    """Cut out of one image, in any size."""
    image = numpy().zeros((480, 640, 3), "u1")
    while True:
        height, width = random.randint(1, 480), random.randint(1, 640)
        yield Interface(image[:height, :width])


def columns() -> Iterator[Any]:
    """Of tables of changing length, in four types."""
    tables = [numpy().zeros(1 << 16, dtype) for dtype in ("f4", "f8", "i4", "i8")]
    while True:
        for column in tables:
            yield Interface(column[: random.randint(1, 1 << 16)])


def arrow_columns() -> Iterator[Any]:
    """The same by Arrow."""
    import pyarrow

    for column in columns():
        yield pyarrow.chunked_array([column.array])


def arrays() -> Iterator[Any]:
    """numpy's, whatever their shape: they have __dlpack__."""
    for batch in batches_of_sentences():
        yield batch.array


def weights() -> Iterator[Any]:
    """Of the 32 layers of a model."""
    layer = [(4096, 4096), (4096, 1024), (1024, 4096), (4096, 11008), (11008, 4096), (4096,)]
    arrays = [numpy().empty(shape, "f2") for shape in layer]
    while True:
        yield from (memoryview(array) for array in arrays)


PROGRAMS = {
    program.__name__: program
    for program in (
        bytes_of_any_length,
        slices_of_bytes,
        batches_of_images,
        batches_of_sentences,
        windows,
        crops,
        columns,
        arrow_columns,
        arrays,
        weights,
    )
}


def run(program: str) -> int:
    """The calls into Go that the program made."""
    from dlpack import asdlpack
    from dlpack._dlpack import _core_calls

    random.seed(program)
    for obj, _ in zip(PROGRAMS[program](), range(CALLS), strict=False):
        asdlpack(obj).__dlpack__(max_version=(1, 1))
    return _core_calls()


def table() -> Table:
    rows = []
    for program in PROGRAMS:
        result = subprocess.run([sys.executable, __file__, program], stdout=subprocess.PIPE, check=True)
        rows.append(Row(program.replace("_", " "), json.loads(result.stdout), "calls of asdlpack", CALLS))
    return Table("calls into Go", "calls", rows)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
