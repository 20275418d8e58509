"""Tries what exchanges memory with what, on the libraries that are installed here.

`python -m dlpack.tests` prints it as a table, `run()` returns it as data. It comes with the package, since no one
has all libraries in one environment: whoever has some can try those.
"""

from .results import Check, Exchange, Report
from .session import run

__all__ = ["Check", "Exchange", "Report", "run"]
