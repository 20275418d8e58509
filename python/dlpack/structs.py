"""The structures of dlpack.h for ctypes, under the header's names.

https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h
"""

from __future__ import annotations

from contextlib import contextmanager
from ctypes import POINTER, pointer
from functools import partial

from ._abi import (
    DELETER,
    DLDataType,
    DLDevice,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackVersion,
    DLTensor,
    capsule_pointer,
)
from ._arguments import plain_readonly
from ._arrow import stream_was_read
from ._delegate import refuse_copy
from ._describe import is_taken_over, looked_at
from ._dlpack import _PADDED, _newest_version, _register_structures, _share_structure, asdlpack
from ._errors import refuse
from ._refusals import is_cured_by_copy, of_asdlpack, refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from ctypes import _Pointer

    from ._dlpack import DLPackObject

__all__ = [
    "DELETER",
    "DLDataType",
    "DLDevice",
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "DLPackVersion",
    "DLTensor",
    "borrow",
]

STRUCTURES = DLTensor, DLManagedTensor, DLManagedTensorVersioned
POINTERS = tuple(map(POINTER, STRUCTURES))


@contextmanager
def borrow(obj: object, *, readonly: bool | None = None) -> Generator[_Pointer[DLTensor]]:
    """Lend a C function a pointer to the DLTensor of any object that asdlpack accepts, valid within the with block.

    The memory stays alive and locked until the block ends. Then the DLTensor is emptied: its data, shape and strides
    become NULL. readonly: False if the function writes; a DLTensor has no read-only flag. A GPU's memory is ordered by
    CUDA's legacy default stream.

    Raises what asdlpack raises. With readonly=False, raises BufferError for memory that is read-only, or that is a copy
    which obj made for this call. Raises BufferError for items padded to bytes, which a DLTensor can't describe. A
    capsule or a structure is consumed, unless it is refused.

    >>> import ctypes
    >>> with borrow(b"abc") as tensor:
    ...     ctypes.string_at(tensor.contents.data, tensor.contents.shape[0])
    b'abc'
    """
    must = plain_readonly(readonly)
    if isinstance(must, Exception):
        raise must
    writes = must is False
    try:
        x = looked_at(obj)._ordered
    except BufferError as error:
        if not writes or not is_cured_by_copy(error):
            raise of_asdlpack(error) from None
        unseen = "; obj does not see what is written there"
        afterwards = ", and afterwards copy_into(x, obj)" if has_writable_buffer(obj) else unseen
        raise of_asdlpack(error, "x = asdlpack(obj, copy=None)", afterwards) from None
    if writes and x.readonly:
        raise stream_was_read(obj, refuse(x, "read-only"))
    if writes and (lost := refuse_copy(obj, x, "")):
        raise lost
    if x._flags & _PADDED:
        raise refuse(x, "no-dltensor")
    if is_taken_over(obj):
        x = asdlpack(obj)._ordered
    capsule = x.__dlpack__(max_version=_newest_version)
    managed = DLManagedTensorVersioned.from_address(capsule_pointer(capsule, b"dltensor_versioned"))
    tensor = DLTensor.from_buffer_copy(managed.dl_tensor)
    try:
        yield pointer(tensor)
    finally:
        tensor.data, tensor.shape, tensor.strides, tensor.ndim = None, None, None, 0
        del capsule


def has_writable_buffer(obj: object) -> bool:
    """True if copy_into can write to obj through its buffer, even if DLPack can't describe it."""
    try:
        return not memoryview(obj).readonly  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False


def read_structure(
    obj: object, copy: bool | None, device: tuple[int, int] | None, *, takes: bool = True
) -> Callable[[], DLPackObject] | Exception:
    """Returns the call that shares the structure behind a pointer, for C to make, or an exception, for C to raise.

    A DLTensor is borrowed. The other structures are taken over if `takes` is true, else only read."""
    if type(obj) in STRUCTURES:
        name = type(obj).__name__
        said = f"asdlpack: expected a pointer to the {name}, got the structure itself"
        return refusal(TypeError, "structure", said, "pass ctypes.pointer of it", type=name)
    kind = POINTERS.index(type(obj))
    return partial(_share_structure, obj, kind, takes and STRUCTURES[kind] is not DLTensor, copy, device)


_register_structures(read_structure, *STRUCTURES, *POINTERS)
