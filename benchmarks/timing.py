"""Times statements, in turn and in processes of their own.

Ratios within one run are what counts, not nanoseconds: every statement is sampled in each round, in turn with all the
others, and its least sample is taken.

A Worker is this file, run by some interpreter: pydlpack and another build of this package have the same import name, so
each needs a process of its own, and the processes take turns. objects.py makes the objects of the statements.
"""

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

ROUND = 0.002  # seconds that one statement runs in one round
LONG = 10e-6  # seconds; a call that takes as long is timed by itself
GAP = 0.001  # seconds of sleep before each call
GAP_CALLS = 20
UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MANY = 100_000  # objects that are kept, to see what one takes
THREADS = [1, 2, 4, 8]
PROCESSES = 5  # that each copy is timed in

GAP_LOOP = """
def run(number):
    for _ in range(number):
        sleep({gap})
        start = clock()
        {statement}
        yield clock() - start
"""

Known = dict[str, Any]


def known_to(statement: str, known: Known) -> Known:
    """Adds what the statement names: of objects.py, name() or for a name such as view_4KiB view(4096)."""
    import objects

    for name in compile(statement, statement, "exec").co_names:
        made = re.fullmatch(r"(\w+?)(?:_(\d+)([KMG]iB)?)?", name)
        if name not in known and made and hasattr(objects, made[1]):
            known[name] = getattr(objects, made[1])(*([int(made[2]) * UNITS[made[3]]] if made[2] else []))
    return known


class Timing:
    """The least time of a statement, in ns a call."""

    least = math.inf

    def __init__(self, statement: str, known: Known) -> None:
        self.timer = timeit.Timer(statement, globals=known_to(statement, known))
        self.timer.timeit(1)  # the first call sets things up; not counted
        number = 1
        while (seconds := self.timer.timeit(number)) < ROUND / 8:
            number *= 4
        calls = max(1, round(number * ROUND / seconds))
        self.repeats, self.number = (calls, 1) if seconds / number >= LONG else (1, calls)

    def sample(self) -> None:
        samples = self.timer.repeat(self.repeats, self.number)
        self.least = min(self.least, min(samples) / self.number * 1e9)


class GapTiming:
    """The same with a sleep before each call, as in a training loop. A sample is the median of some calls, since an
    interruption lasts longer than a call. The time to read the clock is left out."""

    def __init__(self, statement: str, known: Known) -> None:
        known_to(statement, known)
        self.loops = [self.loop(it, known) for it in (statement, "pass")]
        self.medians = [math.inf, math.inf]

    @staticmethod
    def loop(statement: str, known: Known) -> Callable[[int], Iterator[int]]:
        scope = known | {"sleep": time.sleep, "clock": time.perf_counter_ns}
        exec(GAP_LOOP.format(gap=GAP, statement=statement), scope)
        return scope["run"]  # type: ignore[no-any-return]

    def sample(self) -> None:
        medians = (statistics.median(loop(GAP_CALLS)) for loop in self.loops)
        self.medians = [min(pair) for pair in zip(self.medians, medians, strict=True)]

    @property
    def least(self) -> float:
        return self.medians[0] - self.medians[1]


class ThreadTiming:
    """The least time of a statement that several threads run, each on its own objects: all calls divide the time."""

    least = math.inf

    def __init__(self, count: int, statement: str, known: Known) -> None:
        self.timings = [Timing(statement, {}) for _ in range(count)]
        self.number = max(1, 10 * self.timings[0].number // count)  # threads take turns with the GIL every 5 ms

    def sample(self) -> None:
        barrier = threading.Barrier(len(self.timings))
        spans: list[tuple[int, int]] = []

        def run(timer: timeit.Timer) -> None:
            barrier.wait()
            start = time.perf_counter_ns()
            timer.timeit(self.number)
            spans.append((start, time.perf_counter_ns()))

        threads = [threading.Thread(target=run, args=[timing.timer]) for timing in self.timings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = max(end for _, end in spans) - min(start for start, _ in spans)
        self.least = min(self.least, whole / (self.number * len(threads)))


class Memory:
    """The bytes that what a statement gives takes: of the process's resident memory, so it is all that malloc spends,
    by whomever it was called."""

    least = math.inf

    def __init__(self, statement: str, known: Known) -> None:
        self.make = eval(f"lambda: {statement}", known_to(statement, known))
        for _ in range(100):
            self.make()

    def sample(self) -> None:
        kept: list[Any] = [None] * MANY
        before = resident()
        for i in range(MANY):
            kept[i] = self.make()
        self.least = min(self.least, (resident() - before) / MANY)


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


KINDS: dict[str, Callable[[str, Known], Any]] = {
    "loop": Timing,
    "gap": GapTiming,
    "memory": Memory,
    **{f"{n} threads": partial(ThreadTiming, n) for n in THREADS},
}


class Worker:
    """This file in another process."""

    def __init__(self, python: str = sys.executable, path: str | None = None, cpus: int = 0) -> None:
        """The process looks for modules along path first. It has `cpus` CPUs, or all if that is 0."""
        environment = os.environ | ({} if path is None else {"PYTHONPATH": path})
        self.process: Any = subprocess.Popen(  # its pipes are optional to a type checker
            [python, __file__, f"--cpus={cpus}"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.about: dict[str, Any] = self.answer()
        self.refused: set[str] = set()

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        return json.loads(line) if line else sys.exit(f"the worker of {self.process.args[0]} ended early")

    def sample(self, kind: str, statement: str) -> float:
        """Returns the minimum so far, or NaN if the statement raises, for example without a library."""
        if statement in self.refused:
            return math.nan
        print(json.dumps([kind, statement]), file=self.process.stdin, flush=True)
        match self.answer():
            case str(error):
                print(f"{statement} is left out: {error}", file=sys.stderr)
                self.refused.add(statement)
                return math.nan
            case least:
                return float(least)

    def close(self) -> None:
        self.process.communicate()  # pydlpack ends with a report of what leaked

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def work(cpus: int) -> None:
    """The other end of Worker: statements come in, what they take goes out."""
    if cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    import dlpack

    about = {
        "file": dlpack.__file__,
        "version": dlpack.__version__,
        "python": platform.python_version(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }
    print(json.dumps(about), flush=True)
    known: Known = {}
    timings: dict[tuple[str, str], Any] = {}
    for line in sys.stdin:
        kind, statement = json.loads(line)
        try:
            if (kind, statement) not in timings:
                timings[kind, statement] = KINDS[kind](statement, known)
            timings[kind, statement].sample()
            answer = timings[kind, statement].least
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


def in_turn(
    workers: Sequence[Worker], statements: Sequence[str], rounds: int, kind: str = "loop"
) -> Iterator[tuple[float, ...]]:
    """For each statement its least in each worker. All take turns, in every round."""
    for _ in range(rounds):
        least = {it: tuple(worker.sample(kind, it) for worker in workers) for it in dict.fromkeys(statements)}
    return (least[it] for it in statements)


@dataclass
class Row:
    """A measured value and its peer's; the goal is the upper limit of value / other."""

    what: str
    value: float
    beside: str
    other: float
    goal: float | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.other

    @property
    def verdict(self) -> str:
        return "" if self.goal is None else "met" if self.ratio <= self.goal else "missed"


@dataclass
class Table:
    title: str
    unit: str  # "ns", "bytes", "calls", or "" if the rows name it
    rows: list[Row]


Pairs = Sequence[tuple[str, str, float | None]]  # statement, peer, goal


def beside(title: str, worker: Worker, pairs: Pairs, rounds: int, kind: str = "loop") -> Table:
    """Times the pairs in one process."""
    statements = [statement for row in pairs for statement in row[:2]]
    least = dict(zip(statements, (one for (one,) in in_turn([worker], statements, rounds, kind)), strict=True))
    rows = [Row(it, least[it], peer, least[peer], goal) for it, peer, goal in pairs]
    return Table(title, "bytes" if kind == "memory" else "ns", [row for row in rows if not math.isnan(row.ratio)])


def apart(title: str, pairs: Pairs, rounds: int, cpus: int = 0) -> Table:
    """Times each statement of a pair in processes of its own: a copy to memory that another statement has freed takes
    less time than one to new memory. The least of several processes counts, since a copy takes up to 50 % longer in
    one process than in the next, depending on its pages' addresses."""
    rows = []
    for it, peer, goal in pairs:
        value = other = math.inf
        for _ in range(PROCESSES):
            with Worker(cpus=cpus) as ours, Worker(cpus=cpus) as theirs:
                for _ in range(rounds):
                    least = ours.sample("loop", it), theirs.sample("loop", peer)
            value, other = min(value, least[0]), min(other, least[1])
        rows.append(Row(it, value, peer, other, goal))
    return Table(title, "ns", [row for row in rows if not math.isnan(row.ratio)])


def cpu() -> str:
    with open("/proc/cpuinfo") as lines:
        models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs"


def amount(value: float, unit: str) -> str:
    if unit != "ns":
        return f"{value:.0f}"
    return f"{value:.0f} ns" if value < 1e4 else f"{value / 1e3:.0f} us" if value < 1e7 else f"{value / 1e6:.0f} ms"


def print_table(table: Table) -> None:
    left = max([len(table.title), *(len(row.what) for row in table.rows)])
    right = max([len("beside"), *(len(row.beside) for row in table.rows)])
    line = f"{{:<{left}}}  {{:>9}}  {{:<{right}}}  {{:>9}}  {{:>6}}  {{:>5}}  {{}}".format
    unit = "" if table.unit == "ns" else table.unit
    print("\n" + line(table.title, unit, "beside", unit, "ratio", "goal", "").rstrip())
    for row in table.rows:
        value, other = amount(row.value, table.unit), amount(row.other, table.unit)
        goal = "" if row.goal is None else row.goal
        print(line(row.what, value, row.beside, other, f"{row.ratio:.3f}", goal, row.verdict).rstrip(), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpus", type=int)
    work(parser.parse_args().cpus)
