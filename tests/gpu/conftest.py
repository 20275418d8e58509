"""The suite for a machine with a GPU. It is run by itself: `make test-cuda`."""

import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # else jax takes three quarters of the GPU's memory

import pytest

from support.cuda_driver import gpus


def pytest_sessionstart():
    if not gpus():
        pytest.exit("tests/gpu needs a GPU, cupy and torch", returncode=1)


@pytest.fixture(autouse=True)
def the_thread_is_left_as_it_was():
    """No context stays pushed, no capture mode changed, and no error in the context, which every later call reports."""
    from support.gpu import GPU

    with GPU():
        yield
