"""Refusals: this package's errors, whose parts stay apart for functions that name a side or know a better cure."""

from __future__ import annotations

from ._foreign import NO_MEMORY, bare, text_of

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

in_words: Any = None  # of _sayings, once that is loaded
KINDS = {1: ValueError, 2: BufferError, 3: MemoryError, 4: RuntimeError}  # core.h's enum status


def refusal(kind: type[Exception], reason: str, said: str, cure: str = "", **details: Any) -> Exception:
    """Returns an error with the text "said (cure)".

    reason: a stable id, error.reason for users; details: error.details, the names and values in the text."""
    error: Any = kind(f"{said} ({cure})" if cure else said)
    error.reason = reason
    error.details = details
    error._said, error._cure = said, cure
    return error  # type: ignore[no-any-return]


def parts_of(error: BaseException) -> tuple[str, str]:
    """Returns what an error says, and its cure; of a foreign error its whole text, and ""."""
    said, cure = getattr(error, "_said", None), getattr(error, "_cure", None)
    return (said, cure) if type(said) is str and type(cure) is str else (text_of(error), "")


def reason_of(error: BaseException) -> str:
    """Returns an error's id; "" of a foreign error."""
    reason = getattr(error, "reason", "")
    return reason if type(reason) is str else ""


def reworded(error: Exception, said: str | None = None, cure: str | None = None) -> Exception:
    """Returns an error of the same kind and reason, with another text, cure or both, and the cause of the first."""
    before, former = parts_of(error)
    details = getattr(error, "details", {})
    new = refusal(type(error), reason_of(error), before if said is None else said, former if cure is None else cure)
    new.details = details  # type: ignore[attr-defined]
    new.__cause__ = error.__cause__
    return bare(new)


def refused(status: int, data: bytes) -> Exception:
    """Returns the exception for a refusal of the Go core, which core.h describes."""
    global in_words
    kind = KINDS[status]
    if in_words is None:
        try:
            from ._errors import loading  # _errors imports this module

            with loading:
                from ._sayings import in_words
        except NO_MEMORY:
            return MemoryError()
        except Exception:  # Python ends, or its file is gone
            return kind(data.decode(errors="replace").strip("\x1f").replace("\x1f", " "))
    error: Exception = in_words(kind, data)
    return error
