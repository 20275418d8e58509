"""The distribution pytest-dlpack: what is in it, and that it needs no more than pytest and numpy."""

import shutil
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = {"_abi.py": "_abi.py", "findings.py": "tests/findings.py"}  # home in python/dlpack
NEEDED = "_pytest iniconfig numpy numpy.libs packaging pluggy py.py pygments pytest".split()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("conformance")
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__", *SHARED)
    shutil.copytree(ROOT / "conformance", tree / "conformance", ignore=ignored)
    shutil.copytree(ROOT / "python", tree / "python", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    command = [sys.executable, "-m", "build", tree / "conformance", "--outdir", folder / "dist"]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=200)
    return folder / "dist"


def test_it_holds_the_package_and_the_files_that_dlpack_shares_with_it(built):
    sources = {path.name for path in (ROOT / "conformance" / "pytest_dlpack").glob("*.py")} | {*SHARED, "py.typed"}
    sources |= {f"rules/{path.name}" for path in (ROOT / "conformance" / "pytest_dlpack" / "rules").glob("*.py")}
    expected = {f"pytest_dlpack/{name}" for name in sources}
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == expected
        for name, home in SHARED.items():
            assert archive.read(f"pytest_dlpack/{name}") == (ROOT / "python" / "dlpack" / home).read_bytes()
        [licence] = (name for name in archive.namelist() if name.endswith("licenses/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == expected | {"LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml"}


def test_it_needs_nothing_else_to_test_a_library(built, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    [wheel] = built.glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    [packages] = (tmp_path / "venv" / "lib").glob("*/site-packages")
    for name in NEEDED:
        [found] = [path for folder in site.getsitepackages() if (path := Path(folder, name)).exists()] or [None]
        if found:
            (packages / name).symlink_to(found)
    options = ["--pyargs", "pytest_dlpack", "--dlpack-producer=numpy:asarray", "--dlpack-consumer=numpy:from_dlpack"]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = {"PATH": "/nowhere"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
