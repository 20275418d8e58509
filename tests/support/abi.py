"""Imports pytest-dlpack's producer and consumer in C, with the structures of dlpack.structs.

pytest_dlpack is built with a copy of dlpack._abi. Here both are one module: asdlpack takes pointers to its structures.
"""

import sys

from dlpack import _abi, structs

sys.modules["pytest_dlpack._abi"] = _abi
assert structs.DLTensor is _abi.DLTensor  # asdlpack knows them once this module is imported

from pytest_dlpack import exchange_api  # noqa: E402
from pytest_dlpack.tensors import (  # noqa: E402
    LEGACY,
    MALFORMED,
    MEMORY,
    MIDDLE,
    ROOM,
    VERSIONED,
    Managed,
    Tensor,
    owned,
    strays,
)

__all__ = [
    "LEGACY",
    "MALFORMED",
    "MEMORY",
    "MIDDLE",
    "ROOM",
    "VERSIONED",
    "Managed",
    "Tensor",
    "exchange_api",
    "owned",
    "strays",
]
