"""Managed tensors of a producer written in C, as capsules and as structures, which count the calls of their deleter.
Nothing of a tensor stays once it was deleted."""

import collections
import ctypes
from collections.abc import Callable, Sequence
from ctypes import PYFUNCTYPE, c_char_p, c_void_p
from typing import Any

from ._abi import DELETER, STRUCTS, USED, capsule_new, python_api

LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
MEMORY = (ctypes.c_uint8 * 4096)(*(i % 251 for i in range(4096)))
MIDDLE = ctypes.addressof(MEMORY) + 2048  # a multiple of 8
ROOM = 64  # lengths in shape and strides, whatever ndim is

# No honest producer gives these. Some end the process in numpy and torch.
MALFORMED: dict[str, dict[str, Any]] = {
    "NULL shape": {"shape": None, "ndim": 1},
    "NULL shape of 64 dimensions": {"shape": None, "ndim": 64},
    "NULL shape of too many": {"shape": None, "ndim": 2_000_000_000},
    "ndim 65": {"shape": (1,) * 65},
    "ndim 2^31 - 1": {"ndim": 2**31 - 1, "strides": (1,)},  # with it, jax fills memory for many seconds
    "ndim 2^20": {"ndim": 2**20, "strides": (1,)},
    "ndim -2^31": {"ndim": -(2**31), "strides": (1,)},
    "NULL data": {"data": None},
    "NULL data and an offset": {"data": None, "byte_offset": 4096},
    "byte_offset 2^63": {"data": 2**63, "byte_offset": 2**63},
    "stride 2^60": {"shape": (65,), "strides": (2**60,)},
    "a negative length": {"shape": (2, -3)},
    "2^62 items": {"shape": (2**62,)},
    "lanes 0": {"dtype": (2, 32, 0)},
    "code 255": {"dtype": (255, 32, 1)},
    "device -1": {"device": (-(2**31), 5)},
    "device id -1": {"device": (2, -1)},
    "padded lanes": {"dtype": (17, 4, 2), "flags": 4},
    "version 0.8": {"version": (0, 8)},
    "version 2.0 and nothing else": {"version": (2, 0), "shape": None, "ndim": -5},
    "the largest version": {"version": (2**32 - 1, 2**32 - 1)},
}


class Managed:
    """A managed tensor of a foreign producer, each field as the test wants it; counts the calls of its deleter."""

    _all: Any = []  # a capsule may outlive the test that made it, and ends in this object's callbacks

    def __init__(
        self,
        data: int | None = None,
        *,
        name: bytes = VERSIONED,
        shape: Sequence[int] | None = (),
        strides: Sequence[int] | None = None,
        ndim: int | None = None,
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (1, 0),
        byte_offset: int = 0,
        flags: int = 0,
        version: tuple[int, int] = (1, 3),
        deleter: Any = True,
    ) -> None:
        self.deleted: int = 0
        self.name = name
        self.struct: Any = STRUCTS[name]()
        tensor = self.struct.dl_tensor
        tensor.data = data
        tensor.device = device
        tensor.ndim = len(shape or ()) if ndim is None else ndim
        tensor.dtype = dtype
        if shape is not None:
            tensor.shape = (ctypes.c_int64 * len(shape))(*shape)
        if strides is not None:
            tensor.strides = (ctypes.c_int64 * len(strides))(*strides)
        tensor.byte_offset = byte_offset
        if name == VERSIONED:
            self.struct.version = version
            self.struct.flags = flags
        if deleter:
            self.struct.deleter = DELETER(self._delete) if deleter is True else deleter
        self._all.append(self)

    def _delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.struct)
        self.deleted += 1

    def capsule(self, name: bytes | None = None) -> Any:
        """A new capsule, without a destructor: one that dies unconsumed calls nothing."""
        return capsule_new(ctypes.addressof(self.struct), name or self.name, None)


_owned: dict[int, "Tensor"] = {}  # by address; a consumer has to delete each
strays: list[int] = []  # addresses that were deleted again, or had no owner


class Tensor(Managed):
    """A tensor of 3 floats at MIDDLE, unless the test says otherwise."""

    _all = collections.deque[Managed](maxlen=0)

    def __init__(
        self,
        name: bytes = VERSIONED,
        *,
        data: int | None = MIDDLE,
        shape: Sequence[int] | None = (3,),
        strides: Sequence[int] | None = None,
        ndim: int | None = None,
        **fields: Any,
    ) -> None:
        ndim = len(shape or ()) if ndim is None else ndim
        shape, strides = (
            lengths if lengths is None else (*lengths, *[0] * (ROOM - len(lengths))) for lengths in (shape, strides)
        )
        super().__init__(data, name=name, shape=shape, strides=strides, ndim=ndim, deleter=_delete, **fields)
        self.address: int = ctypes.addressof(self.struct)
        self.given: bool = False  # so that somebody has to delete it
        self.then: Callable[[], object] | None = None  # what its deleter does besides
        self.keeps: object = None  # what lives as long as the tensor

    def owned(self) -> Any:
        """The structure, which whoever has it deletes once."""
        self.given = True
        _owned[self.address] = self
        return self.struct

    def capsule(self, name: bytes | None = None) -> Any:
        """A new capsule, which owns the tensor until a consumer renames it."""
        self.owned()
        return capsule_new(self.address, self.name if name is None else name, _destroy)


def owned() -> int:
    """Returns the number of tensors that nobody has deleted yet."""
    return len(_owned)


@DELETER  # type: ignore[untyped-decorator]
def _delete(address: int) -> None:
    tensor = _owned.pop(address, None)
    if tensor is None:
        strays.append(address)
        return
    tensor.deleted += 1
    if tensor.then is not None:
        tensor.then()


_name_of = python_api("PyCapsule_GetName", c_char_p, c_void_p)
_pointer_of = python_api("PyCapsule_GetPointer", c_void_p, c_void_p, c_void_p)
_name_pointer_of = python_api("PyCapsule_GetName", c_void_p, c_void_p)


# No py_object: the capsule is dying.
@PYFUNCTYPE(None, c_void_p)  # type: ignore[untyped-decorator]
def _destroy(capsule: int) -> None:
    if _name_of(capsule) not in USED.values():
        _delete(_pointer_of(capsule, _name_pointer_of(capsule)))
