"""__dlpack__: its arguments, and what is in the structures that it makes."""

import ctypes

import numpy as np
import pytest

from dlpack import DLDeviceType, asdlpack
from support.capi import IS_COPIED, READ_ONLY, Managed, Speaks, address, capsule_name, consume, look

NUMBERS = np.arange(6, dtype="f4").reshape(2, 3)
DATA = ctypes.create_string_buffer(4)


@pytest.fixture(params=["buffer", "__dlpack__", "__array_interface__", "dltensor_versioned"])
def x(request):
    """The same memory, come in by one protocol after the other."""
    sources = {
        "buffer": memoryview(NUMBERS),
        "__dlpack__": NUMBERS,
        "__array_interface__": Speaks(__array_interface__=NUMBERS.__array_interface__),
        "dltensor_versioned": NUMBERS.__dlpack__(max_version=(1, 0)),
    }
    return asdlpack(sources[request.param])


def tensor_facts(tensor):
    return (
        tensor.data,
        (tensor.device.device_type, tensor.device.device_id),
        (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        tensor.shape[: tensor.ndim],
        tensor.strides[: tensor.ndim],
        tensor.byte_offset,
    )


FACTS = (NUMBERS.ctypes.data, (1, 0), (2, 32, 1), [2, 3], [3, 1], 0)


@pytest.mark.parametrize("max_version", [None, (0, 8), (0, 0)])
def test_without_version_1_the_structure_is_the_legacy_one(x, max_version):
    capsule = x.__dlpack__(max_version=max_version)
    assert capsule_name(capsule) == b"dltensor"
    assert tensor_facts(look(capsule).dl_tensor) == FACTS


@pytest.mark.parametrize("max_version", [(1, 0), (1, 1), (1, 3), (1, 99), (2, 0), (2**31, 0)])
def test_from_version_1_on_the_structure_is_the_versioned_one(x, max_version):
    capsule = x.__dlpack__(max_version=max_version)
    assert capsule_name(capsule) == b"dltensor_versioned"
    managed = look(capsule)
    assert (managed.version.major, managed.flags) == (1, 0)
    assert tensor_facts(managed.dl_tensor) == FACTS


def test_the_versioned_structure_says_version_1_3():
    managed = look(asdlpack(b"abc").__dlpack__(max_version=(1, 0)))
    assert (managed.version.major, managed.version.minor) == (1, 3)


def test_an_export_needs_no_argument(x):
    assert capsule_name(x.__dlpack__()) == b"dltensor"


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_read_only_memory_leaves_in_either_structure(max_version):
    capsule = asdlpack(b"abc").__dlpack__(max_version=max_version)
    managed = look(capsule)
    assert managed.dl_tensor.shape[0] == 3
    if max_version:
        assert managed.flags == READ_ONLY


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
def test_memory_of_no_items_leaves_as_null_with_strides(shape, max_version):
    tensor = look(asdlpack(memoryview(np.zeros(shape))).__dlpack__(max_version=max_version)).dl_tensor
    assert not tensor.data
    assert tensor.shape[: tensor.ndim] == list(shape)
    assert tensor.strides[tensor.ndim - 1] == 1


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("ndim", [0, 1, 4, 5, 63])
def test_strides_are_given_whatever_the_number_of_dimensions(ndim, max_version):
    array = np.arange(1 << min(ndim, 6), dtype="i1").reshape((2,) * min(ndim, 6) + (1,) * max(ndim - 6, 0))
    tensor = look(asdlpack(memoryview(array)).__dlpack__(max_version=max_version)).dl_tensor
    assert tensor.ndim == ndim
    assert tensor.shape[:ndim] == list(array.shape)
    assert tensor.strides[:ndim] == list(array.strides)
    assert tensor.byte_offset == 0


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


# Arguments.


def test_stream_none_may_be_given_by_position_or_by_name(x):
    assert capsule_name(x.__dlpack__(None)) == b"dltensor"
    assert capsule_name(x.__dlpack__(stream=None)) == b"dltensor"
    assert capsule_name(x.__dlpack__(None, max_version=(1, 0))) == b"dltensor_versioned"


@pytest.mark.parametrize("stream", [0, 1, 2, -1, -2, 1 << 40])
def test_memory_of_the_cpu_has_no_streams(stream):
    x = asdlpack(bytearray(4))
    for export in (lambda: x.__dlpack__(stream), lambda: x.__dlpack__(stream=stream)):
        with pytest.raises(ValueError, match=f"stream.*{stream}.*None"):
            export()


@pytest.mark.parametrize(
    ("device", "default"),
    [((8, 0), [None, -1]), ((10, 0), [None, -1, 0]), ((11, 0), [None, -1, 0]), ((14, 0), [None, -1])],
)
def test_elsewhere_than_on_cuda_the_memory_of_a_capsule_is_complete_in_the_order_that_none_means(device, default):
    x = asdlpack(Managed(address(DATA), shape=(4,), dtype=(1, 8, 1), device=device).capsule())
    for stream in default:
        assert look(x.__dlpack__(stream=stream)).dl_tensor.data == address(DATA)
    with pytest.raises((BufferError, ValueError), match="stream 1: .*stream=-1|stream 1: .*expected None, -1, 0"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="stream 4096: .*can't be kept .*stream=-1"):
        x.__dlpack__(stream=4096)


@pytest.mark.parametrize("device", [(1, 0), (1, 7), (DLDeviceType.kDLCPU, 0), None])
def test_the_device_of_the_memory_may_be_asked_for(device):
    x = asdlpack(memoryview(NUMBERS))
    assert tensor_facts(look(x.__dlpack__(dl_device=device)).dl_tensor) == FACTS


@pytest.mark.parametrize("device", [(2, 0), (2, 1), (10, 0), (18, 0), (DLDeviceType.kDLCUDA, 3)])
def test_another_device_is_a_buffer_error_that_names_both(device):
    with pytest.raises(BufferError, match="kDLCPU") as caught:
        asdlpack(bytearray(4)).__dlpack__(dl_device=device)
    assert {2: "kDLCUDA", 10: "kDLROCM", 18: "kDLTrn"}[int(device[0])] in str(caught.value)


@pytest.mark.parametrize("copy", [None, False])
def test_without_a_copy_the_memory_is_shared(x, copy):
    managed = look(x.__dlpack__(max_version=(1, 0), copy=copy))
    assert (tensor_facts(managed.dl_tensor), managed.flags) == (FACTS, 0)


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_with_a_copy_the_memory_is_another(x, max_version):
    capsule = x.__dlpack__(max_version=max_version, copy=True)
    managed = look(capsule)
    assert managed.dl_tensor.data != NUMBERS.ctypes.data
    assert tensor_facts(managed.dl_tensor)[1:] == FACTS[1:]
    copied = (ctypes.c_float * 6).from_address(managed.dl_tensor.data)
    assert list(copied) == NUMBERS.ravel().tolist()
    if max_version:
        assert managed.flags == IS_COPIED


def test_a_copy_of_read_only_memory_may_be_written():
    x = asdlpack(b"abc")
    assert look(x.__dlpack__(max_version=(1, 0), copy=True)).flags == IS_COPIED
    assert np.from_dlpack(x, copy=True).flags.writeable


def test_a_copied_export_does_not_change_the_object():
    data = bytearray(b"abc")
    x = asdlpack(data)
    pointer = x.pointer
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 0
    assert (x.pointer, data, x.obj) == (pointer, b"abc", data)
    assert np.from_dlpack(x).ctypes.data == pointer


@pytest.mark.parametrize(
    "arguments",
    [
        {"stream": "1"},
        {"stream": 1.0},
        {"max_version": 1},
        {"max_version": "10"},
        {"max_version": ()},
        {"max_version": (1,)},
        {"max_version": (1, 0, 0)},
        {"max_version": (1.0, 0)},
        {"max_version": ("1", "0")},
        {"dl_device": 1},
        {"dl_device": "cpu"},
        {"dl_device": (1,)},
        {"dl_device": (1, 0, 0)},
        {"dl_device": ("cpu", 0)},
        {"copy": "yes"},
        {"copy": 2},
    ],
    ids=str,
)
def test_an_argument_of_another_type_is_refused_by_its_name(arguments):
    with pytest.raises(TypeError, match=next(iter(arguments))):
        asdlpack(bytearray(4)).__dlpack__(**arguments)


@pytest.mark.parametrize("arguments", [((), {"color": 1}), ((None, None), {}), ((None,), {"stream": None})])
def test_arguments_that_do_not_exist_are_a_type_error(arguments):
    positional, named = arguments
    with pytest.raises(TypeError):
        asdlpack(bytearray(4)).__dlpack__(*positional, **named)


def test_arguments_by_equal_names_that_are_other_strings_are_recognised():
    name = "".join(["max_", "version"])
    assert capsule_name(asdlpack(b"abc").__dlpack__(**{name: (1, 0)})) == b"dltensor_versioned"


def test_the_device_is_two_plain_integers(x):
    assert x.__dlpack_device__() == (1, 0)
    assert x.device == (DLDeviceType.kDLCPU, 0)
    assert isinstance(x.device[0], DLDeviceType)


def test_device_types_have_the_numbers_of_dlpack_1_3():
    assert {device.name: device.value for device in DLDeviceType} == {
        "kDLCPU": 1,
        "kDLCUDA": 2,
        "kDLCUDAHost": 3,
        "kDLOpenCL": 4,
        "kDLVulkan": 7,
        "kDLMetal": 8,
        "kDLVPI": 9,
        "kDLROCM": 10,
        "kDLROCMHost": 11,
        "kDLExtDev": 12,
        "kDLCUDAManaged": 13,
        "kDLOneAPI": 14,
        "kDLWebGPU": 15,
        "kDLHexagon": 16,
        "kDLMAIA": 17,
        "kDLTrn": 18,
    }


def test_the_methods_are_found_on_the_type():
    """nanobind and others look there."""
    x = asdlpack(bytearray(4))
    assert capsule_name(type(x).__dlpack__(x)) == b"dltensor"
    assert type(x).__dlpack_device__(x) == (1, 0)
