"""mxnet's NDArrays. They speak no protocol: their memory comes and goes in legacy capsules."""

from collections.abc import Callable
from typing import Any

import mxnet

import dlpack
from dlpack._abi import Seen, look, read_managed
from dlpack.tests.expectations import WOULD_WRITE, Consumer, Rule, dtype, not_row_major
from dlpack.tests.findings import Skip
from dlpack.tests.memory import Memory

from .checks import gives, withholds

from_dlpack = mxnet.nd.from_dlpack
DTYPES = ("int8", "int32", "int64", "uint8", "float16", "float32", "float64")


def seen(array: Any) -> Seen:
    """Describes an NDArray as mxnet does. To write it first waits for all that is pending."""
    return read_managed(look(mxnet.nd.to_dlpack_for_write(array)))


def known(array: Any, obj: Any) -> Memory:
    """An NDArray's memory behind another object. A capsule can't say that its memory may be written."""
    said = seen(array)
    return Memory(obj, said.dtype, said.shape, said.values, said.address, readonly=True)


def matrix() -> Any:
    return mxnet.nd.arange(6).reshape((2, 3))


def array() -> Memory:
    array = matrix()
    memory = known(array, array)
    memory.withheld = "an NDArray speaks no protocol: its capsules do"
    return memory


def for_reading() -> Memory:
    array = matrix()
    return known(array, mxnet.nd.to_dlpack_for_read(array))


def for_writing() -> Memory:
    array = matrix()
    return known(array, mxnet.nd.to_dlpack_for_write(array))


def on_cuda() -> Memory:
    if not mxnet.context.num_gpus():
        raise Skip("no CUDA device")
    array = matrix().as_in_context(mxnet.gpu())
    return Memory(
        mxnet.nd.to_dlpack_for_read(array),
        "float32",
        array.shape,
        array.asnumpy().tobytes(),
        look(mxnet.nd.to_dlpack_for_read(array)).dl_tensor.data,
        readonly=True,
        gpu=True,
    )


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "NDArray": array,
    "NDArray.to_dlpack_for_read": for_reading,
    "NDArray.to_dlpack_for_write": for_writing,
    "NDArray on CUDA": on_cuda,
}


def see(array: Any) -> Seen:
    return seen(array)._replace(readonly=None)


RULES = [
    Rule("refused", "mxnet's arrays are compact and row-major", not_row_major),
    Rule("refused", "mxnet takes no matrix without items", lambda m: m.size == 0 and len(m.shape) > 1),
    Rule("refused", "mxnet has no such type", dtype("bool", "int16", "uint16", "uint32", "uint64")),
    Rule("refused", "mxnet has no such type", dtype("complex*", "float8*")),
]

CONSUMERS = [Consumer("mxnet", lambda x: from_dlpack(x.__dlpack__()), see, WOULD_WRITE, rules=RULES)]


def gives_every_data_type() -> None:
    arrays = [matrix().astype(dtype) for dtype in DTYPES]
    gives(*(known(array, mxnet.nd.to_dlpack_for_read(array)) for array in arrays))


def withholds_an_array_without_its_capsule() -> None:
    withholds({"an NDArray": matrix}, TypeError)


def gives_memory_that_outlives_its_array() -> None:
    array = matrix()
    taken = dlpack.asdlpack(mxnet.nd.to_dlpack_for_read(array))
    expected = seen(array).values
    del array
    mxnet.nd.ones((2, 3)).wait_to_read()  # would take the place of what is gone
    assert read_managed(look(taken.__dlpack__())).values == expected


CHECKS = {
    "gives every data type": gives_every_data_type,
    "withholds an array without its capsule": withholds_an_array_without_its_capsule,
    "gives memory that outlives its array": gives_memory_that_outlives_its_array,
}
