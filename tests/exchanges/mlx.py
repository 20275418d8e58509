"""More checks of mlx."""

import mlx.core as mx

import dlpack
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.mlx import known, matrix

from .checks import gives


def gives_every_data_type() -> None:
    names = [name for name in FORMATS if name not in ("bool", "float64", "complex128")]
    gives(*(known(matrix().astype(dtype)) for dtype in (mx.bool_, *(getattr(mx, name) for name in names))))


def gives_arrays_of_every_rank() -> None:
    gives(known(mx.array(3.0)), known(mx.ones((1, 2, 1, 3, 2))))


def refuses_to_share_memory_of_the_cpu() -> None:
    try:
        mx.from_dlpack(dlpack.asdlpack(bytearray(8)), copy=False)
    except ValueError as error:
        assert "without a copy" in str(error), error
    else:
        raise AssertionError("from_dlpack(x, copy=False) shared it")


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives arrays of every rank": gives_arrays_of_every_rank,
    "refuses to share memory of the CPU": refuses_to_share_memory_of_the_cpu,
}
