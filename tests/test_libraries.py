"""The libraries of tests/libraries, each in a process of its own: some crash when others are in it. A library that is
missing is a failure."""

import sys
from pathlib import Path

import pytest
from alone import TESTS, run

LIBRARIES = ["numpy", "torch", "jax", "tensorflow", "pyarrow", "polars", "tvm_ffi", "onnxruntime", "mlx", "paddle"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_exchanges_memory_with(library):
    tests = TESTS / "libraries" / f"with_{library}.py"
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore", "--confcutdir", TESTS)
    result = run(sys.executable, "-m", "pytest", *options, tests, timeout=180)
    if result.returncode != 0:
        pytest.fail(f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}", pytrace=False)


def test_two_ranks_exchange_memory_by_mpi():
    mpiexec = Path(sys.executable).with_name("mpiexec")
    result = run(mpiexec, "-n", 2, sys.executable, TESTS / "libraries" / "with_mpi4py.py", timeout=120)
    if result.returncode != 0:
        pytest.fail(f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}", pytrace=False)
