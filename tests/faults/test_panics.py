"""Each function of the Go core panics in turn, in each of the ways that Go code can: an error is raised, nothing is
lost, and the process goes on."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dlpack
from support.cuda_driver import environ
from support.faults import PANICS, in_faulty

kinds = pytest.mark.parametrize("kind", PANICS, ids=PANICS.values())


@kinds
def test_each_function_may_panic(faulty, effort, figure, kind):
    in_faulty(faulty, figure, f"panic_in_each_function({kind}, every={effort(20, 1)})")


@kinds
def test_each_function_may_panic_where_there_is_a_gpu(faulty, effort, figure, kind):
    in_faulty(faulty, figure, f"panic_in_each_function({kind}, every={effort(9, 1)}, cuda=True)", **environ())


@kinds
def test_each_goroutine_of_a_large_copy_may_panic(faulty, effort, figure, kind):
    in_faulty(faulty, figure, f"panic_in_a_large_copy({kind}, {effort(20, 1000)})")


@kinds
def test_a_start_of_the_core_may_panic(faulty, figure, kind):
    in_faulty(faulty, figure, f"panic_at_a_start({kind})")


def test_the_package_itself_has_nothing_of_this():
    [extension] = Path(dlpack.__file__).parent.glob("_dlpack*.so")
    for library in extension, extension.with_name("_core.so"):
        assert b"faults" not in library.read_bytes()


WAYS = {
    "asdlpack": lambda x: dlpack.asdlpack(x, copy=True),
    "__dlpack__": lambda x: x.__dlpack__(copy=True),
    "bytes": bytes,
    "numpy": lambda x: np.from_dlpack(x, copy=True),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_beyond_memory_is_a_memory_error(way):
    """A page, seen again and again by a stride of 0."""
    rows = dlpack.frombuffer(bytearray(1 << 12), "uint8", (1 << 40, 1 << 12), strides=(0, 1))
    before = sys.getrefcount(rows)
    with pytest.raises(MemoryError, match=f"no memory for {1 << 52} bytes"):
        way(rows)
    assert sys.getrefcount(rows) == before
