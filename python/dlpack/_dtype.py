"""The data type of a DLPackObject: its name, which is also equal to the types of numpy, torch, jax and ml_dtypes."""

from __future__ import annotations

from ._arguments import BUILTINS, Padded
from ._dlpack import frombuffer
from ._foreign import is_a
from ._refusals import refusal

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from builtins import str as Text  # DType.str hides it
    from collections.abc import Callable
    from typing import Any, NoReturn


class DType(str):
    """The name of a data type, such as "float32". Equal to its name, and to the types of numpy, torch, jax and
    ml_dtypes that mean the same. The hash is the name's, so a set or dict of their types doesn't have it. A pickle or
    copy is a plain str."""

    __slots__ = ()
    __hash__: Callable[[DType], int] = str.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        same = str.__eq__(self, other)
        if same is not NotImplemented or not is_type(other):
            return same
        try:
            return frombuffer(b"", other, 0).dtype.name == self.name
        except (BufferError, TypeError, ValueError):  # a type that DLPack lacks
            return NotImplemented

    def __ne__(self, other: object) -> bool:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __reduce__(self) -> tuple[type[Text], tuple[Text]]:
        return str, (self.name,)

    def __getattr__(self, name: Text) -> NoReturn:
        said = f"'DType' object has no attribute '{name}': x.dtype is a str"
        raise refusal(AttributeError, "no-array", said, "numpy.asarray(x) has a numpy.dtype", attribute=name)

    @property
    def name(self) -> Text:
        """This name, as a plain str."""
        return str.__str__(self)

    @property
    def itemsize(self) -> int:
        """Bytes of one item; where items share bytes, rounded up."""
        return frombuffer(b"", self.name, 0).itemsize

    @property
    def str(self) -> Text:
        """The typestr of the array interfaces, such as "<f4"; "|V2" and the like for a type that they lack."""
        return frombuffer(b"", self.name, 0)._typestr or f"|V{self.itemsize}"

    @property
    def kind(self) -> Text:
        """The letter of numpy's kinds: "b", "i", "u", "f", "c"; "V" for a type that numpy lacks."""
        return self.str[1]

    @property
    def names(self) -> None:
        """None, since items have no fields."""


class PaddedDType(DType, Padded):
    """The DType of items that are smaller than a byte and fill one each."""

    __slots__ = ()


# The types of Go's table by name. C adds them when it is connected, and nothing later: without a GIL, a child that is
# forked while another thread writes to a dict could never read it.
dtypes: dict[str, DType] = {}


def is_type(other: Any) -> bool:
    """True for the data types of numpy, ml_dtypes, jax, torch and paddle, and for Python's numbers; not for arrays."""
    kind = type(other)
    if not isinstance(other, type):
        return is_a(kind, "numpy", "dtype") or is_a(kind, "torch", "dtype") or hasattr(kind, "__dlpack_data_type__")
    of_jax = str(getattr(kind, "__module__", "")).startswith("jax.")  # the class of its scalar types
    return of_jax or is_a(other, "numpy", "generic") or [number for number in BUILTINS if number is other] != []
