"""The numbers of DLPack in C, in Go and in Python are those of the standard's own header.

Go and Python also have numbers of its main branch, which dlpack.h and its version get with a release."""

import ctypes
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import dlpack
from dlpack import DLDeviceType, structs
from support.alone import ROOT

# The structures that both headers have; those of data are in dlpack.structs too.
FIELDS = {
    "DLPackVersion": ["major", "minor"],
    "DLDevice": ["device_type", "device_id"],
    "DLDataType": ["code", "bits", "lanes"],
    "DLTensor": ["data", "device", "ndim", "dtype", "shape", "strides", "byte_offset"],
    "DLManagedTensor": ["dl_tensor", "manager_ctx", "deleter"],
    "DLManagedTensorVersioned": ["version", "manager_ctx", "deleter", "flags", "dl_tensor"],
}
FUNCTIONS = {
    "DLPackExchangeAPIHeader": ["version", "prev_api"],
    "DLPackExchangeAPI": [
        "header",
        "managed_tensor_allocator",
        "managed_tensor_from_py_object_no_sync",
        "managed_tensor_to_py_object_no_sync",
        "dltensor_from_py_object_no_sync",
        "current_work_stream",
    ],
}
# Numbers of DLPack's main branch (dlpack#187, #188, #189) that no release has.
UNRELEASED_DEVICES = {"kDLTPU": 19, "kDLTPUHost": 20, "kDLAscend": 21}
UNRELEASED = {"kDLBcomplex": 18, **UNRELEASED_DEVICES}
LAYOUT = [
    expression
    for struct, fields in (FIELDS | FUNCTIONS).items()
    for expression in (
        f"sizeof({struct})",
        f"_Alignof({struct})",
        *(f"offsetof({struct}, {field})" for field in fields),
        *(f"sizeof((({struct} *)0)->{field})" for field in fields),
    )
]


def evaluate(header, expressions, folder):
    """Returns the values of the expressions in a C program that includes the header."""
    lines = "".join(f'    printf("%s = %lld\\n", "{each}", (long long)({each}));\n' for each in expressions)
    source = folder / "print.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\nint main(void)\n{{\n{lines}    return 0;\n}}\n'
    )
    program = folder / "print"
    subprocess.run(["cc", "-std=c11", str(source), "-o", str(program)], check=True)
    return numbers(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout)


def numbers(text):
    return {name: int(value) for name, value in re.findall(r"^.*?(\b\w+(?:\(.*\))?) = (-?\d+)$", text, re.MULTILINE)}


def names_in(header):
    """Every number that the header defines: enumerators, versions, flags."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return re.findall(r"\b(kDL\w+)\s*=", text) + re.findall(r"#define (DLPACK_(?:M\w+_VERSION|FLAG_\w+))", text)


@pytest.fixture(scope="module")
def standard():
    """The standard's header, which the wheel of apache-tvm-ffi carries."""
    header = Path(find_spec("tvm_ffi").origin).parent / "include" / "dlpack" / "dlpack.h"
    assert "DLPACK_MINOR_VERSION 3\n" in header.read_text()
    return header


@pytest.fixture(scope="module")
def expected(standard, tmp_path_factory):
    released = evaluate(standard, names_in(standard) + LAYOUT, tmp_path_factory.mktemp("standard"))
    assert not released.keys() & UNRELEASED
    return released | UNRELEASED


def test_the_c_header_has_the_standards_numbers_and_layout(expected, tmp_path):
    ours = Path(dlpack.get_include(), "dlpack", "dlpack.h")
    names = names_in(ours)
    assert {"DLPACK_MAJOR_VERSION", "DLPACK_FLAG_BITMASK_READ_ONLY", "kDLCPU"} <= set(names)
    assert not UNRELEASED.keys() & set(names)
    got = evaluate(ours, names + LAYOUT, tmp_path)
    assert got == {name: expected[name] for name in names + LAYOUT}


@pytest.mark.parametrize("standard", ["-std=c++11", "-std=c++20"])
def test_the_c_header_serves_cpp(standard, tmp_path):
    """device_type and code convert to their enumerations only if they have that type."""
    source = tmp_path / "use.cpp"
    source.write_text(
        "#include <dlpack/dlpack.h>\n"
        'static_assert(sizeof(DLDevice) == 8, "");\n'
        "DLDevice cpu{kDLCPU, 0};\n"
        "DLDeviceType type = cpu.device_type;\n"
        "DLDataType half{kDLFloat, 16, 1};\n"
    )
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["c++", standard, *warnings, f"-I{dlpack.get_include()}", str(source)], check=True)


def test_go_has_every_number_of_the_standard(expected):
    test = "TestNumbersAreTheHeaders"
    run = subprocess.run(
        ["go", "test", "-count=1", "-v", "-run", f"^{test}$", "./pkg/dlpack"], cwd=ROOT, capture_output=True, text=True
    )
    assert f"--- PASS: {test}" in run.stdout, run.stdout + run.stderr
    got = numbers(run.stdout)
    assert got == {name: expected[name] for name in got}
    assert [name for name in expected if name not in got and "(" not in name] == []


def test_python_has_every_device_type_of_the_standard(expected, standard):
    enumeration = re.search(r"\{([^{}]*)\}\s*DLDeviceType;", standard.read_text())[1]
    names = re.findall(r"\b(kDL\w+)\s*=", enumeration)
    released = {name: expected[name] for name in names}
    assert {device.name: int(device) for device in DLDeviceType} == released | UNRELEASED_DEVICES


def test_the_structures_for_ctypes_have_the_standards_layout(expected):
    got = {}
    for struct, fields in FIELDS.items():
        ours = getattr(structs, struct)
        got |= {f"sizeof({struct})": ctypes.sizeof(ours), f"_Alignof({struct})": ctypes.alignment(ours)}
        assert [name for name, _ in ours._fields_] == fields
        for field in fields:
            got[f"offsetof({struct}, {field})"] = getattr(ours, field).offset
            got[f"sizeof((({struct} *)0)->{field})"] = getattr(ours, field).size
    assert got == {name: expected[name] for name in LAYOUT if "DLPackExchangeAPI" not in name}
