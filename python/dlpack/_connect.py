"""Give the extension the Python functions that it calls: it imports nothing itself."""

from _functools import partial  # type: ignore[import-not-found]  # importing functools takes longer

from . import (
    _arguments,
    _arrow,
    _calls,
    _delegate,
    _docs,
    _dtype,
    _errors,
    _foreign,
    _object,
    _sides,
    _start,
)
from ._dlpack import _connect

_connect(
    {
        "device": _arguments.device,
        "name_hidden": _arguments.name_hidden,
        "no_buffer": _arguments.no_buffer,
        "plain_interface": _arguments.plain_interface,
        "refuse_mask": _arguments.refuse_mask,
        "buffer_in": _calls.buffer_in,
        "plain_asdlpack": _calls.plain_asdlpack,
        "plain_copy_into": _calls.plain_copy_into,
        "plain_dlpack": _calls.plain_dlpack,
        "plain_from_pointer": _calls.plain_from_pointer,
        "plain_frombuffer": _calls.plain_frombuffer,
        "plain_to": _calls.plain_to,
        "refuse_bytes": _calls.refuse_bytes,
        "refuse_pointer": _calls.refuse_pointer,
        "refuse_tensor": _calls.refuse_tensor,
        "check_rows": _arrow.check_rows,
        "describe_column": _arrow.describe_column,
        "explain": _arrow.explain,
        "frame_source": _arrow.frame_source,
        "other_method": _arrow.other_method,
        "stream_failed": _arrow.stream_failed,
        "device_answered": _delegate.device_answered,
        "exchange_checks": _delegate.exchange_checks,
        "export_keywords": _delegate.export_keywords,
        "export_otherwise": _delegate.export_otherwise,
        "import_refused": _delegate.import_refused,
        "import_tensor": _delegate.import_tensor,
        "move": _delegate.move,
        "refusal_kinds": _delegate.refusal_kinds,
        "refuse_copy": _delegate.refuse_copy,
        "takers": _delegate.takers,
        "types_refused": _delegate.types_refused,
        "DType": _dtype.DType,
        "PaddedDType": _dtype.PaddedDType,
        "dtypes": _dtype.dtypes,
        "doc": _docs.doc,
        "buffer_error": _errors.buffer_error,
        "capsule_name": _errors.capsule_name,
        "no_capsule": _errors.no_capsule,
        "no_holder": _errors.no_holder,
        "no_protocol": _errors.no_protocol,
        "refuse": _errors.refuse,
        "refuse_in_words": _errors.refuse_in_words,
        "refused": _errors.refused,
        "is_numpy_scalar": _foreign.is_numpy_scalar,
        "kind_and_message": _foreign.kind_and_message,
        "absent": _object.absent,
        "add_members": _object.add_members,
        "interface": _object.interface,
        "no_array": _object.no_array,
        "repr_of": _object.repr_of,
        "shares_by_both": _object.shares_by_both,
        "about_side": _sides.about_side,
        "read_only_target": _sides.read_only_target,
        "sides_were_read": _sides.sides_were_read,
        "start_failed": _start.start_failed,
        "partial": partial,
    }
)


def show_freezers() -> object:
    """Shows freezers _core.so, which isn't a module: the extension opens it. Nothing calls this function."""
    from . import _core  # type: ignore

    return _core
