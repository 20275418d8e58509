"""copy_into between arrays of the libraries: what one holds goes into another's memory."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import torch

from dlpack import asdlpack, copy_into


def tensors():
    """Of every kind that torch and numpy share, and of layouts that are not compact."""
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


def test_overlapping_tensors_are_as_if_the_source_was_copied_first():
    tensor = torch.arange(12)
    copy_into(tensor[:-1], tensor[1:])
    assert tensor.tolist() == [0, *range(11)]
    matrix = torch.arange(9).reshape(3, 3)
    copy_into(matrix.T, matrix)
    assert matrix.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_what_torch_refuses_is_refused_with_the_side():
    learned = torch.ones(3, requires_grad=True)
    for side, arguments in ("source", (learned, torch.zeros(3))), ("target", (torch.zeros(3), learned)):
        with pytest.raises(BufferError, match=f"^{side}: .*requires? gradient"):
            copy_into(*arguments)
    with pytest.raises(BufferError, match=r"^target: strides dimension 0 is 0: its 4 items are one"):
        copy_into(torch.zeros(4, 3), torch.zeros(3).expand(4, 3))
    with pytest.raises(ValueError, match=r"source is float32 \(3,\), target is float64 \(3,\)"):
        copy_into(torch.zeros(3), torch.zeros(3, dtype=torch.float64))


def test_arrow_goes_into_arrays_and_is_no_target():
    array = np.zeros(5, "i8")
    column = pa.chunked_array([[1, 2], [3, 4, 5]])
    for source in pa.array([1, 2, 3, 4, 5]), column:
        array[...] = 0
        copy_into(source, array)
        assert array.tolist() == [1, 2, 3, 4, 5]
    bits = np.zeros(9, bool)
    copy_into(pa.array([True, False, True] * 3), bits)
    assert bits.tolist() == [True, False, True] * 3
    with pytest.raises(BufferError, match="^target: .*Array is read-only"):
        copy_into(array, pa.array([1, 2, 3, 4, 5]))
    for refused in pa.array(["1"]), pa.array(["a"]).dictionary_encode(), pa.array([None, 1]):
        with pytest.raises(BufferError, match=r"^target: .* \(copy into a new array, and from there by the library "):
            copy_into(array, refused)
    with pytest.raises(BufferError, match="^source: .* items are null"):
        copy_into(pa.array([1, None]), array[:2])


def test_jax_is_a_source_and_no_target():
    array = np.zeros((2, 3), "f4")
    copy_into(jnp.arange(6.0).reshape(2, 3), array)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError, match="^target: .* is read-only"):
        copy_into(array, jnp.zeros((2, 3)))


def test_bfloat16_of_numpy_goes_into_torch_and_back():
    array = np.arange(6).astype(ml_dtypes.bfloat16)
    tensor = torch.zeros(6, dtype=torch.bfloat16)
    copy_into(array, tensor)
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5]
    room = np.zeros(12, ml_dtypes.bfloat16)[::2]
    copy_into(tensor, room)
    assert room.astype("f4").tolist() == [0, 1, 2, 3, 4, 5]
