"""A run: each library that is installed meets each other one, in several processes at a time, and what is found becomes
one Report."""

import contextlib
import datetime
import platform
import queue
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from .. import __version__, _libraries
from .column import Column, Host
from .findings import one_line
from .libraries import EVERYWHERE, known
from .results import Report
from .system import usable_cpus

YEAR = 366 * 24 * 3600  # what select() can wait
JOBS = 4  # exchanges at a time, at most: the processes of each thread need two or three gigabytes

ALIASES = {
    distribution.replace("_", "-"): library.name
    for library in _libraries.LIBRARIES
    for distribution in library.distributions
}

Progress = Callable[[int, int, str], None]  # columns done, columns in all, what begins


def run(*libraries: str, timeout: float = 120, progress: Progress | None = None, adapters: str = "") -> Report:
    """Tries what exchanges with what, on the libraries that are installed, or on the named ones alone.

    A library is named as it is imported, or as it is installed. timeout is in seconds, for a single import or exchange.
    progress is called when something begins, from several threads. adapters is the name of a package with further
    adapters: dlpack.tests.libraries says what these are. Raises TypeError for a library that is not a str, ValueError
    for a timeout that is not positive, and OSError if it can't start processes.
    """
    for name in libraries:
        if not isinstance(name, str):
            raise TypeError(f"library {name!r}: expected a name such as 'numpy'")
    timeout = seconds(timeout)
    libraries = tuple(dict.fromkeys(ALIASES.get(name.lower().replace("_", "-"), name) for name in libraries))
    supported = known(adapters)
    found = {library.name: version for library, version in _libraries.installed() if library.name in supported}
    chosen = {name: version for name, version in found.items() if not libraries or name in libraries}
    report = Report(about(), chosen)
    report.problems += [unusable(name, supported) for name in libraries if name not in found]
    providers = [*EVERYWHERE, *chosen]
    taking = ["standard", *(name for name in chosen if supported[name].consumer)]
    names = [*chosen] if libraries else ["standard", *chosen]
    columns = [Column(name, chosen.get(name, ""), providers if name in taking else [], adapters) for name in names]
    free: queue.SimpleQueue[Host] = queue.SimpleQueue()
    finished = 0

    def work(column: Column) -> None:
        nonlocal finished
        host = free.get()
        try:
            for what in column.run(host):
                if progress:
                    progress(finished, len(columns), what)
        except OSError:
            raise
        except Exception as error:  # a library has written where it should not, say
            host.close(*host.imported)
            column.problems.append(f"{column.library}: {one_line(error)}")
        finally:
            free.put(host)
        finished += 1

    if progress:
        progress(0, len(columns), "")
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(Host(scratch, timeout)) for _ in range(min(usable_cpus(), JOBS))]
        for host in hosts:
            free.put(host)
        small_imports_first = sorted(columns, key=lambda column: column.library in taking)
        with ThreadPoolExecutor(len(hosts)) as pool:
            try:
                list(pool.map(work, small_imports_first))
            except BaseException:  # Ctrl-C, say: what runs is of no use any more
                for host in hosts:
                    host.stop()
                raise
    gather(columns, taking, report)
    return report


def seconds(text: float | str) -> float:
    """Raises ValueError for a timeout that can't be kept."""
    timeout = float(text)
    if not 0 < timeout <= YEAR:
        raise ValueError(f"timeout {timeout:g}: expected seconds, more than 0")
    return timeout


def about() -> dict[str, str]:
    return {
        "dlpack": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "date": datetime.date.today().isoformat(),
    }


def unusable(name: str, supported: dict[str, _libraries.Library]) -> str:
    if name not in supported:
        return f"{name}: unknown library; known are {', '.join(supported)}"
    return f"{name}: not installed (pip install {supported[name].distributions[0]})"


def gather(columns: list[Column], taking: list[str], report: Report) -> None:
    """Brings the columns together in the order of the lists, with a reason for each exchange that was not tried."""
    sections = [EVERYWHERE.get(name, name) for name in (*EVERYWHERE, *report.libraries)]
    seen = {(cell.section, cell.provider): None for column in columns for cell in column.exchanges}
    rows = sorted(seen, key=lambda row: sections.index(row[0]))
    for column in columns:
        if column.absent.get(column.library, ("",))[0] == "failed":
            report.problems.append(f"{column.library}: {column.absent[column.library][1]}")
        report.problems += column.problems
        report.checks += column.checks
        cells = {(cell.consumer, cell.section, cell.provider): cell for cell in column.exchanges}
        if column.library in column.absent:
            column.consumers = {column.library: ""} if column.library in taking else {}
        report.consumers |= column.consumers
        report.exchanges += [
            cells.get((consumer, *row)) or column.untried(consumer, *row)
            for consumer in column.consumers
            for row in rows
        ]
