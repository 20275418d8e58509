"""copy_into between arrays of the libraries: what one holds goes into another's memory."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import torch

import dlpack
from dlpack import asdlpack, copy_into, frombuffer
from support.hints import hint_of
from support.refusals import refused


def tensors():
    """Yields tensors of ten data types, contiguous and not."""
    for dtype in "uint8 int16 int32 int64 float16 float32 float64 complex64 bool bfloat16".split():
        tensor = torch.arange(24).reshape(4, 6).to(getattr(torch, dtype))
        yield tensor
        yield tensor.T
        yield tensor[:, ::2]
        yield tensor[1:, 2:5]
        yield tensor.expand(2, 4, 6)
        yield tensor[0, 0]
        yield tensor[:0]


def test_torch_tensors_go_into_torch_tensors():
    for source in tensors():
        for target in (
            torch.zeros_like(source, memory_format=torch.contiguous_format),
            torch.zeros([2 * n for n in source.shape], dtype=source.dtype)[
                (..., *[slice(None, None, 2)] * source.ndim)
            ],
        ):
            address = target.data_ptr()
            copy_into(source, target)
            assert torch.equal(target, source)
            assert target.data_ptr() == address


def test_torch_tensors_go_into_numpy_arrays_and_back():
    for source in tensors():
        if source.dtype == torch.bfloat16:
            continue
        array = np.zeros(source.shape, source.resolve_conj().numpy().dtype)
        for target in array, array.astype(array.dtype.newbyteorder(">")), array[..., None].T.copy().T[..., 0]:
            copy_into(source, target)
            assert target.tolist() == source.tolist()
        back = torch.zeros_like(source, memory_format=torch.contiguous_format)
        copy_into(array, back)
        copy_into(target[...], back)
        assert torch.equal(back, source)
        back.zero_()
        copy_into(asdlpack(source), asdlpack(back))
        assert torch.equal(back, source)


def test_a_tensor_that_torch_refuses_is_named_source_or_target():
    learned = torch.ones(3, requires_grad=True)
    for side, arguments in ("source", (learned, torch.zeros(3))), ("target", (torch.zeros(3), learned)):
        with pytest.raises(BufferError, match=f"^{side}: .*requires? gradient"):
            copy_into(*arguments)
    with pytest.raises(BufferError, match=r"^target: strides dimension 0 is 0: its 4 items are one"):
        copy_into(torch.zeros(4, 3), torch.zeros(3).expand(4, 3))
    with pytest.raises(ValueError, match=r"source is float32 \(3,\), target is float64 \(3,\)"):
        copy_into(torch.zeros(3), torch.zeros(3, dtype=torch.float64))


def test_arrow_is_a_source_and_is_refused_as_a_target():
    array = np.zeros(5, "i8")
    column = pa.chunked_array([[1, 2], [3, 4, 5]])
    for source in pa.array([1, 2, 3, 4, 5]), column:
        array[...] = 0
        copy_into(source, array)
        assert array.tolist() == [1, 2, 3, 4, 5]
    bits = np.zeros(9, bool)
    copy_into(pa.array([True, False, True] * 3), bits)
    assert bits.tolist() == [True, False, True] * 3
    refused(lambda: copy_into(array, pa.array([1, 2, 3, 4, 5])), "read-only-target", side="target")
    for target in pa.array(["1"]), pa.array(["a"]).dictionary_encode(), pa.array([None, 1]):
        with pytest.raises(BufferError, match=r"^target: .* \(copy into a new array, and from there by the library "):
            copy_into(array, target)
    with pytest.raises(BufferError, match="^source: .* items are null"):
        copy_into(pa.array([1, None]), array[:2])


def test_jax_is_a_source_and_no_target():
    array = np.zeros((2, 3), "f4")
    copy_into(jnp.arange(6.0).reshape(2, 3), array)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    refused(lambda: copy_into(array, jnp.zeros((2, 3))), "read-only-target", side="target")


def test_bfloat16_of_numpy_goes_into_torch_and_back():
    array = np.arange(6).astype(ml_dtypes.bfloat16)
    tensor = torch.zeros(6, dtype=torch.bfloat16)
    copy_into(array, tensor)
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5]
    room = np.zeros(12, ml_dtypes.bfloat16)[::2]
    copy_into(tensor, room)
    assert room.astype("f4").tolist() == [0, 1, 2, 3, 4, 5]


FLOAT4 = np.arange(16, dtype="u1").view(ml_dtypes.float4_e2m1fn).reshape(2, 8)  # each of its values


def test_torchs_pairs_of_float4_hold_the_values_of_ml_dtypes():
    """torch has no arithmetic for them, so their bytes tell: the first of a pair has the low bits."""
    pairs = torch.empty((2, 4), dtype=torch.float4_e2m1fn_x2)
    address = pairs.data_ptr()
    copy_into(FLOAT4, pairs)
    assert pairs.data_ptr() == address
    codes = pairs.view(torch.uint8)
    assert torch.stack([codes & 15, codes >> 4], -1).reshape(2, 8).tolist() == FLOAT4.view("u1").tolist()
    back = np.zeros((2, 8), ml_dtypes.float4_e2m1fn)
    copy_into(pairs, back)
    assert back.astype("f4").tolist() == FLOAT4.astype("f4").tolist()


@pytest.mark.parametrize(
    "view",
    [lambda x: x.T.contiguous().T, lambda x: torch.zeros((4, 8), dtype=torch.uint8)[::2, ::2]],
    ids=["column-major", "every second"],
)
def test_torchs_pairs_of_any_layout_are_packed_and_back(view):
    pairs = view(torch.zeros((2, 4), dtype=torch.uint8)).view(torch.float4_e2m1fn_x2)
    packed = frombuffer(bytearray(8), "float4_e2m1fn", (2, 8))
    copy_into(FLOAT4, pairs)
    copy_into(pairs, packed)
    assert bytes(packed) == bytes(b << 4 | a for a, b in FLOAT4.view("u1").reshape(-1, 2).tolist())
    pairs.view(torch.uint8).zero_()
    copy_into(packed, pairs)
    back = np.zeros((2, 8), ml_dtypes.float4_e2m1fn)
    copy_into(pairs, back)
    assert back.tobytes() == FLOAT4.tobytes()


@pytest.mark.parametrize("is_packed", [False, True])
def test_the_error_of_float4_for_torch_names_the_way(is_packed):
    obj: object = FLOAT4
    if is_packed:
        obj = frombuffer(bytearray(8), "float4_e2m1fn", (2, 8))
        copy_into(FLOAT4, obj)
    error = refused(lambda: dlpack.to(obj, "torch"), "library-refuses")
    names = {"torch": torch, "dlpack": dlpack, "obj": obj}
    exec(hint_of(str(error)), names)
    back = np.zeros((2, 8), ml_dtypes.float4_e2m1fn)
    copy_into(names["a"], back)
    assert back.tobytes() == FLOAT4.tobytes()
    with pytest.raises(BufferError) as caught:
        dlpack.to(np.zeros(3, ml_dtypes.float4_e2m1fn), "torch")  # an odd number has no pairs
    assert hint_of(str(caught.value)) == ""


def test_torchs_conversion_of_pairs_is_not_hinted_at():
    """torch's .to() would convert their bytes."""
    with pytest.raises(ValueError, match="one data type") as caught:
        copy_into(torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), np.zeros(2, "f4"))
    assert ".to(" not in str(caught.value)
