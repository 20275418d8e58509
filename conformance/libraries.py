"""How each library makes an array of numpy's, and takes an object with __dlpack__: what the scoreboard and the tests
hand to --dlpack-producer and --dlpack-consumer. Each function imports its library. A producer raises
NotImplementedError for what the library can't hold."""

import importlib.util
import os
import sys
import warnings
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # for exchanges, which compiles nanobind's module


def numpy_make(array: Any) -> Any:
    return np.asarray(array)


def numpy_take(obj: Any) -> Any:
    return np.from_dlpack(obj)


def torch_make(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


def torch_take(obj: Any) -> Any:
    import torch

    return torch.from_dlpack(obj)


def jax() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)  # else it makes 32-bit copies of 64-bit types
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    return jax


def jax_make(array: Any) -> Any:
    return jax().numpy.asarray(array)


def jax_take(obj: Any) -> Any:
    return jax().dlpack.from_dlpack(obj)


def tensorflow_make(array: Any) -> Any:
    import tensorflow

    return tensorflow.convert_to_tensor(array)


def tensorflow_take(obj: Any) -> Any:
    import tensorflow

    return tensorflow.experimental.dlpack.from_dlpack(obj.__dlpack__())


def paddle_make(array: Any) -> Any:
    """paddle makes bfloat16 of numpy's uint16."""
    import paddle

    made = paddle.to_tensor(array)
    name = str(made.dtype).rpartition(".")[2]
    if name != array.dtype.name:
        raise NotImplementedError(f"{array.dtype} becomes {name}")
    return made


def paddle_take(obj: Any) -> Any:
    import paddle

    return paddle.from_dlpack(obj)


def mlx_make(array: Any) -> Any:
    """mlx makes smaller types of those that it has not."""
    import mlx.core

    made = mlx.core.array(array)
    if made.size and made.itemsize != array.itemsize:
        raise NotImplementedError(f"{array.dtype} becomes {made.dtype}")
    return made


def mlx_take(obj: Any) -> Any:
    import mlx.core

    return mlx.core.from_dlpack(obj)


def tvm_ffi_make(array: Any) -> Any:
    import tvm_ffi

    return tvm_ffi.from_dlpack(array)


tvm_ffi_take = tvm_ffi_make


def tvm_make(array: Any) -> Any:
    import tvm

    return tvm.runtime.tensor(array)


def tvm_take(obj: Any) -> Any:
    import tvm

    return tvm.runtime.from_dlpack(obj)


def nanobind_make(obj: Any) -> Any:
    from exchanges import nanobind

    return nanobind.make(obj)


nanobind_take = nanobind_make


def pyarrow_make(array: Any) -> Any:
    """pyarrow makes uint8 of booleans."""
    import pyarrow as pa

    made = pa.Tensor.from_numpy(array)
    if made.type != pa.from_numpy_dtype(array.dtype):
        raise NotImplementedError(f"{array.dtype} becomes {made.type}")
    return made


def pyarrow_take(obj: Any) -> Any:
    """A Tensor, since an Array has one dimension."""
    import pyarrow as pa

    return pa.Tensor.from_dlpack(obj)


def onnxruntime_make(array: Any) -> Any:
    from onnxruntime import OrtValue

    try:
        return OrtValue.ortvalue_from_numpy(array)
    except RuntimeError as error:  # "Numpy_type 14 can't be converted to MLDataType"
        raise NotImplementedError(error) from error


def onnxruntime_take(obj: Any) -> Any:
    from onnxruntime import OrtValue

    return OrtValue.from_dlpack(obj)


def mpi4py_take(obj: Any) -> Any:
    """A buffer is bytes in memory's order: what they stand for is in the capsule that it keeps."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    from pytest_dlpack._abi import look, read_managed

    taken: Any = MPI.buffer(obj)
    seen = read_managed(look(taken.obj))
    if taken.tobytes() != seen.values:
        raise BufferError("column-major")
    made = np.frombuffer(taken, seen.dtype)
    if made.size != np.prod(seen.shape):
        raise BufferError("padded")
    return made.reshape(seen.shape)


def dpctl() -> Any:
    """dpctl.tensor. Memory of the CPU also needs intel-opencl-rt, whose driver no loader finds."""
    os.environ.setdefault("OCL_ICD_FILENAMES", str(Path(sys.prefix, "lib", "libintelocl.so")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it moves to dpnp
        from dpctl import tensor
    return tensor


def dpctl_make(array: Any) -> Any:
    return dpctl().asarray(array)


def dpctl_take(obj: Any) -> Any:
    return dpctl().from_dlpack(obj)


def pydlpack() -> Any:
    """pydlpack, whose module is called dlpack, under another name."""
    if "pydlpack" not in sys.modules:
        path = Path(str(distribution("pydlpack").locate_file("dlpack/__init__.py")))
        spec = importlib.util.spec_from_file_location("pydlpack", path, submodule_search_locations=[str(path.parent)])
        assert spec is not None and spec.loader is not None
        module = sys.modules["pydlpack"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["pydlpack"]


def pydlpack_make(obj: Any) -> Any:
    return pydlpack().asdlpack(obj)


pydlpack_take = pydlpack_make


def cupy_make(array: Any) -> Any:
    import cupy

    return cupy.asarray(array)


def dlpack_make(array: Any) -> Any:
    """numpy's array without numpy's __dlpack__, whose answers would be handed on."""
    import dlpack

    return dlpack.asdlpack(memoryview(array))


def dlpack_take(obj: Any) -> Any:
    """asdlpack alone asks for nothing yet; the first attribute does."""
    import dlpack

    x = dlpack.asdlpack(obj)
    assert x.ndim >= 0
    return x
