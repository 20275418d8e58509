"""The suite for a machine with a GPU. It is run by itself: `make test-cuda`."""

import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # else jax takes three quarters of the GPU's memory
os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"  # the fewer, the sooner streams share a queue, and wait for each other

import ctypes

import pytest


def devices():
    """Returns the driver's number of devices. Raises OSError without a driver or a device."""
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if result or count.value == 0:
        raise OSError(f"CUDA error {result}, {count.value} devices")
    return count.value


def pytest_sessionstart():
    try:
        devices()
    except OSError as error:
        pytest.exit(f"tests/gpu needs a GPU: {error}", returncode=1)


@pytest.fixture(scope="session")
def second_device():
    """The ordinal of another device than 0, as far as there is one."""
    if devices() < 2:
        pytest.skip("one GPU")
    return 1


@pytest.fixture(autouse=True)
def the_thread_is_left_as_it_was():
    """No context stays pushed, no capture mode changed, and no error in the context, which every later call reports."""
    import gpu

    before = gpu.current_context(), gpu.capture_mode()
    yield
    assert (gpu.current_context(), gpu.capture_mode()) == before
    gpu.call("cuCtxSynchronize")
