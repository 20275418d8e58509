"""Prints what CHANGELOG.md says of this version, the notes of its release: `make notes`. With TAG=v1.2.3 in the
environment it fails if the tag is not this version's, or if the changelog has no day for it."""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(changelog, version, tag=""):
    section = re.search(rf"^## {re.escape(version)} \((.*)\)\n+((?:(?!## ).*\n)*)", changelog, re.MULTILINE)
    if section is None:
        sys.exit(f"CHANGELOG.md: no section of {version}; expected a line as ## {version} (2026-01-31)")
    date, text = section.groups()
    if tag and tag != f"v{version}":
        sys.exit(f"tag {tag!r}: pyproject.toml has version {version}; expected v{version}")
    if tag and not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        sys.exit(f"CHANGELOG.md: ## {version} ({date}); expected the day of the release, as ## {version} (2026-01-31)")
    return re.sub(r"\n +", " ", text).strip()  # GitHub shows each end of a line in notes


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), project["version"], os.environ.get("TAG", "")))
