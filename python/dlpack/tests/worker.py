"""The process in which libraries meet. It is given Tasks, and tells what it finds, a JSON object a line:

    {"begins": "import torch", "import": "torch"}   what is about to be tried, so that a crash has a name
    {"begins": "...", "exchange": {...}}, {"begins": "...", "check": {...}}
    {"consumer": ["torch", "..."]}      what the library has, and what becomes of read-only memory
    {"exchange": {...}}, {"check": {...}}
    {"absent": ["torch", "failed", "..."]}  a library can't be imported, and why
    {"ends": true}

The parent starts a new process for what is left when one dies.
"""

import dataclasses
import gc
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import libraries
from .child import Event, serve
from .exchange import exchange
from .expectations import Consumer
from .findings import Skip, one_line
from .libraries import Adapter
from .memory import Memory
from .results import Check, Exchange


@dataclass
class Task:
    library: str  # whose consumers and checks are run
    version: str
    providers: list[str]  # the modules whose objects they are given
    checks: bool
    package: str  # has adapters, beside dlpack.tests.libraries; "" for none
    done: list[str]  # what was tried before: it is left out


class Worker:
    def __init__(self, task: Task, tell: Callable[[Event], None]) -> None:
        self.task = task
        self.write = tell

    def tell(self, **event: Any) -> None:
        self.write(event)

    def load(self, name: str) -> Adapter | None:
        if not self.begin(f"import {name}", {"import": name}):
            return None
        try:
            return Adapter(name, self.task.package)
        except Skip as reason:
            self.tell(absent=[name, "skipped", str(reason)])
        except BaseException as error:
            self.tell(absent=[name, "failed", one_line(error)])
        return None

    def begin(self, what: str, subject: dict[str, Any]) -> bool:
        """Says what is about to be tried, unless it was tried before."""
        if what in self.task.done:
            return False
        gc.collect()
        gc.freeze()  # what the libraries have imported is no garbage: looking at it anew would take most of the time
        self.tell(begins=what, **subject)
        return True

    def run(self) -> None:
        own = self.load(self.task.library)
        if own is None:
            return
        needed = self.task.providers if own.consumers else []
        adapters = [own if name == own.name else self.load(name) for name in needed]
        for consumer in own.consumers:
            self.tell(consumer=[consumer.name, consumer.readonly])
            for adapter in filter(None, adapters):
                for name, make in adapter.providers.items():
                    self.exchange(consumer, make, Exchange(consumer.name, name, adapter.section, "failed"))
        for name, function in own.checks.items() if self.task.checks else ():
            self.check(function, Check(own.section, name, "passed"))

    def exchange(self, consumer: Consumer, make: Callable[[], Memory], cell: Exchange) -> None:
        what = f"{cell.consumer} takes {cell.section}: {cell.provider}"
        if not self.begin(what, {"exchange": dataclasses.asdict(cell)}):
            return
        try:
            exchange(consumer, self.task.version, make, cell)
        except Skip as reason:
            cell.outcome, cell.reason = "skipped", str(reason)
        except BaseException as error:
            cell.outcome, cell.text = "failed", one_line(error)
        self.tell(exchange=dataclasses.asdict(cell))

    def check(self, function: Callable[[], None], check: Check) -> None:
        if not self.begin(f"{check.library}: {check.name}", {"check": dataclasses.asdict(check)}):
            return
        try:
            function()
        except Skip as reason:
            check.outcome, check.text = "skipped", str(reason)
        except BaseException as error:
            check.outcome, check.text = "failed", one_line(error)
        self.tell(check=dataclasses.asdict(check))


def answer(question: str, tell: Callable[[Event], None]) -> None:
    Worker(Task(**json.loads(question)), tell).run()
    tell({"ends": True})


def main() -> None:
    """The whole program: its first argument is a folder for what several processes compile."""
    warnings.simplefilter("ignore")
    libraries.scratch = Path(sys.argv[1])
    serve(answer)
