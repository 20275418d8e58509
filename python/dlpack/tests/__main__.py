"""`python -m dlpack.tests`: tries what exchanges memory with what on this machine, and prints a table of it; or
tries the rules of DLPack on one library."""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..__main__ import Parser
from .._foreign import printable
from . import html, session, suite, suite_html
from .exchange import one_line
from .libraries import KNOWN
from .results import Conformance, Report
from .system import ENDING
from .text import Line, lines

RICH = False
with contextlib.suppress(Exception):  # it may be there and broken
    import rich.console
    import rich.progress
    import rich.text

    RICH = True


def open_standard_descriptors() -> None:
    """Where they are closed, a pipe to a library's process would get one of their numbers, and be replaced there."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="python -m dlpack.tests",
        description="Hand every kind of memory that is found here to every library that is found here, in processes "
        "of their own, and print what is shared, copied or refused. With --producer or --consumer: try the rules of "
        "DLPack on one library, and print which it breaks. Exit status 1 where something fails.",
        epilog=f"libraries that are known: {', '.join(KNOWN)}",
        allow_abbrev=False,
    )
    parser.add_argument(
        "libraries", metavar="LIBRARY", nargs="*", help="try these alone (default: all that are installed)"
    )
    parser.add_argument(
        "-k", metavar="EXPRESSION", default="", help='choose exchanges: "torch and not (bfloat16 or mmap)"'
    )
    parser.add_argument(
        "--producer", metavar="MODULE:NAME", help="a function that makes a library's own object of a numpy array"
    )
    parser.add_argument(
        "--consumer", metavar="MODULE:NAME", help="a function that makes a library's own object of one with __dlpack__"
    )
    parser.add_argument("--name", metavar="NAME", default="", help="the library's (default: the module's)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results as JSON")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write them as one page for a browser")
    parser.add_argument("--junitxml", metavar="FILE", type=Path, help="write the rules as JUnit's XML")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help="for one exchange (default: 120) or rule (default: 30 for the first, less for the others)",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="exchanges at a time (default: one for each processor, at most 4)"
    )
    options = parser.parse_args(arguments)
    rules = options.producer is not None or options.consumer is not None
    timeout = options.timeout if options.timeout is not None or rules else 120
    try:
        session.validate(options.libraries, options.k, timeout, options.jobs)
        if rules:
            suite.validated(options.producer, options.consumer)
        for name in ("libraries", "jobs") if rules else ("name", "junitxml"):
            if getattr(options, name):
                raise ValueError(f"{name}: not {'with' if rules else 'without'} --producer or --consumer")
        files = [each.absolute() for each in (options.json, options.html, options.junitxml) if each]
        if len({*files}) < len(files):
            raise ValueError(f"{files[-1]}: expected a file for each of --json, --html and --junitxml")
    except ValueError as error:
        parser.error(str(error))
    outputs: list[tuple[str, Path, Callable[[Any], str]]] = [
        ("--json", options.json, as_json),
        ("--html", options.html, suite_html.page if rules else html.page),
        ("--junitxml", options.junitxml, suite.junitxml),
    ]
    # Opened before the long run, to say at once what can't be written; what is in the file stays until then.
    outputs = [each for each in outputs if each[1]]
    good = [each for each in outputs if write(*each[:2], "a", "")]
    if not RICH:
        print("without rich: no colours, no progress (pip install 'dlpack-go[tests]')", file=sys.stderr)
    try:
        with progress_bar() as progress:
            if rules:
                report: Any = suite.conformance(
                    producer=options.producer,
                    consumer=options.consumer,
                    name=options.name,
                    expression=options.k,
                    timeout=timeout,
                    progress=progress,
                )
            else:
                report = session.run(
                    *options.libraries, expression=options.k, timeout=timeout, jobs=options.jobs, progress=progress
                )
    except ImportError as error:
        parser.error(f"the rules need numpy: {one_line(error)}")
    except OSError as error:  # no folder for temporary files, no process to be had
        print(printable(str(error)), file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        return 128 + (error.args[0] if error.args else signal.SIGINT)  # as a shell tells it
    good = [each for each in good if write(*each[:2], "w", each[2](report))]  # first: `| head` ends the process
    shown = show(suite.lines(report, shutil.get_terminal_size((120, 24)).columns) if rules else lines(report))
    return 0 if report.ok and shown and good == outputs else 1


def interrupt(number: int, frame: object) -> None:
    """Ends the run as Ctrl-C does: what it has started must end too."""
    raise KeyboardInterrupt(number)


def write(option: str, path: Path, mode: str, text: str) -> bool:
    """Whether it could be written; where it could not, that is told."""
    try:
        with path.open(mode, encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        print(printable(f"{option} {path}: {error.strerror}"), file=sys.stderr)
        return False
    return True


def as_json(report: Report | Conformance) -> str:
    return json.dumps(report.as_dict(), indent=1) + "\n"


@contextlib.contextmanager
def progress_bar() -> Iterator["session.Progress | None"]:
    """A bar on a terminal; nothing elsewhere."""
    if not RICH or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    columns = (
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeElapsedColumn(),
        rich.progress.TextColumn("{task.description}", markup=False),
    )
    with rich.progress.Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=printable(what))


def show(text: Iterable[Line]) -> bool:
    """Whether it could be printed; where it could not, that is told."""
    try:
        if RICH:
            console = rich.console.Console(highlight=False, soft_wrap=True, width=1000)  # the lines are wrapped already
        for line in text:
            line = [(printable(text), style) for text, style in line]
            if RICH:
                console.print(rich.text.Text.assemble(*line))
            else:
                print("".join(text for text, _ in line).rstrip())
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        print(f"standard output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still writes when it ends
        return False
    return True


if __name__ == "__main__":
    open_standard_descriptors()
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a library may say what the terminal can't show
    sys.exit(main(sys.argv[1:]))
