"""Rehearses a release on this machine, from the tag to the install: `make rehearse`.

It tags a clone of the last commit, builds from it the sdists and a wheel of both distributions into a folder, and
installs them from that folder alone into an empty environment, with no compiler on PATH. It prints how long each step
took. Nothing leaves the machine, and this repository gets no tag.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check_wheels import RULES
from debian import ROOT, call
from wheels import BUILD, build


def step(words, *command, **options):
    start = time.monotonic()
    result = subprocess.run([str(it) for it in command], stdout=-1, stderr=-2, text=True, **options)
    print(f"{time.monotonic() - start:6.1f} s  {words}", flush=True)
    if result.returncode != 0:
        sys.exit(f"{result.stdout}{words}: failed")


def clone(folder):
    """Clones this repository and tags the clone; says whether the changelog is ready for that tag."""
    call("git", "clone", "--quiet", ROOT, folder)
    tag = f"v{BUILD['package_version']()}"
    call("git", "tag", "--force", tag, cwd=folder, stdout=-3)
    call("git", "-c", "advice.detachedHead=false", "checkout", "--quiet", tag, cwd=folder)
    notes = [sys.executable, folder / "tools" / "notes.py"]
    result = subprocess.run(notes, env={**os.environ, "TAG": tag}, stdout=-3, stderr=-1, text=True)
    print(f"{tag}: {result.stderr.strip() or 'CHANGELOG.md has its notes'}")


def make(source, folder):
    """Builds an sdist and a wheel of both distributions."""
    for kind in "sdist", "wheel":
        build(kind, source, folder, DLPACK_TARGET=BUILD["host"]())
        build(kind, source / "conformance", folder)


def install(folder, scratch):
    """Installs both distributions as a user would, and uses them."""
    environment = scratch / "environment"
    call(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    options = {"cwd": scratch, "env": {"PATH": str(environment / "bin")}}  # no compiler, no Go
    pip = [python, "-m", "pip", "install", "--no-index", "--find-links", folder]
    step("pip install dlpack-go", *pip, "dlpack-go", **options)
    step("python -m dlpack", python, "-m", "dlpack", **options)
    step("pip install pytest-dlpack, with numpy and pytest", *pip, "pytest-dlpack", **options)
    step("python -m dlpack.tests", python, "-m", "dlpack.tests", **options)
    step("pytest --pyargs pytest_dlpack", python, "-m", "pytest", *RULES, **options)


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        clone(scratch / "clone")
        folder = scratch / "index"
        start = time.monotonic()
        make(scratch / "clone", folder)
        print(f"{time.monotonic() - start:6.1f} s  builds: {', '.join(sorted(path.name for path in folder.iterdir()))}")
        step("twine check", sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
        pip = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--dest", folder]
        step("numpy and pytest into the same folder", *pip, "numpy", "pytest")
        install(folder, scratch)


if __name__ == "__main__":
    main()
