"""What exchanges memory with what, tried on the libraries that are installed here.

`python -m dlpack.tests` prints it as a table, `run()` returns it as data. It comes with the package, since no one
has all libraries in one environment: whoever has some can try those.
"""

from .results import Check, Conformance, Exchange, Report, Verdict
from .session import run
from .suite import conformance

__all__ = ["Check", "Conformance", "Exchange", "Report", "Verdict", "conformance", "run"]
