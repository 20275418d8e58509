"""Measures this package compared with its peers, prints the results, and keeps them as JSON.

    python benchmarks/run.py [SUBJECT...] [--rounds N] [--runs N] [--json FILE] [--pydlpack PYTHON]
        [--free-threaded PYTHON]

A row whose library is not installed is left out. Each time is the minimum of samples that are taken in turn. On a busy
machine only ratios mean anything.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import bench_calls
import bench_copies
import bench_growth
import bench_import
import bench_lookup
import bench_start
from timing import Table, cpu, print_table

from dlpack import __version__

ROUNDS = {  # of each subject: how often what it times is timed
    "calls": 80,
    "lookup": 1,
    "imports": 40,
    "start": 40,
    "copies": 4,
    "sizes": 2,
    "layouts": 3,
    "into": 6,
    "dimensions": 40,
    "objects": 40,
    "threads": 40,
    "memory": 1,
}


def measure(subject: str, rounds: int, pydlpack: str | None, free_threaded: str | None) -> Iterator[Table]:
    match subject:
        case "calls":
            yield from bench_calls.tables(rounds)
            if pydlpack:
                yield bench_calls.beside_pydlpack(pydlpack, rounds)
        case "imports":
            yield bench_import.table(pydlpack, rounds)
        case "start":
            yield from bench_start.ordinary(rounds, pydlpack)
            yield from bench_start.tables(rounds)
        case "copies":
            yield from bench_copies.tables(rounds)
        case "sizes":
            yield from bench_copies.sizes(rounds)
        case "layouts":
            yield from bench_copies.layouts(rounds)
        case "into":
            yield from bench_copies.into(rounds)
        case "dimensions":
            yield bench_growth.dimensions(rounds)
        case "objects":
            yield bench_growth.objects_alive(rounds)
        case "threads":
            yield bench_growth.threads(sys.executable, None, rounds)
            if free_threaded:
                yield bench_growth.threads(free_threaded, "", rounds)  # PYTHONPATH is of the other interpreter
        case "memory":
            yield from bench_growth.memory(pydlpack)
        case "lookup":
            yield bench_lookup.table()


def about() -> dict[str, str]:
    """Returns the machine and the versions that the numbers belong to."""
    found = {
        "machine": cpu(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "dlpack": __version__,
    }
    for distribution in "numpy", "torch", "apache-tvm-ffi":
        with suppress(importlib.metadata.PackageNotFoundError):
            found[distribution] = importlib.metadata.version(distribution)
    return found | {"date": str(datetime.date.today())}


def median_of(tables: tuple[Table, ...]) -> Table:
    """One table of those of several runs."""
    rows = []
    for same in zip(*(table.rows for table in tables), strict=True):
        value, other = (statistics.median(each) for each in zip(*((row.value, row.other) for row in same), strict=True))
        rows.append(replace(same[0], value=value, other=other))
    return replace(tables[0], rows=rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"{', '.join(ROUNDS)} (default: all)")
    parser.add_argument("--rounds", type=int, help="how often each statement is timed (default: as its subject needs)")
    parser.add_argument("--runs", type=int, default=1, help="how often all is measured (default: once)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="where the medians of the runs go; what SUBJECTs leave out stays there",
    )
    parser.add_argument("--pydlpack", metavar="PYTHON", help="interpreter of an environment with pydlpack and numpy")
    parser.add_argument("--free-threaded", metavar="PYTHON", help="a free-threaded interpreter that has this package")
    arguments = parser.parse_args()
    if unknown := set(arguments.subjects) - set(ROUNDS):
        parser.error(f"{', '.join(unknown)}: expected some of {', '.join(ROUNDS)}")

    heading = about()
    runs = []
    for _ in range(arguments.runs):
        print(", ".join(f"{name} {value}" for name, value in heading.items()) + f", load {os.getloadavg()[0]:.1f}")
        tables = []
        for subject in arguments.subjects or ROUNDS:
            rounds = arguments.rounds or ROUNDS[subject]
            for table in measure(subject, rounds, arguments.pydlpack, arguments.free_threaded):
                print_table(table)
                tables.append(table)
        runs.append(tables)
    if arguments.json:
        measured = {tables[0].title: asdict(median_of(tables)) for tables in zip(*runs, strict=True)}
        keeps = arguments.subjects and arguments.json.exists()
        others = json.loads(arguments.json.read_text())["tables"] if keeps else []
        written = [measured.pop(table["title"], table) for table in others] + list(measured.values())
        arguments.json.write_text(json.dumps({"about": heading, "tables": written}, indent=1) + "\n")


if __name__ == "__main__":
    main()
