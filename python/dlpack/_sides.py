"""Make the errors of copy_into say whether they mean the source or the target."""

from __future__ import annotations

from ._arrow import BY_ITEMS, stream_was_read
from ._describe import is_taken_over, is_used_up
from ._errors import hint_for
from ._foreign import type_name
from ._refusals import Cure, as_refusal, for_target, parts_of, refusal, reworded


def about_side(side: str, error: Exception) -> BaseException:
    """Returns the error of reading copy_into's source or target, with the name of that side in front."""
    kind = type(error)
    if kind is not TypeError and kind is not ValueError and kind is not BufferError:
        return error
    said, cure = parts_of(error)
    if side == "target" and kind is not ValueError:  # a ValueError is about the object itself
        cure = for_target(cure)
    return reworded(error, f"{side}: {said}", cure, side=side).with_traceback(error.__traceback__)


def sides_were_read(source: object, target: object, error: Exception) -> Exception:
    """Returns the error of copying, with a hint, and with a note if a side is used up."""
    if type(error) not in (BufferError, ValueError):
        return error
    old = as_refusal(error)
    reason, details, cure = old.reason, old.details, old._cure
    before = cure
    if not cure and details.get("field") in BY_ITEMS:
        of_target = details.get("side") == "target"
        cure = hint_for("items", target if of_target else source, reason)
        cure = for_target(cure) if of_target else cure
    elif not cure and reason == "types-differ":
        cure = hint_for("data type", source, details.get("source_dtype", ""), details.get("target_dtype", ""))
    elif reason == "shapes-differ" and type(cure) is Cure and cure.key == "reinterpret":
        shape = details.get("expected" if details.get("single") == "source" else "target_shape", "")
        cure = cure if details.get("single") == "target" else hint_for("shape", source, shape) or cure
    if is_taken_over(source) and type(cure) is Cure:
        cure = cure.for_capsule or cure
    used_up = "source" if is_used_up(source) else ""
    if is_used_up(target):
        used_up += " and the target" if used_up else "target"
    if used_up:
        note = f"; before that make the {used_up} anew, which can be read once"
        return reworded(error, cure=cure, note=note)
    return stream_was_read(source, error) if cure == before else reworded(error, cure=cure)


def read_only_target(source: object, target: object) -> Exception:
    name = type_name(target)
    return refusal(
        BufferError,
        "read-only-target",
        f"target: {name} is read-only; expected memory that may be written, to copy the source ({type_name(source)}) "
        "into",
        "pass a new array or bytearray, and keep it; a legacy capsule counts as read-only",
        side="target",
        type=name,
    )
