"""Refusals of this package: errors with a reason and details."""

import pytest

from support.hints import hint_of


def refused(call, reason, kind=BufferError, /, hint="", **details):
    """Calls; returns the error, which has this type, this reason, at least these details, and the hint in its hint."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value.with_traceback(None)
    del caught  # it keeps the traceback, whose frames keep objects alive
    assert (error.reason, error.details) == (reason, error.details | details)
    assert hint in hint_of(str(error))
    return error
