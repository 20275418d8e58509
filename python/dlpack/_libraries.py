"""List the libraries that exchange memory with this package: how to find each without importing it, its protocols."""

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from typing import NamedTuple


class Library(NamedTuple):
    """A library; name is its import name."""

    name: str
    distributions: tuple[str, ...]  # each contains the library; the first one installed tells its version
    speaks: str  # the protocols of its arrays
    consumer: bool = False  # True if it can import memory of other libraries


LIBRARIES = (
    Library("numpy", ("numpy",), "DLPack, array interface, buffer", True),
    Library("ml_dtypes", ("ml_dtypes",), "array interface"),
    Library("torch", ("torch",), "DLPack, C exchange API, CUDA array interface", True),
    Library("jax", ("jax",), "DLPack, CUDA array interface, buffer", True),
    Library("tensorflow", ("tensorflow", "tensorflow-cpu", "tf-nightly"), "DLPack", True),
    Library("cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"), "DLPack, CUDA array interface", True),
    Library("cudf", ("cudf-cu13", "cudf-cu12", "cudf"), "DLPack, CUDA array interface, Arrow", True),
    Library("numba", ("numba",), "CUDA array interface"),
    Library("pyarrow", ("pyarrow",), "DLPack, Arrow, buffer", True),
    Library("mxnet", ("mxnet", "mxnet-cu112"), "DLPack capsules", True),
    Library("tvm", ("apache-tvm",), "DLPack, C exchange API", True),
    Library("tvm_ffi", ("apache-tvm-ffi",), "DLPack, C exchange API", True),
    Library("mpi4py", ("mpi4py",), "DLPack, CUDA array interface, buffer", True),
    Library("onnx", ("onnx",), "buffer"),
    Library("onnxruntime", ("onnxruntime", "onnxruntime-gpu"), "DLPack", True),
    Library("tritonclient", ("tritonclient",), "DLPack"),
    Library("paddle", ("paddlepaddle", "paddlepaddle-gpu"), "DLPack, C exchange API", True),
    Library("mlx", ("mlx",), "DLPack, buffer", True),
    Library("polars", ("polars",), "Arrow", True),
    Library("pandas", ("pandas",), "Arrow"),
    Library("nanoarrow", ("nanoarrow",), "Arrow", True),
    Library("duckdb", ("duckdb",), "Arrow"),
    Library("nanobind", ("nanobind",), "DLPack, buffer", True),
    Library("dask", ("dask",), "what its chunks speak"),
    Library("xarray", ("xarray",), "what its variables' data speaks"),
    Library("zarr", ("zarr",), "what its chunks speak"),
    Library("h5py", ("h5py",), "what its chunks speak"),
    Library("PIL", ("pillow",), "array interface, Arrow"),
    Library("av", ("av",), "DLPack, buffer"),
    Library("cv2", ("opencv-python", "opencv-python-headless"), "numpy's arrays"),
)


def installed() -> Iterator[tuple[Library, str]]:
    """Yields each installed library and its version. Imports none of them."""
    for library in LIBRARIES:
        spec = importlib.util.find_spec(library.name)
        number = version(library) if spec else ""
        if spec and (number or spec.origin):  # a mere folder of that name counts as a package, but has no origin
            yield library, number


def version(library: Library) -> str:
    """Returns the version that the metadata has, or "" if there is none."""
    for distribution in library.distributions:
        try:
            found = importlib.metadata.metadata(distribution)
        except (ImportError, FileNotFoundError):  # no such distribution; from 3.15 on, one without metadata
            continue
        if "Version" in found:
            return found["Version"]
    return ""
