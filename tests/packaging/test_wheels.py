"""Messages of `make check-wheels` about wheels that are wrong, or for another system."""

import csv
import hashlib
import io
import sys
import zipfile
from base64 import urlsafe_b64encode

import pytest

from support.alone import ROOT

TAG = "cp311-abi3-manylinux_2_17_x86_64"


@pytest.fixture
def check_wheels(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import check_wheels

    yield check_wheels
    for name in "check_wheels", "wheels", "debian":
        sys.modules.pop(name, None)


@pytest.fixture
def wheel(tmp_path):
    """A wheel that holds what it says, and no more."""
    path = tmp_path / f"dlpack_go-0.1.0-{TAG}.whl"
    content = b"x = 1\n" * 1000
    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = io.StringIO()
    name = "dlpack_go-0.1.0.dist-info/RECORD"
    csv.writer(record).writerows([("dlpack/x.py", f"sha256={digest}", len(content)), (name, "", "")])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("dlpack/x.py", content)
        archive.writestr(name, record.getvalue())
    return path


def test_a_truncated_wheel_is_named_in_one_line(check_wheels, wheel):
    assert check_wheels.run_checks([(check_wheels.check_archive, wheel)]) == (1, [])
    wheel.write_bytes(wheel.read_bytes()[:-50])
    checks = [(check, wheel) for check in check_wheels.WHEEL_CHECKS]
    assert check_wheels.run_checks(checks) == (0, ["archive: File is not a zip file"])


def test_a_file_in_a_wheel_that_was_changed_is_named(check_wheels, wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content.replace(b"x = 1", b"x = 2"))
    passed, failed = check_wheels.run_checks([(check_wheels.check_archive, wheel)])
    assert (passed, failed) == (0, ["archive: dlpack/x.py: another checksum than in RECORD"])


def test_a_library_for_another_processor_or_none_fails(check_wheels, wheel):
    passed, failed = check_wheels.run_checks([(check_wheels.check_libraries, wheel)])
    assert (passed, failed) == (0, ["libraries: []; expected 2"])


def test_the_table_tells_what_failed_and_what_was_skipped(check_wheels):
    rows = [
        check_wheels.Row("linux-x86_64", TAG, "1,000", "CPython 3.11", 3, ["smoke test: no"]),
        check_wheels.Row("linux-x86_64", TAG, "", "CPython 3.14t", 0, [], "skipped: none here"),
    ]
    header, failed, skipped = check_wheels.table(rows).splitlines()
    assert header.split()[:3] == ["target", "tag", "size"]
    assert failed.split()[-5:] == ["3", "1", "smoke", "test:", "no"]
    assert skipped.endswith("skipped: none here")


def test_a_wheel_that_pip_takes_on_other_systems_fails_the_check(check_wheels, wheel, tmp_path, monkeypatch):
    """musl, 32-bit systems, PyPy, Python 3.10."""
    monkeypatch.setattr(check_wheels, "DIST", tmp_path)
    assert [row.failures for row in check_wheels.refused_rows()] == [[]] * len(check_wheels.OTHERS)
    monkeypatch.setattr(check_wheels, "OTHERS", {"musl": check_wheels.OTHERS["musl"]})
    wheel.rename(tmp_path / wheel.name.replace(TAG, "py3-none-any"))
    assert [len(row.failures) for row in check_wheels.refused_rows()] == [1]
