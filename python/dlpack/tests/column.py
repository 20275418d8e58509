"""A column of the table: the exchanges in which one library takes memory, and its checks."""

import json
from collections.abc import Generator, Iterator
from dataclasses import asdict
from typing import Any, Literal

from .._to import TAKERS
from .child import BUSY, Child, Event
from .results import Check, Exchange
from .worker import Task

# Libraries that can't be in one process.
APART = {frozenset(("paddle", TAKERS["paddle"].crashes_after)): "paddle and tensorflow crash each other at import"}
LIVES = 8  # processes that a column may use up


class Host:
    """The child processes of one thread. A process is used again for the next library where both can be imported
    together, since imports take most of the time."""

    def __init__(self, scratch: str, timeout: float) -> None:
        self.scratch = scratch
        self.timeout = timeout
        self.imported: dict[Child, set[str]] = {}
        self.stopped: bool = False

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self.close(*self.imported)

    def child(self, names: set[str], fresh: bool) -> tuple[Child, bool]:
        """A process for these libraries, and whether it was used before, as no fresh one was."""
        for child, imported in self.imported.items():
            if not fresh and together(imported | names):
                imported.update(names)
                return child, True
        child = Child(self.scratch, self.timeout)
        self.imported[child] = names
        if self.stopped:  # while it was started
            child.kill()
        return child, False

    def close(self, *children: Child) -> None:
        for child in children:
            del self.imported[child]
            child.close()

    def stop(self) -> None:
        """Ends the processes that run, from any thread."""
        self.stopped = True
        for child in list(self.imported):
            child.kill()


class Column:
    """The exchanges in which one library takes memory, and its checks."""

    def __init__(self, library: str, version: str, providers: list[str], package: str) -> None:
        self.library = library
        self.consumers: dict[str, str] = {}
        self.exchanges: list[Exchange] = []
        self.checks: list[Check] = []
        self.absent: dict[str, tuple[Literal["failed", "skipped"], str]] = {}  # by library, with the reason
        self.problems: list[str] = []
        self.done: list[str] = []
        self.tasks: list[Task] = [
            Task(library, version, group, i == 0, package, self.done)
            for i, group in enumerate(groups(library, providers))
        ]

    def run(self, host: Host) -> Iterator[str]:
        """Yields what begins."""
        lives, death = LIVES, False
        for task in self.tasks:
            while lives > 0 and self.library not in self.absent and not host.stopped:
                death = yield from self.live(task, host, fresh=death)
                if not death:
                    break
                lives -= 1
                if not lives:
                    self.problems.append(f"{self.library}: {LIVES} processes died; what was left is not tried")

    def untried(self, consumer: str, section: str, provider: str) -> Exchange:
        """A cell that says why nothing was tried."""
        cell = Exchange(consumer, provider, section, "failed", text="not tried")
        absent = next((name for name in (self.library, section) if name in self.absent), None)
        apart = APART.get(frozenset((self.library, section)))
        if absent:
            cell.outcome, text = self.absent[absent]
            cell.text, cell.reason = (f"{absent}: {text}", "") if cell.failed else ("", text)
        elif apart:
            cell.outcome, cell.text, cell.reason = "skipped", "", apart
        return cell

    def live(self, task: Task, host: Host, fresh: bool) -> Generator[str, None, bool]:
        """Gives the task to a process; returns whether it died."""
        child, used = host.child({self.library, *task.providers}, fresh)
        child.ask(json.dumps(asdict(task)))
        begun: Event = {"begins": f"import {self.library}", "import": self.library}
        for event in child.events:
            if "ends" in event:
                break
            if "death" in event:
                host.close(child)
                if not used or event["death"].startswith(BUSY):
                    self.record_death(begun, event["death"])
                elif "import" not in begun:  # what came before may have damaged it: this is tried again in a new one
                    self.done.remove(begun["begins"])
                return True
            if "begins" in event:
                begun = event
                if "import" not in begun:
                    self.done.append(begun["begins"])
                yield begun["begins"]
            else:
                self.record(event)
        if any(outcome == "failed" for outcome, _ in self.absent.values()):  # half imported, perhaps
            host.close(child)
        return False

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


def together(names: set[str]) -> bool:
    """True if the libraries can be in one process."""
    return not any(pair <= names for pair in APART)


def groups(library: str, providers: list[str]) -> list[list[str]]:
    """The providers by process: each group can be together with the library and with each other."""
    found: list[list[str]] = [[]]
    for name in providers:
        if not together({library, name}):
            continue
        for group in found:
            if together({*group, name}):
                group.append(name)
                break
        else:
            found.append([name])
    return found
