"""Makes the objects that the statements name: each function the one of its name, once a process. It imports only what
a statement needs, since pydlpack's environment and a free-threaded interpreter's have few libraries."""

import array
import ctypes
import math
import mmap
import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Interface:
    """An array interface as an instance attribute, and no other protocol."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class InterfaceProperty:
    """The same as a property, as libraries have it."""

    def __init__(self, array: Any) -> None:
        self.interface = array.__array_interface__
        self.array = array

    @property
    def __array_interface__(self) -> Any:
        return self.interface


class Producer:
    """`__dlpack__`, and no other protocol."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


# Libraries.


def dlpack() -> Any:
    return import_module("dlpack")


def asdlpack() -> Any:
    return dlpack().asdlpack


def numpy() -> Any:
    return import_module("numpy")


def torch() -> Any:
    library = import_module("torch")
    library.set_num_threads(len(os.sched_getaffinity(0)))  # as many as asdlpack's copies may use
    return library


def table_of_floats() -> Any:
    """A table of pyarrow with 8 columns of float64, 64 MiB."""
    columns = numpy().random.default_rng(0).random((8, 1 << 20))
    return import_module("pyarrow").table({f"c{i}": column for i, column in enumerate(columns)})


def frame_of_floats() -> Any:
    """The same as a DataFrame of polars."""
    return import_module("polars").from_arrow(table_of_floats())


def paddle() -> Any:
    return import_module("paddle")


def to() -> Any:
    return dlpack().to


def tvm_ffi() -> Any:
    return import_module("tvm_ffi")


@cache
def floor() -> Any:
    """The extension of floor.c, compiled for this interpreter."""
    with tempfile.TemporaryDirectory() as scratch:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        folders = sysconfig.get_path("include"), ROOT / "pyext", ROOT / "python" / "dlpack" / "include"
        flags = ["-std=gnu11", "-O3", "-fPIC", "-shared", *(f"-I{folder}" for folder in folders)]
        build = runpy.run_path(str(ROOT / "build.py"))
        faster = [build["SHORT_MEMORY"], *build["DIRECT_CALLS"]]  # as dlpack's extension
        flags += [it for it in faster if build["takes"](compiler, it, Path(scratch), os.environ)]
        source, linked = Path(__file__).with_name("floor.c"), Path(scratch, "linked")
        subprocess.run([*compiler, *flags, str(source), "-o", str(linked)], check=True)
        build["put"](linked, Path(scratch, "floor.so"))
        sys.path.insert(0, scratch)
        try:
            return import_module("floor")
        finally:
            sys.path.remove(scratch)


def floor_held() -> Any:
    return floor().hold(some_bytearray())


# Memory of 4 KiB.


def some_bytes() -> bytes:
    return bytes(4096)


def some_bytearray() -> bytearray:
    return bytearray(4096)


def some_array() -> Any:
    return array.array("f", bytes(4096))


def some_view() -> memoryview:
    return memoryview(bytearray(4096))


def some_mmap() -> mmap.mmap:
    return mmap.mmap(-1, 4096)


def some_ctypes() -> Any:
    return (ctypes.c_float * 1024)()


def ndarray() -> Any:
    return numpy().ones(1024, "f4")


def interface() -> Interface:
    return Interface(ndarray())


def interface_property() -> InterfaceProperty:
    return InterfaceProperty(ndarray())


def producer() -> Producer:
    return Producer(ndarray())


def wrapped() -> Any:
    return asdlpack()(some_bytearray())


def wrapped_ndarray() -> Any:
    return asdlpack()(ndarray())


def exchanged() -> Any:
    """Returns a DLPackObject; raises AttributeError if its type lacks the C exchange API."""
    obj = wrapped()
    type(obj).__dlpack_c_exchange_api__  # noqa: B018
    return obj


def tensor() -> Any:
    return torch().ones(1024)


def bfloat16_tensor() -> Any:
    return tensor().to(torch().bfloat16)


def bfloat16_ndarray() -> Any:
    return ndarray().astype(import_module("ml_dtypes").bfloat16)


def numpy_by_views() -> Any:
    """The fastest way for bfloat16 without this package."""
    int16, bfloat16 = torch().int16, import_module("ml_dtypes").bfloat16
    return lambda tensor: tensor.view(int16).numpy().view(bfloat16)


def torch_by_views() -> Any:
    from_numpy, bfloat16 = torch().from_numpy, torch().bfloat16
    return lambda array: from_numpy(array.view("i2")).view(bfloat16)


def crops() -> Any:
    """Parts of one image, each in another shape, and with gaps."""
    image = numpy().zeros((480, 640, 3), "u1")
    return cycle([image[:height, :width] for height in range(1, 201) for width in range(1, 201)])


def crop_views() -> Any:
    """Memoryviews of the same: they have no `__dlpack__`."""
    return cycle([memoryview(crop) for crop in islice(crops(), 200 * 200)])


# Memory that grows.


def view(ndim: int) -> memoryview:
    return memoryview(array_of(ndim))


def array_of(ndim: int) -> Any:
    """Returns an array of ndim dimensions: the first four have size 2, the others size 1."""
    return numpy().ones([2] * min(ndim, 4) + [1] * (ndim - 4), "f4")


def shared(count: int) -> bytearray:
    """Returns memory that `count` live objects wrap."""
    memory = bytearray(4096)
    live.extend(asdlpack()(memory) for _ in range(count))
    return memory


live: list[Any] = []


# Sources of copies: float32, written to, so that their pages are mapped.


def square(nbytes: int) -> Any:
    side = math.isqrt(nbytes // 4)
    return numpy().ones((side, side), "f4")


def compact(nbytes: int) -> Any:
    return square(nbytes)


def transposed(nbytes: int) -> Any:
    return square(nbytes).T


def rotated(nbytes: int) -> Any:
    """Puts the axes of an array (64 x 64 x 4096 for 64 MiB) in the order 2, 0, 1."""
    array = square(nbytes)
    return array.reshape(1 << (len(array).bit_length() - 1) // 2, -1, len(array)).transpose(2, 0, 1)


def reversed_rows(nbytes: int) -> Any:
    return square(nbytes)[::-1]


def second_columns(nbytes: int) -> Any:
    return square(nbytes)[:, ::2]


def swapped(nbytes: int) -> Any:
    array = square(nbytes)
    return array.astype(array.dtype.newbyteorder())


# Targets of copies, and the functions that copy into them.


def copy_into() -> Any:
    return dlpack().copy_into


def copyto() -> Any:
    return numpy().copyto


def target(nbytes: int) -> Any:
    return square(nbytes)


def rotated_target(nbytes: int) -> Any:
    return rotated(nbytes).copy()


def half_target(nbytes: int) -> Any:
    return second_columns(nbytes).copy()
