"""Tensors of torch on CUDA, taken by the C exchange API. Torch's own code runs, on a driver for tests without a GPU."""

import warnings

import numpy as np
import pytest
import torch

from dlpack import asdlpack, frombuffer
from support.capi import Speaks, look
from support.cuda_driver import LEGACY, PER_THREAD, with_driver
from support.exchange_api import changed_api, python_calls

VERSIONED = {"max_version": (1, 0)}
on_cuda = pytest.mark.skipif(torch.version.cuda is None, reason="a torch without CUDA")


def begin(driver):
    """Has torch work on a stream of its own, on device 1; returns the stream."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these devices can't compute
        torch.cuda.init()
    torch.cuda.set_device(1)
    return work_on(driver.stream(1))


def work_on(stream):
    cuda = torch.cuda
    cuda.set_stream(cuda.default_stream() if stream == LEGACY else cuda.ExternalStream(stream))
    return stream


def make_tensor(driver, device=1, offset=0):
    """Returns a tensor, which a kernel on the current stream fills with bytes of 7."""
    memory = driver.allocate(20, device)
    driver.fill(torch.cuda.current_stream(device).cuda_stream or LEGACY, memory, 7)
    storage = torch._C._construct_storage_from_data_pointer(memory.address + offset, torch.device("cuda", device), 16)
    facts = {"dtype": torch.float32, "size": (4,), "stride": (1,), "storage_offset": 0}
    return torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata(facts, storage)


def observe(call):
    """Returns the result of a call, and which of torch's methods it called."""
    result = []
    called = python_calls(lambda: result.append(call()), lambda frame: frame.f_code.co_name.startswith("__dlpack"))
    return result[0], called


def tensor_in(capsule):
    return getattr(look(capsule), "dl_tensor", look(capsule))


def seen(driver, capsule, stream):
    """Returns the bytes that a kernel on the consumer's stream finds."""
    result = driver.allocate(16, 1)
    driver.copy(stream, result, tensor_in(capsule).data)
    driver.synchronize(stream, 1)
    return set(result.bytes.tolist())


@on_cuda
@with_driver(runtime=True)
def test_an_export_is_ordered_for_the_consumers_stream(driver):
    own, another = begin(driver), driver.stream(1)
    for producer in own, LEGACY:
        work_on(producer)
        for consumer in None, LEGACY, PER_THREAD, own, another:
            for arguments in {}, VERSIONED:
                x = asdlpack(make_tensor(driver))
                driver.clear()
                capsule, called = observe(lambda x=x, c=consumer, words=arguments: x.__dlpack__(stream=c, **words))
                waits = driver.log("cuStreamWaitEvent")
                case = producer, consumer, arguments
                assert (len(waits), called) == (producer != (consumer or LEGACY), []), case
                assert seen(driver, capsule, consumer or LEGACY) == {7}, case


@on_cuda
@with_driver(runtime=True)
def test_the_api_gives_what_the_method_gives_and_frees_it_once(driver):
    stream, tensor = begin(driver), make_tensor(driver)
    by_method = Speaks(__dlpack__=tensor.__dlpack__, __dlpack_device__=tensor.__dlpack_device__)
    before = tensor._use_count()
    for words in {"stream": LEGACY}, {"stream": stream, **VERSIONED}, {"stream": -1}, VERSIONED, {"copy": False}:
        facts = []
        for source in tensor, by_method:
            capsule = asdlpack(source).__dlpack__(**words)
            given = tensor_in(capsule)
            facts.append((given.data, given.device.device_id, given.shape[0], given.strides[0], given.dtype.bits))
            del capsule, given
        assert facts[0] == facts[1] == (tensor.data_ptr(), 1, 4, 1, 32)
    assert tensor._use_count() == before
    driver.clear()
    for words in {}, VERSIONED:
        asdlpack(tensor).__dlpack__(stream=-1, **words)  # asks for no order
    x = asdlpack(tensor)
    assert observe(lambda: (x.shape, x.pointer, x.device)) == (((4,), tensor.data_ptr(), (2, 1)), [])
    assert driver.log("cuStreamWaitEvent", "cuStreamSynchronize") == []


@on_cuda
@with_driver(runtime=True)
def test_copies_and_views_are_ordered_by_torch(driver):
    """An object that lives on must not name torch's stream, which may be gone by then."""
    begin(driver)
    for copied in (
        lambda tensor: asdlpack(tensor, device="cpu", copy=None),
        lambda tensor: asdlpack(asdlpack(tensor), device="cpu", copy=True),
        lambda tensor: asdlpack(asdlpack(tensor, copy=True), device="cpu", copy=None),
        lambda tensor: asdlpack(asdlpack(tensor, copy=None)._tensor, device="cpu", copy=None),
    ):
        for offset in 0, 1:  # misaligned
            assert set(np.from_dlpack(copied(make_tensor(driver, 1, offset))).view("u1").tolist()) == {7}
    x = asdlpack(make_tensor(driver))
    assert (x.shape, x.__cuda_array_interface__["stream"]) == ((4,), LEGACY)
    assert frombuffer(make_tensor(driver), "uint8")._stream == LEGACY
    for words in {}, VERSIONED:
        tensor = make_tensor(driver)
        capsule = asdlpack(tensor, copy=None).__dlpack__(stream=LEGACY, **words)
        assert (tensor_in(capsule).data, seen(driver, capsule, LEGACY)) == (tensor.data_ptr(), {7})


@on_cuda
@with_driver(runtime=True)
def test_torch_is_asked_if_the_api_does_not_serve(driver):
    begin(driver)
    elsewhere = make_tensor(driver, device=2)
    with pytest.raises(BufferError):
        asdlpack(elsewhere).__dlpack__(stream=LEGACY, **VERSIONED)  # torch refuses all but its current device
    torch.cuda.set_device(2)
    x = asdlpack(elsewhere)
    assert observe(lambda: x.__dlpack__(stream=LEGACY, **VERSIONED))[1] == []
    torch.cuda.set_device(1)
    with pytest.raises(ValueError):
        asdlpack(make_tensor(driver)).__dlpack__(stream=0)
    with pytest.raises(TypeError):
        asdlpack(make_tensor(driver)).__dlpack__(stream="1")
    with changed_api(torch.Tensor) as api:
        kind = type(api.current_work_stream)
        for odd in kind(), kind(lambda *_: -1):
            api.current_work_stream = odd
            x = asdlpack(make_tensor(driver))
            capsule, called = observe(lambda x=x: x.__dlpack__(stream=LEGACY, **VERSIONED))
            assert (seen(driver, capsule, LEGACY), "__dlpack__" in called) == ({7}, True)
