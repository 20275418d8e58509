"""Places of the package's files: zip files, links, read-only folders; and the errors if the files are not
together."""

import os
import shutil
import sys
import zipapp

import pytest

from support import process
from support.alone import SUPPORT, run

APPLICATION = SUPPORT / "application.py"


def check(*command, **options):
    result = run(*command, **options)
    assert (result.returncode, result.stdout, result.stderr) == (7, "", "")


def last_line(*command, **options):
    """Returns the last line that a failing program prints."""
    result = run(*command, **options)
    assert result.returncode == 1
    return result.stderr.splitlines()[-1]


@pytest.fixture
def zipped(package):
    return shutil.make_archive(package.parent / "zipped", "zip", package.parent, "dlpack")


def test_from_a_zip_file_on_the_path_it_says_what_to_do(zipped):
    assert last_line(sys.executable, "-c", "import dlpack", environ={"PYTHONPATH": zipped}) == (
        f"ImportError: dlpack can't be imported from inside the zip file {zipped}: its shared libraries have to be "
        "files (unpack it, or make the application with shiv or pex, which unpack themselves)"
    )


def test_from_a_zipapp_it_says_what_to_do(package):
    shutil.copy(APPLICATION, package.parent / "__main__.py")
    archive = package.parent.with_suffix(".pyz")
    zipapp.create_archive(package.parent, archive)
    try:
        assert f"from inside the zip file {archive}: " in last_line(sys.executable, archive)
    finally:
        archive.unlink()


def test_without_its_extension_python_says_so(package):
    for library in package.glob("_dlpack*.so"):
        library.unlink()
    line = last_line(sys.executable, "-c", "import dlpack", environ={"PYTHONPATH": str(package.parent)})
    assert line == "ModuleNotFoundError: No module named 'dlpack._dlpack'"


def test_without_its_core_it_works_until_that_is_needed_and_names_the_file(package):
    (package / "_core.so").unlink()
    line = last_line(sys.executable, APPLICATION, environ={"PYTHONPATH": str(package.parent)})
    assert line.startswith(f"RuntimeError: the Go core can't start: {package}/_core.so: No such file or directory (")
    assert "an application has to bring it along" in line


def test_behind_a_link_to_its_folder_it_works(package, tmp_path):
    (tmp_path / "site-packages").symlink_to(package.parent)
    check(sys.executable, APPLICATION, environ={"PYTHONPATH": str(tmp_path / "site-packages")})


def test_in_a_tree_of_links_to_files_that_lie_elsewhere_it_works(package, tmp_path):
    """So Bazel makes its runfiles; here no two files lie in one folder."""
    files = [path for path in package.rglob("*") if path.is_file()]
    for number, path in enumerate(files):
        stored = tmp_path / "store" / str(number) / "file"
        stored.parent.mkdir(parents=True)
        path.rename(stored)
        path.symlink_to(stored)
    check(sys.executable, APPLICATION, environ={"PYTHONPATH": str(package.parent)})


def test_in_a_read_only_tree_it_works(package):
    """So Nix stores packages, with times of 1970."""
    for path in (package, *package.rglob("*")):
        os.utime(path, (1, 1))
        path.chmod(path.stat().st_mode & 0o555)
    command = process.HEEDING_PERMISSIONS
    assert run(*command, "touch", package / "file").returncode != 0
    check(*command, sys.executable, APPLICATION, environ={"PYTHONPATH": str(package.parent)})
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        folder.chmod(0o755)  # so that who made the package can remove it


TWO = """
import os
import dlpack, other
packages = dlpack, other
def use():
    for package in packages:
        assert package.asdlpack(b"abc", copy=True).shape == (3,)
use()
pid = os.fork()
if pid == 0:
    use()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_child_starts_the_cores_of_two_copies_of_the_package(package, tmp_path):
    """A program may bring its own, under another name."""
    shutil.copytree(package, tmp_path / "other")
    path = os.pathsep.join([str(package.parent), str(tmp_path)])
    # Python 3.12 and later warn of the fork.
    result = run(sys.executable, "-Wignore::DeprecationWarning", "-c", TWO, environ={"PYTHONPATH": path}, timeout=20)
    assert (result.stdout, result.stderr) == ("7\n", "")
