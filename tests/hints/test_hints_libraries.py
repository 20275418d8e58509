"""Hints for objects of libraries that don't fit into the environment of the other tests. `make test-hints` runs each in
a process of its own."""

import textwrap

import pytest

from support.alone import TESTS, python

# A program that makes the object, the hint, and its values.
OBJECTS = {
    "an image of SimpleITK": (
        """
        import SimpleITK
        obj = SimpleITK.GetImageFromArray(numpy.arange(24, dtype="i2").reshape(2, 3, 4))
        """,
        "SimpleITK.GetArrayFromImage(obj)",
        "numpy.arange(24, dtype='i2').reshape(2, 3, 4)",
    ),
    "an image of vectors of SimpleITK": (
        """
        import SimpleITK
        obj = SimpleITK.GetImageFromArray(numpy.arange(24, dtype="u1").reshape(2, 3, 4), isVector=True)
        """,
        "SimpleITK.GetArrayFromImage(obj)",
        "numpy.arange(24, dtype='u1').reshape(2, 3, 4)",
    ),
    "a field of taichi": (
        """
        import taichi
        taichi.init(arch=taichi.cpu, log_level=taichi.ERROR)
        obj = taichi.field(taichi.f32, shape=(2, 3))
        obj.fill(2)
        """,
        "obj.to_numpy()",
        "numpy.full((2, 3), 2, 'f4')",
    ),
    "a field of vectors of taichi": (
        """
        import taichi
        taichi.init(arch=taichi.cpu, log_level=taichi.ERROR)
        obj = taichi.Vector.field(3, taichi.i32, shape=2)
        obj.fill(2)
        """,
        "obj.to_numpy()",
        "numpy.full((2, 3), 2, 'i4')",
    ),
    "a field of structures of taichi": (
        """
        import taichi
        taichi.init(arch=taichi.cpu, log_level=taichi.ERROR)
        obj = taichi.Struct.field({"a": taichi.f32, "b": taichi.i32}, shape=2)
        """,
        "obj.to_numpy()['a']",
        "numpy.zeros(2, 'f4')",
    ),
    "an array of taichi": (
        """
        import taichi
        taichi.init(arch=taichi.cpu, log_level=taichi.ERROR)
        obj = taichi.ndarray(taichi.f32, (2, 3))
        """,
        "obj.to_numpy()",
        "numpy.zeros((2, 3), 'f4')",
    ),
    "a matrix of taichi": (
        "import taichi; obj = taichi.Matrix([[1, 2], [3, 4]])",
        "obj.to_numpy()",
        "numpy.array([[1, 2], [3, 4]])",
    ),
    "a matrix of quadrants": (
        "import quadrants; obj = quadrants.Matrix([[1, 2], [3, 4]])",
        "obj.to_numpy()",
        "numpy.array([[1, 2], [3, 4]])",
    ),
    "a column of datasets": (
        """
        import datasets
        features = datasets.Features({"a": datasets.Value("float32")})
        obj = datasets.Dataset.from_dict({"a": [1, 2, 3]}, features=features).select([2, 0])["a"]
        """,
        "obj.source.with_format('arrow')[obj.column_name][:].combine_chunks()",
        "numpy.array([3, 1], 'f4')",
    ),
    "a column of datasets in a format": (
        """
        import datasets
        part = datasets.Dataset.from_dict({"a": [1, 2]}, features=datasets.Features({"a": datasets.Value("int8")}))
        obj = datasets.concatenate_datasets([part, part]).with_format("torch")["a"]
        """,
        "obj.source.with_format('arrow')[obj.column_name][:].combine_chunks()",
        "numpy.array([1, 2, 1, 2], 'i1')",
    ),
    "a column of matrices of datasets, as Arrow has it": (
        """
        import datasets
        features = datasets.Features({"a": datasets.Array2D((1, 2), "int32")})
        rows = datasets.Dataset.from_dict({"a": [[[1, 2]], [[3, 4]]]}, features=features)
        obj = rows.data.column("a").chunk(0)
        """,
        "obj.storage.flatten().flatten()",
        "numpy.array([1, 2, 3, 4], 'i4')",
    ),
    "a column of matrices of datasets, in chunks": (
        """
        import datasets
        features = datasets.Features({"a": datasets.Array2D((1, 2), "int32")})
        obj = datasets.Dataset.from_dict({"a": [[[1, 2]], [[3, 4]]]}, features=features).data.column("a")
        """,
        "obj.combine_chunks().storage.flatten().flatten()",
        "numpy.array([1, 2, 3, 4], 'i4')",
    ),
    "a tensor of gguf": (
        """
        import gguf, os, tempfile
        path = os.path.join(tempfile.mkdtemp(), "file")
        writer = gguf.GGUFWriter(path, "test")
        writer.add_tensor("a", numpy.arange(6, dtype="f4").reshape(2, 3))
        writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()
        obj = gguf.GGUFReader(path).tensors[0]
        """,
        "obj.data",
        "numpy.arange(6, dtype='f4').reshape(2, 3)",
    ),
    "a tensor of torchao": (
        """
        import torch, torchao.quantization
        layer = torch.nn.Linear(64, 64, bias=False)
        torchao.quantization.quantize_(layer, torchao.quantization.Int8WeightOnlyConfig())
        obj = layer.weight
        """,
        "obj.dequantize()",
        "obj.dequantize().detach().numpy()",
    ),
    "a tensor of several processes": (
        """
        import tempfile, torch, torch.distributed
        store = torch.distributed.FileStore(tempfile.mktemp(), 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        obj = distribute_tensor(torch.arange(4.0), init_device_mesh("cpu", (1,)), [Shard(0)])
        """,
        "obj.to_local(), this process's part",
        "numpy.arange(4, dtype='f4')",
    ),
    "a tensor of several processes with a gradient": (
        """
        import tempfile, torch, torch.distributed
        store = torch.distributed.FileStore(tempfile.mktemp(), 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        obj = distribute_tensor(torch.arange(4.0, requires_grad=True), init_device_mesh("cpu", (1,)), [Shard(0)])
        """,
        "obj.detach().to_local(), this process's part",
        "numpy.arange(4, dtype='f4')",
    ),
    "a wrapper of tensors": (
        """
        import torch
        from torch.testing._internal.two_tensor import TwoTensor
        obj = TwoTensor(torch.ones(2), torch.zeros(2))
        """,
        "obj.a, and so on: its tensors one by one",
        "numpy.ones(2, 'f4')",
    ),
    "an image of Qt": (
        """
        import os
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
        from PyQt6.QtGui import QImage
        obj = QImage(8, 3, QImage.Format.Format_Grayscale8)
        obj.fill(7)
        """,
        "dlpack.from_pointer(int(obj.bits()), (obj.height(), obj.bytesPerLine()), 'uint8', owner=obj)",
        "numpy.full((3, 8), 7, 'u1')",
    ),
    "a picture of a page": (
        """
        import pymupdf
        obj = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 2, 1))
        obj.clear_with(3)
        """,
        "obj.samples_mv",
        "numpy.full(6, 3, 'u1')",
    ),
    "a file of rasterio": (
        """
        import os, rasterio, tempfile, warnings
        warnings.simplefilter("ignore")
        path = os.path.join(tempfile.mkdtemp(), "file")
        with rasterio.open(path, "w", driver="GTiff", height=3, width=4, count=1, dtype="uint8") as file:
            file.write(numpy.arange(12, dtype="u1").reshape(1, 3, 4))
        obj = rasterio.open(path)
        """,
        "obj.read()",
        "numpy.arange(12, dtype='u1').reshape(1, 3, 4)",
    ),
    "an NDData of astropy": (
        "import astropy.nddata; obj = astropy.nddata.NDData(numpy.arange(3.0))",
        "obj.data",
        "numpy.arange(3.0)",
    ),
    "an image of astropy": (
        "import astropy.nddata; obj = astropy.nddata.CCDData(numpy.arange(3.0), unit='adu')",
        "obj.data",
        "numpy.arange(3.0)",
    ),
    "times of astropy": (
        "import astropy.time; obj = astropy.time.Time([2451544.5, 2451545.5], format='jd')",
        "obj.jd1, and then obj.jd2, whose sum is days",
        "numpy.asarray(obj.jd1)",
    ),
    "an array of awkward": (
        "import awkward; obj = awkward.Array([[1, 2], [3, 4]]); obj = awkward.to_regular(obj)",
        "numpy.asarray(obj)",
        "numpy.array([[1, 2], [3, 4]])",
    ),
    "lists of awkward": (
        "import awkward; obj = awkward.Array([[1, 2], [3]])",
        "numpy.asarray(awkward.flatten(obj, axis=None))",
        "numpy.array([1, 2, 3])",
    ),
    "a dataset of netCDF": (
        """
        import netCDF4
        obj = netCDF4.Dataset("name", "w", diskless=True)
        obj.createDimension("t", 3)
        obj.createVariable("text", str, ("t",))
        obj.createVariable("a", "f4", ("t",))[:] = [1, 2, 3]
        """,
        "numpy.asarray(obj['a'])",
        "numpy.array([1, 2, 3], 'f4')",
    ),
    "a variable of netCDF": (
        """
        import netCDF4
        file = netCDF4.Dataset("name", "w", diskless=True)
        file.createDimension("t", 3)
        obj = file.createVariable("a", "f4", ("t",))
        obj[:] = [1, 2, 3]
        """,
        "numpy.asarray(obj)",
        "numpy.array([1, 2, 3], 'f4')",
    ),
    "a frame of narwhals that is not computed yet": (
        "import duckdb, narwhals; obj = narwhals.from_native(duckdb.sql('select 7::INT a'))",
        "obj.collect(), or a column of it",
        "numpy.array([7], 'i4')",
    ),
    "a result of duckdb": (
        "import duckdb; obj = duckdb.connect().execute('select 7::INT a, 8 b')",
        "obj.to_arrow_table()[0].combine_chunks()",
        "numpy.array([7], 'i4')",
    ),
    "a masked array of rasterio": (
        """
        import os, rasterio, tempfile, warnings
        warnings.simplefilter("ignore")
        path = os.path.join(tempfile.mkdtemp(), "file")
        with rasterio.open(path, "w", driver="GTiff", height=2, width=2, count=1, dtype="uint8", nodata=9) as file:
            file.write(numpy.array([[[1, 9], [2, 3]]], "u1"))
        with rasterio.open(path) as file:
            obj = file.read(1, masked=True)
        """,
        "obj.filled(), in which masked items are obj.fill_value",
        "numpy.array([[1, 9], [2, 3]], 'u1')",
    ),
    "a masked array of duckdb": (
        """
        import duckdb
        obj = duckdb.sql("select nullif(i, 1) j from range(3) t(i)").fetchnumpy()["j"]
        obj.fill_value = -1
        """,
        "obj.filled(), in which masked items are obj.fill_value",
        "numpy.array([0, -1, 2])",
    ),
    "an array of netCDF without a masked item": (
        """
        import netCDF4
        file = netCDF4.Dataset("name", "w", diskless=True)
        file.createDimension("t", 3)
        file.createVariable("a", "f4", ("t",))[:] = [1, 2, 3]
        obj = file["a"][:]
        """,
        "obj.data",
        "numpy.array([1, 2, 3], 'f4')",
    ),
    "a sparse array": ("import sparse; obj = sparse.COO(numpy.eye(2))", "obj.todense()", "numpy.eye(2)"),
    "a file of safetensors": (
        """
        import os, tempfile, safetensors.numpy
        path = os.path.join(tempfile.mkdtemp(), "file")
        safetensors.numpy.save_file({"a": numpy.arange(3.0)}, path)
        obj = safetensors.safe_open(path, "numpy")
        """,
        "obj.get_tensor('a')",
        "numpy.arange(3.0)",
    ),
}
PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
import warnings
warnings.simplefilter("ignore")
import numpy
import dlpack
from support.hints import follow, hint_of
{make}
try:
    dlpack.asdlpack(obj).shape
except (BufferError, TypeError, ValueError) as error:
    text = str(error)
hint = hint_of(text)
assert hint == "pass " + {hint!r}, text
assert len(hint) <= 200
values, expected = numpy.asarray(follow(text, globals())), {values}
assert values.dtype == expected.dtype and values.shape == expected.shape, (values, expected)
assert (values == expected).all(), (values, expected)
"""


@pytest.mark.parametrize("what", OBJECTS)
def test_hint_of_another_library_gives_its_values(what):
    make, hint, values = OBJECTS[what]
    result = python(PROGRAM.format(tests=str(TESTS), make=textwrap.dedent(make), hint=hint, values=values), timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_hints_of_a_pointer_of_qt_can_be_followed():
    result = python("""
import os
os.environ["QT_QPA_PLATFORM"] = "offscreen"
import dlpack
from PyQt6.QtGui import QImage
image = QImage(8, 3, QImage.Format.Format_Grayscale8)
image.fill(7)
obj = image.bits()
try:
    dlpack.asdlpack(obj)
except IndexError as error:
    assert str(error).endswith("has an unknown size (before that call obj.setsize(bytes))"), error
try:
    dlpack.from_pointer(obj, 24, "uint8")
except TypeError as error:
    assert str(error).endswith("(pass int(obj))"), error
assert bytes(dlpack.from_pointer(int(obj), 24, "uint8", owner=image)) == bytes([7] * 24)
obj.setsize(24)
assert bytes(dlpack.asdlpack(obj)) == bytes([7] * 24)
""")
    assert result.returncode == 0, result.stderr
