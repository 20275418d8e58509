"""The types of ml_dtypes, in numpy's arrays. numpy's __dlpack__ refuses them unless they are registered with numpy; the
array interface has their bytes."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import dlpack
from dlpack._abi import FLOAT8, look, read_managed
from dlpack.tests.expectations import PADDED
from dlpack.tests.libraries.numpy import aligned, known, read_only
from dlpack.tests.memory import Memory

from .checks import gives

NAMES = ["bfloat16", "complex32", "bcomplex32", *(f"float8_{kind}" for kind in FLOAT8), *PADDED]
DTYPES = [getattr(ml_dtypes, name) for name in NAMES if hasattr(ml_dtypes, name)]  # the last ones came with 0.5 and 0.6

register: Any = getattr(getattr(np, "dtypes", None), "register_dlpack_dtype", None)  # numpy 2.5


def matrix(dtype: Any) -> Any:
    return aligned(np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype))


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "bfloat16": lambda: known(matrix(ml_dtypes.bfloat16)),
    "bfloat16, read-only": lambda: known(read_only(matrix(ml_dtypes.bfloat16))),
    "bfloat16, transposed": lambda: known(matrix(ml_dtypes.bfloat16).T),
    "float8_e4m3fn": lambda: known(matrix(ml_dtypes.float8_e4m3fn)),
    "float8_e5m2": lambda: known(matrix(ml_dtypes.float8_e5m2)),
    "float4_e2m1fn": lambda: known(matrix(ml_dtypes.float4_e2m1fn)),
    "int4": lambda: known(matrix(ml_dtypes.int4)),
}


def gives_every_data_type() -> None:
    gives(*(known(matrix(dtype)) for dtype in DTYPES))
    gives(*(known(read_only(matrix(dtype))) for dtype in DTYPES))


def gives_arrays_of_every_layout() -> None:
    for dtype in DTYPES:
        array = matrix(dtype)
        gives(*(known(view) for view in (array[:, ::-1], array.T, array[1:, 1], array[0, 0, ...], array[:0])))


def gives_a_scalar() -> None:
    """Its array interface is that of an array which is gone when the interface is there."""
    x = dlpack.asdlpack(ml_dtypes.bfloat16(1.5))
    others = [np.zeros((), ml_dtypes.bfloat16) for _ in range(1000)]  # would take the place of what is gone
    seen = read_managed(look(x.__dlpack__(max_version=(1, 3))))
    assert seen == ("bfloat16", (), ml_dtypes.bfloat16(1.5).tobytes(), x.pointer, True), seen
    del others


def becomes_an_array_by_numpy_asarray() -> None:
    for dtype in DTYPES:
        array = matrix(dtype)
        taken: Any = np.asarray(dlpack.asdlpack(array.T))
        assert (taken.dtype, taken.shape, taken.strides) == (array.dtype, (3, 2), array.T.strides), taken
        array[1, 0] = 0
        assert taken.tobytes() == array.T.tobytes(), f"{array.dtype.name}: {taken}, expected {array.T}"


def are_numpys_own_where_registered() -> None:
    """As a later ml_dtypes may do at its import. They stay registered in this process."""
    arrays = {array.dtype: array for array in map(matrix, DTYPES) if array.dtype.name not in PADDED}
    for dtype, array in arrays.items():
        said = look(dlpack.asdlpack(array).__dlpack__(max_version=(1, 3))).dl_tensor.dtype
        register((said.code, said.bits), dtype)
    gives_every_data_type()
    gives_arrays_of_every_layout()
    for dtype, array in arrays.items():
        taken: Any = np.from_dlpack(dlpack.asdlpack(array))
        assert (taken.dtype, taken.ctypes.data) == (dtype, array.ctypes.data), taken
        assert dlpack.describe(array)["protocol"] == "__dlpack__"


CHECKS = {
    "our memory becomes an array of every data type by numpy.asarray": becomes_an_array_by_numpy_asarray,
    "gives every data type": gives_every_data_type,
    "gives arrays of every layout": gives_arrays_of_every_layout,
    "gives a scalar": gives_a_scalar,
}

if register:
    CHECKS["gives and takes by numpy what is registered there"] = are_numpys_own_where_registered
