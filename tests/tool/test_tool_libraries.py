"""`python tests/exchanges` with all libraries: what exchanges with what here."""

import pytest

from dlpack import tests
from dlpack._libraries import LIBRARIES
from dlpack.tests.column import APART
from support.tool import library_of

# Installed by the test group. A library that is missing is a failure, not a skip.
HERE = (
    "numpy ml_dtypes torch jax tensorflow numba pyarrow tvm tvm_ffi mpi4py onnx onnxruntime paddle mlx polars pandas "
)
HERE += "nanoarrow duckdb nanobind dask xarray zarr h5py PIL av cv2"
OWN = "C memoryview"  # what needs no library
CONSUMERS = "numpy torch jax tensorflow pyarrow tvm tvm_ffi mpi4py onnxruntime paddle mlx polars nanoarrow nanobind"


@pytest.fixture(scope="module")
def report():
    """A run with all libraries."""
    return tests.run(adapters="exchanges")


@pytest.mark.timeout(1200)  # the first test makes the report
def test_all_libraries_are_tried(report):
    assert report.problems == []
    assert set(HERE.split()) <= set(report.libraries)
    found = {library_of(consumer) for consumer in report.consumers}
    taking = {each.name for each in LIBRARIES if each.consumer and each.name in report.libraries}
    assert found == taking | set(OWN.split())
    assert set(CONSUMERS.split()) <= taking


@pytest.mark.parametrize("library", [*OWN.split(), *HERE.split()])
def test_nothing_fails_with(report, library):
    exchanges = [each for each in report.exchanges if library_of(each.consumer) == library]
    checks = [each for each in report.checks if each.library == library]
    rows = [each for each in report.exchanges if each.section == library]
    assert exchanges or checks or rows
    assert [each for each in exchanges + checks if each.failed] == []


def test_every_kind_of_memory_is_handed_to_every_consumer(report):
    rows = {(each.section, each.provider) for each in report.exchanges}
    assert len(report.exchanges) == len(rows) * len(report.consumers)


def test_the_table_of_expectations_is_up_to_date(report):
    assert [each for each in report.exchanges if each.news] == []


def test_only_what_needs_a_gpu_is_skipped(report):
    skipped = {each.reason for each in report.exchanges if each.outcome == "skipped"}
    skipped |= {each.text for each in report.checks if each.outcome == "skipped"}
    assert skipped <= {"no CUDA device", *APART.values()}


def test_every_refusal_has_a_reason_and_the_words_of_who_refuses(report):
    for each in report.exchanges:
        if each.outcome == "refused":
            assert each.reason and each.text and each.refused_by in ("dlpack", each.consumer), each
            assert each.copy in ("works", "refused")


def test_libraries_go_by_the_names_of_their_distributions_too():
    found = tests.run("Pillow", "ml-dtypes", "numpy", "numpy", adapters="exchanges")
    assert list(found.libraries) == ["numpy", "ml_dtypes", "PIL"]
