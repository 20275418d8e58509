"""Times copies of 64 MiB compared with numpy's and torch's, two layouts up to 1 GiB, each from 64 bytes to 64 MiB.

torch uses a thread per CPU of the process, asdlpack only those that make a copy faster, numpy one. A second process has
one CPU, so that all use one thread. All copies are written to fresh memory, except those of copy_into and numpy.copyto,
which write to memory that exists."""

from collections.abc import Iterator

from timing import Table, Worker, apart, beside

SIZES = ["4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB", "256MiB", "1GiB"]

BESIDE_NUMPY = [
    ("asdlpack(transposed_64MiB, copy=True)", "transposed_64MiB.copy()", 0.2),
    ("asdlpack(rotated_64MiB, copy=True)", "rotated_64MiB.copy()", 0.2),
    ("asdlpack(reversed_rows_64MiB, copy=True)", "reversed_rows_64MiB.copy()", 0.9),
    ("asdlpack(second_columns_64MiB, copy=True)", "second_columns_64MiB.copy()", 0.9),
    ("asdlpack(compact_64MiB, copy=True)", "compact_64MiB.copy()", 1.0),
    ("asdlpack(swapped_64MiB, copy=True)", "swapped_64MiB.astype('f4')", 1.0),
]
BESIDE_TORCH = [
    ("asdlpack(transposed_64MiB, copy=True)", "torch.from_numpy(transposed_64MiB).contiguous()", 0.7),
    ("asdlpack(rotated_64MiB, copy=True)", "torch.from_numpy(rotated_64MiB).contiguous()", 0.7),
    ("asdlpack(second_columns_64MiB, copy=True)", "torch.from_numpy(second_columns_64MiB).contiguous()", 0.7),
    ("asdlpack(compact_64MiB, copy=True)", "torch.from_numpy(compact_64MiB).clone()", None),
]
BY_SIZE = ["64", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"]
SMALL = BY_SIZE[: BY_SIZE.index("256KiB")]
LAYOUTS = {  # the goals of small copies and of larger ones
    "compact": (2.0, 1.0),
    "transposed": (3.0, 0.15),
    "rotated": (3.0, 0.15),
    "reversed_rows": (3.0, 0.9),
    "second_columns": (3.0, 0.9),
    "swapped": (3.0, 0.9),
}
OF_THE_FLOOR = "compact", "reversed_rows", "second_columns"  # floor.c also copies these
TABLES = [
    ("asdlpack(table_of_floats, copy=None)", "numpy.ascontiguousarray(table_of_floats.to_pandas().to_numpy())", 1.0),
    ("asdlpack(frame_of_floats, copy=None)", "frame_of_floats.to_numpy(order='c')", 1.0),
]
INTO = [
    ("reversed_rows_64MiB", "target_64MiB"),
    ("rotated_64MiB", "rotated_target_64MiB"),
    ("second_columns_64MiB", "half_target_64MiB"),
    ("swapped_64MiB", "target_64MiB"),
]


def tables(rounds: int) -> Iterator[Table]:
    yield apart("copying", BESIDE_NUMPY + BESIDE_TORCH, rounds)
    yield apart("copying with one CPU", BESIDE_TORCH, rounds, cpus=1)
    with Worker() as worker:
        yield beside("copying tables to row-major matrices", worker, TABLES, rounds)


def sizes(rounds: int) -> Iterator[Table]:
    for layout, torchs in ("compact", "clone"), ("transposed", "contiguous"):
        pairs = []
        for array in (f"{layout}_{size}" for size in SIZES):
            ours = f"asdlpack({array}, copy=True)"
            pairs += [(ours, f"{array}.copy()", None), (ours, f"torch.from_numpy({array}).{torchs}()", None)]
        yield apart(f"copying {layout} memory", pairs, rounds)


def layouts(rounds: int) -> Iterator[Table]:
    """Beside numpy."""
    pairs = []
    for layout, (small, large) in LAYOUTS.items():
        numpys = "astype('f4')" if layout == "swapped" else "copy()"
        for size in BY_SIZE:
            goal = small if size in SMALL else None if size == "256KiB" and layout != "compact" else large
            pairs.append((f"asdlpack({layout}_{size}, copy=True)", f"{layout}_{size}.{numpys}", goal))
            if layout in OF_THE_FLOOR and size not in SMALL:
                pairs.append((f"floor.copy({layout}_{size})", f"{layout}_{size}.{numpys}", None))
    for cpus, title in (0, "each layout"), (1, "each layout with one CPU"):
        yield apart(f"copying {title}", pairs, rounds, cpus)


def into(rounds: int) -> Iterator[Table]:
    arrays = [(f"{layout}_{size}", f"target_{size}") for layout in ("compact", "transposed") for size in SIZES] + INTO
    for title, cpus in ("copying into existing memory", 0), ("copying into existing memory with one CPU", 1):
        pairs = [
            (f"copy_into({x}, {room})", f"copyto({room}, {x})", 1.0 if "64MiB" in x and not cpus else None)
            for x, room in arrays
        ]
        with Worker(cpus=cpus) as worker:
            yield beside(title, worker, pairs, rounds)
