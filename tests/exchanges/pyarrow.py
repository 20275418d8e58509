"""More checks of pyarrow."""

import struct
import warnings

import pyarrow as pa

import dlpack
from dlpack._abi import look, read_managed
from dlpack.tests.libraries.pyarrow import known

from .checks import gives


def gives_every_data_type() -> None:
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    gives(*(known(pa.array(range(8)).cast(name)) for name in (*integers, "halffloat", "float", "double")))


def says_why_it_withholds_nulls() -> None:
    try:
        dlpack.asdlpack(pa.array([1, None])).__dlpack__(max_version=(1, 3))
    except BufferError as error:
        assert "Can only use DLPack on arrays with no nulls" in str(error), error
    else:
        raise AssertionError("exported")


def serves_a_legacy_consumer() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capsule = dlpack.asdlpack(pa.array([1, 2, 3])).__dlpack__()
    expected = [DeprecationWarning] if hasattr(pa.Array, "from_dlpack") else []
    assert [warning.category for warning in caught] == expected, caught
    assert read_managed(look(capsule)).values == struct.pack("3q", 1, 2, 3)


def shares_device_arrays() -> None:
    column = pa.record_batch({"a": [1.5, 2.5]})
    x = dlpack.asdlpack(column)
    assert ("device" in x.protocol) == hasattr(column, "__arrow_c_device_array__"), x
    address = column.column(0).buffers()[1].address
    assert x.pointer == address == pa.array(x).buffers()[1].address


CHECKS = {
    "shares device arrays": shares_device_arrays,
    "gives every data type": gives_every_data_type,
    "says why it withholds nulls": says_why_it_withholds_nulls,
    "serves a legacy consumer": serves_a_legacy_consumer,
}
