"""Copies the one file that both distributions of the repository are built from. An sdist has it already."""

import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        home = Path(self.root).parent / "python" / "dlpack" / "_abi.py"
        if home.exists():
            shutil.copyfile(home, Path(self.root) / "pytest_dlpack" / "_abi.py")
