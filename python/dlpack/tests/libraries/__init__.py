"""The adapters: what each library provides, and how it takes memory. One module a library.

A module is imported only where its library is installed. It may define

    PROVIDERS   name: a function that makes a Memory, anew at each call
    CONSUMERS   a Consumer for each way in which the library takes memory
    CHECKS      name: a function that raises where something is wrong, and Skip where it can't be tried

No library belongs to `standard`, `layouts` and `datatypes`: what these provide is there everywhere. Another package
may have more adapters, and add to these: run() is given its name.
"""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

from ... import _libraries
from ..expectations import Consumer
from ..memory import Memory

scratch: Path = Path()  # a folder of the run, for what several processes compile

EVERYWHERE = {"standard": "standard library", "layouts": "layouts", "datatypes": "data types"}  # module: section


def find(name: str, package: str) -> list[str]:
    """The modules for a library: of this package, and of the other one if it is named."""
    paths = [f"{folder}.{name}" for folder in (__name__, package) if folder]
    return [path for path in paths if importlib.util.find_spec(path)]


def known(package: str) -> dict[str, _libraries.Library]:
    """The libraries that have an adapter."""
    return {library.name: library for library in _libraries.LIBRARIES if find(library.name, package)}


class Adapter:
    """Imports the modules for a library, and has what these have."""

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.section: str = EVERYWHERE.get(name, name)
        self.providers: dict[str, Callable[[], Memory]] = {}
        self.consumers: list[Consumer] = []
        self.checks: dict[str, Callable[[], None]] = {}
        for module in map(importlib.import_module, find(name, package)):
            self.providers |= getattr(module, "PROVIDERS", {})
            self.consumers += getattr(module, "CONSUMERS", ())
            self.checks |= getattr(module, "CHECKS", {})
