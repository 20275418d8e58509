"""The process that tries rules on a library, and its parent's side of it.

The parent writes the id of a rule, a line; the process answers with a JSON object, a line:

    {"outcome": "kept", "text": ""}    or "broken", or "skipped"

A rule that ends its process, or hangs, costs that rule alone: the next has a new process.
"""

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import IO, Any

from . import system
from .column import BUSY, end, events, last_words, launch
from .exchange import LONGEST, Wrong, one_line
from .memory import Skip
from .results import Kept, Verdict
from .rules import RULES, Rule
from .rules.consumer import Consumer
from .rules.producer import Producer

FIRST = {"producer": "producer-make", "consumer": "consumer-take"}  # where it is broken, the others can't be tried
HANGS = 2  # of a side, after which its other rules are not tried


class Judge:
    """Tries rules on one library."""

    def __init__(self, specs: dict[str, str], timeout: float | None = None) -> None:
        self.specs = specs  # MODULE:NAME by side
        self.timeout = timeout  # seconds, for a rule; None: by what the first rule of its side took
        self.limit: float = 0.0  # of the rule that is tried
        self.first: dict[str, float] = {}  # seconds by side, with the import of the library
        self.verdicts: dict[str, Verdict] = {}
        self.problems: list[str] = []
        self.hangs: dict[str, int] = dict.fromkeys(specs, 0)
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped: bool = False
        self.answers: Iterator[dict[str, Any]] = iter(())
        self.errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.errors.close()

    def rules(self) -> list[Rule]:
        return [rule for rule in RULES.values() if rule.side in self.specs]

    def verdict(self, rule: Rule) -> Verdict:
        if rule.id not in self.verdicts:
            self.verdicts[rule.id] = Verdict(rule.id, rule.gist, rule.source, rule.severity, *self.find(rule))
        return self.verdicts[rule.id]

    def find(self, rule: Rule) -> tuple[Kept, str]:
        first = FIRST[rule.side]
        if rule.id != first and self.verdict(RULES[first]).outcome != "kept":
            return "skipped", f"{first} is not kept"
        if self.hangs[rule.side] >= HANGS:
            return "skipped", f"{HANGS} rules hung; what was left is not tried"
        used = self.process is not None
        self.limit = self.timeout or (round(8 + 3 * self.first[rule.side]) if rule.side in self.first else 30)
        begun = time.monotonic()
        answer = self.ask(rule)
        self.first.setdefault(rule.side, time.monotonic() - begun)
        if "death" not in answer:
            return answer["outcome"], answer["text"]
        if answer["death"].startswith(BUSY):
            self.hangs[rule.side] += 1
        elif used and rule.severity == "must" and not self.stopped:  # an earlier rule may have damaged its memory
            again = self.ask(rule)
            if "death" not in again:
                self.problems.append(f"{rule.id}, which else is {again['outcome']}: {answer['death']}")
                return again["outcome"], again["text"]
        return "broken", answer["death"]

    def ask(self, rule: Rule) -> dict[str, Any]:
        process = self.process or self.start()
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is dead, or was stopped: that is its answer
            process.stdin.write(rule.id.encode() + b"\n")
            process.stdin.flush()
        answer = next(self.answers, {"death": "its process ended"})
        if "death" in answer:
            answer["death"] += last_words(self.errors)
            self.end()
        return answer

    def start(self) -> "subprocess.Popen[bytes]":
        self.errors.seek(0)  # where the process begins to write
        self.errors.truncate()
        # Python's own allocator then finds who frees without the GIL, or twice, and fills what is freed.
        process, reading = launch("judge", json.dumps(self.specs), self.errors, subprocess.PIPE, PYTHONMALLOC="debug")
        self.process = process
        self.answers = events(process, reading, lambda: self.limit)
        if self.stopped:  # while it was started
            self.end()
        return process

    def stop(self) -> None:
        """Ends the process that runs, and starts no other for the rule that is tried."""
        self.stopped = True
        self.end()

    def end(self) -> None:
        process, self.process = self.process, None  # two threads may end it
        if process and process.stdin:
            end(process, 0)
            with contextlib.suppress(OSError):
                process.stdin.close()


class Bench:
    """What the process knows of the library: it is imported when the first rule needs it."""

    def __init__(self, specs: dict[str, str]) -> None:
        self.specs = specs
        self.subjects: dict[str, Any] = {}

    def subject(self, side: str) -> Any:
        if side not in self.subjects:
            kind: Any = Producer if side == "producer" else Consumer
            self.subjects[side] = kind(self.specs[side])
        return self.subjects[side]

    def answer(self, rule: Rule) -> dict[str, str]:
        gc.freeze()  # then a collection looks at what the rule makes, not at all of jax: 22 s became 7 s
        outcome, text = "kept", ""
        try:
            rule.check(self.subject(rule.side))
        except Skip as reason:
            outcome, text = "skipped", str(reason)
        except Wrong as wrong:
            outcome, text = "broken", str(wrong)
        except BaseException as error:
            outcome, text = "broken", one_line(error)
        return {"outcome": outcome, "text": text[:LONGEST]}


def main() -> None:
    """The whole program: its arguments are MODULE:NAME by side, as JSON, and the descriptor to write to."""
    warnings.simplefilter("ignore")
    bench = Bench(json.loads(sys.argv[1]))
    number = system.inherited(int(sys.argv[2]))
    os.set_inheritable(number, False)
    questions = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # for a library that reads
    with os.fdopen(number, "w", buffering=1) as output, os.fdopen(questions) as lines:
        while line := lines.readline():
            output.write(json.dumps(bench.answer(RULES[line.strip()])) + "\n")
    os._exit(0)
