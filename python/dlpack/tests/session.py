"""A run: each library that is installed meets each other one, in several processes at a time, and what is found becomes
one Report."""

import contextlib
import datetime
import platform
import queue
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from .. import __version__, _libraries
from .column import Column, Host
from .exchange import one_line
from .expression import Expression
from .libraries import ALIASES, EVERYWHERE, KNOWN
from .results import Report
from .system import usable_cpus

YEAR = 366 * 24 * 3600  # what select() can wait
JOBS = 4  # exchanges at a time, at most: the processes of each thread need two or three gigabytes

Progress = Callable[[int, int, str], None]  # columns done, columns in all, what begins


def run(
    *libraries: str,
    expression: str = "",
    timeout: float = 120,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Tries what exchanges with what, on the libraries that are installed, or on the named ones alone.

    A library is named as it is imported, or as it is installed. expression chooses exchanges, as pytest's -k does.
    timeout is in seconds, for a single import or exchange. jobs is how many exchanges run at a time; None means one
    for each processor, but at most 4. progress is called when something begins, from several threads. Raises
    TypeError for a library that is no str, ValueError for an argument of no use, and OSError where no process can be
    had.
    """
    validate(libraries, expression, timeout, jobs)
    libraries = tuple(dict.fromkeys(ALIASES.get(name.lower().replace("_", "-"), name) for name in libraries))
    found = {library.name: version for library, version in _libraries.installed()}
    chosen = {name: version for name, version in found.items() if not libraries or name in libraries}
    report = Report(about(), chosen)
    report.problems += [unusable(name) for name in libraries if name not in found]
    providers = [*EVERYWHERE, *chosen]
    names = list(chosen) if libraries else ["standard", "asdlpack", *chosen]
    columns = [Column(name, chosen.get(name, ""), providers if takes(name) else [], expression) for name in names]
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
        hosts = [stack.enter_context(Host(scratch, timeout)) for _ in range(jobs or min(usable_cpus(), JOBS))]
        for host in hosts:
            free.put(host)
        with ThreadPoolExecutor(len(hosts)) as pool:
            try:
                list(pool.map(work, sorted(columns, key=lambda column: takes(column.library))))  # small imports first
            except BaseException:  # Ctrl-C, say: what runs is of no use any more
                for host in hosts:
                    host.stop()
                raise
    gather(columns, report)
    if expression and not report.exchanges and not report.checks:
        report.problems.append(f"-k {expression!r}: chooses nothing")
    return report


def validate(libraries: Sequence[str], expression: str, timeout: float | None, jobs: int | None) -> None:
    """Raises for what run() can't take."""
    for name in libraries:
        if not isinstance(name, str):
            raise TypeError(f"library {name!r}: expected a name such as 'numpy'")
    Expression(expression)
    if timeout is not None and not 0 < timeout <= YEAR:
        raise ValueError(f"timeout {timeout:g}: expected seconds, more than 0")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs {jobs}: expected how many exchanges run at a time, 1 or more")


def takes(library: str) -> bool:
    """Whether it takes memory from others."""
    return library == "standard" or (library in KNOWN and KNOWN[library].consumer)


def about() -> dict[str, str]:
    return {
        "dlpack": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "date": datetime.date.today().isoformat(),
    }


def unusable(name: str) -> str:
    if name not in KNOWN:
        return f"{name}: unknown library; known are {', '.join(KNOWN)}"
    return f"{name}: not installed (pip install {KNOWN[name].distributions[0]})"


def gather(columns: list[Column], report: Report) -> None:
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
            column.consumers = {column.library: ""} if takes(column.library) else {}
        report.consumers |= column.consumers
        for consumer in column.consumers:
            for section, provider in rows:
                cell = cells.get((consumer, section, provider)) or column.untried(consumer, section, provider)
                if cell:
                    report.exchanges.append(cell)
