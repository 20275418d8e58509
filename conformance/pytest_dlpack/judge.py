"""The process that tries rules on a library, and its parent's side of it.

The parent writes the id of a rule, a line; the process answers with a JSON object, a line:

    {"outcome": "kept", "text": ""}    or "broken", or "skipped"

A rule that ends its process, or hangs, costs that rule alone: the next has a new process.
"""

import contextlib
import gc
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TextIO

from .findings import LONGEST, Skip, Wrong, one_line, signal_name
from .rules import RULES, Rule
from .rules.consumer import Consumer
from .rules.producer import Producer
from .rules.rule import program

FIRST = {"producer": "producer-make", "consumer": "consumer-take"}  # if it is broken, the others can't be tried
HANGS = 2  # of a side, after which its other rules are not tried
PATIENCE = 60  # seconds for the first rule, which imports the library
TAIL = 10_000  # bytes that are read of what a process printed
WORDS = 300  # characters of its last line that are shown

Spec = str | Callable[..., Any] | None


def specs(producer: Spec, consumer: Spec) -> dict[str, str]:
    """Returns MODULE:NAME by side. Raises ValueError for anything else, or if no side is named."""
    found = {}
    for side, spec in ("producer", producer), ("consumer", consumer):
        if spec is None:
            continue
        name = spec
        if callable(spec):
            name = f"{getattr(spec, '__module__', None) or '?'}:{getattr(spec, '__qualname__', '?')}"
        if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", name):
            raise ValueError(f"{side} {spec!r}: expected MODULE:NAME of a function")
        found[side] = name
    if not found:
        raise ValueError("expected --dlpack-producer or --dlpack-consumer, or a fixture with such a name")
    return found


class Verdict(NamedTuple):
    """The result of one rule."""

    outcome: Literal["kept", "broken", "skipped"]
    text: str  # what was seen, or why the rule was not tried


class Died(Exception):
    """The text says how the process died, and with what last words."""


class Hung(Exception):
    """The text says for how long, and the last words."""


class Judge:
    """Tries rules on one library."""

    def __init__(self, specs: dict[str, str], timeout: float | None = None) -> None:
        self.specs = specs  # MODULE:NAME by side
        self.timeout = timeout  # seconds for a rule; None: by what the first rule of its side took
        self.first: dict[str, float] = {}  # seconds by side, with the import of the library
        self.verdicts: dict[str, Verdict] = {}
        self.problems: list[str] = []  # crashes that no rule is blamed for
        self.hangs: dict[str, int] = dict.fromkeys(specs, 0)
        self.child: Child | None = None

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def verdict(self, rule: Rule) -> Verdict:
        if rule.id not in self.verdicts:
            self.verdicts[rule.id] = self.find(rule)
        return self.verdicts[rule.id]

    def find(self, rule: Rule) -> Verdict:
        first = FIRST[rule.side]
        if rule.id != first and self.verdict(RULES[first]).outcome != "kept":
            return Verdict("skipped", f"{first} is not kept")
        if self.hangs[rule.side] >= HANGS:
            return Verdict("skipped", f"{HANGS} rules hung; what was left is not tried")
        used = self.child is not None
        begun = time.monotonic()
        try:
            return self.ask(rule)
        except Hung as hang:
            return Verdict("broken", str(hang))
        except Died as death:
            if used and rule.severity == "must":  # an earlier rule may have damaged the memory of the process
                with contextlib.suppress(Died, Hung):
                    found = self.ask(rule)
                    self.problems.append(f"{rule.id}, which is {found.outcome} in a new process: {death}")
                    return found
            return Verdict("broken", str(death))
        finally:
            self.first.setdefault(rule.side, time.monotonic() - begun)

    def ask(self, rule: Rule) -> Verdict:
        """Raises Died or Hung, or what a signal handler raises, as that of pytest-timeout."""
        self.child = self.child or Child(self.specs)
        # A new process imports the library again, whichever side imported it first.
        limit = round(10 + 3 * max(self.first.values())) if rule.side in self.first else PATIENCE
        try:
            return self.child.ask(rule.id, self.timeout or limit)
        except BaseException as error:
            self.hangs[rule.side] += not isinstance(error, Died)
            self.end()  # else the next rule would get this one's answer
            raise

    def end(self) -> None:
        if self.child:
            self.child.end()
        self.child = None


class Child:
    """The parent's side of a process."""

    def __init__(self, specs: dict[str, str]) -> None:
        self.errors = tempfile.TemporaryFile()
        # Python's own allocator then finds who frees without the GIL, or twice, and fills what is freed. Rules assert.
        environment = os.environ | {"PYTHONMALLOC": "debug", "PYTHONOPTIMIZE": ""}
        self.process = subprocess.Popen(
            [*program(__name__, "main()"), json.dumps(specs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            start_new_session=True,
        )
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError), self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)

    def ask(self, rule: str, limit: float) -> Verdict:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it is dead, which is found below
            self.process.stdin.write(rule.encode() + b"\n")
            self.process.stdin.flush()
        last = time.monotonic() + limit
        while time.monotonic() < last:
            status = self.process.poll()  # before the queue, to which the last line is on its way
            try:
                line = self.lines.get(timeout=0.05)
            except queue.Empty:
                if status is not None:
                    how = f"died of {signal_name(-status)}" if status < 0 else f"ended with status {status}"
                    raise Died(f"its process {how}{self.last_words()}") from None
                continue
            try:
                return Verdict(**json.loads(line))
            except (ValueError, TypeError):  # nothing more can be believed
                text = f"wrote {line[:40].strip()!r} to a file that it did not open"
                raise Died(text + self.last_words()) from None
        raise Hung(f"still busy after {limit:g} s{self.last_words()}")

    def last_words(self) -> str:
        """The last line that the process printed, which may tell why it died."""
        self.errors.seek(max(self.errors.seek(0, os.SEEK_END) - TAIL, 0))
        lines = [line.strip() for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f" ({lines[-1][:WORDS]})" if lines else ""

    def end(self) -> None:
        """Ends the process, and what it has started."""
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.errors.close()


def main() -> None:
    """The whole program of the process: its first argument is MODULE:NAME by side, as JSON."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)  # what the library prints
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # for a library that reads
    warnings.simplefilter("ignore")
    named = json.loads(sys.argv[1])
    subjects: dict[str, Any] = {}
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(questions, asked), daemon=True).start()
    while True:
        rule = RULES[asked.get().strip()]
        answers.write(json.dumps(attempt(rule, named[rule.side], subjects)) + "\n")


def listen(questions: TextIO, asked: "queue.SimpleQueue[str]") -> None:
    """Ends the process with its parent, which may be killed while a rule hangs."""
    for line in questions:
        asked.put(line)
    os._exit(0)


def attempt(rule: Rule, spec: str, subjects: dict[str, Any]) -> dict[str, str]:
    """Tries the rule. The first of its side imports the library."""
    if hasattr(gc, "freeze"):  # then a collection looks at what the rule makes, not at all of jax: 22 s became 7 s
        gc.freeze()
    outcome, text = "kept", ""
    try:
        if rule.side not in subjects:
            subjects[rule.side] = (Producer if rule.side == "producer" else Consumer)(spec)
        rule.check(subjects[rule.side])
    except Skip as reason:
        outcome, text = "skipped", str(reason)
    except Wrong as wrong:
        outcome, text = "broken", str(wrong)
    except BaseException as error:
        outcome, text = "broken", one_line(error)
    return {"outcome": outcome, "text": text[:LONGEST]}
