"""pydlpack's asdlpack, for the rules alone. Its module is called dlpack, too: here it is loaded as pydlpack."""

import importlib.util
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any


def load() -> Any:
    path = Path(str(distribution("pydlpack").locate_file("dlpack/__init__.py")))
    spec = importlib.util.spec_from_file_location("pydlpack", path, submodule_search_locations=[str(path.parent)])
    assert spec is not None and spec.loader is not None
    module = sys.modules["pydlpack"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make: Any = load().asdlpack
take: Any = make
