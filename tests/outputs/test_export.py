"""__dlpack__: what is in the structures that it makes. test_conformance.py tries the rules of DLPack,
test_dlpack_arguments.py and test_errors.py have the rest."""

import ctypes

import numpy as np
import pytest

from dlpack import asdlpack
from support.capi import Managed, address, capsule_name, consume, look
from support.refusals import refused

DATA = ctypes.create_string_buffer(4)


def test_every_export_has_a_structure_of_its_own():
    x = asdlpack(bytearray(4))
    capsules = [x.__dlpack__(max_version=version) for version in (None, None, (1, 0), (1, 0))]
    managed = [consume(capsule) for capsule in capsules]
    assert len({address(one) for one in managed}) == 4
    assert len({one.dl_tensor.data for one in managed}) == 1
    managed[0].dl_tensor.shape[0] = 3  # the consumer owns what it got
    assert [one.dl_tensor.shape[0] for one in managed] == [3, 4, 4, 4]
    for one in managed:
        one.deleter(address(one))


@pytest.mark.parametrize(
    ("device", "default"),
    [((8, 0), [None, -1]), ((10, 0), [None, -1, 0]), ((11, 0), [None, -1, 0]), ((14, 0), [None, -1])],
)
def test_memory_of_a_capsule_off_cuda_is_complete_in_the_default_order(device, default):
    x = asdlpack(Managed(address(DATA), shape=(4,), dtype=(1, 8, 1), device=device).capsule())
    for stream in default:
        assert look(x.__dlpack__(stream=stream)).dl_tensor.data == address(DATA)
    refused(lambda: x.__dlpack__(stream=1), *(("stream", ValueError) if 0 in default else ("stream-order",)), stream=1)
    refused(lambda: x.__dlpack__(stream=4096), "stream-order", hint="stream=-1", stream=4096)


def test_a_copied_export_does_not_change_the_object():
    data = bytearray(b"abc")
    x = asdlpack(data)
    pointer = x.pointer
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 0
    assert (x.pointer, data, x.obj) == (pointer, b"abc", data)
    assert np.from_dlpack(x).ctypes.data == pointer


def test_the_methods_are_found_on_the_type():
    """nanobind and others look there."""
    x = asdlpack(bytearray(4))
    assert capsule_name(type(x).__dlpack__(x)) == b"dltensor"
    assert type(x).__dlpack_device__(x) == (1, 0)
