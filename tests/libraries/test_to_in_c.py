"""dlpack.to from its second call on, when C calls the C exchange API of torch and paddle, and numpy's from_dlpack."""

import array
import gc
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import dlpack
from dlpack import DLPackObject, asdlpack, to
from support.alone import alone
from support.exchange_api import changed_api, objects, python_calls
from support.refusals import refused
from support.threads import in_threads

LIBRARIES: dict[str, Any] = {"numpy": np, "torch": torch}


@pytest.fixture(autouse=True)
def known():
    for library in LIBRARIES:
        to(bytearray(3), library)


def calls_in_python(call):
    """Returns the calls of dlpack._to's functions during a call."""
    return python_calls(call, lambda frame: frame.f_globals.get("__name__") == "dlpack._to")


def pointer(result):
    return result.ctypes.data if type(result) is np.ndarray else result.data_ptr()


SOURCES: dict[str, Any] = {
    "a bytearray": lambda: bytearray(range(12)),
    "an array": lambda: array.array("i", range(3)),
    "numpy": lambda: np.arange(3.0),
    "numpy, transposed": lambda: np.arange(6.0).reshape(2, 3).T,
    "torch": lambda: torch.arange(3.0),
    "torch, a crop": lambda: torch.arange(12.0).reshape(3, 4)[1:, 1:],
    "a DLPackObject": lambda: asdlpack(bytearray(5)),
    "a capsule": lambda: np.arange(4).__dlpack__(max_version=(1, 0)),
    "0-d": lambda: np.array(5.0),
    "empty": lambda: np.ones((0, 3)),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_c_shares_by_itself(make, library):
    source = make()
    is_capsule = "capsule" in type(source).__name__.lower()
    expected = None if is_capsule else asdlpack(source).pointer
    result = []
    assert calls_in_python(lambda: result.append(to(source, library))) == []
    (given,) = result
    assert isinstance(given, LIBRARIES[library].ndarray if library == "numpy" else LIBRARIES[library].Tensor)
    if not is_capsule and 0 not in given.shape:
        assert pointer(given) == expected
        assert np.asarray(given).tolist() == np.asarray(asdlpack(source)).tolist()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_target_may_be_a_name_a_module_or_the_type(library):
    memory = bytearray(4)
    kind = type(to(memory, library))
    for target in library, LIBRARIES[library], kind:
        result = to(memory, target)
        assert type(result) is kind
        result[2] = 7
        assert (memory[2], pointer(result)) == (7, asdlpack(memory).pointer)
        memory[2] = 0
    given = to(memory, library)
    assert to(given, kind) is given


COPIED: dict[str, Any] = {
    "read-only": lambda: bytes(range(6)),
    "a read-only array": lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
    "reversed": lambda: np.arange(6.0)[::-1],
    "big-endian": lambda: np.arange(6, dtype=">f4"),
}


@pytest.mark.parametrize("make", COPIED.values(), ids=COPIED)
def test_read_only_and_reversed_memory_is_copied(make, library="torch"):
    source = make()
    values = np.asarray(asdlpack(source, copy=True)).tolist()
    given = to(source, library)
    assert np.asarray(given).tolist() == values
    given[...] = 0
    assert np.asarray(asdlpack(source, copy=True)).tolist() == values


def test_numpy_gets_read_only_memory_as_read_only():
    given = to(b"abc", "numpy")
    assert (given.tolist(), given.flags.writeable) == ([97, 98, 99], False)


TYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("layout", ["compact", "strided"])
def test_types_of_ml_dtypes_reach_numpy_by_c(name, layout):
    tensor = torch.arange(8).to(torch.float32).to(getattr(torch, name)).reshape(2, 4)
    tensor = tensor[:, ::2] if layout == "strided" else tensor
    to(tensor, "numpy")
    result = []
    assert calls_in_python(lambda: result.append(to(tensor, "numpy"))) == []
    assert result[0].dtype == getattr(ml_dtypes, name)
    assert result[0].astype("f4").tolist() == tensor.to(torch.float32).tolist()
    assert (result[0].ctypes.data, result[0].shape) == (tensor.data_ptr(), tuple(tensor.shape))
    result[0][1, 1] = 0.5
    assert tensor[1, 1].item() == 0.5


LAYOUTS: dict[str, Any] = {
    "compact": lambda: np.arange(1, 7),
    "transposed": lambda: np.arange(1, 7).reshape(2, 3).T,
    "reversed": lambda: np.arange(1, 7)[::-1],
    "0-d": lambda: np.array(5),
    "empty": lambda: np.ones((0, 3)),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_arrays_of_ml_dtypes_reach_torch_by_c(make, name):
    array = make().astype(getattr(ml_dtypes, name))
    to(array, "torch")
    result = []
    assert calls_in_python(lambda: result.append(to(array, "torch"))) == []
    assert result[0].dtype == getattr(torch, name)
    assert result[0].to(torch.float32).tolist() == array.astype("f4").tolist()
    if min(array.strides, default=0) >= 0 and array.size:
        assert result[0].data_ptr() == array.ctypes.data
    array.flags.writeable = False
    copied = to(array, "torch")
    assert copied.data_ptr() != array.ctypes.data or array.size == 0
    with pytest.raises(BufferError):
        to(np.array([1, 2], ml_dtypes.int4), "torch")
    swapped = np.array([1, 2], getattr(ml_dtypes, name)).byteswap()
    swapped = swapped.view(swapped.dtype.newbyteorder())
    assert [to(swapped, "torch").to(torch.float32).tolist() for _ in range(2)] == [[1, 2], [1, 2]]


def test_packed_items_of_a_name_that_numpy_pads_are_not_taken_for_these():
    padded, packed = np.array([1, -2, 3], ml_dtypes.int4), dlpack.frombuffer(bytearray([0x21, 0x43]), "int4")
    for _ in range(2):
        assert to(padded, "numpy") is padded
        assert to(asdlpack(padded), "numpy").tolist() == [1, -2, 3]
        assert to(packed, "numpy").tolist() == [1, 2, 3, 4]


def test_a_subclass_and_a_masked_array_are_left_to_python():
    class Own(np.ndarray):
        pass

    own = np.arange(3).view(Own)
    assert to(own, "numpy") is own
    parameter = torch.nn.Parameter(torch.ones(3))
    assert to(parameter, "torch") is parameter
    refused(lambda: to(np.ma.masked_array([1, 2], [0, 1]), "numpy"), "mask")


def test_errors_of_asdlpack_are_raised():
    for source, library, reason in (
        (torch.ones(3, requires_grad=True), "numpy", "refused"),
        (torch.tensor([1 + 2j]).conj().imag, "numpy", "negative-bit"),
        (["a"], "torch", "no-protocol"),
        (np.array(["a"]), "torch", "refused"),
    ):
        refused(partial(to, source, library), reason, (BufferError, TypeError))


@pytest.fixture
def api():
    with changed_api(torch.Tensor) as api:
        yield api


def test_a_refusal_by_the_api_falls_back_to_from_dlpack(api):
    """The refused export is freed once."""
    failing = type(api.managed_tensor_to_py_object_no_sync)(lambda managed, out: -1)
    api.managed_tensor_to_py_object_no_sync = failing
    memory, before = bytearray(8), objects()
    given = to(memory, "torch")
    assert given.data_ptr() == asdlpack(memory).pointer
    del given
    gc.collect()
    assert objects() == before
    memory.append(1)  # nothing holds it any more


def test_an_api_without_the_function_is_passed_over(api):
    api.managed_tensor_to_py_object_no_sync = type(api.managed_tensor_to_py_object_no_sync)()
    memory = bytearray(8)
    assert to(memory, "torch").data_ptr() == asdlpack(memory).pointer


def test_the_memory_is_given_back_once():
    memory, before = bytearray(8), objects()
    for library in LIBRARIES:
        given = [to(memory, library) for _ in range(1 if library == "paddle" else 3)]  # it frees no 2nd
        with pytest.raises(BufferError):
            memory.append(1)
        del given
        gc.collect()
        memory.append(1)
        memory.pop()
    assert objects() == before


def test_many_threads():
    memory, wrong = bytearray(64), []
    address = asdlpack(memory).pointer

    def share(number):
        for _ in range(200):
            for library in "numpy", "torch":
                given = to(memory, library)
                if pointer(given) != address or type(to(given, "numpy")) is not np.ndarray:
                    wrong.append(given)

    in_threads(share, 8)
    gc.collect()
    assert wrong == []
    memory.append(1)


@alone
def test_paddle():
    """Alone, since it must be imported before tensorflow."""
    import paddle

    LIBRARIES["paddle"] = paddle
    for library in LIBRARIES:
        to(bytearray(3), library)
    for make in SOURCES.values():
        test_c_shares_by_itself(make, "paddle")
    for library in LIBRARIES:
        test_c_shares_by_itself(lambda: paddle.arange(3), library)
    test_the_target_may_be_a_name_a_module_or_the_type("paddle")
    for make in COPIED.values():
        test_read_only_and_reversed_memory_is_copied(make, "paddle")
    test_the_memory_is_given_back_once()


def test_a_target_whose_hash_fails_raises():
    class Meta(type):
        def __hash__(self):
            raise KeyboardInterrupt

    class Odd(metaclass=Meta):
        pass

    with pytest.raises(KeyboardInterrupt):
        to(b"abc", Odd)
    Meta.__hash__ = None
    refused(lambda: to(b"abc", Odd), "unknown-target", TypeError)
    assert type(asdlpack(b"abc")) is DLPackObject
