"""Refusals: this package's errors, whose parts stay apart for functions that name a side or know a better cure."""

from __future__ import annotations

from ._foreign import bare, exception_text, text_of

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
ELSEWHERE = "copy into a new array, and from there by the library that owns the target"


class Cure(str):
    """A cure that leads to a copy, or that differs by the object. A plain str serves for every object as it is.

    A pickle holds it as a plain str, so that a process without this package can read an error."""

    for_target = ELSEWHERE  # the cure for copy_into's target: what is written to a copy would be lost
    for_capsule: str | None = None  # the cure for a source that is a capsule or a pointer to a structure, if it differs
    purpose: str | None = None  # what follows "pass copy=None", such as " to convert", if that is the cure
    key = ""  # of a cure of the Go core

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (f"{self}",)


def cure_by_side(text: str, for_target: str) -> Cure:
    """Returns a cure with another one for copy_into's target."""
    cure = Cure(text)
    cure.for_target = for_target
    return cure


def pass_copy(purpose: str = "") -> Cure:
    """Returns the cure of asdlpack's errors that is to pass copy=None."""
    cure = Cure(f"pass copy=None{purpose}")
    cure.purpose = purpose
    return cure


def for_target(cure: str) -> str:
    """Returns the cure for an object that is copy_into's target."""
    return cure.for_target if type(cure) is Cure else cure


def refusal(kind: type[Exception], reason: str, said: str, cure: str = "", **details: Any) -> Exception:
    """Returns an error with the text "said (cure)".

    reason: a stable id, error.reason for users; details: error.details, the names and values in the text."""
    return refusal_with(details, kind, reason, said, cure)


def refusal_with(details: dict[str, Any], kind: type[Exception], reason: str, said: str, cure: str) -> Exception:
    """Does what `refusal` does, with the details as a dict."""
    error: Any = kind(f"{said} ({cure})" if cure else said)
    # Some errors also have _note, their last words. Some that quote another have _reason_within, its reason, or _quote,
    # if its cure is copy=None: (text before, purpose, text after).
    error.__dict__ = {"reason": reason, "details": details, "_said": said, "_cure": cure}
    return error  # type: ignore[no-any-return]


def as_refusal(error: Any) -> Any:
    """Returns an error that `refusal` made, or one with the text of a foreign error."""
    kind = type(error)
    is_builtin = type(kind) is type and kind.__flags__ & IMMUTABLE  # a foreign class may answer any name, or raise
    if is_builtin and getattr(error, "_said", None) is not None:
        return error
    return refusal(BufferError, "", text_of(error))


def parts_of(error: BaseException) -> tuple[str, str]:
    """Returns what an error says, and its cure; of a foreign error its whole text, and ""."""
    error = as_refusal(error)
    return error._said, error._cure  # type: ignore[attr-defined]


def quoted(error: Any) -> tuple[str, Any]:
    """Returns "BufferError: what it says" and the error's cure, for an error that quotes it."""
    old = as_refusal(error)
    if old is error and not hasattr(old, "_note"):
        return f"{type(error).__name__}: {old._said}", old._cure
    return exception_text(error), ""


def reworded(
    error: Exception,
    said: str | None = None,
    cure: str | None = None,
    note: str = "",
    kind: type[Exception] | None = None,
    **details: Any,
) -> Exception:
    """Returns an error of the same reason and cause with another text, kind, or more details. note: its last words."""
    old = as_refusal(error)
    new: Any = refusal_with(
        old.details | details,
        type(error) if kind is None else kind,
        old.reason,
        old._said if said is None else said,
        old._cure if cure is None else cure,
    )
    if last := note or getattr(old, "_note", ""):
        new._note, new.args = last, (f"{new}{last}",)
    new.__cause__ = error.__cause__
    return bare(new)  # type: ignore[no-any-return]


def of_asdlpack(error: Exception, call: str = "asdlpack(obj, copy=None)", afterwards: str = "") -> Exception:
    """Returns an error of asdlpack for another function: copy=None becomes a call of asdlpack."""
    old = as_refusal(error)
    said, cure = old._said, old._cure
    if hasattr(old, "_quote"):
        before, purpose, after = old._quote
        said = f"{before} (pass {call}{purpose}){after}"
    if is_to_copy(cure):
        cure = f"pass {call}{cure.purpose}"
    return reworded(error, said, f"{cure}{afterwards}", kind=BufferError)


def is_to_copy(cure: Any) -> bool:
    """True if a cure is to pass copy=None."""
    return type(cure) is Cure and cure.purpose is not None


def is_cured_by_copy(error: BaseException) -> bool:
    """True if the cure of an error, or of one that it quotes, is to pass copy=None."""
    error = as_refusal(error)
    return hasattr(error, "_quote") or is_to_copy(error._cure)  # type: ignore[attr-defined]
