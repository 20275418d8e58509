from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from exchange import DTYPES, FLOAT8, NOT_COMPACT, SUBBYTE, Exchange, of_each, refusals

jax.config.update("jax_enable_x64", True)


class TestJax(Exchange):
    take = staticmethod(jax.dlpack.from_dlpack)
    values = staticmethod(np.asarray)
    refused: ClassVar = refusals(
        (NOT_COMPACT, RuntimeError),
        (SUBBYTE, BufferError),
    )
    things: ClassVar = {
        **of_each([*DTYPES, "bfloat16", *FLOAT8], lambda name: jnp.arange(6).reshape(2, 3).astype(name)),
        "0-d": lambda: jnp.array(3.0),
        "empty": lambda: jnp.zeros((3, 0)),
        "transposed": lambda: jnp.arange(6).reshape(2, 3).T,
    }
    withheld: ClassVar = {
        "int4": (lambda: jnp.zeros(4, jnp.int4), BufferError),
        "random key": (lambda: jax.random.key(0), TypeError),
    }

    @staticmethod
    def address(taken):
        return taken.unsafe_buffer_pointer()

    def copies(self, name, address):
        return address % 64 != 0
