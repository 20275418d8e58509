"""The results of a run."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["shared", "copied", "refused", "failed", "skipped"]

RANK = {"refused": 1, "copied": 2, "shared": 3}


@dataclass
class Exchange:
    """The outcome for one object that was handed to one consumer."""

    consumer: str
    provider: str
    section: str  # the library whose object it is, or what a group of objects has in common
    outcome: Outcome
    expected: Outcome = "shared"
    reason: str = ""  # why something else than sharing is expected; why it was skipped
    text: str = ""  # the refusal, or what is wrong
    refused_by: str = ""  # "dlpack", or the consumer
    copy: Literal["", "works", "refused"] = ""  # whether a refused object is taken with copy=True
    proof: str = ""  # of sharing: "address", "write", or "empty" where there is no item to share

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"

    @property
    def news(self) -> bool:
        """True if it went better than was known."""
        return RANK.get(self.outcome, 0) > RANK.get(self.expected, 3)

    @property
    def less_than_expected(self) -> bool:
        return RANK.get(self.outcome, 3) < RANK.get(self.expected, 0)


@dataclass
class Check:
    """The outcome of something else that was tried of a library, beyond taking one object."""

    library: str
    name: str
    outcome: Literal["passed", "failed", "skipped"]
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"


@dataclass
class Report:
    """All that a run found. The exchanges stand consumer by consumer, and provider by provider."""

    about: dict[str, str] = field(default_factory=dict)  # dlpack, Python, platform, date
    libraries: dict[str, str] = field(default_factory=dict)  # name: version
    consumers: dict[str, str] = field(default_factory=dict)  # name: what becomes of read-only memory
    exchanges: list[Exchange] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # what kept a library, or the run, from being tried: failures too

    @property
    def failures(self) -> list[Exchange | Check | str]:
        return [
            *self.problems,
            *(exchange for exchange in self.exchanges if exchange.failed),
            *(check for check in self.checks if check.failed),
        ]

    @property
    def ok(self) -> bool:
        return not self.failures

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Report":
        exchanges = [Exchange(**each) for each in data["exchanges"]]
        checks = [Check(**each) for each in data["checks"]]
        return cls(**data | {"exchanges": exchanges, "checks": checks})

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, as --json writes it."""
        return dataclasses.asdict(self)
