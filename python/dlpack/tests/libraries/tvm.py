"""apache-tvm's tvm.runtime.from_dlpack, and its tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm

from ..checks import gives
from ..memory import Memory
from . import Consumer
from .datatypes import FORMATS
from .tvm_ffi import known

from_dlpack: Any = tvm.runtime.from_dlpack


def matrix(dtype: str = "float32") -> Any:
    return tvm.runtime.tensor(np.arange(6).reshape(2, 3).astype(dtype))


PROVIDERS: dict[str, Callable[[], Memory]] = {"Tensor": lambda: known(matrix())}


class FromDLPack(Consumer):
    name = "tvm"

    def take(self, x: Any) -> Any:
        return from_dlpack(x)


CONSUMERS = [FromDLPack()]


def gives_every_data_type() -> None:
    gives(*(known(matrix(name)) for name in FORMATS if not name.startswith("complex")))


CHECKS = {"gives every data type": gives_every_data_type}
