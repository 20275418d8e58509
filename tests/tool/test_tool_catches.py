"""`python -m dlpack.tests` finds out and says what is wrong with a broken asdlpack."""

import shutil
import sys

import pytest

from support.alone import ROOT, run
from support.tool import exchange

BREAKS = {
    "a wrong stride": (
        "object/export.c",
        "tensor->strides = block->dims + tensor->ndim;",
        "tensor->strides = block->dims;",
    ),
    "a missing lock": ("read/buffer.c", "self->holding = HOLDS_VIEW;", "PyBuffer_Release(view);"),
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
        "out/export_buffer.c",
        ".readonly = (holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0,",
        ".readonly = 0,",
    ),
    "an array struct without its owner": (
        "out/export_interface.c",
        "PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)self));",
        "PyCapsule_SetContext(capsule, self);",
    ),
    "an Arrow array that is kept": ("out/export_arrow.c", "release_export(block->owner, NULL);", ";"),
}


@pytest.fixture
def broken(request, tmp_path):
    """The package in a folder of its own, built from changed source."""
    file, old, new = BREAKS[request.param]
    for name in "build.py", "pyproject.toml", "go.mod", "pyext", "pkg", "python":
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    source = tmp_path / "pyext" / file
    assert source.read_text().count(old) == 1
    source.write_text(source.read_text().replace(old, new))
    assert run(sys.executable, tmp_path / "build.py", timeout=200).returncode == 0
    return tmp_path / "python"


@pytest.mark.parametrize("broken", BREAKS, indirect=True)
def test_it_catches(broken):
    printed = exchange("numpy", "nanoarrow", status=1, timeout=200, environ={"PYTHONPATH": str(broken)})
    assert "FAILED" in printed
