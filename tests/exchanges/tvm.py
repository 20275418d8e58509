"""apache-tvm's tvm.runtime.from_dlpack, and its tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm

from dlpack.tests.expectations import Consumer, Rule, not_row_major, unaligned
from dlpack.tests.libraries.datatypes import FORMATS
from dlpack.tests.libraries.tvm_ffi import known
from dlpack.tests.memory import Memory

from .checks import gives


def matrix(dtype: str = "float32") -> Any:
    return tvm.runtime.tensor(np.arange(6).reshape(2, 3).astype(dtype))


PROVIDERS: dict[str, Callable[[], Memory]] = {"Tensor": lambda: known(matrix())}


RULES = [
    Rule("refused", "tvm's tensors are compact and row-major", not_row_major),
    Rule("refused", "tvm needs data at a multiple of 64 bytes", unaligned(64)),
]

CONSUMERS = [Consumer("tvm", tvm.runtime.from_dlpack, rules=RULES)]


def gives_every_data_type() -> None:
    gives(*(known(matrix(name)) for name in FORMATS if not name.startswith("complex")))


CHECKS = {"gives every data type": gives_every_data_type}
