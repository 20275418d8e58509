"""What C uses of Python: functions and refusal_kinds. python.h lists it, too. All is imported with the package."""

# ruff: noqa: F401

from _functools import partial  # type: ignore[import-not-found]

from ._arguments import (
    call_dlpack,
    name_hidden,
    no_buffer,
    plain_asdlpack,
    plain_dlpack,
    plain_from_pointer,
    plain_frombuffer,
    plain_interface,
    refuse_pointer,
    refuse_tensor,
)
from ._arrow import check_rows, describe_column
from ._delegate import (
    device_answered,
    export_keywords,
    export_otherwise,
    import_tensor,
    move,
    refusal_kinds,
    serve_by_others,
)
from ._docs import doc
from ._errors import (
    capsule_name,
    kind_and_message,
    no_capsule,
    no_holder,
    no_pickle,
    no_protocol,
    unexpected_value,
)
from ._object import absent, add_members, device, interface, is_fixed, refuse, repr_of
from ._start import start_failed
