"""Copies the files that both distributions of the repository are built from. An sdist has them already."""

import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED = ["_abi.py", "tests/findings.py"]


class Hook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        for file in map((root.parent / "python" / "dlpack").joinpath, SHARED):
            if file.exists():
                shutil.copyfile(file, root / "pytest_dlpack" / file.name)
