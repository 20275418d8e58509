"""nanobind's ndarrays, in an extension that is compiled here: nanobind.cpp."""

import functools
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nanobind

import dlpack
from dlpack._abi import NAMES, WHOLE, Seen, gather, look, read_managed
from dlpack.tests import libraries
from dlpack.tests.expectations import Consumer, Rule
from dlpack.tests.findings import Skip
from dlpack.tests.libraries.layouts import floats
from dlpack.tests.libraries.standard import Consumed
from dlpack.tests.memory import Array, Memory

SOURCE = Path(__file__).with_suffix(".cpp")
EXTENSION = "dlpack_nanobind"


def compiler() -> str:
    found = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise Skip("no C++ compiler on PATH")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise Skip("no Python.h")
    return found


COMPILER = compiler()


@functools.cache
def compiled() -> tuple[Any, str]:
    """Returns SOURCE as a module; None and the error if it does not compile."""
    sources, headers = nanobind.source_dir(), nanobind.include_dir()
    hashes = Path(headers).parent / "ext" / "robin_map" / "include"
    folders = [f"-I{folder}" for folder in (sysconfig.get_path("include"), headers, sources, hashes)]
    options = ["-std=c++17", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing"]
    library = libraries.scratch.absolute() / f"{EXTENSION}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=libraries.scratch) as folder:
            built = Path(folder, library.name)
            result = subprocess.run([COMPILER, *options, *folders, SOURCE, "-o", built], capture_output=True, text=True)
            if result.returncode != 0:
                errors = [line for line in result.stderr.splitlines() if "error" in line]
                return None, " ".join(errors[:1])
            built.replace(library)
    loader = importlib.machinery.ExtensionFileLoader(EXTENSION, str(library))
    spec = importlib.util.spec_from_loader(EXTENSION, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module, ""


def extension() -> Any:
    """Compiled at its first use: that takes some seconds."""
    module, error = compiled()
    if module is None:
        raise RuntimeError(f"{SOURCE.name} does not compile with nanobind {nanobind.__version__}: {error}")
    return module


def seen(taken: Any) -> Seen:
    """Describes an ndarray as nanobind does."""
    code, bits, lanes = taken.dtype
    shape, strides = tuple(taken.shape), tuple(taken.strides)
    values = gather(taken.address, shape, strides, bits * lanes / 8)
    return Seen(WHOLE.get(code) or f"{NAMES[code]}{bits}", shape, values, taken.address)


def make(obj: Any) -> Any:
    """An ndarray of the same memory, for it tells more of itself than what a function gets."""
    try:
        return extension().share(obj)  # asks for a versioned structure
    except TypeError:
        return extension().share_read_only(obj)


def known(array: Any, readonly: bool = False) -> Memory:
    said = seen(extension().ro(array))
    return Memory(array, said.dtype, said.shape, said.values, said.address, readonly=readonly)


def a_capsule() -> Memory:
    capsule = extension().make_capsule()
    said = read_managed(look(capsule))
    # A legacy structure can't say that its memory may be written.
    return Memory(capsule, said.dtype, said.shape, said.values, said.address, readonly=True)


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "ndarray<array_api>": lambda: known(extension().make()),
    "ndarray<array_api, ro>": lambda: known(extension().make_read_only(), readonly=True),
    "ndarray<>, a capsule": a_capsule,
}


def read_only(memory: Memory) -> bool:
    """True if the memory arrives read-only, as does memory that can't say; a copy may be written."""
    return memory.readonly is not False and not memory.converted


NO_READ_ONLY = Rule("refused", "read-only memory needs ndarray<ro>", read_only)

CONSUMERS = [
    Consumer("nanobind ndarray<>", lambda x: extension().writable(x), seen, "refused", rules=[NO_READ_ONLY]),
    Consumer("nanobind ndarray<ro>", lambda x: extension().ro(x), seen, "never written"),
]


def takes(function: str, memory: Memory) -> bool:
    """True if a function of the extension takes the memory; then it must be zero-copy."""
    try:
        taken = getattr(extension(), function)(dlpack.asdlpack(memory.obj))
    except TypeError:
        return False
    assert taken.address == memory.address, f"{function} has a copy"
    return True


def takes_what_its_annotations_ask_for() -> None:
    memories = {
        "row-major": floats((3, 4)),
        "column-major": floats((4, 3), (1, 4)),
        "strided": floats((3, 2), (4, 1)),
        "1-d": floats((12,)),
        "read-only": floats((3, 4), readonly=True),
        "float64": Array("<f8", "float64", bytes(48)).memory((2, 3)),
    }
    refused = {
        "writable": {"read-only"},
        "ro": set(),
        "const_float": {"float64"},
        "c_contig": {"column-major", "strided"},
        "f_contig": {"row-major", "strided", "read-only", "float64"},  # these two are row-major too
        "cpu": set(),
        "cuda": set(memories),
        "ndim_2": {"1-d"},
    }
    for function, expected in refused.items():
        found = {name for name, memory in memories.items() if not takes(function, memory)}
        assert found == expected, f"{function} refuses {sorted(found)}, expected {sorted(expected)}"


def gives_memory_that_outlives_its_array() -> None:
    before = extension().alive()
    array = extension().make()
    taken = Consumed(dlpack.asdlpack(array).__dlpack__())
    del array
    assert extension().alive() == before + 1, "the memory is gone while a consumer has it"
    del taken
    assert extension().alive() == before, "the memory is left behind"


CHECKS = {
    "takes what its annotations ask for": takes_what_its_annotations_ask_for,
    "gives memory that outlives its array": gives_memory_that_outlives_its_array,
}
