"""More checks of jax."""

from dlpack._abi import FLOAT8
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.jax import jnp, known, matrix

from .checks import gives


def gives_every_data_type() -> None:
    names = [*FORMATS, "bfloat16", *(f"float8_{kind}" for kind in FLOAT8)]
    gives(*(known(matrix().astype(name)) for name in names))


def gives_arrays_of_every_rank() -> None:
    gives(known(jnp.array(3.0)), known(jnp.zeros((3, 0))), known(jnp.ones((1, 2, 1, 3, 2))))


CHECKS = {
    "gives every data type": gives_every_data_type,
    "gives arrays of every rank": gives_arrays_of_every_rank,
}
