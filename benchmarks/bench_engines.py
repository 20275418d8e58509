"""Times how engines hand bfloat16 memory to another process: as a DLPackObject, and as torch, jax and numpy's ml_dtypes
have it.

    python benchmarks/bench_engines.py [SIZE...] [--rounds N] [--write]

Each time runs from handing the memory over to the receiving process's answer. The table shows the minimum of several
rounds. Each round hands over new memory. With --write the table goes into docs/processes.md.
"""

import argparse
import datetime
import importlib.metadata
import json
import logging
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from report import ROOT, nbytes
from section import write_section  # report knows where
from timing import amount, cpu

import dlpack

SIZES = ["1KiB", "64KiB", "1MiB", "16MiB", "256MiB"]
LIBRARIES = "ray", "distributed", "joblib", "mpi4py", "torch", "jax", "ml_dtypes"
STORE = 2 << 30  # bytes of Ray's

Hand = Callable[[Callable[[Any], Any], Any], tuple[float, Any]]  # ns, and what the function says of x in the receiver


def torch_tensor(size: int) -> Any:
    import torch

    return torch.ones(size // 2, dtype=torch.bfloat16)


def jax_array(size: int) -> Any:
    import jax

    return jax.numpy.ones(size // 2, dtype="bfloat16").block_until_ready()


def ml_dtypes_array(size: int) -> Any:
    import ml_dtypes
    import numpy

    return numpy.ones(size // 2, dtype=ml_dtypes.bfloat16)


KINDS: dict[str, Callable[[int], Any]] = {
    "DLPackObject": lambda size: dlpack.asdlpack(torch_tensor(size)),
    "torch.Tensor": torch_tensor,
    "jax.Array": jax_array,
    "numpy.ndarray": ml_dtypes_array,
}


def nothing(x: Any) -> None:
    """The receiver has x."""


def is_shared(x: Any) -> bool:
    """Whether its memory is a mapping that other processes have too."""
    address = dlpack.asdlpack(x, copy=None).pointer  # dask gives numpy's misaligned memory
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, access, *_ = line.split()
            first, end = (int(number, 16) for number in span.split("-"))
            if first <= address < end:
                return "s" in access
    return False


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter_ns()
    result = call(*arguments)
    return time.perf_counter_ns() - start, result


@contextmanager
def of_ray() -> Iterator[dict[str, Hand]]:
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray

    def put(function: Callable[[Any], Any], x: Any) -> tuple[float, Any]:
        ns, reference = timed(ray.put, x)
        return ns, function(ray.get(reference))

    def get(function: Callable[[Any], Any], x: Any) -> tuple[float, Any]:
        ns, y = timed(ray.get, ray.put(x))
        return ns, function(y)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ray.init(include_dashboard=False, object_store_memory=STORE, log_to_driver=False, _temp_dir=folder)
        yield {"Ray, `put`": put, "Ray, each `get`": get}
        ray.shutdown()


@contextmanager
def of_dask() -> Iterator[dict[str, Hand]]:
    import dask
    from distributed import Client, LocalCluster

    logging.disable()  # what it refuses, it shows in full
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set({"temporary-directory": folder}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):

        def send(function: Callable[[Any], Any], x: Any) -> Any:
            sent = client.scatter(x, direct=True, hash=False)
            return client.submit(function, sent, pure=False).result()

        yield {"dask.distributed": lambda function, x: timed(send, function, x)}


@contextmanager
def of_joblib() -> Iterator[dict[str, Hand]]:
    import joblib

    with joblib.Parallel(n_jobs=2) as parallel:
        yield {"joblib": lambda function, x: timed(lambda: parallel([joblib.delayed(function)(x)])[0])}


@contextmanager
def of_python() -> Iterator[dict[str, Hand]]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool, ProcessPoolExecutor(1, context) as executor:

        def of_shared(function: Callable[[Any], Any], x: Any) -> tuple[float, Any]:
            if not isinstance(x, dlpack.DLPackObject):
                raise TypeError("it is not made by dlpack.shared")
            return timed(pool.apply, function, (dlpack.shared(x.shape, x.dtype),))

        yield {
            "ProcessPoolExecutor": lambda function, x: timed(lambda: executor.submit(function, x).result()),
            "multiprocessing.Pool": lambda function, x: timed(pool.apply, function, (x,)),
            "the same, of `dlpack.shared`": of_shared,
        }


@contextmanager
def of_mpi4py() -> Iterator[dict[str, Hand]]:
    from mpi4py import MPI
    from mpi4py.util import pkl5

    comm = pkl5.Intracomm(MPI.COMM_WORLD)
    if comm.rank == 0:

        def send(*work: Any) -> Any:
            comm.send(work, dest=1)
            return comm.recv(source=1)

        yield {"mpi4py.util.pkl5": lambda function, x: timed(send, function, x)}
        comm.send(None, dest=1)
    else:
        while (work := comm.recv(source=0)) is not None:
            comm.send(work[0](work[1]), dest=0)
            del work
        sys.exit()


ENGINES = {"ray": of_ray, "dask": of_dask, "joblib": of_joblib, "python": of_python, "mpi4py": of_mpi4py}
RANKS = [shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or "mpiexec", "-n", "2"]


def cell(hand: Hand, make: Callable[[int], Any], size: int, rounds: int) -> str:
    """The least time, and whether the memory is shared."""
    try:
        _, shared = hand(is_shared, make(size))  # and imports what the kind needs there
        least = min(hand(nothing, make(size))[0] for _ in range(rounds))
    except TypeError:
        return "-"
    return amount(least, "ns") + (", shared" if shared else "")


def measure(engine: str, sizes: list[str], rounds: int) -> Iterator[list[str]]:
    with ENGINES[engine]() as hands:
        for name, hand in hands.items():
            for size in sizes:
                yield [name, size, *(cell(hand, make, nbytes(size), rounds) for make in KINDS.values())]


def in_a_process(engine: str, arguments: list[str]) -> Iterator[list[str]]:
    ranks = RANKS if engine == "mpi4py" else []
    command = [*ranks, sys.executable, __file__, "--engine", engine, *arguments]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    yield from (json.loads(line) for line in lines if line.startswith("["))


def table(sizes: list[str], rounds: int) -> Iterator[str]:
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    yield f"machine {cpu()}, python {platform.python_version()}, {', '.join(versions)}, date {datetime.date.today()}:"
    yield ""
    yield f"| engine | bfloat16 | {' | '.join(f'`{kind}`' for kind in KINDS)} |"
    yield "|---|---:|" + "---:|" * len(KINDS)
    for engine in ENGINES:
        for row in in_a_process(engine, ["--rounds", str(rounds), *sizes]):
            yield f"| {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", metavar="SIZE", default=SIZES, help=f"default: {' '.join(SIZES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="the table into docs/processes.md")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        for row in measure(arguments.engine, arguments.sizes, arguments.rounds):
            print(json.dumps(row), flush=True)
        return
    lines = []
    for line in table(arguments.sizes, arguments.rounds):
        print(line, flush=True)
        lines.append(line)
    if arguments.write:
        write_section(ROOT / "docs" / "processes.md", "bench", lines)


if __name__ == "__main__":
    main()
