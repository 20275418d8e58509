"""`python -m dlpack.tests`: tries what exchanges memory with what on this machine, and prints a table of it."""

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..__main__ import Parser
from .._foreign import printable
from . import html, session
from .libraries import KNOWN
from .results import Report
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
        "of their own, and print what is shared, copied or refused. Exit status 1 where something fails.",
        epilog=f"libraries that are known: {', '.join(KNOWN)}",
        allow_abbrev=False,
    )
    parser.add_argument(
        "libraries", metavar="LIBRARY", nargs="*", help="try these alone (default: all that are installed)"
    )
    parser.add_argument(
        "-k", metavar="EXPRESSION", default="", help='choose exchanges: "torch and not (bfloat16 or mmap)"'
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results as JSON")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write them as one page for a browser")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=120, help="for one exchange (default: 120)")
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="exchanges at a time (default: one for each processor, at most 4)"
    )
    options = parser.parse_args(arguments)
    try:
        session.validate(options.libraries, options.k, options.timeout, options.jobs)
        if options.json and options.html and options.json.absolute() == options.html.absolute():
            raise ValueError(f"{options.html}: expected a file for each of --json and --html")
    except ValueError as error:
        parser.error(str(error))
    outputs: list[tuple[str, Path, Callable[[Report], str]]] = [
        ("--json", options.json, as_json),
        ("--html", options.html, html.page),
    ]
    # Opened before the long run, to say at once what can't be written; what is in the file stays until then.
    outputs = [each for each in outputs if each[1]]
    good = [each for each in outputs if write(*each[:2], "a", "")]
    if not RICH:
        print("without rich: no colours, no progress (pip install 'dlpack-go[tests]')", file=sys.stderr)
    try:
        with progress_bar() as progress:
            report = session.run(
                *options.libraries, expression=options.k, timeout=options.timeout, jobs=options.jobs, progress=progress
            )
    except OSError as error:  # no folder for temporary files, no process to be had
        print(printable(str(error)), file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        return 128 + (error.args[0] if error.args else signal.SIGINT)  # as a shell tells it
    good = [each for each in good if write(*each[:2], "w", each[2](report))]  # first: `| head` ends the process
    shown = show(lines(report))
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


def as_json(report: Report) -> str:
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
