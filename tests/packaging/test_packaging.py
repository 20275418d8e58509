"""Packages built from the source tree: the sdist, the wheel, the libraries in it, and how it installs."""

import contextlib
import json
import os
import re
import runpy
import shutil
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from abi3info import DATAS, FUNCTIONS
from abi3info.models import PyVersion, Symbol
from elftools.elf.elffile import ELFFile

from support.alone import ROOT, run

NOT_SOURCES = shutil.ignore_patterns(".*", "*.so", "__pycache__", "dist")
SHARES_MEMORY = """
import dlpack
memory = bytearray(3)
x = dlpack.asdlpack(memory, copy=None)
assert x.shape == (3,)
print(dlpack.__file__)
"""


def succeeds(*command, **options):
    result = run(*command, timeout=280, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the sources, in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("packaging") / "source tree"
    shutil.copytree(ROOT, folder, ignore=NOT_SOURCES)
    return folder


@pytest.fixture(scope="module")
def built(tree, tmp_path_factory):
    """The sdist, and the wheel made from it. `python -m build` is PyPA's, though build.py in the tree hides it."""
    folder = tmp_path_factory.mktemp("dist")
    with contextlib.chdir(tree):
        succeeds(sys.executable, "-m", "build", "--outdir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def libraries(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / "dlpack"


@pytest.fixture
def environment(tmp_path):
    """The interpreter of a fresh environment."""
    venv.create(tmp_path / "venv", with_pip=True)
    return tmp_path / "venv" / "bin" / "python"


def symbols(library):
    """Dynamic symbols: what it defines, and what it leaves to others."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynsym")
        defined, undefined = set(), set()
        for symbol in section.iter_symbols():
            (undefined if symbol["st_shndx"] == "SHN_UNDEF" else defined).add(symbol.name)
    return defined, undefined


def test_the_wheel_serves_every_cpython_from_3_11(wheel):
    platform = sysconfig.get_platform().replace("-", "_")
    assert re.fullmatch(rf"dlpack_go-[0-9.]+-cp311-abi3-{platform}\.whl", wheel.name)


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < 1.5e6


def test_the_wheel_holds_the_package_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    folder = ROOT / "python"
    suffixes = {".py", ".pyi", ".h"}
    sources = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix in suffixes}
    assert names == sources | {"dlpack/py.typed", "dlpack/_core.so", "dlpack/_dlpack.abi3.so"}


def test_the_wheel_says_what_it_was_made_with_and_what_is_linked_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        materials = json.loads(archive.read(name))
    go = re.search(r"go([0-9.]+)", succeeds("go", "version"))[1]
    tools = {each["name"]: each["version"] for each in materials["formulation"][0]["components"]}
    assert tools.pop("go") == go
    assert len(tools) == 1
    linked = {each["name"]: each for each in materials["components"]}
    assert linked["std"]["version"] == go
    assert set(linked) in ({"std", "libgcc"}, {"std", "compiler_rt"})


def test_the_wheel_has_the_licence_of_go_whose_runtime_is_in_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        papers = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        metadata = archive.read(papers["METADATA"]).decode()
        assert b"Copyright 2009 The Go Authors" in archive.read(papers["licenses/pyext/core/LICENSE-Go"])
    assert re.search("^License-Expression: (.*)$", metadata, re.MULTILINE)[1] == "MIT AND BSD-3-Clause"


@pytest.mark.parametrize(("folder", "name"), [(".", "dlpack"), ("conformance", "pytest_dlpack")])
def test_metadata_names_the_module_to_import(tree, tmp_path, folder, name):
    """Tools can then tell that pydlpack, and PyPI's empty dlpack of 2019, have the same import name (PEP 794)."""
    succeeds(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=tree / folder)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        metadata = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO").read().decode()
    assert re.findall("^Import-Name: (.*)$", metadata, re.MULTILINE) == [name]


def test_recipe_for_conda_has_the_facts_of_pyproject(built):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    for line in (
        f"  version: {project['project']['version']}",
        f"  license: {project['project']['license']}",
        f"  summary: {project['project']['description']}",
        *(f"    - {name}" for name in project["project"]["license-files"]),
        f"    - {project['build-system']['requires'][0].replace('>', ' >')}",
    ):
        assert f"{line}\n" in recipe
    (sdist,) = built.glob("*.tar.gz")
    assert f"/{sdist.name}\n".replace(project["project"]["version"], "${{ version }}") in recipe


def metadata_with(tree, folder, address, below="."):
    """Returns what PyPI would show if the repository had this address."""
    shutil.copytree(tree, folder)
    settings = folder / "pyproject.toml"
    text = settings.read_text()
    assert text.count('repository = ""') == 1
    settings.write_text(text.replace('repository = ""', f'repository = "{address}"'))
    return json.loads(succeeds(sys.executable, "-m", "hatchling", "metadata", cwd=folder / below))


def test_repository_links_are_absolute_if_the_url_is_known(tree, tmp_path):
    facts = metadata_with(tree, tmp_path / "copy", "https://example.org/dlpack")
    version = facts["version"]
    assert facts["urls"]["Changelog"] == f"https://example.org/dlpack/blob/v{version}/CHANGELOG.md"
    text = facts["readme"]["text"]
    assert f"[Guide](https://example.org/dlpack/blob/v{version}/docs/guide.md)" in text
    assert f"(https://example.org/dlpack/raw/v{version}/docs/speed.svg)" in text
    assert not re.findall(r"\]\((?!https?:|#).*", text)


def test_no_link_into_a_repository_of_unknown_address_is_left(tree, tmp_path):
    facts = metadata_with(tree, tmp_path / "copy", "")
    assert "urls" not in facts
    text = facts["readme"]["text"]
    assert "Guide: recipes by task" in text
    assert not re.findall(r"\]\((?!https?:|#).*", text)


def test_links_of_pytest_dlpack_have_the_address_of_pyproject(tree, tmp_path):
    text = metadata_with(tree, tmp_path / "copy", "https://example.org/dlpack", "conformance")["readme"]["text"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for path in "conformance/libraries.py", "docs/conformance.md":
        assert f"](https://example.org/dlpack/blob/v{version}/{path})" in text
    without = metadata_with(tree, tmp_path / "other", "", "conformance")["readme"]["text"]
    assert not re.findall(r"\]\((?!https?:|#).*", text + without)


def test_the_sdist_holds_sources_alone(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"build.py", "go.mod", "pyproject.toml", "LICENSE", "README.md", "pyext/core/core.h"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_each_library_exports_its_one_entry(libraries):
    assert symbols(libraries / "_core.so")[0] == {"dlpack_core"}
    assert symbols(libraries / "_dlpack.abi3.so")[0] == {"PyInit__dlpack"}


def test_the_extension_keeps_to_the_stable_abi_of_3_11(libraries):
    stable = {**FUNCTIONS, **DATAS}
    needed = {name for name in symbols(libraries / "_dlpack.abi3.so")[1] if name.startswith(("Py", "_Py"))}
    assert "PyCapsule_New" in needed
    assert not [name for name in needed if Symbol(name) not in stable or stable[Symbol(name)].added > PyVersion(3, 11)]


def test_abi3audit_finds_nothing_in_the_wheel(wheel):
    succeeds(Path(sys.executable).with_name("abi3audit"), "--strict", wheel)


def test_the_core_knows_no_python(libraries):
    assert not [name for name in symbols(libraries / "_core.so")[1] if name.startswith(("Py", "_Py"))]


def test_the_libraries_need_only_the_c_library(libraries):
    for library in libraries.glob("*.so"):
        with library.open("rb") as file:
            tags = ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
            needed = {tag.needed for tag in tags if not tag.needed.startswith("ld-linux")}  # glibc's own loader
            assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2"}


def test_no_path_of_the_builder_is_in_the_libraries(libraries, tree):
    for library in libraries.glob("*.so"):
        content = library.read_bytes()
        assert os.fsencode(tree.parent) not in content
        assert os.fsencode(Path.home()) + b"/" not in content


def test_the_wheel_installs_and_works(environment, wheel):
    succeeds(environment, "-m", "pip", "install", "--no-index", wheel)
    assert "site-packages" in succeeds(environment, "-c", SHARES_MEMORY, environ={"PYTHONPATH": ""})


PEER = "pydlpack==0.2.1"
CLASH = (
    "pydlpack has the same import name, and overwrites files of dlpack-go or has some overwritten; "
    "run pip uninstall --yes dlpack-go pydlpack, then install one of them again"
)
LOST = (
    " has lost its __init__.py, as it does when pydlpack is uninstalled; run pip uninstall --yes dlpack-go, then "
    "install it again\n"
)


def test_beside_pydlpack_that_came_first_it_works_and_warns(environment, wheel):
    alone = {"PYTHONPATH": ""}
    succeeds(environment, "-m", "pip", "install", PEER)
    succeeds(environment, "-m", "pip", "install", "--no-index", wheel)
    result = run(environment, "-c", SHARES_MEMORY, environ=alone)
    assert result.returncode == 0
    assert result.stderr.count(f"UserWarning: {CLASH}\n") == 1
    succeeds(environment, "-W", "error", "-c", SHARES_MEMORY, environ=alone)
    assert f"conflict     {CLASH}\n" in succeeds(environment, "-m", "dlpack", environ=alone)
    succeeds(environment, "-m", "pip", "uninstall", "--yes", "pydlpack")
    result = run(environment, "-m", "dlpack", environ=alone)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("dlpack: ") and result.stderr.endswith(LOST)


def test_beneath_pydlpack_that_came_later_its_command_says_what_to_do(environment, wheel):
    succeeds(environment, "-m", "pip", "install", "--no-index", wheel)
    succeeds(environment, "-m", "pip", "install", PEER)
    for module in "dlpack", "dlpack.tests":
        result = run(environment, "-m", module, environ={"PYTHONPATH": ""})
        assert (result.returncode, result.stdout, result.stderr) == (1, "", f"dlpack: {CLASH}\n")


def test_an_editable_install_works_in_the_source_tree(environment, tree):
    succeeds(environment, "-m", "pip", "install", "--editable", tree)
    package = tree / "python" / "dlpack"
    assert succeeds(environment, "-c", SHARES_MEMORY, environ={"PYTHONPATH": ""}).strip() == str(
        package / "__init__.py"
    )


def test_it_installs_with_an_old_go_and_no_c_compiler_on_the_path(environment, tree, tmp_path):
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    go.chmod(0o755)
    path = {"PATH": str(go.parent), "CC": ""}
    succeeds(environment, "-m", "pip", "install", tree, environ=path)
    succeeds(environment, "-c", SHARES_MEMORY, environ={"PYTHONPATH": ""})


def test_settings_for_other_go_projects_do_not_matter(tree):
    settings = {"GOFLAGS": "-mod=vendor", "GOTOOLCHAIN": "go1.99.0", "GOOS": "windows", "CGO_ENABLED": "0"}
    succeeds(sys.executable, tree / "build.py", environ={**settings, "GOWORK": str(tree / "go.work")})


@pytest.mark.parametrize(
    ("module", "function", "result", "message"),
    [
        (
            sysconfig,
            "get_path",
            "/usr/include/none",
            "Python.h is not in /usr/include/none.*python3-dev.*-devel",
        ),
        (sysconfig, "get_platform", "freebsd-14-amd64", "Linux with glibc.*this is freebsd-14-amd64$"),
        (sysconfig, "get_platform", "linux-i686", "64-bit Linux with glibc.*this is linux-i686 with glibc"),
        ("platform", "libc_ver", ("musl", "1.2"), "Linux with glibc.*with musl.*golang/go#54805"),
    ],
)
def test_a_machine_that_cannot_build_it_is_told_why(monkeypatch, module, function, result, message):
    module = sys.modules[module] if isinstance(module, str) else module
    monkeypatch.setattr(module, function, lambda *_: result)
    build_fails(message)


def build_fails(message):
    with pytest.raises(SystemExit, match=message):
        runpy.run_path(str(ROOT / "build.py"), run_name="__main__")


def test_another_interpreter_is_told_what_is_needed(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "maxsize", 2**31 - 1)
        build_fails("64-bit Linux.*this is a 32-bit Python on linux-")
    with monkeypatch.context() as patch:
        patch.setattr(sys.implementation, "name", "pypy")
        build_fails("needs CPython; this is ")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "hexversion", 0x030A0DF0)
        build_fails("needs Python 3.11 or later; this is ")


def test_another_target_needs_a_name_of_the_table_and_ziglang(monkeypatch):
    monkeypatch.setenv("DLPACK_TARGET", "linux-s390x")
    build_fails('^DLPACK_TARGET "linux-s390x": unknown; expected linux-x86_64 or linux-aarch64 or .*$')
    monkeypatch.setenv("DLPACK_TARGET", "linux-aarch64")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    build_fails(r"^no ziglang, which builds for \$DLPACK_TARGET: pip install ziglang$")
