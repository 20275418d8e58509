"""The process that tries rules on a library, and its parent's side of it.

The parent writes the id of a rule, a line; the process answers with a JSON object, a line:

    {"outcome": "kept", "text": ""}    or "broken", or "skipped"

A rule that ends its process, or hangs, costs that rule alone: the next has a new process.
"""

import gc
import json
import sys
import time
import warnings
from typing import Any

from .child import BUSY, Child, Event, serve
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
        self.child: Child | None = None
        self.stopped: bool = False

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

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
        used = self.child is not None
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

    def ask(self, rule: Rule) -> Event:
        # Python's own allocator then finds who frees without the GIL, or twice, and fills what is freed.
        self.child = self.child or Child("judge", json.dumps(self.specs), lambda: self.limit, PYTHONMALLOC="debug")
        if self.stopped:  # while it was started
            self.child.kill()
        self.child.ask(rule.id)
        answer = next(self.child.events)
        if "death" in answer:
            self.end()
        return answer

    def stop(self) -> None:
        """Ends the process that runs, and starts no other for the rule that is tried."""
        self.stopped = True
        if child := self.child:
            child.kill()

    def end(self) -> None:
        if self.child:
            self.child.close()
        self.child = None


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
    """The whole program: its first argument is MODULE:NAME by side, as JSON."""
    warnings.simplefilter("ignore")
    bench = Bench(json.loads(sys.argv[1]))
    serve(lambda rule, tell: tell(bench.answer(RULES[rule])))
