"""jax.dlpack.from_dlpack, and jax's arrays."""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes have the GPU at a time

import jax
import jax.numpy as jnp
import numpy as np

from ..._abi import FLOAT8, Seen, read
from ..checks import gives, withholds
from ..memory import Memory, Skip
from . import Consumer
from .datatypes import FORMATS

jax.config.update("jax_enable_x64", True)  # without it, jax makes 32-bit copies of 64-bit types
jax.config.update("jax_default_device", jax.devices("cpu")[0])  # else what is made here is on the GPU, if there is one
from_dlpack: Any = jax.dlpack.from_dlpack


def known(array: Any) -> Memory:
    """What jax says of an array."""
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


class FromDLPack(Consumer):
    name = "jax"
    readonly = "never written"
    gpu = True

    def take(self, x: Any) -> Any:
        return from_dlpack(x)

    def see(self, taken: Any) -> Seen:
        address = taken.unsafe_buffer_pointer()
        if taken.platform() == "gpu":
            return Seen(taken.dtype.name, taken.shape, np.asarray(taken).tobytes(), address)
        # numpy.asarray is of no use: jax keeps its result, which is a copy where the array is transposed.
        return read(taken)._replace(address=address)


CONSUMERS = [FromDLPack()]


def gives_every_data_type() -> None:
    names = [*FORMATS, "bfloat16", *(f"float8_{kind}" for kind in FLOAT8)]
    gives(*(known(matrix().astype(name)) for name in names))


def gives_arrays_of_every_rank() -> None:
    gives(known(jnp.array(3.0)), known(jnp.zeros((3, 0))), known(jnp.ones((1, 2, 1, 3, 2))))


def withholds_what_dlpack_cannot_say() -> None:
    withholds({"packed int4": lambda: jnp.zeros(4, jnp.int4)})
    withholds({"a random key": lambda: jax.random.key(0)}, TypeError)


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives arrays of every rank": gives_arrays_of_every_rank,
    "withholds what DLPack can't say": withholds_what_dlpack_cannot_say,
}
