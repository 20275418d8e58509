"""Copies of what a producer with __dlpack__ has on a device of CUDA: in the order of its work, and of its refusals."""

import numpy as np
import pytest

from dlpack import asdlpack, borrow, frombuffer
from support.capi import Managed, Speaks, look
from support.cuda_driver import COPIES, CPU, LEGACY, PER_THREAD, cuda, with_driver
from support.producers import Producer, refusing


class Writes:
    """Has __dlpack__ and no other protocol; a kernel of its own stream writes its memory."""

    def __init__(self, driver, device=0, knows_devices=True):
        self.driver, self.device, self.knows_devices = driver, device, knows_devices
        self.memory = driver.allocate(8, device)
        self.stream = driver.stream(device)
        self.asked = []

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, *, stream=None, **others):
        self.asked.append((stream, others))
        if others and not self.knows_devices:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        if others.get("copy") or others.get("dl_device", (2, self.device)) != (2, self.device):
            raise BufferError("this producer copies nothing")
        self.driver.fill(self.stream, self.memory, 7)
        if stream != -1:
            with self.driver.current(self.device):
                self.driver.order(self.stream, 1 if stream is None else stream)
        name = b"dltensor_versioned" if "max_version" in others else b"dltensor"
        return Managed(self.memory.address, name=name, shape=(8,), dtype=(1, 8, 1), device=(2, self.device)).capsule()


class LikeTorch(Writes):
    """Orders nothing for a call that names no stream."""

    def __dlpack__(self, *, stream=-1, **others):
        return super().__dlpack__(stream=stream, **others)


@with_driver
@pytest.mark.parametrize("knows_devices", [True, False])
@pytest.mark.parametrize("producer_class", ["Writes", "LikeTorch"])
def test_a_producers_memory_is_copied_when_it_is_written(knows_devices, producer_class, driver):
    make = {"Writes": Writes, "LikeTorch": LikeTorch}[producer_class]
    for copies in (
        lambda x: np.from_dlpack(asdlpack(x, device="cpu", copy=None)),
        lambda x: np.from_dlpack(asdlpack(x, device="cpu", copy=True)),
        lambda x: np.from_dlpack(asdlpack(asdlpack(x), device="cpu", copy=None)),
        lambda x: np.from_dlpack(asdlpack(x), device="cpu"),
        lambda x: np.from_dlpack(asdlpack(x, copy=None), device="cpu"),
    ):
        producer = make(driver, 1, knows_devices)
        assert set(copies(producer).tolist()) == {7}
    for arguments in {"copy": True}, {"device": "cuda:2", "copy": None}:
        producer = make(driver, 1, knows_devices)
        x = asdlpack(producer, **arguments)
        assert set(driver.bytes_at(x.pointer, 8).tolist()) == {7}


@with_driver
def test_a_producers_memory_is_ordered_for_the_consumers_stream(driver):
    consumer = driver.stream(1)
    for make in Writes, LikeTorch:
        for knows_devices in True, False:
            for arguments in {"stream": consumer}, {"stream": None}, {}, {"max_version": (1, 0)}:
                stream = arguments.get("stream") or LEGACY
                capsule = asdlpack(make(driver, 1, knows_devices)).__dlpack__(**arguments)
                assert driver.read_on(stream, look(capsule).dl_tensor.data, 1) == {7}, arguments


class KnowsNoThreads(LikeTorch):
    def __dlpack__(self, *, stream=-1, **others):
        if stream == PER_THREAD:
            raise BufferError("per-thread default stream is not supported.")
        return super().__dlpack__(stream=stream, **others)

    @property
    def __cuda_array_interface__(self):
        return {"version": 2, "shape": (8,), "typestr": "|u1", "data": (self.memory.address, False)}


@with_driver
def test_a_stream_that_a_producer_refuses_waits_for_legacy(driver):
    producer = KnowsNoThreads(driver)
    capsule = asdlpack(producer).__dlpack__(stream=PER_THREAD)
    assert driver.read_on(PER_THREAD, look(capsule).dl_tensor.data) == {7}
    assert [stream for stream, _ in producer.asked] == [LEGACY]
    assert driver.log("cuStreamWaitEvent")[-1].startswith(f"cuStreamWaitEvent({PER_THREAD}, ")


@with_driver
def test_memory_of_a_refusing_producer_is_copied_once(driver):
    memory = driver.allocate(16, 1)

    interface = memory.array((3,), "<f4", 1).__cuda_array_interface__
    x = asdlpack(refusing(BufferError("not today"), cuda(1), __cuda_array_interface__=interface), copy=None)
    addresses = {look(x.__dlpack__(stream=stream)).dl_tensor.data for stream in (1, driver.stream(1), -1)}
    assert addresses == {x.pointer} != {memory.address + 1}
    assert repr(x).startswith(f"<dlpack.DLPackObject: float32[3] at {x.pointer:#x}, 12 bytes on kDLCUDA:1, a copy, ")
    assert x.__cuda_array_interface__["data"] == (x.pointer, False)
    assert frombuffer(x, "uint8").pointer == x.pointer
    assert driver.live()["allocations"] == 2


@with_driver
def test_a_copy_for_stream_minus_1_waits_for_nothing(driver):
    memory = driver.allocate(16)

    def dlpack(*, stream=None, max_version=None):
        return Managed(memory.address + 1, shape=(3,), device=(2, 0)).capsule()  # misaligned

    x = asdlpack(Producer(dlpack, (2, 0)), copy=None)
    driver.clear()
    assert look(x.__dlpack__(stream=-1)).dl_tensor.shape[0] == 3
    assert len(driver.log(*COPIES)) == 1
    assert driver.log("cuStreamWaitEvent") == []


@with_driver
def test_a_producer_asked_for_its_device_is_told_the_stream(driver):
    memory, asked = driver.allocate(16), []

    def dlpack(*, stream=-1, max_version=None, dl_device=None):  # as torch's, which orders nothing without one
        asked.append((stream, dl_device))
        return Managed(memory.address, shape=(4,), device=(2, 0)).capsule()

    x = asdlpack(Producer(dlpack, (2, 0)))
    for device in None, (2, 0):
        x.__dlpack__(dl_device=device)
        assert asked[-1] == (1, device)
    x.__dlpack__(dl_device=(2, 1))
    assert asked[-1] == (-1, (2, 1))


@with_driver
def test_an_interrupted_producer_is_not_asked_again(driver):
    memory, asked = driver.allocate(16), []

    def dlpack(*, stream=-1, max_version=None, dl_device=None):
        asked.append(stream)
        return Managed(memory.address, shape=(4,), device=(2, 0)).capsule()

    def interrupted():
        raise KeyboardInterrupt

    x = asdlpack(Speaks(__dlpack__=dlpack, __dlpack_device__=interrupted))
    with pytest.raises(KeyboardInterrupt):
        x.__dlpack__(dl_device=(2, 0))
    assert asked == [-1]


@with_driver
def test_a_capsule_of_a_producer_without_a_device_is_passed_on(driver):
    memory, given = driver.allocate(16), []

    def dlpack(*, stream=-1, max_version=None, dl_device=None):
        given.append(Managed(memory.address, shape=(4,), device=(2, 0)).capsule())
        return given[-1]

    x = asdlpack(Speaks(__dlpack__=dlpack))
    assert x.__dlpack__(max_version=(1, 3), dl_device=(2, 0)) is given[0]
    assert len(given) == 1


@with_driver
def test_a_producer_that_copies_lends_nothing_to_write_to(driver):
    memory = driver.allocate(16)

    def dlpack(*, stream=None, max_version=None):
        return Managed(memory.address, name=b"dltensor_versioned", shape=(4,), device=(2, 0), flags=2).capsule()

    producer = Producer(dlpack, (2, 0))
    with pytest.raises(BufferError) as raised, borrow(producer, readonly=False):
        pass
    assert raised.value.reason == "writes-lost"


@with_driver
def test_a_producers_memory_is_copied_in_one_step(driver):
    producer = LikeTorch(driver, 1)
    for device, where, copies in (
        ("cpu", CPU, "cuMemcpyDtoHAsync_v2"),
        ("cuda:1", cuda(1), "cuMemcpyDtoDAsync_v2"),
        ("cuda:2", cuda(2), "cuMemcpyPeerAsync"),
    ):
        driver.clear()
        x = asdlpack(producer, device=device, copy=True)
        assert (x.device, x.obj) == (where, None)
        assert [line.split("(")[0] for line in driver.log(*COPIES)] == [copies]


@with_driver
def test_a_producer_is_not_asked_to_copy_to_a_gpu(driver):
    """Nobody would know when it is done."""

    class Copies(Writes):
        """Copies if it is asked to, on a stream of its own."""

        def __dlpack__(self, *, stream=None, dl_device=None, **others):
            assert dl_device is None or dl_device[0] != 2
            return super().__dlpack__(stream=stream, **others)

    for device in 0, 2:
        producer = Copies(driver, 1)
        x = asdlpack(producer, device=(2, device), copy=None)
        assert x.device == (2, device)
        assert set(driver.bytes_at(x.pointer, 8).tolist()) == {7}

    array = np.full(8, 7, "u1")

    def dlpack(*, stream=None, max_version=None, dl_device=None):
        assert dl_device is None
        return array.__dlpack__(max_version=max_version)

    x = asdlpack(Producer(dlpack, (1, 0)), device=(2, 1), copy=None)
    assert (x.device, set(driver.bytes_at(x.pointer, 8).tolist())) == (cuda(1), {7})


@with_driver
@pytest.mark.parametrize("kind", ["plain", "managed"])
def test_an_interface_without_a_stream_of_a_refuser_is_refused(kind, driver):
    """As torch's tensors on another device than the current one."""
    memory = driver.allocate(8, 1, kind)

    keys = {"shape": (8,), "typestr": "|u1", "data": (memory.address, False)}
    for version in 0, 1, 2, 3:
        interface = {"version": version, **keys} if version else keys
        x = asdlpack(refusing(BufferError("not the current device"), cuda(1), __cuda_array_interface__=interface))
        if version == 3:
            assert (x.shape, x.__cuda_array_interface__) == ((8,), {**interface, "stream": None})
            continue
        for ask in (lambda: x.shape, x.__dlpack__, lambda: asdlpack(x, device="cpu", copy=None)):  # noqa: B023
            with pytest.raises(BufferError, match=f"not the current device.*version {version} names no stream"):
                ask()


@with_driver
def test_a_producer_whose_memory_is_borrowed_orders_its_work(driver):
    memory, asked = driver.allocate(64), []

    def dlpack(*, stream=None, max_version=None):
        asked.append(stream)
        return Managed(memory.address, shape=(8,), device=(2, 0)).capsule()

    obj = Producer(dlpack, (2, 0))
    with borrow(obj) as tensor:
        assert (tensor.contents.data, asked) == (memory.address, [-1, LEGACY])
    asked.clear()
    x = asdlpack(obj, align=64)
    driver.clear()
    assert look(x.__dlpack__(stream=driver.stream(), max_version=(1, 0))).dl_tensor.data == memory.address
    assert (asked, len(driver.log("cuStreamWaitEvent"))) == ([-1, LEGACY], 1)


@with_driver
def test_a_copy_for_stream_minus_1_serves_no_other_export(driver):
    """Memory exported with stream=-1 may not be written yet."""

    class Misaligned(Writes):
        def __dlpack__(self, *, stream=None, **others):
            self.asked.append((stream, others))
            if stream != -1:
                self.driver.order(self.stream, stream)
            return Managed(self.memory.address + 4, shape=(1,), dtype=(2, 64, 1), device=(2, 0)).capsule()

    producer = Misaligned(driver)
    producer.memory = driver.allocate(16)
    x = asdlpack(producer, copy=None)
    driver.fill(producer.stream, producer.memory, 7)
    x.__dlpack__(stream=-1, max_version=(1, 3))
    asked = len(producer.asked)
    second = look(x.__dlpack__(stream=1, max_version=(1, 3)))
    assert len(producer.asked) > asked
    driver.synchronize(1)
    assert set(driver.bytes_at(second.dl_tensor.data, 8).tolist()) == {7}


@with_driver
def test_a_producer_of_managed_memory_is_told_the_default_stream(driver):
    """Torch orders nothing if no stream is named."""
    memory, own, asked = driver.allocate(8, 0, "managed"), driver.stream(), []

    def dlpack(*, stream=-1, **_):
        asked.append(stream)
        driver.fill(own, memory, 7)
        if stream != -1:
            driver.order(own, stream)
        return Managed(memory.address, shape=(8,), dtype=(1, 8, 1), device=(13, 0)).capsule()

    for arguments in {}, {"dl_device": (13, 0)}:
        memory.bytes[...] = 0
        capsule = asdlpack(Producer(dlpack, (13, 0))).__dlpack__(**arguments)
        assert asked[-1] == LEGACY
        assert driver.read_on(LEGACY, look(capsule).dl_tensor.data) == {7}
