"""Copies the files that both distributions of the repository are built from, and makes the README's links work outside
of the repository. An sdist has the files already, and in its metadata the links."""

import re
import runpy
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SHARED = ["_abi.py", "tests/findings.py"]


class Hook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        for file in map((root.parent / "python" / "dlpack").joinpath, SHARED):
            if file.exists():
                shutil.copyfile(file, root / "pytest_dlpack" / file.name)


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        build = Path(self.root).parent / "build.py"
        if build.exists():
            functions = runpy.run_path(str(build))
            text = re.sub(r"\]\((?=\w[\w.]*\))", "](conformance/", text).replace("](../", "](")
            text = functions["long_description"](text, functions["repository"](), functions["package_version"]())
        metadata.setdefault("readme", {"content-type": "text/markdown", "text": text})
