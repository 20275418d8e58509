"""Tensors of torch and paddle, taken by their types' C exchange API instead of __dlpack__."""

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import dlpack
from dlpack import DLPackObject, asdlpack
from support.alone import alone
from support.capi import Speaks, capsule_new, look
from support.exchange_api import ExchangeAPI, api_of, changed_api, python_calls
from support.refusals import refused
from support.threads import in_threads

VERSIONED: dict[str, Any] = {"max_version": (1, 0)}
ARGUMENTS: list[dict[str, Any]] = [{}, VERSIONED, {**VERSIONED, "dl_device": (1, 0), "copy": False}]


def numbers(dtype=torch.float32):
    return torch.arange(24).to(dtype).reshape(2, 3, 4)


def lazily_cloned():
    return torch._lazy_clone(numbers())


TORCH: dict[str, Any] = {
    **{f"{dtype}".removeprefix("torch."): (lambda dtype=dtype: numbers(dtype)) for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
        torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    )},
    "float8_e8m0fnu": lambda: torch.zeros(3, dtype=torch.uint8).view(torch.float8_e8m0fnu),
    "float4_e2m1fn_x2": lambda: torch.zeros(3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    "0-d": lambda: torch.tensor(5.0),
    "empty": lambda: torch.empty(0, 3),
    "empty with an offset": lambda: torch.ones(3)[3:],
    "a transposed one": lambda: numbers().permute(2, 0, 1),
    "a crop": lambda: numbers()[:, 1:, 2:],
    "every second": lambda: torch.arange(9)[::2],
    "broadcast": lambda: torch.ones(1, 3).expand(4, 3),
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "9 dimensions": lambda: torch.ones((1,) * 8 + (3,)),
    "a parameter without gradients": lambda: torch.nn.Parameter(torch.ones(3), requires_grad=False),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "a buffer": lambda: torch.nn.Buffer(torch.ones(3)),
    "with gradients": lambda: torch.ones(3, requires_grad=True),
    "detached": lambda: torch.ones(3, requires_grad=True).detach(),
    "a result with gradients": lambda: torch.ones(3, requires_grad=True) * 2,
    "made in inference mode": lambda: torch.inference_mode()(torch.ones)(3),
    "conjugate": lambda: numbers(torch.complex64).conj(),
    "conjugate, resolved": lambda: numbers(torch.complex64).conj().resolve_conj(),
    "a real part": lambda: numbers(torch.complex64).real,
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "meta": lambda: torch.ones(3, device="meta"),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "copied on write": lazily_cloned,
    "a subclass": lambda: torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})),
    "read-only": lambda: torch.utils.dlpack.ReadOnlyTensorWrapper(torch.ones(3)),
    "a zero tensor": lambda: torch._efficientzerotensor(3),
    "of a file": lambda: torch.from_file(__file__, size=8, dtype=torch.uint8),
    "of numpy": lambda: torch.from_numpy(np.arange(6.0)[::2]),
    "shared between processes": lambda: torch.ones(3).share_memory_(),
    "functional": lambda: torch._to_functional_tensor(torch.ones(3)),
}  # fmt: skip


def paddles():
    """Kinds of tensors of paddle, which must be imported before tensorflow, as no other test does."""
    import paddle

    return {
        **{dtype: (lambda dtype=dtype: paddle.ones([2, 3], dtype=dtype)) for dtype in (
            "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
            "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
        )},
        "0-d": lambda: paddle.to_tensor(5.0),
        "empty": lambda: paddle.ones([0, 3]),
        "a view": lambda: paddle.as_strided(paddle.arange(6), [2, 2], [3, 1], offset=8),
        "reversed": lambda: paddle.as_strided(paddle.arange(4).astype("float32"), [3], [-1], offset=12),
        "a parameter": lambda: paddle.create_parameter([2, 3], "float32"),
        "with gradients": lambda: paddle.to_tensor([1.0], stop_gradient=False),
        "sparse": lambda: paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], [2, 2]),
    }  # fmt: skip


def by_method(tensor):
    """The same producer, asked by its methods alone."""
    return Speaks(__dlpack__=tensor.__dlpack__, __dlpack_device__=tensor.__dlpack_device__)


def outcome(call):
    """Returns the result of a call, or the type and reason of its error."""
    try:
        return call()
    except Exception as error:
        return type(error), error.reason if hasattr(error, "reason") else ""


def facts_of(obj, **arguments):
    managed = look(asdlpack(obj).__dlpack__(**arguments))
    tensor = getattr(managed, "dl_tensor", managed)
    shape = tuple(tensor.shape[: tensor.ndim])
    return (
        tensor.data,
        tensor.byte_offset,
        (tensor.device.device_type, tensor.device.device_id),
        (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        shape,
        tuple(tensor.strides[: tensor.ndim]) if 0 not in shape else None,  # which say nothing
        getattr(managed, "flags", None),
    )


def calls_of_methods(call):
    """Returns the calls of Python functions named __dlpack__ and __dlpack_device__ during a call."""
    return python_calls(call, lambda frame: frame.f_code.co_name.startswith("__dlpack"))


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_api_gives_what_the_method_gives(make, arguments):
    tensor = make()
    assert outcome(lambda: facts_of(tensor, **arguments)) == outcome(lambda: facts_of(by_method(tensor), **arguments))


@pytest.mark.parametrize("make", TORCH.values(), ids=TORCH)
def test_an_import_is_what_the_method_gives(make):
    def facts(x):
        return x.pointer, x.shape, x.strides, x.dtype, x.readonly, x.device, x.__dlpack_device__()

    tensor = make()
    assert outcome(lambda: facts(asdlpack(tensor))) == outcome(lambda: facts(asdlpack(by_method(tensor))))


USES = {
    "an export": lambda x: x.__dlpack__(**VERSIONED),
    "a legacy export": lambda x: x.__dlpack__(),
    "numpy": np.from_dlpack,
    "torch": torch.from_dlpack,
    "an attribute": lambda x: x.shape,
    "the device": lambda x: x.__dlpack_device__(),
    "a buffer": memoryview,
    "a copy": lambda x: asdlpack(x, copy=True),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_method_is_called(use):
    x = asdlpack(torch.ones(3))
    assert calls_of_methods(lambda: use(x)) == []


@alone
def test_paddle():
    import paddle

    for make in paddles().values():
        test_an_import_is_what_the_method_gives(make)
        for arguments in ARGUMENTS:
            test_the_api_gives_what_the_method_gives(make, arguments)
    for use in (use for name, use in USES.items() if name not in ("the device", "torch")):
        x = asdlpack(paddle.ones([3]))
        assert calls_of_methods(lambda x=x, use=use: use(x)) == []


def test_the_memory_is_shared_and_given_back_once():
    tensor = torch.zeros(3)
    before = tensor._use_count()
    arrays = [np.from_dlpack(asdlpack(tensor)) for _ in range(3)]
    capsule, legacy, x = asdlpack(tensor).__dlpack__(**VERSIONED), asdlpack(tensor).__dlpack__(), asdlpack(tensor)
    assert x.pointer == tensor.data_ptr()
    assert tensor._use_count() > before
    arrays[1][2] = 7
    assert tensor.tolist() == [0, 0, 7]
    del arrays, capsule, legacy, x
    assert tensor._use_count() == before


NOT_AS_THEY_ARE = {"copied": {"copy": True}, "on another device": {"dl_device": (2, 0)}, "on a stream": {"stream": -1}}


@pytest.mark.parametrize("arguments", NOT_AS_THEY_ARE.values(), ids=NOT_AS_THEY_ARE)
def test_the_method_is_asked_for_copies_other_devices_and_streams(arguments):
    x = asdlpack(torch.ones(3))
    assert "__dlpack__" in calls_of_methods(lambda: outcome(lambda: x.__dlpack__(**VERSIONED, **arguments)))


NEGATIVE = {
    "float": lambda: torch.tensor([1 + 2j, 3 + 4j]).conj().imag,
    "complex": lambda: torch._neg_view(torch.tensor([1 + 2j])),
    "integer": lambda: torch._neg_view(torch.tensor([1, 2])),
}


@pytest.mark.parametrize("make", NEGATIVE.values(), ids=NEGATIVE)
def test_items_that_are_stored_negated_are_refused_whose_values_would_be_wrong(make):
    tensor = make()
    for call in (
        lambda: asdlpack(tensor).shape,
        lambda: asdlpack(tensor).__dlpack__(),
        lambda: asdlpack(tensor).__dlpack__(**VERSIONED),
        lambda: asdlpack(tensor).__dlpack__(stream=-1),
        lambda: asdlpack(tensor, copy=True),
        lambda: asdlpack(tensor, copy=None).__dlpack__(),
    ):
        refused(call, "negative-bit", hint="pass obj.resolve_neg()")
    copied = asdlpack(tensor).__dlpack__(**VERSIONED, copy=True)  # torch's own copy is right
    assert np.from_dlpack(asdlpack(copied)).tolist() == tensor.tolist()
    resolved = tensor.resolve_neg()
    assert np.from_dlpack(asdlpack(resolved)).tolist() == tensor.tolist()


def test_a_copy_that_was_needed_is_kept_and_is_the_same_for_all():
    tensor = torch.frombuffer(memoryview(bytearray(33))[1:], dtype=torch.float64)
    x = asdlpack(tensor, copy=None)
    exported = [asdlpack(x.__dlpack__(**words)).pointer for words in (VERSIONED, {}, VERSIONED, {})]
    given = dlpack.to(x, "torch"), dlpack.to(x, "torch"), dlpack.to(x, "numpy")
    addresses = {x.pointer, *exported, given[0].data_ptr(), given[1].data_ptr(), given[2].ctypes.data}
    assert (len(addresses), tensor.data_ptr() in addresses) == (1, False)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_misaligned_memory_of_a_producer_reaches_the_consumer(arguments):
    tensor = torch.frombuffer(memoryview(bytearray(33))[1:], dtype=torch.float64)  # misaligned
    managed = look(asdlpack(tensor).__dlpack__(**arguments))
    assert getattr(managed, "dl_tensor", managed).data == tensor.data_ptr()


def test_memory_that_is_copied_on_write_is_not_copied_to_tell_its_device():
    tensor = torch._lazy_clone(torch.ones(3))
    assert asdlpack(tensor).__dlpack_device__() == (1, 0)
    assert torch._C._is_cow_tensor(tensor)


def method(name):
    """A method in C, which has no __module__."""
    return vars(np.ndarray)[name]


def test_a_type_that_is_not_known_is_asked_by_its_method():
    array = np.arange(3.0)

    class Own(np.ndarray):
        __dlpack_c_exchange_api__ = torch.Tensor.__dlpack_c_exchange_api__
        __dlpack__ = method("__dlpack__")

    assert np.from_dlpack(asdlpack(array.view(Own))).ctypes.data == array.ctypes.data
    without = type("Own", (), {"__dlpack_c_exchange_api__": 7, "__dlpack__": lambda self, **words: array.__dlpack__()})
    assert asdlpack(without()).pointer == array.ctypes.data


def test_a_replaced_method_is_seen(monkeypatch):
    tensor, asked, own = torch.ones(3), [], torch.Tensor.__dlpack__
    monkeypatch.setattr(torch.Tensor, "__dlpack__", lambda self, **words: asked.append(words) or own(self, **words))
    assert np.from_dlpack(asdlpack(tensor)).tolist() == [1, 1, 1]
    assert asked == [VERSIONED]
    monkeypatch.undo()
    assert calls_of_methods(lambda: np.from_dlpack(asdlpack(tensor))) == []
    monkeypatch.setattr(torch.Tensor, "__dlpack_device__", lambda self: (1, 5))
    assert asdlpack(tensor).__dlpack_device__() == (1, 5)


def test_a_mode_sees_the_export():
    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    seen, x = [], asdlpack(torch.ones(3))
    with Mode():
        x.__dlpack__(**VERSIONED)
    assert "__dlpack__" in seen


@pytest.fixture
def api():
    with changed_api(torch.Tensor) as api:
        yield api


def of_own(api, give):
    """Sets the function that gives tensors, and returns it for the caller to keep."""
    function = type(api.managed_tensor_from_py_object_no_sync)(give)
    api.managed_tensor_from_py_object_no_sync = function
    return function


def test_the_functions_are_read_at_each_call(api):
    calls = []
    give = api_of(DLPackObject).managed_tensor_from_py_object_no_sync
    other = asdlpack(np.arange(4.0))
    kept = of_own(api, lambda obj, out: calls.append(obj) or give(other, out))
    tensor = torch.ones(3)
    assert np.from_dlpack(asdlpack(tensor)).tolist() == [0, 1, 2, 3]
    assert calls == [tensor]
    del kept


def null(api):
    api.managed_tensor_from_py_object_no_sync = type(api.managed_tensor_from_py_object_no_sync)()
    api.dltensor_from_py_object_no_sync = type(api.dltensor_from_py_object_no_sync)()


def version(major):
    def change(api):
        api.header.version.major = major

    return change


ODD = {
    "no functions": null,
    "success without a tensor": lambda api: of_own(api, lambda obj, out: 0),
    "failure without an error": lambda api: of_own(api, lambda obj, out: -1),
    "an older version": version(0),
    "a newer version": version(2),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_the_method_is_asked_if_the_api_is_odd(api, change):
    kept = change(api)
    tensor = torch.ones(3)
    x = asdlpack(tensor)
    assert "__dlpack__" in calls_of_methods(lambda: x.__dlpack__(**VERSIONED))
    assert x.pointer == tensor.data_ptr()
    del kept


def test_a_newer_api_leads_to_the_one_before_it(api):
    before = ExchangeAPI.from_buffer_copy(api)
    api.header.version.major = 2
    api.header.prev_api = ctypes.addressof(before)
    x = asdlpack(torch.ones(3))
    assert calls_of_methods(lambda: x.__dlpack__(**VERSIONED)) == []


NO_API = {"None": None, "another capsule": capsule_new(1, b"other", None)}


@pytest.mark.parametrize("name", NO_API)
@alone
def test_the_method_is_asked_if_the_attribute_holds_something_else(name):
    """A process reads it once for each type."""
    torch.Tensor.__dlpack_c_exchange_api__ = NO_API[name]
    assert np.from_dlpack(asdlpack(torch.ones(3))).tolist() == [1, 1, 1]
    assert dlpack.to(bytearray(4), "torch").tolist() == [0, 0, 0, 0]


def test_an_interrupt_passes_and_a_refusal_leads_to_the_method():
    class Interrupts(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            raise KeyboardInterrupt

    x = asdlpack(torch.ones(3))
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        x.__dlpack__(**VERSIONED)
    assert outcome(lambda: asdlpack(torch.ones(3, requires_grad=True)).__dlpack__())[0] is BufferError


def test_many_threads_share_one_tensor():
    tensor = torch.arange(8)
    before, wrong = tensor._use_count(), []

    def share(number):
        for _ in range(500):
            x = asdlpack(tensor)
            if np.from_dlpack(x)[3] != 3 or x.shape != (8,) or asdlpack(x, copy=True).pointer == tensor.data_ptr():
                wrong.append(x)

    in_threads(share, 8)
    assert (wrong, tensor._use_count()) == ([], before)


def test_the_object_says_how_it_was_read():
    x = asdlpack(torch.ones(3))
    assert (x.protocol, x.obj.shape, dlpack.describe(x)["protocol"]) == ("__dlpack__", (3,), "__dlpack__")
