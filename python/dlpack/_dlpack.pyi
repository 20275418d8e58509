from typing import Any, final

from typing_extensions import CapsuleType

from ._device import DLDeviceType

__version__: str

def asdlpack(obj: object, /, *, copy: bool | None = False, owner: object = None) -> DLPackObject: ...
def frombuffer(
    obj: object,
    /,
    dtype: object,
    shape: int | tuple[int, ...] | list[int] | None = None,
    *,
    offset: int = 0,
    strides: int | tuple[int, ...] | list[int] | None = None,
    copy: bool | None = False,
) -> DLPackObject: ...
def from_pointer(
    pointer: object,
    /,
    shape: int | tuple[int, ...] | list[int],
    dtype: object,
    *,
    strides: int | tuple[int, ...] | list[int] | None = None,
    device: str | tuple[int, int] = "cpu",
    readonly: bool = False,
    owner: object = None,
) -> DLPackObject: ...
def describe(obj: object, /) -> dict[str, Any]: ...
def _look(obj: object, /) -> tuple[str | None, DLPackObject | None, tuple[int, int] | None, int]: ...
def _register_structures(*types: type) -> None: ...
def _core_calls() -> int: ...

@final
class DLPackObject:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> tuple[DLDeviceType, int]: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def pointer(self) -> int: ...
    @property
    def protocol(self) -> str: ...
    @property
    def obj(self) -> Any: ...
    def __dlpack__(
        self,
        stream: int | None = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
