"""`python -m dlpack.tests`: tries what exchanges memory with what on this machine, and prints the report."""

import io
import json
import os
import signal
import sys
from collections.abc import Iterable

from ..__main__ import Parser
from .._foreign import printable
from . import session
from .libraries import known
from .system import ENDING
from .text import lines

BAR = 79  # characters of the line that tells how far it is


def open_standard_descriptors() -> None:
    """Opens those that are closed: a pipe to a library's process must not get one of their numbers, and be replaced."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)


def run_command(arguments: list[str], adapters: str) -> int:
    """Returns the exit status."""
    parser = Parser(
        prog="python -m dlpack.tests",
        description="Hand every kind of memory that is found here to every library that is found here, in processes "
        "of their own, and print what is shared, copied or refused. Exit status 1 if something fails.",
        epilog=f"libraries that are known: {', '.join(known(adapters))}",
        allow_abbrev=False,
    )
    parser.add_argument(
        "libraries", metavar="LIBRARY", nargs="*", help="try these alone (default: all that are installed)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=session.seconds, default=120, help="for one exchange (default: 120)"
    )
    options = parser.parse_args(arguments)
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    try:
        progress = show_progress if on_terminal else None
        report = session.run(*options.libraries, timeout=options.timeout, progress=progress, adapters=adapters)
    except OSError as error:  # no folder for temporary files, no process to be had
        print(printable(str(error)), file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        return 128 + (error.args[0] if error.args else signal.SIGINT)  # as a shell tells it
    finally:
        if on_terminal:
            print(f"\r{'':{BAR}}\r", end="", file=sys.stderr)
    shown = show(json.dumps(report.as_dict(), indent=1).splitlines() if options.json else lines(report))
    return 0 if report.ok and shown else 1


def interrupt(number: int, frame: object) -> None:
    """Ends the run as Ctrl-C does: what it has started must end too."""
    raise KeyboardInterrupt(number)


def show_progress(done: int, total: int, what: str) -> None:
    line = printable(f"{done}/{total} {what}")
    print(f"\r{line:{BAR}.{BAR}}", end="", file=sys.stderr, flush=True)


def show(text: Iterable[str]) -> bool:
    """Prints the lines. Returns False, and prints the error, if that fails."""
    try:
        for line in text:
            print(printable(line))
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        print(f"standard output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still writes when it ends
        return False
    return True


def main(adapters: str = "") -> None:
    """The whole program. adapters is what session.run takes."""
    open_standard_descriptors()
    if sys.platform != "win32":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a library may say what the terminal can't show
    sys.exit(run_command(sys.argv[1:], adapters))


if __name__ == "__main__":
    main()
