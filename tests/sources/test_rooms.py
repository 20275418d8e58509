"""The rooms of pyext/ lie above each other, and each uses only those below: in what a file includes, and in the symbols
that its object file leaves to others."""

import re
import shutil
import sysconfig
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from support.alone import INCLUDE, ROOT, run
from support.builds import c_sources

PYEXT = ROOT / "pyext"
ROOMS = "core platform python runtime ask hold read object delegate give module".split()  # from the ground up


def room_of(path):
    return ROOMS.index(path.parent.name)


def included(path):
    """The files of pyext/ that one includes: by their rooms, but within the core."""
    for name in re.findall(r'^ *# *include *"(.+)"', path.read_text(), re.M):
        yield (path.parents[1] if "/" in name else path.parent) / name


def includes_upwards(pyext):
    files = [path for suffix in "ch" for path in pyext.glob(f"*/*.{suffix}")]
    return {
        f"{file.parent.name}/{file.name} includes {other.parent.name}/{other.name}"
        for file in files
        for other in included(file)
        if room_of(other) > room_of(file)
    }


def symbols(object_file):
    """What it defines for others, and what it leaves to them."""
    with object_file.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        outside = [symbol for symbol in table.iter_symbols() if symbol["st_info"]["bind"] != "STB_LOCAL"]
        undefined = {symbol.name for symbol in outside if symbol["st_shndx"] == "SHN_UNDEF"}
        return {symbol.name for symbol in outside} - undefined, undefined


def calls_upwards(pyext, scratch):
    flags = ["-std=gnu11", "-O0", "-DPy_LIMITED_API=0x030b0000", '-DDLPACK_GO_VERSION="0"']
    flags += [f"-I{folder}" for folder in (pyext, INCLUDE, sysconfig.get_path("include"))]
    defined, undefined = {}, {}
    for file in c_sources(pyext):
        compiled = scratch / "object.o"
        result = run("cc", *flags, "-c", file, "-o", compiled)
        assert result.returncode == 0, result.stderr
        own, undefined[file] = symbols(compiled)
        defined |= dict.fromkeys(own, file)
    assert defined["PyInit__dlpack"].parent.name == "module"
    return {
        f"{file.parent.name}/{file.name} uses {name} of {defined[name].parent.name}/{defined[name].name}"
        for file, names in undefined.items()
        for name in names & defined.keys()
        if room_of(defined[name]) > room_of(file)
    }


def test_each_file_of_pyext_is_in_a_room():
    """Every file lies in a room, and no room is empty: a file in an unknown folder would be checked nowhere."""
    folders = {path.relative_to(PYEXT).parent for suffix in "ch" for path in PYEXT.rglob(f"*.{suffix}")}
    assert folders == {Path(room) for room in ROOMS}


def test_no_room_includes_one_above_it():
    assert includes_upwards(PYEXT) == set()


def test_no_room_calls_one_above_it(tmp_path):
    assert calls_upwards(PYEXT, tmp_path) == set()


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("object/object.c", '#include "give/give.h"\n', "object/object.c includes give/give.h"),
        ("ask/ask.h", ' # include "module/module.h"\n', "ask/ask.h includes module/module.h"),
    ],
)
def test_an_include_of_a_room_above_is_found(tmp_path, file, line, found):
    copy = shutil.copytree(PYEXT, tmp_path / "pyext")
    (copy / file).write_text(line + (copy / file).read_text())
    assert includes_upwards(copy) == {found}


def test_a_call_and_a_variable_of_a_room_above_are_found(tmp_path):
    copy = shutil.copytree(PYEXT, tmp_path / "pyext")
    call = "\nextern int type_init(PyObject *);\nint call_up(PyObject *module) { return type_init(module); }\n"
    variable = "\nextern PyTypeObject *DLPackObject_type;\nvoid *type_above(void) { return DLPackObject_type; }\n"
    with (copy / "object" / "object.c").open("a") as file:
        file.write(call)
    with (copy / "ask" / "request.c").open("a") as file:
        file.write(variable)
    assert calls_upwards(copy, tmp_path) == {
        "object/object.c uses type_init of give/type.c",
        "ask/request.c uses DLPackObject_type of object/object.c",
    }
