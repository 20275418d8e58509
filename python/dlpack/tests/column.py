"""A column of the table: the processes of one library, and what they told."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from typing import IO, Any

from . import system
from .expectations import APART
from .expression import Expression
from .results import Check, Exchange
from .worker import Task

LIVES = 8  # processes that a column may use up
BUSY = "still busy"
WORDS = 300  # characters of what a process printed last
TAIL = 10_000  # bytes of what it printed that are read


class Column:
    """What one library takes, and what else is checked of it."""

    def __init__(
        self, library: str, version: str, providers: list[str], expression: str, timeout: float, scratch: str
    ) -> None:
        self.library = library
        self.wanted: Expression = Expression(expression)
        self.consumers: dict[str, str] = {}
        self.exchanges: list[Exchange] = []
        self.checks: list[Check] = []
        self.absent: dict[str, tuple[str, str]] = {}  # module: "failed" or "skipped", and why
        self.problems: list[str] = []
        self.timeout = timeout
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped: bool = False
        self.done: list[str] = []
        self.tasks: list[Task] = [
            Task(library, version, scratch, group, i == 0, expression, self.done)
            for i, group in enumerate(groups(library, providers))
        ]

    def run(self) -> Iterator[str]:
        """Yields what begins."""
        lives = LIVES
        for task in self.tasks:
            while lives > 0 and self.library not in self.absent and not self.stopped:
                death = yield from self.live(task)
                if not death:
                    break
                lives -= 1
                if not lives:
                    self.problems.append(f"{self.library}: {LIVES} processes died; what was left is not tried")

    def stop(self) -> None:
        """Ends the process that runs, and starts no other."""
        self.stopped = True
        if self.process:
            system.kill(self.process)

    def untried(self, consumer: str, section: str, provider: str) -> Exchange | None:
        """A cell that says why nothing was tried; None where it was not chosen."""
        if not self.wanted(f"{consumer} {section}: {provider}"):
            return None
        cell = Exchange(consumer, provider, section, "skipped")
        for name in self.library, section:
            if name in self.absent:
                outcome, text = self.absent[name]
                if outcome == "failed":
                    cell.outcome, cell.text = "failed", f"{name}: {text}"
                else:
                    cell.reason = text
                return cell
        apart = APART.get(frozenset((self.library, section)))
        if apart:
            cell.reason = apart
            return cell
        if self.problems:
            cell.outcome, cell.text = "failed", "not tried"
            return cell
        return None

    def live(self, task: Task) -> Generator[str, None, str]:
        """Runs one process; returns how it died, or "" where it came to its end."""
        begun: dict[str, Any] = {"begins": f"import {self.library}", "import": self.library}
        death = ""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            self.process, reading = start(task, errors)
            if self.stopped:  # while it was started
                self.stop()
            for event in events(self.process, reading, lambda: self.timeout):
                if "death" in event:
                    death = event["death"]
                elif "begins" in event:
                    begun = event
                    if "import" not in begun:
                        self.done.append(begun["begins"])
                    yield begun["begins"]
                else:
                    self.record(event)
            if death:
                self.record_death(begun, death + last_words(errors))
        return death

    def record(self, event: dict[str, Any]) -> None:
        if "exchange" in event:
            self.exchanges.append(Exchange(**event["exchange"]))
        elif "consumer" in event:
            name, readonly = event["consumer"]
            self.consumers[name] = readonly
        elif "check" in event:
            self.checks.append(Check(**event["check"]))
        else:
            name, outcome, text = event["absent"]
            self.absent[name] = (outcome, text)

    def record_death(self, begun: dict[str, Any], text: str) -> None:
        if "import" in begun:
            self.done.append(begun["begins"])
            self.absent[begun["import"]] = ("failed", text)
        elif "exchange" in begun:
            self.exchanges.append(Exchange(**begun["exchange"] | {"outcome": "failed", "text": text}))
        else:
            self.checks.append(Check(**begun["check"] | {"outcome": "failed", "text": text}))


def start(task: Task, errors: IO[str]) -> tuple["subprocess.Popen[bytes]", int]:
    """A process at the task, and the descriptor on which it tells what it finds."""
    return launch("worker", json.dumps(asdict(task)), errors, subprocess.DEVNULL)


def launch(
    module: str, argument: str, errors: IO[str], stdin: int, **environment: str
) -> tuple["subprocess.Popen[bytes]", int]:
    """A process that runs main() of a module of this package, and the descriptor on which it tells what it finds."""
    reading, writing = os.pipe()
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__package__} import {module}; {module}.main()"
    command = [sys.executable, "-c", code, argument]
    env = os.environ | {"PYTHONOPTIMIZE": ""} | environment  # the checks have assertions
    process = system.start(command, writing, stdin=stdin, stdout=errors, stderr=errors, env=env)
    os.close(writing)
    return process, reading


def events(process: "subprocess.Popen[bytes]", reading: int, limit: Callable[[], float]) -> Iterator[dict[str, Any]]:
    """What the process tells, and last its death, if it died. Where it is silent for too long it is killed."""
    text = b""
    with open(reading, "rb", buffering=0) as pipe:
        while system.is_readable(pipe, timeout := limit()):
            received = pipe.read(65536)
            if not received:
                break
            *lines, text = (text + received).split(b"\n")
            for line in lines:
                event = parsed(line)
                if "ends" in event:  # what it has started may keep the pipe open
                    end(process, timeout)
                    return
                yield event
                if "death" in event:
                    end(process, 0)
                    return
        else:
            if process.poll() is None:
                end(process, 0)
                yield {"death": f"{BUSY} after {timeout:g} s"}
                return
            # It is dead, and what it has started keeps the pipe open.
    end(process, timeout)
    if process.returncode < 0:
        yield {"death": f"its process died of {signal_name(-process.returncode)}"}
    elif process.returncode > 0:
        yield {"death": f"its process ended with status {process.returncode}"}


def parsed(line: bytes) -> dict[str, Any]:
    """The event of a line; a death where a library has written to the pipe, and nothing more can be believed."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict):
            return event
    return {"death": f"wrote {line[:40]!r} to a file that it did not open"}


def end(process: "subprocess.Popen[bytes]", timeout: float) -> None:
    """Waits for the process, kills it where it stays, and in any case what it leaves behind."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout)
    system.kill(process)
    process.wait()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def last_words(errors: IO[str]) -> str:
    """The last line that a process printed, to tell why it died."""
    errors.seek(max(errors.seek(0, os.SEEK_END) - TAIL, 0))
    lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
    return f" ({lines[-1][:WORDS]})" if lines else ""


def groups(library: str, providers: list[str]) -> list[list[str]]:
    """The providers by process: each group can be together with the library and with each other."""
    found: list[list[str]] = [[]]
    for name in providers:
        if frozenset((library, name)) in APART:
            continue
        for group in found:
            if not any(frozenset((name, other)) in APART for other in group):
                group.append(name)
                break
        else:
            found.append([name])
    return found
