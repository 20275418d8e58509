"""A child process, which may crash, hang or write where it should not. It reads questions from standard input, one a
line, and writes its answers, lines of JSON, to a pipe of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from typing import IO, Any

from . import system
from .findings import signal_name

BUSY = "still busy"
WORDS = 300  # characters of what a process printed last
TAIL = 10_000  # bytes of what it printed that are read
LAST = 5  # seconds that close waits for a process before it kills it

Event = dict[str, Any]


class Child:
    """The parent's side. Its events end with one that has the key "death", and says how the process died."""

    def __init__(self, argument: str, timeout: float) -> None:
        """Begins worker.main(). timeout is how many seconds it may be silent."""
        self.errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        reading, writing = os.pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__package__} import worker; worker.main()"
        command = [sys.executable, "-c", code, argument]
        env = os.environ | {"PYTHONOPTIMIZE": ""}  # the checks have assertions
        options = {"stdin": subprocess.PIPE, "stdout": self.errors, "stderr": self.errors, "env": env}
        try:
            self.process: subprocess.Popen[bytes] = system.start(command, writing, **options)
        except BaseException:
            os.close(reading)
            self.errors.close()
            raise
        finally:
            os.close(writing)
        self.events: Generator[Event] = self.read(reading, timeout)

    def ask(self, question: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is dead: that is the next event
            self.process.stdin.write(question.encode() + b"\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """From any thread. What it has started ends, too."""
        system.kill(self.process)

    def close(self) -> None:
        """By the thread that reads the events. A process that waits for a question ends by itself."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.end(LAST)
        self.events.close()  # and with it the pipe
        self.errors.close()

    def read(self, reading: int, timeout: float) -> Generator[Event]:
        text = b""
        with open(reading, "rb", buffering=0) as pipe:
            while system.is_readable(pipe, timeout):
                received = pipe.read(65536)
                if not received:
                    break
                *lines, text = (text + received).split(b"\n")
                for line in lines:
                    event = parsed(line)
                    if event is None:  # nothing more can be believed
                        self.end(0)
                        yield self.death(f"wrote {line[:40]!r} to a file that it did not open")
                        return
                    yield event
            else:
                if self.process.poll() is None:
                    self.end(0)
                    yield self.death(f"{BUSY} after {timeout:g} s")
                    return
                # It is dead, and what it has started keeps the pipe open.
        self.end(timeout)
        status = self.process.returncode
        how = f"died of {signal_name(-status)}" if status < 0 else f"ended with status {status}"
        yield self.death(f"its process {how}")

    def end(self, timeout: float) -> None:
        """Waits for the process, kills it where it stays, and in any case what it leaves behind."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        self.kill()
        self.process.wait()

    def death(self, text: str) -> Event:
        """The last event. Behind the text stands the last line that the process printed, which may tell why."""
        self.errors.seek(max(self.errors.seek(0, os.SEEK_END) - TAIL, 0))
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        return {"death": text + (f" ({lines[-1][:WORDS]})" if lines else "")}


def parsed(line: bytes) -> Event | None:
    """None where a library has written to the pipe."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict):
            return event
    return None


def serve(answer: Callable[[str, Callable[[Event], None]], None]) -> None:
    """The child's side, to the end of the program: answer(question, tell) for each line of standard input. sys.argv[2]
    is the descriptor to write to."""
    number = system.inherited(int(sys.argv[2]))
    os.set_inheritable(number, False)
    questions = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # for a library that reads
    with os.fdopen(number, "w", buffering=1) as output, os.fdopen(questions) as lines:

        def tell(event: Event) -> None:
            output.write(json.dumps(event) + "\n")

        while line := lines.readline():
            answer(line.strip(), tell)
    os._exit(0)  # how libraries end is no part of an exchange, and some crash there
