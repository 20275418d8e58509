"""Go's fuzz targets compare parsers, layouts, copies and whole requests with slow, obvious second implementations."""

import re

import pytest

from support.alone import ROOT, run

SECONDS = 18  # for each target
TAKE_NO_INPUT = {"pkg/stack"}
PACKAGES = sorted(
    {str(test.parent.relative_to(ROOT)) for folder in ("pkg", "pyext") for test in ROOT.glob(f"{folder}/**/*_test.go")}
    - TAKE_NO_INPUT
)


def go_test(package, *flags):
    result = run("go", "test", *flags, f"./{package}", cwd=ROOT, timeout=600)
    assert result.returncode == 0, (
        f"{result.stdout}{result.stderr}\nwhat is new in {package}/testdata goes with the fix"
    )
    return result.stdout


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES)
def test_no_input_is_answered_otherwise_than_by_the_second_implementation(package, figure):
    """`go test ./...` tries the seeds, and what a fuzzer once found (testdata/fuzz)."""
    tests = "".join(file.read_text() for file in (ROOT / package).glob("*_test.go"))
    targets = re.findall(r"^func (Fuzz\w+)", tests, re.MULTILINE)
    assert targets
    seeds = go_test(package, "-run", "^Fuzz", "-v")
    for target in targets:
        assert f"--- PASS: {target}/seed#0 " in seeds
        flags = ["-run", "^$", "-fuzz", f"^{target}$", "-fuzztime", f"{SECONDS}s", "-fuzzminimizetime", "1x"]
        said = go_test(package, *flags)
        inputs = re.findall(r"execs: (\d+) ", said)
        assert inputs, f"not one input in {SECONDS} s: {said}"
        figure(f"inputs of {target}", int(inputs[-1]))
