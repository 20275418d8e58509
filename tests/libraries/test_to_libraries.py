"""dlpack.to with the libraries that it knows: what is shared, copied or refused, and that no value changes."""

import array
import ctypes
import gc
import mmap
import re
import sys
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from dlpack import asdlpack, frombuffer, to
from support.alone import ROOT, alone
from support.refusals import refused

COPIES = None, False, True
PAGE = ROOT / "docs" / "libraries.md"


def aligned(values, dtype=None):
    """An array at a multiple of 64, as jax and tensorflow need it."""
    values = np.asarray(values, dtype)
    memory = np.zeros(values.nbytes + 64, "u1")
    start = -memory.ctypes.data % 64
    made = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    made[...] = values
    return made


def unaligned(make):
    """An object at no multiple of 64."""
    kept = [make()]
    while asdlpack(kept[-1]).pointer % 64 == 0:
        kept.append(make())
    return kept[-1]


def matrix():
    return aligned(range(6), "f4").reshape(2, 3)


def readonly():
    made = matrix()
    made.flags.writeable = False
    return made


def torch_tensor(dtype="float32", **keywords):
    import torch

    return torch.ones(2, 3, dtype=getattr(torch, dtype), **keywords)


def jax_array():
    import jax.numpy

    return jax.numpy.from_dlpack(asdlpack(matrix()))


def tensorflow_tensor():
    return to(matrix(), "tensorflow")


def polars_series():
    import polars

    return unaligned(lambda: polars.Series([1, 2, 3], dtype=polars.Int32))


# The rows of the page's table.
SOURCES = {
    "`bytes`": lambda: unaligned(lambda: bytes(bytearray(b"bytes"))),
    "`bytearray`": lambda: unaligned(lambda: bytearray(b"bytes")),
    "`memoryview`": lambda: memoryview(matrix()),
    "`array.array`": lambda: unaligned(lambda: array.array("i", [1, 2, 3])),
    "`mmap`": lambda: mmap.mmap(-1, 4096),
    "ctypes array": lambda: (ctypes.c_int16 * 3).from_buffer(aligned([1, 2, 3], "i2")),
    "numpy": matrix,
    "numpy, transposed": lambda: matrix().T,
    "numpy, reversed": lambda: matrix()[::-1],
    "numpy, read-only": readonly,
    "numpy, no dimensions": lambda: aligned(3, "f4"),
    "numpy, no items": lambda: aligned([], "f4").reshape(0, 3),
    "numpy, bool": lambda: aligned([True, False, True]),
    "numpy, complex64": lambda: aligned([1, 2j], "c8"),
    "numpy, float16": lambda: aligned([1, 2], "f2"),
    "numpy, float64": lambda: aligned([1, 2], "f8"),
    "numpy, big-endian": lambda: aligned([1, 2], ">i4"),
    "ml_dtypes bfloat16": lambda: aligned([1, 2], ml_dtypes.bfloat16),
    "ml_dtypes float8_e5m2": lambda: aligned([1, 2], ml_dtypes.float8_e5m2),
    "ml_dtypes int4": lambda: aligned([1, 2], ml_dtypes.int4),
    "torch": torch_tensor,
    "torch, bfloat16": lambda: torch_tensor("bfloat16"),
    "torch, requires_grad": lambda: torch_tensor(requires_grad=True),
    "jax": jax_array,
    "tensorflow": tensorflow_tensor,
    "pyarrow": lambda: to(aligned([1, 2, 3], "i4"), "pyarrow"),
    "polars": polars_series,
    "`DLPackObject`": lambda: frombuffer(aligned(range(4), "f4"), "int32"),
}


def outcome(source, target, copy):
    """Returns how `to` got its result: shared, copied, itself, or refused and why. Checks that the values are equal."""
    try:
        made = to(source, target, copy=copy)
    except (BufferError, ValueError) as error:
        return f"refused, {error.reason}"
    if made is source:
        return "itself"
    x = asdlpack(source, copy=None)._tensor
    if target == "bytes":
        assert made == bytes(x)
        return "copied"
    y = asdlpack(made, copy=None)._tensor
    assert (y.dtype, y.shape, bytes(y)) == (x.dtype, x.shape, bytes(x))
    same = x.pointer == y.pointer if x.size else copy is not True
    assert not (same and x.readonly and not y.readonly)
    return "shared" if same else "copied"


def cell(make, target):
    by_copy = {copy: outcome(make(), target, copy) for copy in COPIES}
    shown = first = by_copy[None]
    if first == "copied":
        shown = f"copied, {by_copy[False].removeprefix('refused, ')}"
        assert by_copy[False].startswith("refused, "), by_copy
    elif not by_copy[False].endswith("library-copies"):
        assert by_copy[False] == first, by_copy
    assert by_copy[True] == (first if first.startswith("refused") else "copied") or first == "itself", by_copy
    return shown


def table(targets, cells):
    """Yields the lines of the page's table."""
    yield f"| from | {' | '.join(targets)} |"
    yield "|---" * (len(targets) + 1) + "|"
    for name, row in cells.items():
        yield f"| {' | '.join([name, *row])} |"


@alone(timeout=280)
def test_each_source_reaches_each_target_as_the_page_says():
    import paddle  # noqa: F401  # after tensorflow it crashes

    expected = re.search(r"^\| from \|.*?(?=\n\n)", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    targets = [target.strip() for target in expected.partition("\n")[0].strip("|").split("|")[1:]]
    found = {name: [cell(make, target.strip("`")) for target in targets] for name, make in SOURCES.items()}
    if (text := "\n".join(table(targets, found))) != expected:
        sys.exit(f"docs/libraries.md has another table than this:\n{text}")


@alone(timeout=200)
def test_writes_are_seen_on_both_sides_or_on_one():
    import paddle
    import torch
    import tvm_ffi

    for library in torch, paddle, tvm_ffi, np:
        values = aligned(range(3), "f4")
        for copy, is_shared in (None, True), (False, True), (True, False):
            values[:] = 0
            made = to(memoryview(values), library, copy=copy)
            seen = np.from_dlpack(asdlpack(made))
            seen[0], values[1] = 7, 8
            assert values.tolist() == ([7, 8, 0] if is_shared else [0, 8, 0])
            assert seen.tolist() == ([7, 8, 0] if is_shared else [7, 0, 0])


@alone(timeout=200)
def test_read_only_memory_does_not_become_writable():
    import paddle
    import torch

    data = bytes(bytearray(b"bytes"))
    for library in torch, paddle:
        made = to(data, library)
        made[0] = 7
        assert (data, made.tolist()) == (b"bytes", [7, *b"ytes"])
        with pytest.raises(BufferError) as caught:
            to(data, library, copy=False)
        assert (caught.value.reason, caught.value.details) == ("read-only", {"readonly": True})


@alone(timeout=200)
def test_a_variable_of_tensorflow_does_not_write_to_read_only_memory():
    import tensorflow

    source = readonly()
    tensorflow.Variable(to(source, "tensorflow")).assign_add(np.ones((2, 3), "f4"))
    assert source.tolist() == matrix().tolist()
    with pytest.raises(BufferError) as caught:
        to(source, "tensorflow", copy=False)
    assert caught.value.reason == "read-only"


@alone(timeout=200)
def test_no_write_to_a_jax_or_polars_array_reaches_read_only_memory():
    import jax
    import polars

    source = aligned(range(6), "f4")
    source.flags.writeable = False
    jax.jit(lambda x: x + 1, donate_argnums=0)(to(source, jax, copy=False)).block_until_ready()
    series = to(source, polars, copy=False)
    series[0] = 7
    series.sort(descending=True, in_place=True)
    assert source.tolist() == list(range(6))


@alone(timeout=200)
def test_negative_strides_give_the_right_values():
    import mlx.core
    import paddle
    import torch

    for source in np.arange(6.0, dtype="f4")[::-1], np.arange(12, dtype="i2").reshape(3, 4)[:, ::-2]:
        for library in torch, paddle, mlx.core:
            assert to(source, library).tolist() == source.tolist()
            with pytest.raises(BufferError) as caught:
                to(source, library, copy=False)
            assert caught.value.reason == "negative-strides"


@alone(timeout=100)
def test_jax_narrows_nothing():
    import jax
    import jax.numpy as jnp

    for dtype in "i8", "u8", "f8", "c16":
        values = aligned([1, 2], dtype)
        for copy in COPIES:
            for target in "jax", jax, jnp, jax.Array, jnp.ones(1):
                error = refused(partial(to, values, target, copy=copy), "narrowed", hint="jax_enable_x64")
                assert error.reason == "narrowed"
                assert error.details == {"dtype": values.dtype.name, "library": "jax"}
            with jax.enable_x64(True):
                made = to(values, "jax", copy=copy)
                assert (made.dtype, made.tolist()) == (values.dtype, values.tolist())
        assert to(values.astype(f"{dtype[0]}{int(dtype[1:]) // 2}"), "jax").tolist() == [1, 2]


def test_mlx_narrows_nothing():
    import mlx.core

    for dtype in "float64", "complex128":
        for copy in COPIES:
            with pytest.raises(BufferError) as caught:
                to(np.ones(2, dtype), mlx.core, copy=copy)
            assert (caught.value.reason, caught.value.details["dtype"]) == ("narrowed", dtype)
    assert to(np.array([2**60]), "mlx").tolist() == [2**60]


@alone(timeout=100)
def test_jax_shares_what_has_no_gaps_in_any_order_of_axes():
    import jax

    cube = aligned(range(24), "f4").reshape(2, 3, 4)
    for axes in (0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1):
        source = cube.transpose(axes)
        made = to(source, jax, copy=False)
        assert made.unsafe_buffer_pointer() == cube.ctypes.data
        assert made.tolist() == source.tolist()
    with pytest.raises(BufferError) as caught:
        to(cube[:, :, ::2], jax, copy=False)
    assert caught.value.reason == "not-compact"
    assert to(cube[:, :, ::2], jax).tolist() == cube[:, :, ::2].tolist()


@alone(timeout=100)
def test_jax_gets_memory_of_its_own_by_copy_true():
    """jax.numpy.from_dlpack(x, copy=True) shares aligned memory."""
    values = aligned(range(3), "f4")
    made = to(values, "jax", copy=True)
    values[:] = 9
    assert made.tolist() == [0, 1, 2]


@alone(timeout=100)
def test_a_traced_array_of_jax_is_returned_itself():
    import jax

    same = []
    jax.jit(lambda x: same.append(to(x, "jax") is x) or x)(np.ones(3, "f4"))
    assert same == [True]


@alone(timeout=200)
def test_tensorflow_computes_with_what_it_gets():
    """With memory at another address most operations end the process."""
    import tensorflow

    for start in 0, 4, 16:
        values = aligned(range(100), "f4")[start // 4 :]
        made = to(values, tensorflow)
        assert tensorflow.reduce_sum(made * 2).numpy() == values.sum() * 2


def test_a_subclass_of_the_target_is_returned_itself():
    import torch

    learned = torch.nn.Parameter(torch.ones(3))
    mine = torch.ones(3).as_subclass(type("Mine", (torch.Tensor,), {}))
    for each in learned, mine, torch.ones(3, requires_grad=True), torch.ones(3).conj(), torch.ones(3, device="meta"):
        for copy in None, False:
            assert to(each, torch, copy=copy) is each
            assert to(each, torch.nn.Parameter, copy=copy) is each
    assert to(mine, torch, device="cpu") is mine


def test_a_tensor_that_needs_its_gradient_is_refused():
    import torch

    with pytest.raises(BufferError, match=r"obj\.detach\(\)") as caught:
        to(torch.ones(3, requires_grad=True), "numpy")
    assert caught.value.reason == "refused"


def test_bfloat16_and_float8_reach_numpy_and_come_back():
    import torch

    for name in "bfloat16", "float8_e4m3fn", "float8_e5m2":
        tensor = torch.ones(3, dtype=getattr(torch, name))
        made = to(tensor, "numpy", copy=False)
        assert made.dtype == getattr(ml_dtypes, name)
        made[0] = 2
        assert tensor.tolist() == [2, 1, 1]
        assert to(made, torch, copy=False).data_ptr() == tensor.data_ptr()


def test_polars_gets_its_own_types():
    import polars

    flags = to(np.array([True, False]), polars)
    assert (flags.dtype, flags.to_list()) == (polars.Boolean, [True, False])
    rows = np.arange(24.0).reshape(2, 3, 4)
    made = to(rows, polars.Series, copy=False)
    assert (made.dtype, made.to_list()) == (polars.Array(polars.Float64, (3, 4)), rows.tolist())
    assert np.shares_memory(made.to_numpy(), rows)
    for shape in (0,), (3, 0), (0, 3), (2, 0, 3):
        assert to(np.zeros(shape), "polars").len() == shape[0]
    flags = to(np.eye(2, dtype=bool), polars)
    assert (flags.dtype, flags.to_list()) == (polars.Array(polars.Boolean, 2), np.eye(2, dtype=bool).tolist())


def test_pyarrow_has_two_targets():
    import pyarrow

    values = np.arange(6.0).reshape(2, 3)
    for target in pyarrow, "pyarrow", pyarrow.Array, pyarrow.array([1]):
        assert to(values, target).to_numpy_ndarray().ctypes.data == values.ctypes.data
    tensor = to(values.T, pyarrow.Tensor)
    assert tensor.to_numpy().ctypes.data == values.ctypes.data
    assert to(values, "pyarrow.Tensor").equals(to(values, tensor))


@alone(timeout=280)
def test_a_refusal_keeps_no_reference():
    import paddle  # noqa: F401
    import torch

    targets = "torch jax tensorflow paddle mlx tvm_ffi pyarrow pyarrow.Tensor polars memoryview bytes".split()
    sources = [
        np.ones((3, 4), ml_dtypes.float8_e3m4),
        np.ones((3, 4), "c16")[::-1],
        np.ones((3, 4), ml_dtypes.int4),
        torch.ones(3, dtype=torch.complex32),
        torch.ones(3, requires_grad=True),
    ]

    def try_all():
        refused = 0
        for target in targets:
            for source in sources:
                for copy in COPIES:
                    try:
                        to(source, target, copy=copy)
                    except BufferError:
                        refused += 1
        gc.collect()
        return refused, [sys.getrefcount(source) for source in sources], asdlpack(b"").obj

    first = try_all()
    assert first[0] > 80
    assert try_all() == first
