"""What each library provides, how it takes memory, and what else is tried of it: one module a library.

A module is imported only where its library is installed. It may define

    PROVIDERS   name: a function that makes a Memory, anew at each call
    CONSUMERS   a Consumer for each way in which the library takes memory
    CHECKS      name: a function that raises where something is wrong, and Skip where it can't be tried

No library belongs to `standard`, `layouts` and `datatypes`: what these provide is there everywhere. Nor to `asdlpack`,
which has checks alone.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ... import _libraries
from ..._abi import Seen, read
from ..memory import Memory

scratch: Path = Path()  # a folder of the run, for what several processes compile

EVERYWHERE = {"standard": "standard library", "layouts": "layouts", "datatypes": "data types"}  # module: section


class Consumer:
    """One way in which a library takes memory. The name is that of the class or function that users know."""

    name: str
    readonly = "not known to it"  # what becomes of read-only memory: for people
    protocol = "__dlpack__"  # what it asks for last
    gpu = False  # whether it takes memory of a GPU too

    def take(self, x: Any) -> Any:
        """The library's own object, made of x; or the library's own error."""
        raise NotImplementedError

    def see(self, taken: Any) -> Seen:
        """What the library says of its object; else what the object exports by itself."""
        return read(taken)


class Module:
    """A module of this package, imported."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.section: str = EVERYWHERE.get(name, name)
        module = importlib.import_module(f"{__name__}.{name}")
        self.providers: dict[str, Callable[[], Memory]] = getattr(module, "PROVIDERS", {})
        self.consumers: Sequence[Consumer] = getattr(module, "CONSUMERS", ())
        self.checks: dict[str, Callable[[], None]] = getattr(module, "CHECKS", {})


KNOWN = {library.name: library for library in _libraries.LIBRARIES}
ALIASES = {
    distribution.replace("_", "-"): library.name
    for library in _libraries.LIBRARIES
    for distribution in library.distributions
}
