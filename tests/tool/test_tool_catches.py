"""`python tests/exchanges` finds out and says what is wrong with a broken asdlpack."""

import pytest

from support.builds import build, seed
from support.tool import EXCHANGES, exchange

BREAKS = {
    "a wrong stride": (
        "object/export.c",
        "tensor->strides = block->dims + tensor->ndim;",
        "tensor->strides = block->dims;",
    ),
    "a missing lock": ("read/buffer.c", "hold->holding = HOLDS_VIEW;", "PyBuffer_Release(view);"),
    "a lost reference": (
        "object/export.c",
        "block->owner = Py_NewRef((PyObject *)self);",
        "block->owner = (PyObject *)self;",
    ),
    "a reference too many": (
        "object/export.c",
        "block->owner = Py_NewRef((PyObject *)self);",
        "block->owner = Py_NewRef(Py_NewRef((PyObject *)self));",
    ),
    "a wrong address": (
        "object/export.c",
        "*tensor = self->tensor;",
        "*tensor = self->tensor;\n    tensor->byte_offset = 4;",
    ),
    "a lost flag": ("object/export.c", ".flags = self->flags,", ".flags = 0,"),
    "a buffer that may be written": (
        "give/export_buffer.c",
        ".readonly = (holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0,",
        ".readonly = 0,",
    ),
    "an array struct without its owner": (
        "give/export_interface.c",
        "PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)self));",
        "PyCapsule_SetContext(capsule, self);",
    ),
    "an Arrow array that is kept": ("give/export_arrow.c", "release_export(block->owner, NULL);", ";"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_it_catches(what, tmp_path):
    file, code, fault = BREAKS[what]
    broken = build(tmp_path, cflags="-O0 -fno-lto", edit=seed((f"pyext/{file}", code, fault)))
    environ = {"PYTHONPATH": str(broken)}
    printed = exchange("numpy", "nanoarrow", command=EXCHANGES, status=1, timeout=200, environ=environ)
    assert "FAILED" in printed
