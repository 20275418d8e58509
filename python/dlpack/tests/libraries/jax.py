"""jax.dlpack.from_dlpack, and jax's arrays."""

import os
from collections.abc import Callable
from typing import Any

from ..findings import Skip

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes have the GPU at a time

import jax
import jax.numpy as jnp
import numpy as np

from ..._abi import Seen, read
from ..._to import TAKERS
from ..expectations import Consumer, Rule, layout, unaligned
from ..memory import Memory

jax.config.update("jax_enable_x64", True)  # without it, jax makes 32-bit copies of 64-bit types
jax.config.update("jax_default_device", jax.devices("cpu")[0])  # else what is made here is on the GPU, if there is one


def known(array: Any) -> Memory:
    """Describes an array as jax does."""
    address = array.unsafe_buffer_pointer()
    return Memory(array, array.dtype.name, array.shape, np.asarray(array).tobytes(), address, readonly=True)


def matrix() -> Any:
    return jnp.arange(6.0).reshape(2, 3)


def on_cuda() -> Memory:
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError:
        raise Skip("no CUDA device") from None
    memory = known(jax.device_put(matrix(), device))
    memory.gpu = True
    return memory


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Array": lambda: known(matrix()),
    "Array, transposed": lambda: known(matrix().T),
    "Array, bfloat16": lambda: known(matrix().astype("bfloat16")),
    "Array on CUDA": on_cuda,
}


def see(array: Any) -> Seen:
    address = array.unsafe_buffer_pointer()
    if array.platform() == "gpu":
        return Seen(array.dtype.name, array.shape, np.asarray(array).tobytes(), address)
    # numpy.asarray is of no use: jax keeps its result, which is a copy where the array is transposed.
    return read(array)._replace(address=address)


RULES = [
    layout("jax"),
    Rule("copied", "jax copies what is not at a multiple of 64 bytes", unaligned(TAKERS["jax"].align)),
]

CONSUMERS = [Consumer("jax", jax.dlpack.from_dlpack, see, "never written", gpu=True, rules=RULES)]
