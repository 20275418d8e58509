"""Times wrapping, exporting, ordering and copying GPU memory, compared with torch and cupy.

    python benchmarks/bench_cuda.py [--rounds N]

Ratios within one run are what counts: every statement is timed once a round, in turn with all the others, and its least
time is taken. It needs a GPU, torch and cupy. torch and cupy keep the memory of a GPU that they were given back, and
take it again; asdlpack allocates and frees: that is part of what is timed.
"""

import argparse
import os
import platform
from typing import Any

import cupy
import cupyx
import numpy
import torch
from timing import Pairs, Row, Table, Timing, cpu, print_table

from dlpack import __version__, asdlpack

WRAPPING: Pairs = [
    ("asdlpack(interface)", "cupy.asarray(interface)", 1.0),
    ("asdlpack(interface)", "torch.as_tensor(interface)", 1.0),
    ("asdlpack(tensor)", "torch.as_tensor(interface)", None),
]
EXPORTING: Pairs = [
    ("wrapped.__dlpack__(stream=1)", "array.__dlpack__(stream=1)", None),
    ("wrapped.__dlpack__(stream=1)", "tensor.__dlpack__(stream=1)", None),
]
HANDING_ON: Pairs = [
    ("cupy.from_dlpack(asdlpack(interface))", "cupy.asarray(interface)", None),
    ("cupy.from_dlpack(asdlpack(tensor))", "cupy.from_dlpack(tensor)", None),
    ("torch.from_dlpack(asdlpack(interface))", "torch.as_tensor(interface)", None),
    ("torch.from_dlpack(asdlpack(array))", "torch.from_dlpack(array)", None),
]
ORDERING: Pairs = [
    ("wrapped_on_stream.__dlpack__(stream=stream.ptr)", "wrapped.__dlpack__(stream=1)", None),
    ("wrapped_on_stream.__dlpack__(stream=other.ptr)", "other.wait_event(stream.record())", None),
    ("wrapped_on_stream.__dlpack__(stream=other.ptr)", "array.__dlpack__(stream=other.ptr)", None),
    ("wrapped_on_stream.__dlpack__(stream=other.ptr)", "tensor.__dlpack__(stream=other.ptr)", None),
]
TABLES = {"wrapping": WRAPPING, "exporting": EXPORTING, "handing on": HANDING_ON, "ordering streams": ORDERING}

COPYING = {  # ours, torch's, cupy's; each is complete when it returns
    "to the host": (
        "numpy.from_dlpack(wrapped, device='cpu')",
        "tensor.cpu()",
        "cupy.asnumpy(array)",
    ),
    "from the host, pageable": (
        "asdlpack(pageable, copy=None, device='cuda:0')",
        "wait(torch.from_numpy(pageable).cuda())",
        "wait(cupy.asarray(pageable))",
    ),
    "from the host, pinned": (
        "asdlpack(pinned, copy=None, device='cuda:0')",
        "wait(torch.from_numpy(pinned).cuda())",
        "wait(cupy.asarray(pinned))",
    ),
    "on the device": (
        "asdlpack(wrapped, copy=True)",
        "wait(tensor.clone())",
        "wait(array.copy())",
    ),
    "rows to the host": (
        "numpy.from_dlpack(rows, device='cpu')",
        "tensor[:, 16:240].cpu()",
        "cupy.asnumpy(array[:, 16:240])",
    ),
}
SIZES = {f"{n >> 20} MiB" if n >> 20 else f"{n >> 10} KiB": n for n in (1 << shift for shift in range(12, 31, 3))}


class Interface:
    """A CUDA array interface, and no other protocol."""

    def __init__(self, array: Any, stream: int | None = None) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream}
        self.array = array


def wait(result: object) -> object:
    torch.cuda.synchronize()
    return result


def objects(size: int) -> dict[str, Any]:
    """Maps the names in the statements to objects: rows of 1 KiB, `size` bytes in all."""
    pageable = numpy.ones((size // 1024, 256), "f4")
    pinned = cupyx.empty_pinned(pageable.shape, "f4")
    pinned[...] = pageable
    array = cupy.asarray(pageable)
    tensor = torch.ones(pageable.shape, device="cuda:0")
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    interface = Interface(array)
    return {
        "asdlpack": asdlpack,
        "cupy": cupy,
        "numpy": numpy,
        "torch": torch,
        "wait": wait,
        "pageable": pageable,
        "pinned": pinned,
        "array": array,
        "tensor": tensor,
        "interface": interface,
        "stream": stream,
        "other": other,
        "wrapped": asdlpack(interface),
        "wrapped_on_stream": asdlpack(Interface(array, stream.ptr)),
        "rows": asdlpack(Interface(array[:, 16:240])),
    }


def time_calls(rounds: int) -> None:
    known = objects(4096)
    statements = dict.fromkeys(statement for rows in TABLES.values() for row in rows for statement in row[:2])
    timings = {statement: Timing(statement, known) for statement in statements}
    for _ in range(rounds):
        for timing in timings.values():
            timing.sample()
            torch.cuda.synchronize()
    for title, rows in TABLES.items():
        pairs = [Row(s, timings[s].least, peer, timings[peer].least, goal) for s, peer, goal in rows]
        print_table(Table(title, "ns", pairs))


def time_copies(rounds: int) -> None:
    line = "{:<24}  {:>8}  {:>10}  {:>8}  {:>10}  {:>9}".format
    print("\n" + line("copying", "", "us", "GB/s", "of torch's", "of cupy's"))
    for name, size in SIZES.items():
        known = objects(size)
        timings = {what: [Timing(it, known) for it in three] for what, three in COPYING.items()}
        for _ in range(rounds):
            for three in timings.values():
                for timing in three:
                    timing.sample()
        for what, three in timings.items():
            ours, torchs, cupys = (timing.least for timing in three)
            moved = size * 224 // 256 if "rows" in what else size
            speed = f"{moved / ours:.2f}"
            print(line(what, name, f"{ours / 1e3:.1f}", speed, f"{ours / torchs:.2f}", f"{ours / cupys:.2f}"))
        del known, timings
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="how often each statement is timed (default: 10)")
    rounds: int = parser.parse_args().rounds
    print(f"{torch.cuda.get_device_name(0)}; {cpu()}, load {os.getloadavg()[0]:.1f}")
    versions = f"numpy {numpy.__version__}, torch {torch.__version__}, cupy {cupy.__version__}"
    print(f"CPython {platform.python_version()}, dlpack {__version__}, {versions}")
    time_calls(rounds)
    time_copies(rounds)


if __name__ == "__main__":
    main()
