"""Runs the tests in other interpreters: `make interpreters`, or `make interpreters ONLY="3.14 3.14t"`.

It runs `python tests/exchanges` and pytest in each interpreter, with the libraries that have wheels for it, without
torch and the other large ones. It uses python3.14 and so on if PATH or pyenv has them. It makes the others in
.interpreters. Debian's later releases have packages of CPython 3.13, 3.14 and 3.15 and of their debug builds, which it
unpacks next to the libc that they need. It compiles a free-threaded 3.14 from the source package.

A missing interpreter needs Debian with its archive configured for apt, and the free-threaded one also what CPython is
built with (`apt-get build-dep python3`). All need a C compiler, Go and the network. It fetches 250 MB and takes about
half an hour, and 10 minutes from the second time on.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

from debian import HOME, ROOT, call, interpreter, output

TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))

from support.builds import build  # noqa: E402

NAMES = ["3.12", "3.13", "3.13d", "3.14", "3.14d", "3.14t", "3.15", "3.15d"]
TOOLS = ["hypothesis", "pytest", "pytest-timeout", "numpy", "rich"]
LIBRARIES = ["ml_dtypes", "nanoarrow", "pillow", "pyarrow>=26"]  # older ones have no from_dlpack
IN_PROCESSES = ["test_benchmarks", "test_guide", "test_header", "test_pages", "test_peer", "test_site"]
IN_PROCESSES += ["test_to_libraries", "test_tool_command", "test_tool_libraries", "test_tool_catches"]
ONCE = "alone analysers builds containers data_loader exit failing_allocations frozen go_fuzz hostile_producer limits "
ONCE += "lock many_threads memory mutants neighbours neighbours_libraries panics sanitizers "
ONCE += "signals state_machine table wheels"  # in make test's interpreter alone


def find(name):
    """Returns the interpreter on PATH, else pyenv's, else Debian's."""
    pyenv = Path.home().glob(f".pyenv/versions/{name.rstrip('t')}.*[0-9]{'t' * name.endswith('t')}/bin/python{name}")
    for found in filter(None, [shutil.which(f"python{name}"), *pyenv]):
        result = subprocess.run([found, "-c", "import sys; print(sys.executable)"], stdout=-1, stderr=-3, text=True)
        if result.returncode == 0:  # pyenv's shim fails for a version that is not selected
            return Path(result.stdout.strip())
    return interpreter(name)


def install(python, folder):
    """Installs the wheels for the interpreter. Its debug build uses the same ones."""
    tools = HOME / "tools"
    if not list(tools.glob("pip-*.whl")):
        call(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tools, "pip==26.3")
    (wheel,) = tools.glob("pip-*.whl")
    pip = [python, wheel / "pip", "install", "--quiet", "--root-user-action=ignore", "--only-binary=:all:"]
    call(*pip, "--target", folder, *TOOLS)
    for library in LIBRARIES:
        try:
            call(*pip, "--upgrade", "--target", folder, library, stderr=-3)
        except subprocess.CalledProcessError:
            print(f"{python.name}: no wheel of {library}")


def package(name, python):
    """Returns the folder for PYTHONPATH: the build for the stable ABI, or the interpreter's own build if the first does
    not work or counts no references."""
    if name[-1] not in "dt":
        return ROOT / "python"
    folder = HOME / f"package-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return build(folder, python=python, cflags=f"-I{python.parents[1] / 'include'}")


def imports(file):
    """The modules that a test file imports, by itself or by another module of the tests."""
    tree = ast.parse(file.read_text())
    for node in tree.body:
        names = [it.name for it in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"support.{it.name}" for it in node.names] if node.module == "support" else [node.module]
        for name in names:
            package, _, module = name.partition(".")
            if package == "support":
                yield from imports(TESTS / package / f"{module}.py")
            else:
                yield package


def runnable(python, environ):
    """The test files whose modules are all there. Some use libraries only in processes of their own."""
    once = [f"test_{name}" for name in ONCE.split()]
    found = [file for file in sorted(TESTS.glob("*/test_*.py")) if file.stem not in once]
    found = [file for file in found if file.parent.name not in ("gpu", "hints")]
    files = {file: set(imports(file)) for file in found}
    finds = "import importlib.util, sys; print(*(it for it in sys.argv[1:] if importlib.util.find_spec(it) is None))"
    absent = set(output(python, "-c", finds, *set.union(*files.values()), env=environ).split())
    left_out = [file.stem for file, names in files.items() if names & absent or file.stem in IN_PROCESSES]
    print(f"{python.name}: left out for want of {', '.join(sorted(absent))}: {', '.join(left_out)}", flush=True)
    return [file for file in files if file.stem not in left_out]


def passes(name):
    """Runs the tests in the interpreter of this name."""
    python = find(name)
    libraries = HOME / name.rstrip("d") / "libraries"
    if not libraries.exists():
        install(python, libraries)
    others = f"{ROOT / 'conformance'}:{libraries}"
    stable = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{others}"}
    own = {**os.environ, "PYTHONPATH": f"{package(name, python)}:{others}"}
    own["CPATH"] = str(python.parents[1] / "include")  # where Debian's pyconfig.h finds the one that it includes
    files = runnable(python, own)
    runs = [
        ([python, "-X", "dev", TESTS / "exchanges"], own if name.endswith("t") else stable),
        ([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files], own),
    ]
    print(f"{name}: {output(python, '-VV').strip()}", flush=True)
    statuses = [subprocess.run([str(it) for it in run], env=environ).returncode for run, environ in runs]
    return not any(statuses)


if __name__ == "__main__":
    failed = [name for name in sys.argv[1:] or NAMES if not passes(name)]
    sys.exit(f"failed in {', '.join(failed)}" if failed else None)
