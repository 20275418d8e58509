"""Hints: what to pass instead of an object that was refused. Imported when the first hint is needed.

Each function looks at one object and returns its hint; None if there is none, or if it might not work. A plain str
leads to a copy, so that copy_into's target gets another cure. A Cure has the hint for a target."""

from __future__ import annotations

import io
import os
import stat
from sys import modules  # the dict itself: sys loses it at exit

from ._foreign import INSTALLED, MOST, NO_MEMORY, PROTOCOLS, SMALL_INTS, is_a, is_numpy_scalar
from ._refusals import Cure, cure_by_side

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def for_both(hint: str) -> Cure:
    """Returns a hint that serves for copy_into's target, too: it leads to the object's own memory, or to none."""
    return cure_by_side(hint, hint)


def mapped(begin: str, end: str = "") -> Cure:
    """Returns the hint for an open file. The mapping is copy-on-write: consumers may write to it without changing the
    file, even if they ignore the read-only flag. A target's file has to change."""
    hint = "pass mmap.mmap(obj.fileno(), 0, access=mmap.ACCESS_{}), which maps the file"
    return cure_by_side(
        f"{begin}{hint.format('COPY')}{end}", f"{begin}open it in mode 'r+b', and {hint.format('WRITE')}"
    )


BYREF = for_both("pass ctypes.pointer(...) instead of ctypes.byref(...)")
# Hints for objects of a class, by its library and name.
INSTEAD = {
    "_ctypes.CArgObject": BYREF,  # since CPython 3.13
    "SimpleITK.Image": "pass SimpleITK.GetArrayFromImage(obj)",
    "_io.BytesIO": for_both("pass obj.getbuffer()"),
    "_io.StringIO": "pass obj.getvalue().encode()",
    "astropy.NDData": for_both("pass obj.data"),
    "astropy.TimeBase": "pass obj.jd1, and then obj.jd2, whose sum is days",
    "av.Frame": "pass obj.to_ndarray()",
    "builtins.CArgObject": BYREF,
    "cv2.UMat": "pass obj.get()",
    "dask.Delayed": "pass obj.compute()",
    "gguf.ReaderTensor": for_both("pass obj.data"),
    "h5py.Empty": for_both("it has no items"),
    "jax.JAXSparse": "pass obj.todense()",
    "jax.PRNGKeyArray": "pass jax.random.key_data(obj)",
    "keras.KerasTensor": for_both("it has no memory: pass what the model returns"),
    "multiprocessing.SynchronizedBase": for_both("pass obj.get_obj()"),
    "narwhals.LazyFrame": "pass obj.collect(), or a column of it",
    "onnx.TensorProto": "pass onnx.numpy_helper.to_array(obj)",
    "pandas.BaseGroupBy": for_both("pass [group for name, group in obj][0], and so on: its groups one by one"),
    "polars.LazyFrame": "pass obj.collect(), or a column of it",
    "pyarrow.BufferOutputStream": "pass obj.getvalue()",
    "pyarrow.SparseCOOTensor": "pass obj.to_tensor()",
    "pyarrow.SparseCSCMatrix": "pass obj.to_tensor()",
    "pyarrow.SparseCSFTensor": "pass obj.to_tensor()",
    "pyarrow.SparseCSRMatrix": "pass obj.to_tensor()",
    "pymupdf.Pixmap": for_both("pass obj.samples_mv"),
    "quadrants.Matrix": "pass obj.to_numpy()",
    "rasterio.DatasetReaderBase": "pass obj.read()",
    "scipy._spbase": "pass obj.toarray()",
    "sparse.SparseArray": "pass obj.todense()",
    "taichi.Matrix": "pass obj.to_numpy()",
    "taichi.MatrixField": "pass obj.to_numpy()",
    "taichi.Ndarray": "pass obj.to_numpy()",
    "taichi.ScalarField": "pass obj.to_numpy()",
    "tensorflow.IndexedSlices": "pass obj.values, and then obj.indices",
    "tensorflow.RaggedTensor": "pass obj.to_tensor()",
    "tensorflow.SparseTensor": "pass tensorflow.sparse.to_dense(obj)",
    "tensorflow.SymbolicTensor": for_both("it has no memory: pass what the function returns"),
}
# Hints for objects that hold arrays by name: the attribute with the names, and the expression for one array.
BY_NAME = {
    "h5py.Group": ("keys", "numpy.asarray(obj[{}])"),
    "netCDF4.Dataset": ("variables", "numpy.asarray(obj[{}])"),
    "numpy.NpzFile": ("files", "obj[{}]"),
    "taichi.StructField": ("keys", "obj.to_numpy()[{}]"),
    "torch.Module": ("state_dict", "obj.state_dict()[{}]"),
    "builtins.safe_open": ("keys", "obj.get_tensor({})"),
    "xarray.Dataset": ("data_vars", "numpy.asarray(obj[{}])"),
    "zarr.Group": ("keys", "numpy.asarray(obj[{}])"),
}
CONTAINERS = "builtins.dict_values", "builtins.frozenset", "builtins.set", "collections.deque"
ITERATORS = "builtins.filter", "builtins.generator", "builtins.map"
NUMPYS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
NO_NUMBERS = "bytes", "date", "object", "str", "time", "void"  # prefixes of data types' names
INTS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"}  # those that int64 holds
FLOATS = {"uint64", "halffloat", "float", "float16", "float32", "double", "float64"}
BOOLEANS = {"bool", "boolean"}
MOST_ROWS = 100_000  # the most rows that a hint looks at
DUCKDB_NUMBERS = "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"
DUCKDB_CASTS = {
    "DATE": ".cast('int32')",
    "DECIMAL": ".cast('float64')",
    "ENUM": ".indices",
    "TIME": ".cast('int64')",
    "TIMESTAMP": ".cast('int64')",
}


def classes_of(obj: object) -> list[str]:
    """Returns the classes of obj, by their library and name: "numpy.ndarray", "builtins.object"."""
    names = []
    for kind in type(obj).__mro__:
        module = getattr(kind, "__module__", None)
        if isinstance(module, str):
            names.append(f"{module.partition('.')[0]}.{kind.__name__}")
    return names


def is_of(obj: object, library: str) -> bool:
    """True if obj's class, or a base of it, belongs to a library."""
    return bool([name for name in classes_of(obj) if name.startswith(f"{library}.")])


def look_up(obj: object, name: str) -> Any:
    """Returns an attribute; "" if it is absent or raises."""
    try:
        return getattr(obj, name, "")
    except NO_MEMORY:
        raise
    except Exception:
        return ""


def has_numbers(obj: Any) -> bool:
    """True if obj's data type is one of numbers or booleans."""
    dtype = str(obj.dtype).lower()  # pandas has "Int64"
    return "int" in dtype or "float" in dtype or "complex" in dtype or "bool" in dtype


def is_number(kind: Any) -> bool:
    """True if a data type of pyarrow is one of numbers."""
    types = modules["pyarrow"].types
    return bool(types.is_integer(kind) or types.is_floating(kind))


def type_of_numbers(items: list[Any]) -> str | None:
    """Returns the text after "astype(" that turns Python's objects or texts into numbers, such as "'float64')"; None if
    they aren't numbers."""
    kinds = set()
    date = modules["datetime"].date if "datetime" in modules else ()
    for item in items:
        if isinstance(item, date):
            kinds.add("'datetime64[us]').view('int64')")
        elif isinstance(item, complex):
            kinds.add("'complex128')")
        elif item is not None:  # numpy turns None into NaN
            try:
                float(item)
            except (TypeError, ValueError):
                return None
            kinds.add("'float64')")
    if len(kinds) < 2:
        return kinds.pop() if kinds else "'float64')"
    return "'complex128')" if kinds == {"'complex128')", "'float64')"} else None


def shape_of(item: Any, looked_at: int = MOST) -> tuple[int, ...] | None:
    """Returns the shape of a number, or of a nested list of numbers, judged by its first items; else None."""
    if isinstance(item, (int, float, complex)):
        return () if not isinstance(item, int) or -(2**63) <= item < 2**63 else None
    if not isinstance(item, list | tuple):
        return () if is_numpy_scalar(item) and has_numbers(item) else None
    shapes = {shape_of(each, 8) for each in item[:looked_at]} or {()}
    first = shapes.pop()
    return None if shapes or first is None else (len(item), *first)


def has_buffer_of_python(obj: object) -> bool:
    """True if memoryview(obj) is safe: it crashes on a foreign object whose buffer lies about its shape."""
    safe = {"builtins.bytes", "builtins.bytearray", "builtins.memoryview", "array.array", "mmap.mmap", "_ctypes._CData"}
    return not safe.isdisjoint(classes_of(obj))


def has_memory(item: Any) -> bool:
    """True if an item of a list shares memory. numpy's scalars don't count: numpy.asarray makes one array of them."""
    if is_numpy_scalar(item):
        return False
    for name in PROTOCOLS:
        try:
            if has_buffer_of_python(item) if name == "buffer" else getattr(item, name, None) is not None:
                return True
        except NO_MEMORY:
            raise
        except Exception:
            continue
    return False


def of_closed(obj: Any) -> str | None:
    is_file = isinstance(obj, io.IOBase) or callable(getattr(obj, "readable", None))
    return for_both("it is closed: pass an open one") if is_file and obj.closed is True else None


def of_class(obj: object) -> str | None:
    for name in classes_of(obj):
        if name in INSTEAD:
            return INSTEAD[name]
    return None


def of_names(obj: Any) -> str | None:
    for kind in classes_of(obj):
        if kind not in BY_NAME:
            continue
        attribute, expression = BY_NAME[kind]
        names = getattr(obj, attribute)
        for name in names() if callable(names) else names:
            if len(repr(name)) <= MOST and ("asarray" not in expression or has_numbers(obj[name])):
                return f"pass {expression.format(repr(name))}"
    return None


def of_int(obj: object) -> str | None:
    is_address = isinstance(obj, int) and not isinstance(obj, bool)
    return for_both("for an address use dlpack.from_pointer") if is_address else None


def of_list(obj: Any) -> str | None:
    if not isinstance(obj, list | tuple):
        return None
    for i, item in enumerate(obj[:MOST]):
        if has_memory(item):
            return for_both(f"pass obj[{i}], and so on: its items one by one")
    if shape_of(obj) is not None:
        return "pass numpy.asarray(obj)"
    hint = "pass numpy.asarray(obj[0]), and so on: its items one by one"
    return for_both(hint) if shape_of(obj[0]) is not None else None


def of_path(obj: object) -> str | None:
    if isinstance(obj, str):
        hint = "of a file's name pass dlpack.memmap(obj, 'uint8'{})"
        return cure_by_side(f"{hint.format('')}; of text pass obj.encode()", hint.format(", mode='r+'"))
    hint = "pass dlpack.memmap(obj, 'uint8'{}), which maps the file"
    return cure_by_side(hint.format(""), hint.format(", mode='r+'")) if hasattr(type(obj), "__fspath__") else None


def of_container(obj: Any) -> str | None:
    """Hint for an iterable that has to become a list first, and for a range."""
    if isinstance(obj, range):
        return "pass numpy.asarray(obj)"
    kind = classes_of(obj)[0]
    if kind in ITERATORS:  # list(obj) here would consume it
        return "if it yields numbers, pass numpy.asarray(list(obj))"
    if kind not in CONTAINERS:
        return None
    items = list(obj)
    if items and has_memory(items[0]):
        return for_both("pass list(obj)[0], and so on: its items one by one")
    return "pass numpy.asarray(list(obj))" if shape_of(items) is not None else None


def of_pandas(obj: Any) -> str | None:
    """Hint for pandas' arrays and indices."""
    if not is_of(obj, "pandas"):
        return None
    if hasattr(obj, "levels"):
        for i, level in enumerate(obj.levels):
            if has_numbers(level):
                return f"pass numpy.asarray(obj.get_level_values({i}))"
        return None
    dtype = str(obj.dtype)
    if dtype == "category":
        return "pass obj.codes"
    if hasattr(obj, "asi8"):
        return for_both("pass obj.asi8, their ticks as int64")
    if dtype.startswith("interval"):
        return "pass numpy.asarray(obj.left), and then obj.right so" if has_numbers(obj.left) else None
    if hasattr(obj.dtype, "pyarrow_dtype"):
        return of_pyarrow("pyarrow.array(obj)", modules["pyarrow"].array(obj))
    if not has_numbers(obj):
        return None
    numbers = getattr(obj.dtype, "numpy_dtype", None)  # Int64 and the like, which mask their nulls
    if numbers is None:
        return "pass numpy.asarray(obj)"
    return f"pass obj.to_numpy({'float64' if obj.isna().any() else str(numbers)!r}, na_value=numpy.nan)"


def of_awkward(obj: Any) -> str | None:
    if not is_of(obj, "awkward"):
        return None
    flat = "obj" if obj.layout.purelist_isregular else "awkward.flatten(obj, axis=None)"
    return f"pass numpy.asarray({flat})"


def of_datasets(obj: Any) -> str | None:
    """Hint for a column of numbers of Hugging Face's datasets."""
    is_whole = "datasets.Column" in classes_of(obj) and hasattr(obj.source, "with_format")
    if not is_whole or not has_numbers(obj.features):
        return None
    return "pass obj.source.with_format('arrow')[obj.column_name][:].combine_chunks()"


def of_duckdb(obj: Any) -> str | None:
    """Hint for a connection of duckdb, which may have a result."""
    if "_duckdb.DuckDBPyConnection" not in classes_of(obj):
        return None
    if obj.description is None:
        return "pass what obj.sql(query) gives"
    return "pass obj.to_arrow_table()[0].combine_chunks()"


def of_qt(obj: Any) -> str | None:
    if "PyQt6.QImage" not in classes_of(obj) or obj.isNull():
        return None
    shape = "(obj.height(), obj.bytesPerLine())"
    return for_both(f"pass dlpack.from_pointer(int(obj.bits()), {shape}, 'uint8', owner=obj)")


def of_cffi(obj: object) -> str | None:
    if not is_of(obj, "_cffi_backend"):
        return None
    kind = modules["_cffi_backend"].typeof(obj)
    is_sized = kind.kind in ("array", "pointer") and kind.item.kind not in ("void", "function")
    return for_both("pass ffi.buffer(obj)") if is_sized else None


def of_pyarrow_scalar(obj: Any) -> str | None:
    if not is_of(obj, "pyarrow") or obj.is_valid is not True:
        return None
    if getattr(obj, "values", None) is not None:
        return "pass obj.values" if is_number(obj.type.value_type) else None
    return "pass pyarrow.array([obj])" if is_number(obj.type) else None


def of_storage(obj: Any) -> str | None:
    """Hint for torch's storages."""
    if type(obj).__module__ != "torch.storage" or str(obj.device) == "meta":
        return None
    is_typed = type(obj).__name__ != "UntypedStorage"
    if is_typed and str(obj.dtype).startswith("torch.q"):
        return None
    dtype = "obj.dtype" if is_typed else "torch.uint8"
    return for_both(f"pass torch.empty(0, dtype={dtype}, device=obj.device).set_(obj)")


def of_array(obj: Any) -> str | None:
    """Hint for an object that numpy.asarray accepts."""
    if not callable(obj.__array__):
        return None
    if look_up(obj, "shape") is None:  # a dataset of h5py.Empty
        return for_both("it has no items")
    dtype = look_up(obj, "dtype")
    name = dtype.__name__ if isinstance(dtype, type) else look_up(dtype, "name")
    is_other = isinstance(name, str) and name.lower().startswith(NO_NUMBERS)
    return None if is_other else "pass numpy.asarray(obj)"


def of_dict(obj: Any) -> str | None:
    """Hint for a dict or another mapping; those that read files are in BY_NAME."""
    if not isinstance(obj, dict) and not callable(getattr(type(obj), "keys", None)):
        return None
    for i, name in enumerate(obj.keys()):
        if has_memory(obj[name]):
            place = f"obj[{name!r}]" if isinstance(name, str | int) else "next(iter(obj.values()))"
            return for_both(f"pass {place}, and so on: its values one by one")
        if i == MOST or not isinstance(obj, dict):
            break
    return None


def of_buf(obj: Any) -> str | None:
    """Hint for multiprocessing's SharedMemory."""
    return for_both("pass dlpack.frombuffer(obj, 'uint8')") if isinstance(obj.buf, memoryview) else None


def of_file(obj: Any) -> str | None:
    """Hint for an open file. Only an uncompressed file is mapped: the reader of a compressed one has the descriptor of
    the compressed bytes."""
    is_readable = obj.readable()
    if is_readable is False:
        return "it is open for writing alone: open it for reading"
    if is_readable is not True:
        return None
    if is_of(obj, "pyarrow"):
        return "pass obj.read_buffer()"
    if not callable(obj.read):
        return None
    read = "pass obj.read().encode()" if isinstance(getattr(obj, "encoding", None), str) else "pass obj.read()"
    raw = getattr(getattr(obj, "buffer", obj), "raw", obj)
    if not isinstance(raw, io.FileIO):
        return read
    status = os.fstat(raw.fileno())
    if not stat.S_ISREG(status.st_mode):  # a pipe or device
        return read
    if obj.writable() is True:
        return mapped("after obj.flush() ", "" if status.st_size else f"; if it is empty {read}")
    return mapped("") if status.st_size else read


def instead_of_pointer(obj: Any) -> str | None:
    """Hint for an address in a ctypes int, or in a pointer of another library."""
    if is_a(type(obj), "_ctypes", "_SimpleCData") and type(obj.value) is int:
        return "pass obj.value"
    if hasattr(type(obj), "__int__") and not hasattr(type(obj), "__float__"):
        return "pass int(obj)"
    return "use dlpack.asdlpack(obj)" if not isinstance(obj, int) and has_memory(obj) else None


def of_unmasked(obj: Any) -> str | None:
    unmasked = "pass obj.data"
    is_masked = obj.mask.any()
    return cure_by_side(
        "pass obj.filled(), in which masked items are obj.fill_value" if is_masked else unmasked, unmasked
    )


def of_items(obj: Any, reason: str) -> str | None:
    """Hint for memory whose items DLPack lacks; reason is the error's. Doesn't trust a foreign class: makes no array or
    view from its description of the memory."""
    numpy = modules["numpy"] if "numpy" in modules else None
    owner = obj.obj if isinstance(obj, memoryview) and reason == "objects" else obj
    if numpy is not None and isinstance(owner, numpy.ndarray | numpy.generic):
        array = numpy.asarray(obj)
        return of_numpy("obj" if type(obj) is numpy.ndarray else "numpy.asarray(obj)", array.dtype, array)
    interface = getattr(obj, "__array_interface__", None)
    if numpy is not None and isinstance(interface, dict):
        is_structure = "V" in interface["typestr"] and "descr" in interface
        return of_numpy("numpy.asarray(obj)", numpy.dtype(interface["descr" if is_structure else "typestr"]))
    if not has_buffer_of_python(obj):
        return None
    with memoryview(obj) as view:
        if reason == "long-double":
            if view.format in ("g", "Zg"):  # a long double of numpy
                return f"pass numpy.asarray(obj).astype('{'float64' if view.format == 'g' else 'complex128'}')"
            return "pass numpy.frombuffer(memoryview(obj).tobytes(), 'g').astype('float64')"
        is_compact = view.c_contiguous
    flat = "memoryview(obj).cast('B')" if is_compact else "memoryview(obj).tobytes()"
    hint = f"pass {flat}, its bytes"
    if reason == "pointers":
        hint = f"pass {flat if is_compact else f'memoryview({flat})'}.cast('Q'), the addresses"
    return for_both(hint) if is_compact else hint


def of_numpy(name: str, dtype: Any, array: Any = None) -> str | None:
    """Hint for a numpy array; name is its expression. array: the array itself, if its memory is safe to read."""
    kind, order = dtype.kind, ", with copy=None" if dtype.byteorder == ">" else ""
    if kind in "biu" or dtype.itemsize <= {"f": 8, "c": 16}.get(kind, 0):
        return f"pass {name}{order}"
    if kind in "fc":
        return f"pass {name}.astype('{'float64' if kind == 'f' else 'complex128'}')"
    if kind in "mM" and order:
        return f"pass {name}.astype('int64'), their ticks"
    if kind in "mM":
        return for_both(f"pass {name}.view('int64'), their ticks")
    if kind in "OTSU" and array is not None and dtype.itemsize <= MOST:
        items = array.flat[:MOST].tolist()
        if kind == "O" and len({item.shape for item in items if hasattr(item, "shape") and has_numbers(item)}) == 1:
            return f"pass numpy.stack({name})"
        if numbers := type_of_numbers(items):
            return f"pass {name}{'.astype(object)' if kind == 'T' else ''}.astype({numbers}"
    if kind == "U":
        view, end = f"pass {name}[..., None].view('{'>u4' if order else 'uint32'}')", ", its code points"
        return cure_by_side(f"{view}{order}{end}", f"{view}{end}")
    for field in dtype.names or ():
        if dtype[field].kind in "biufc" and dtype[field].alignment <= 8:
            return cure_by_side(
                f"pass {name}[{field!r}], with copy=None, one field", f"pass {name}[{field!r}], one field"
            )
    if kind not in "SV" or dtype.hasobject:
        return None
    if dtype.str == "|V2" and dtype.names is None and array is not None and array.flags.c_contiguous:
        return for_both(f"if it was saved as bfloat16, pass dlpack.frombuffer({name}, 'bfloat16', {name}.shape)")
    return for_both(f"pass {name}[..., None].view('uint8'), its bytes")


def of_conversion(source: Any, given: str, wanted: str) -> str | None:
    """Hint for a source whose data type differs from that of the target."""
    kinds = classes_of(source)
    if "x" in given or wanted.removeprefix("u") in SMALL_INTS:  # torch would convert the bytes of pairs
        return None
    if "torch.Tensor" in kinds and hasattr(modules["torch"], wanted):
        return f"pass source.to(torch.{wanted})"
    if wanted not in NUMPYS:
        return None
    if "numpy.ndarray" in kinds:
        return f"pass source.astype('{wanted}')"
    is_on_cpu = not hasattr(source, "__dlpack_device__") or source.__dlpack_device__()[0] == 1
    if is_on_cpu and given.removesuffix(" (padded)") in INSTALLED:
        return f"pass dlpack.to(source, 'numpy').astype('{wanted}')"
    if given not in NUMPYS or not is_on_cpu:
        return None
    return f"pass numpy.asarray(dlpack.asdlpack(source, copy=None)).astype('{wanted}')"


def of_shape(source: Any, shape: str) -> str | None:
    """Hint for a source whose shape differs from the target's, with the same number of items."""
    kinds = classes_of(source)
    shape = "target.shape" if "..." in shape else shape
    return f"pass source.reshape({shape})" if "numpy.ndarray" in kinds or "torch.Tensor" in kinds else None


def of_frame(obj: Any) -> str | None:
    """Hint for data of pandas and xarray that pyarrow refuses."""
    numpy = modules["numpy"]
    if is_of(obj, "xarray"):
        if isinstance(obj.data, numpy.ndarray):
            return of_numpy("numpy.asarray(obj)", obj.data.dtype, obj.data)
        return "pass numpy.asarray(obj)" if has_numbers(obj) else None  # computing it may take long
    if obj.ndim == 2:
        numbers = [i for i in range(obj.shape[1]) if has_numbers(obj.iloc[:, i])]
        if len(numbers) < obj.shape[1]:
            return f"pass numpy.asarray(obj.iloc[:, {numbers[0]}])"
    array = numpy.asarray(obj)
    return of_numpy("numpy.asarray(obj)", array.dtype, array)


def of_wrapper(obj: Any, refusal: str = "") -> str | None:
    """Hint for torch's tensors that wrap other tensors, or have no memory."""
    kinds = classes_of(obj)
    if "torch.Tensor" not in kinds:
        return None
    name = "obj.detach()" if obj.requires_grad else "obj"
    if "torch.DTensor" in kinds:
        return f"pass {name}.to_local(), this process's part"
    if "torchao.TorchAOBaseTensor" in kinds:
        return f"pass {name}.dequantize()"
    if "torch.MaskedTensor" in kinds:
        return "pass obj.get_data()"
    outside = for_both("it has no memory: pass what is made outside its FakeTensorMode")
    return outside if "torch.FakeTensor" in kinds else None


def of_parts(obj: Any) -> str | None:
    """Hint for other tensors without memory of their own, which torch.compile can flatten into plain tensors."""
    for name in obj.__tensor_flatten__()[0]:
        if getattr(obj, name).data_ptr():
            return for_both(f"pass obj.{name}, and so on: its tensors one by one")
    return None


def of_tensor(obj: Any, refusal: str) -> str | None:
    """Hint for a tensor that torch, jax or paddle refuses to export."""
    if is_of(obj, "jaxlib"):
        return None if obj.is_deleted() else "pass numpy.asarray(obj)"
    if is_of(obj, "paddle"):
        return "pass obj.to_dense()" if obj.is_sparse() else None
    if "torch.Tensor" not in classes_of(obj):
        return None
    name = "obj.detach()" if obj.requires_grad else "obj"
    if obj.is_meta:
        return "pass torch.empty_like(obj, device='cpu'), since obj has no memory"
    if "different CUDA device" in refusal:
        return for_both("make its device the current one: with torch.cuda.device(obj.device)")
    if obj.is_nested:
        return f"pass {name}.to_padded_tensor(0)"
    if "doesn't have storage" in refusal and str(obj.layout) == "torch.strided":
        return for_both("it has no memory inside torch.func.vmap and the like: pass what these return")
    if obj.is_conj():
        return f"pass {name}.resolve_conj()"
    if obj.is_quantized:
        return f"pass {name}.dequantize()"
    if str(obj.dtype).startswith("torch.bits"):
        return for_both(f"pass {name}.view(torch.{'uint8' if obj.element_size() == 1 else 'int16'})")
    if str(obj.layout) != "torch.strided":
        return f"pass {name}.to_dense()"
    return "pass obj.detach()" if obj.requires_grad else None


def of_refusing(obj: Any, refusal: str) -> str | None:
    """Hint for an object that refuses to export its memory, but may be accepted by numpy. Calls no method of it: that
    might ask other producers in turn."""
    device = str(look_up(obj, "device")).lower()
    return None if "torch.Tensor" in classes_of(obj) or "cuda" in device or "gpu" in device else of_array(obj)


def of_pyarrow_object(obj: Any, has_nulls: bool) -> str | None:
    if not is_of(obj, "pyarrow"):
        return None
    name, is_stream = "obj", hasattr(obj, "read_all")
    if is_stream or hasattr(obj, "num_columns"):  # a stream has been consumed
        kinds = obj.schema.types
        i = ([i for i, kind in enumerate(kinds) if is_number(kind)] or [0])[0]
        column = obj.schema.names[i]
        place = repr(column) if obj.schema.names.count(column) == 1 and len(column) <= MOST else str(i)
        name = f"{'pyarrow.table(obj)' if is_stream else 'obj'}[{place}]"
        obj = modules["pyarrow"].chunked_array([], kinds[i]) if is_stream else obj[i]
    return of_pyarrow(name, obj, has_nulls)


def of_pyarrow(name: str, array: Any, has_nulls: bool = False, is_part: bool = False) -> str | None:
    """Hint for a pyarrow array, chunked or not; name is its expression. has_nulls: the data may have nulls, even if
    this array has none. is_part: this array has only the first items."""
    types, kind = modules["pyarrow"].types, array.type
    is_chunked = hasattr(array, "chunks")
    parts = (array.chunks if is_chunked else [array]) or [modules["pyarrow"].nulls(0, kind)]
    if types.is_list(kind) and is_number(kind.value_type) and not has_nulls and len(parts) == 1 and not is_part:
        [length, *others] = parts[0][:MOST_ROWS].value_lengths().unique().to_pylist() or [None]
        if length and not others and len(parts[0]) <= MOST_ROWS and not parts[0].flatten().null_count:
            return f"pass {name}.cast(pyarrow.list_({name}.type.value_type, {length}))"
    steps = ""
    while found := next_step(types, parts[0].type, has_nulls, parts):
        step, take = found
        parts = [take(part) for part in parts]
        steps += step
    kind, sample = parts[0].type, parts[0][:MOST].to_pylist()
    cast = cast_of(types, kind, sample)
    if cast is None:
        return None
    is_bytes = types.is_fixed_size_binary(kind)
    if has_nulls or types.is_null(kind) or [part for part in parts if part.null_count]:
        cast += f".fill_null({f'bytes({kind.byte_width})' if is_bytes else False if types.is_boolean(kind) else 0})"
    if is_chunked and (steps or cast or is_bytes or len(array.chunks) != 1):
        steps = f".combine_chunks(){steps}"
    if is_bytes:
        return f"pass dlpack.frombuffer({name}{steps}{cast}, 'uint8', (-1, {kind.byte_width}))"
    return f"pass {name}{steps}{cast}{', with copy=None' if types.is_boolean(kind) else ''}"


def of_columns(obj: Any, reason: str) -> str | None:
    """Hint for a table whose columns are numbers, of several data types or with nulls."""
    if reason not in ("nulls", "column-types") or hasattr(obj, "read_all"):  # a stream has been consumed
        return None
    if is_of(obj, "pyarrow"):
        kinds = [str(kind) for kind in obj.schema.types]
    elif is_of(obj, "polars") or is_of(obj, "pandas"):
        kinds = [str(kind) for kind in obj.dtypes]
    else:
        return None
    kinds = [kind.lower().partition("[")[0] for kind in kinds]  # "double[pyarrow]" of pandas
    if set(kinds) <= BOOLEANS and reason == "nulls":
        value = "False"
    elif set(kinds) <= {*INTS, *FLOATS}:
        value = "0"
    else:
        return None
    common = "int64" if set(kinds) <= INTS else "float64"
    if common == "float64" and reason == "column-types" and would_round(obj, kinds):
        return None
    if is_of(obj, "pandas"):
        step = f"obj.fillna({value})" if reason == "nulls" else f"obj.astype('{common}')"
    elif is_of(obj, "polars"):
        step = f"obj.fill_null({value})" if reason == "nulls" else f"obj.cast(polars.{common.capitalize()})"
    elif reason == "nulls":
        step = f"pyarrow.table([column.fill_null({value}) for column in obj.columns], obj.schema.names)"
    else:
        step = f"obj.cast(pyarrow.schema([(name, '{common}') for name in obj.schema.names]))"
    return f"pass {step}, with copy=None"


def would_round(obj: Any, kinds: list[str]) -> bool:
    """True if float64 doesn't hold all ints of a table; raises pyarrow's error if obj is of pyarrow."""
    for i, kind in enumerate(kinds):
        if kind not in ("int64", "uint64"):
            continue
        if is_of(obj, "pyarrow"):
            obj.column(i).cast("float64")
        else:
            column = obj.to_series(i) if is_of(obj, "polars") else obj.iloc[:, i]
            if column.min() < -(2**53) or column.max() > 2**53:
                return True
    return False


def next_step(types: Any, kind: Any, has_nulls: bool, parts: list[Any]) -> tuple[str, Callable[[Any], Any]] | None:
    """Returns a step towards the numbers in pyarrow's arrays of this type, as (text, function); None at the numbers."""
    if hasattr(kind, "storage_type"):
        return ".storage", lambda part: part.storage
    if types.is_dictionary(kind):
        return ".indices", lambda part: part.indices
    if types.is_struct(kind):
        return ".flatten()[0]", lambda part: part.flatten()[0]
    if types.is_map(kind):
        return ".items", lambda part: part.items
    if types.is_union(kind):
        return ".field(0)", lambda part: part.field(0)
    if types.is_fixed_size_list(kind) and is_number(kind.value_type) and not has_nulls:
        if not [part for part in parts if part.null_count or part.flatten().null_count]:
            return None
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list or types.is_list_view(kind) or types.is_large_list_view(kind):
        return ".flatten()", lambda part: part.flatten()
    return None


def cast_of(types: Any, kind: Any, sample: list[Any]) -> str | None:
    """Returns the cast that turns pyarrow's items of this type into numbers, or None. sample: the first items."""
    if is_number(kind) or types.is_boolean(kind) or types.is_fixed_size_binary(kind):
        return ""
    if types.is_null(kind):
        return ".cast('int64')"
    if types.is_date32(kind) or types.is_time32(kind):
        return ".cast('int32')"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return ".cast('int64')"
    if types.is_decimal(kind):
        return ".cast('float64')"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return ".cast('float64')" if is_text and type_of_numbers(sample) else None


def of_polars(obj: Any, has_nulls: bool) -> str | None:
    if not is_of(obj, "polars"):
        return None
    name = "obj"
    if hasattr(obj, "columns"):
        i = ([i for i, kind in enumerate(obj.dtypes) if kind.is_numeric()] or [0])[0]
        name, obj = f"obj[{obj.columns[i]!r}]", obj.to_series(i)
    if str(obj.dtype).startswith("List(") and obj.dtype.inner.is_numeric() and len(obj) <= MOST_ROWS:
        lengths = set(obj.list.drop_nulls().list.len().to_list())
        if len(lengths) == 1 and set(obj.list.len().to_list()) == lengths != {0}:
            return f"pass {name}.list.to_array({lengths.pop()})"
    given, sample = name, obj.head(MOST)
    is_flat = False
    while (kind := str(sample.dtype).partition("(")[0]) in ("List", "Array", "Struct"):
        if kind == "Struct":
            field = sample.struct.fields[0]
            name, sample = f"{name}.struct.field({field!r})", sample.struct.field(field)
        else:
            if kind == "Array" and sample.dtype.inner.is_numeric() and not has_nulls:
                break
            drop = ".drop_nulls()" * (kind == "List")  # explode turns empty lists into nulls
            name, sample, is_flat = f"{name}.explode(){drop}", sample.explode(), kind == "List"
    casts = {"String": ".cast(polars.Float64)", "Decimal": ".cast(polars.Float64)", "Int128": ".cast(polars.Float64)"}
    casts |= dict.fromkeys(("Categorical", "Enum", "Date", "Datetime", "Duration", "Time"), ".to_physical()")
    casts |= {"Null": ".cast(polars.Float64)", "UInt128": ".cast(polars.Float64)"}
    if kind in ("String", "Object") and not type_of_numbers(sample.to_list()):
        return None
    if kind == "Object":
        return f"pass numpy.asarray({name}).astype({type_of_numbers(sample.to_list())}"
    if kind not in casts and kind != "Array" and not has_numbers(sample):
        return None
    name += casts[kind] if kind in casts else ""
    if not is_flat and (has_nulls or obj.null_count()):
        name += f".fill_null({False if kind == 'Boolean' else 0})"
    if name == given and obj.n_chunks() > 1:
        name += ".rechunk()"
    return f"pass {name}" + ", with copy=None" * (kind == "Boolean")


def of_pandas_object(obj: Any, has_nulls: bool) -> str | None:
    if not is_of(obj, "pandas"):
        return None
    name = "obj"
    if obj.ndim == 2:
        i = ([i for i in range(obj.shape[1]) if has_numbers(obj.iloc[:, i])] or [0])[0]
        label = obj.columns[i]
        is_plain = type(label) is str and len(label) <= MOST and obj.columns.is_unique
        name, obj = f"obj[{label!r}]" if is_plain else f"obj.iloc[:, {i}]", obj.iloc[:, i]
    kind, array = str(obj.dtype), obj.array
    if kind == "category":
        return f"pass {name}.cat.codes"
    if hasattr(array, "asi8"):
        return f"pass {name}.array.asi8, their ticks as int64"
    if kind.startswith("interval"):
        return f"pass numpy.asarray({name}.array.left)" if has_numbers(array.left) else None
    is_arrow = hasattr(obj.dtype, "pyarrow_dtype")
    if not has_numbers(obj) or (is_arrow and not is_number(obj.dtype.pyarrow_dtype) and "bool" not in kind):
        sample = modules["pyarrow"].array(obj if is_arrow else obj.head(MOST))
        return of_pyarrow(f"pyarrow.array({name})", sample, has_nulls, is_part=len(sample) < len(obj))
    if not obj.isna().any():
        return f"pass {name}{', with copy=None' * ('bool' in kind)}"
    if isinstance(obj.dtype, modules["numpy"].dtype):
        return f"pass {name}.to_numpy()"  # keeps NaN
    return f"pass {name}.fillna({'False), with copy=None' if 'bool' in kind else '0)'}"


def of_duckdb_relation(obj: Any, has_nulls: bool) -> str | None:
    """Hint for a query of duckdb. Doesn't run it again."""
    if "duckdb.DuckDBPyRelation" not in classes_of(obj) and "_duckdb.DuckDBPyRelation" not in classes_of(obj):
        return None
    kinds = [str(kind) for kind in obj.types]
    numbers = [i for i, kind in enumerate(kinds) if kind.strip("U") in DUCKDB_NUMBERS]
    if numbers and len(kinds) > 1 and not has_nulls:
        return f"pass obj[{obj.columns[numbers[0]]!r}]"
    i = numbers[0] if numbers else 0
    kind = kinds[i].partition("(")[0]
    if not numbers and (len(kinds) > 1 or kind not in DUCKDB_CASTS):
        return None
    fill = ".fill_null(0)" * has_nulls
    return f"pass pyarrow.table(obj)[{i}].combine_chunks(){DUCKDB_CASTS[kind] if kind in DUCKDB_CASTS else ''}{fill}"


def of_xarray(obj: Any, has_nulls: bool) -> str | None:
    return "pass numpy.asarray(obj)" if is_of(obj, "xarray") and has_numbers(obj) else None


def of_nanoarrow(obj: Any, has_nulls: bool) -> str | None:
    """Hint for nanoarrow's arrays, if the program uses pyarrow. pyarrow trusts the arrays that it imports, so other
    libraries' arrays aren't passed to it here."""
    if not is_of(obj, "nanoarrow"):
        return None
    try:
        return of_pyarrow("pyarrow.array(obj)", modules["pyarrow"].array(obj))
    except ValueError:  # it has several chunks
        return of_pyarrow("pyarrow.chunked_array(obj)", modules["pyarrow"].chunked_array(obj))


# The functions to try, in this order, by what was wrong.
HINTS: dict[str, tuple[Callable[..., str | None], ...]] = {
    "shares no memory": (
        of_closed,
        of_class,
        of_names,
        of_int,
        of_list,
        of_path,
        of_container,
        of_pandas,
        of_awkward,
        of_datasets,
        of_duckdb,
        of_qt,
        of_cffi,
        of_pyarrow_scalar,
        of_storage,
        of_array,
        of_dict,
        of_buf,
        of_file,
    ),
    "refuses": (of_wrapper, of_tensor, of_refusing),
    "no memory": (of_wrapper, of_parts),
    "items": (of_items,),
    "columns": (of_columns,),
    "Arrow": (of_pyarrow_object, of_polars, of_pandas_object, of_duckdb_relation, of_xarray, of_nanoarrow),
    "table": (of_frame,),
    "data type": (of_conversion,),
    "shape": (of_shape,),
    "pointer": (instead_of_pointer,),
    "mask": (of_unmasked,),
}
