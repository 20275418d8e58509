"""The words of errors. Functions that C calls return a text or an exception, which C raises: CPython 3.11 loses an
exception that a Python function raises where there is no memory for its frame object."""

from __future__ import annotations

import io
import os
import stat
from sys import _getframe, modules  # the dict itself: sys loses it when Python ends

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, TypeVar

    Error = TypeVar("Error", bound=BaseException)

# What asdlpack looks for, in this order: __dlpack__, then what pyext/read/protocols.c has.
PROTOCOLS = (
    "__dlpack__",
    "__array_interface__",
    "__array_struct__",
    "__cuda_array_interface__",
    "buffer",
    "__arrow_c_array__",
    "__arrow_c_stream__",
    "to_dlpack",
)
IN_WORDS = tuple(["the buffer protocol" if protocol == "buffer" else protocol for protocol in PROTOCOLS])
MOST = 100  # characters of a text from outside
NO_MEMORY = MemoryError, SystemError  # the second if CPython 3.11 loses the first
# Consumers may write to it, also those that don't know read-only memory; the file stays as it is.
MAPPED = "mmap.mmap(obj.fileno(), 0, access=mmap.ACCESS_COPY)"
# Hints for objects of a class, by its library and name.
INSTEAD = {
    "SimpleITK.Image": "pass SimpleITK.GetArrayFromImage(obj)",
    "_io.BytesIO": "pass obj.getbuffer()",
    "_io.StringIO": "pass obj.getvalue().encode()",
    "astropy.NDData": "pass obj.data",
    "astropy.TimeBase": "pass obj.jd1, and then obj.jd2, whose sum is days",
    "av.Frame": "pass obj.to_ndarray()",
    "builtins.CArgObject": "pass ctypes.pointer(...) instead of ctypes.byref(...)",
    "cv2.UMat": "pass obj.get()",
    "dask.Delayed": "pass obj.compute()",
    "gguf.ReaderTensor": "pass obj.data",
    "h5py.Empty": "it has no items",
    "jax.JAXSparse": "pass obj.todense()",
    "jax.PRNGKeyArray": "pass jax.random.key_data(obj)",
    "keras.KerasTensor": "it has no memory: pass what the model returns",
    "multiprocessing.SynchronizedBase": "pass obj.get_obj()",
    "narwhals.LazyFrame": "pass obj.collect(), or a column of it",
    "onnx.TensorProto": "pass onnx.numpy_helper.to_array(obj)",
    "pandas.BaseGroupBy": "pass [group for name, group in obj][0], and so on: its groups one by one",
    "polars.LazyFrame": "pass obj.collect(), or a column of it",
    "pyarrow.BufferOutputStream": "pass obj.getvalue()",
    "pyarrow.SparseCOOTensor": "pass obj.to_tensor()",
    "pyarrow.SparseCSCMatrix": "pass obj.to_tensor()",
    "pyarrow.SparseCSFTensor": "pass obj.to_tensor()",
    "pyarrow.SparseCSRMatrix": "pass obj.to_tensor()",
    "pymupdf.Pixmap": "pass obj.samples_mv",
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
    "tensorflow.SymbolicTensor": "it has no memory: pass what the function returns",
}
# Hints for objects that hold arrays under names: the attribute that has the names, and an expression of one array.
BY_NAME = {
    "h5py.Group": ("keys", "numpy.asarray(obj[{}])"),
    "netCDF4.Dataset": ("variables", "numpy.asarray(obj[{}])"),
    "numpy.NpzFile": ("files", "obj[{}]"),
    "taichi.StructField": ("keys", "obj.to_numpy()[{}]"),
    "builtins.safe_open": ("keys", "obj.get_tensor({})"),
    "xarray.Dataset": ("data_vars", "numpy.asarray(obj[{}])"),
    "zarr.Group": ("keys", "numpy.asarray(obj[{}])"),
}
CONTAINERS = "builtins.dict_values", "builtins.frozenset", "builtins.set", "collections.deque"
NUMPYS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
NO_NUMBERS = "bytes", "date", "object", "str", "time", "void"  # how the names of data types begin
ITERATORS = "builtins.filter", "builtins.generator", "builtins.map"


def type_name(obj: object) -> str:
    """ "numpy.ndarray", "bytes"."""
    name, module = type(obj).__qualname__, getattr(type(obj), "__module__", None)
    return shorten(f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name)


def short_repr(value: Any) -> str:
    """A long text or buffer is cut before its repr is made."""
    kind = type(value)
    is_flat = kind is bytes or kind is bytearray or kind is str  # `in` would ask a foreign metaclass
    try:
        return shorten(repr(value[:MOST] if is_flat else value))
    except ValueError:  # an int of thousands of digits has none
        return type_name(value)


def printable(text: str) -> str:
    """Escapes what is not printable, as repr does: a text from outside stays one line and commands no terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shorten(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def bare(error: Error) -> Error:
    """An error without its traceback, which would keep the objects here alive where the producer keeps the error."""
    return BaseException.with_traceback(error, None)


def text_of(error: BaseException) -> str:
    """Its message, whatever its arguments are."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text can't be read: {type_name(bare(failure))})"


def exception_text(error: BaseException) -> str:
    """ "BufferError: its message", which is cut in the middle where it is long: it may quote another, and so on."""
    message = text_of(error)
    if len(message) > 20 * MOST:
        message = f"{message[: 10 * MOST]} ... {message[-10 * MOST :]}"
    return f"{type_name(error)}: {message}" if message else type_name(error)


def kind_and_message(error: BaseException) -> tuple[str, str]:
    kind, _, message = exception_text(error).partition(": ")
    return kind, message


def of_asdlpack(error: BaseException, obj: str = "obj") -> str:
    """The text of an error of asdlpack's, where a function says it that has no argument copy, or another one."""
    return text_of(error).replace("(pass copy=None", f"(pass asdlpack({obj}, copy=None)")


def unexpected(expected: str, value: object) -> str:
    return f"{expected}, got {short_repr(value)}"


def unexpected_value(kind: type[Exception], expected: str, value: object) -> Exception:
    return kind(unexpected(expected, value))


def no_holder(obj: object) -> Exception:
    if issubclass(type(obj), type):
        return TypeError(f"asdlpack: expected an object that holds memory, got the type {obj!r}: pass an instance")
    return TypeError("asdlpack: a weak reference keeps no memory alive: pass the object itself")


def no_protocol(obj: object) -> Exception:
    instead = first_way_out(WAYS_OUT, obj)
    return TypeError(
        f"{type_name(obj)} object shares no memory: asdlpack looked for {', '.join(IN_WORDS[:-1])} and "
        f"{IN_WORDS[-1]}{instead}"
    )


def first_way_out(finders: Sequence[Callable[..., str | None]], obj: object, *arguments: object) -> str:
    """The hint of the first of these functions that has one for obj, in brackets; or "".

    A function returns None if its hint might fail. It looks at attributes, which may be of any type, raise, or lead
    to another such error: that gets no hint, since each level would try all functions.
    """
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_code is first_way_out.__code__:
            return ""
        frame = frame.f_back
    for find in finders:
        try:
            instead = find(obj, *arguments)
        except NO_MEMORY:  # to catch more than a few of them ends CPython 3.11
            return ""
        except Exception:  # the object's own, or another version of its library lacks
            continue
        if instead:
            return f" ({instead})"
    return ""


def classes_of(obj: object) -> list[str]:
    """The classes that it derives from, by their library and name: "numpy.ndarray", "builtins.object"."""
    names = []
    for kind in type(obj).__mro__:
        module = getattr(kind, "__module__", None)
        if isinstance(module, str):
            names.append(f"{module.partition('.')[0]}.{kind.__name__}")
    return names


def is_of(obj: object, library: str) -> bool:
    """True if its class, or one that this derives from, is a library's."""
    return bool([name for name in classes_of(obj) if name.startswith(f"{library}.")])


def look_up(obj: object, name: str) -> Any:
    """An attribute; "" if it is absent or raises."""
    try:
        return getattr(obj, name, "")
    except NO_MEMORY:
        raise
    except Exception:
        return ""


def has_numbers(obj: Any) -> bool:
    """True if its data type is one of numbers."""
    dtype = str(obj.dtype).lower()  # pandas has "Int64"
    return "int" in dtype or "float" in dtype or "complex" in dtype or "bool" in dtype


def of_closed(obj: Any) -> str | None:
    is_file = isinstance(obj, io.IOBase) or callable(getattr(obj, "readable", None))
    return "it is closed: pass an open one" if is_file and obj.closed is True else None


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
    return "for an address use dlpack.from_pointer" if isinstance(obj, int) and not isinstance(obj, bool) else None


def of_list(obj: Any) -> str | None:
    if not isinstance(obj, list | tuple):
        return None
    for i, item in enumerate(obj[:MOST]):
        if has_memory(item):
            return f"pass obj[{i}], and so on: its items one by one"
    if shape_of(obj) is not None:
        return "pass numpy.asarray(obj)"
    return "pass numpy.asarray(obj[0]), and so on: its items one by one" if shape_of(obj[0]) is not None else None


def shape_of(item: Any, looked_at: int = MOST) -> tuple[int, ...] | None:
    """The shape of a number, or of a nested list of numbers, by its first items; else None."""
    if isinstance(item, (int, float, complex)):
        return () if not isinstance(item, int) or -(2**63) <= item < 2**63 else None
    if not isinstance(item, list | tuple):
        from ._arguments import is_numpy_scalar

        return () if is_numpy_scalar(item) and has_numbers(item) else None
    shapes = {shape_of(each, 8) for each in item[:looked_at]} or {()}
    first = shapes.pop()
    return None if shapes or first is None else (len(item), *first)


def has_buffer_of_python(obj: object) -> bool:
    """True if memoryview(obj) is safe: it crashes on the buffer of a foreign object that lies about its shape."""
    safe = {"builtins.bytes", "builtins.bytearray", "builtins.memoryview", "array.array", "mmap.mmap", "_ctypes._CData"}
    return not safe.isdisjoint(classes_of(obj))


def has_memory(item: Any) -> bool:
    """True if an item of a list shares memory. numpy's scalars don't count: numpy.asarray makes one array of them."""
    from ._arguments import is_numpy_scalar

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


def of_dict(obj: Any) -> str | None:
    """Hint for a dict or another mapping; those that read files are in BY_NAME."""
    if not isinstance(obj, dict) and not callable(getattr(type(obj), "keys", None)):
        return None
    for i, name in enumerate(obj.keys()):
        if has_memory(obj[name]):
            place = f"obj[{name!r}]" if isinstance(name, str | int) else "next(iter(obj.values()))"
            return f"pass {place}, and so on: its values one by one"
        if i == MOST or not isinstance(obj, dict):
            break
    return None


def of_container(obj: Any) -> str | None:
    """Hint for an object of which a list is made first."""
    if isinstance(obj, range):
        return "pass numpy.asarray(obj)"
    kind = classes_of(obj)[0]
    if kind in ITERATORS:  # what it yields would be lost
        return "if it yields numbers, pass numpy.asarray(list(obj))"
    if kind not in CONTAINERS:
        return None
    items = list(obj)
    if items and has_memory(items[0]):
        return "pass list(obj)[0], and so on: its items one by one"
    return "pass numpy.asarray(list(obj))" if shape_of(items) is not None else None


def of_buf(obj: Any) -> str | None:
    """Hint for multiprocessing's SharedMemory."""
    return "pass obj.buf" if isinstance(obj.buf, memoryview) else None


def of_path(obj: object) -> str | None:
    if isinstance(obj, str):
        return "of a file's name pass numpy.memmap(obj, mode='c'); of text pass obj.encode()"
    return "pass numpy.memmap(obj, mode='c'), which maps the file" if hasattr(type(obj), "__fspath__") else None


def of_file(obj: Any) -> str | None:
    """Hint for an open file. Only a file of the system can be mapped: a reader of a compressed file has that file's
    descriptor."""
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
        mapped = f"after obj.flush() pass {MAPPED}, which maps the file"
        return mapped if status.st_size else f"{mapped}; if it is empty {read}"
    return f"pass {MAPPED}, which maps the file" if status.st_size else read


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
        return "pass obj.asi8, their ticks as int64"
    if dtype.startswith("interval"):
        return "pass numpy.asarray(obj.left), and then obj.right so" if has_numbers(obj.left) else None
    if hasattr(obj.dtype, "pyarrow_dtype"):
        from ._arrow import of_pyarrow

        return of_pyarrow("pyarrow.array(obj)", modules["pyarrow"].array(obj))
    if not has_numbers(obj):
        return None
    numbers = getattr(obj.dtype, "numpy_dtype", None)  # of Int64 and the like, whose nulls are a mask
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
    """Hint for a connection, which may have a result."""
    if "_duckdb.DuckDBPyConnection" not in classes_of(obj):
        return None
    if obj.description is None:
        return "pass what obj.sql(query) gives"
    return "pass obj.to_arrow_table()[0].combine_chunks()"


def of_qt(obj: Any) -> str | None:
    if "PyQt6.QImage" not in classes_of(obj) or obj.isNull():
        return None
    return "pass dlpack.from_pointer(int(obj.bits()), (obj.height(), obj.bytesPerLine()), 'uint8', owner=obj)"


def of_array(obj: Any) -> str | None:
    """Hint for an object that numpy.asarray accepts."""
    if not callable(obj.__array__):
        return None
    if look_up(obj, "shape") is None:  # h5py's datasets of h5py.Empty
        return "it has no items"
    dtype = look_up(obj, "dtype")
    name = dtype.__name__ if isinstance(dtype, type) else look_up(dtype, "name")
    is_other = isinstance(name, str) and name.lower().startswith(NO_NUMBERS)
    return None if is_other else "pass numpy.asarray(obj)"


def of_cffi(obj: object) -> str | None:
    if not is_of(obj, "_cffi_backend"):
        return None
    kind = modules["_cffi_backend"].typeof(obj)
    is_sized = kind.kind in ("array", "pointer") and kind.item.kind not in ("void", "function")
    return "pass ffi.buffer(obj)" if is_sized else None


def of_pyarrow_scalar(obj: Any) -> str | None:
    if not is_of(obj, "pyarrow") or obj.is_valid is not True:
        return None
    from ._arrow import is_number

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
    return f"pass torch.empty(0, dtype={dtype}, device=obj.device).set_(obj)"


def of_items(obj: Any, text: str) -> str | None:
    """Hint for memory whose items DLPack lacks; text is the error's. No array or view is made of what a foreign class
    says of its memory."""
    numpy = modules["numpy"] if "numpy" in modules else None
    owner = obj.obj if isinstance(obj, memoryview) and "Python objects" in text else obj
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
        if "long double" in text:
            if view.format in ("g", "Zg"):  # numpy's
                return f"pass numpy.asarray(obj).astype('{'float64' if view.format == 'g' else 'complex128'}')"
            return "pass numpy.frombuffer(memoryview(obj).tobytes(), 'g').astype('float64')"
        flat = "memoryview(obj).cast('B')" if view.c_contiguous else "memoryview(obj).tobytes()"
        if "pointers" in text:
            return f"pass {flat if view.c_contiguous else f'memoryview({flat})'}.cast('Q'), the addresses"
        return f"pass {flat}, its bytes"


def of_numpy(name: str, dtype: Any, array: Any = None) -> str | None:
    """Hint for a numpy array; name is its expression. array: the array itself, if its memory is safe to read."""
    kind, order = dtype.kind, ", with copy=None" if dtype.byteorder == ">" else ""
    if kind in "biu" or dtype.itemsize <= {"f": 8, "c": 16}.get(kind, 0):
        return f"pass {name}{order}"
    if kind in "fc":
        return f"pass {name}.astype('{'float64' if kind == 'f' else 'complex128'}')"
    if kind in "mM":
        return f"pass {name}.{'astype' if order else 'view'}('int64'), their ticks"
    if kind in "OTSU" and array is not None and dtype.itemsize <= MOST:
        items = array.flat[:MOST].tolist()
        if kind == "O" and len({item.shape for item in items if hasattr(item, "shape") and has_numbers(item)}) == 1:
            return f"pass numpy.stack({name})"
        if numbers := type_of_numbers(items):
            return f"pass {name}{'.astype(object)' if kind == 'T' else ''}.astype({numbers}"
    if kind == "U":
        return f"pass {name}[..., None].view('{'>u4' if order else 'uint32'}'){order}, its code points"
    for field in dtype.names or ():
        if dtype[field].kind in "biufc" and dtype[field].alignment <= 8:
            return f"pass {name}[{field!r}], with copy=None, one field"
    if kind not in "SV" or dtype.hasobject:
        return None
    if dtype.str == "|V2" and dtype.names is None and array is not None and array.flags.c_contiguous:
        return f"if it was saved as bfloat16, pass dlpack.frombuffer({name}, 'bfloat16', {name}.shape)"
    return f"pass {name}[..., None].view('uint8'), its bytes"


def type_of_numbers(items: list[Any]) -> str | None:
    """The argument of astype that makes numbers of Python's objects or texts, and the bracket behind it; None without
    numbers."""
    kinds = set()
    date = modules["datetime"].date if "datetime" in modules else ()
    for item in items:
        if isinstance(item, date):
            kinds.add("'datetime64[us]').view('int64')")
        elif isinstance(item, complex):
            kinds.add("'complex128')")
        elif item is not None:  # of which numpy makes NaN
            try:
                float(item)
            except (TypeError, ValueError):
                return None
            kinds.add("'float64')")
    if len(kinds) < 2:
        return kinds.pop() if kinds else "'float64')"
    return "'complex128')" if kinds == {"'complex128')", "'float64')"} else None


def of_conversion(source: Any, text: str) -> str | None:
    """Hint for a source of another data type than its target; text is "source is int8 (3,), target is ..."."""
    words = text.split()
    given, wanted = words[words.index("is") + 1], words[words.index("target") + 2]
    kinds = classes_of(source)
    if "torch.Tensor" in kinds and hasattr(modules["torch"], wanted):
        return f"pass source.to(torch.{wanted})"
    if wanted not in NUMPYS:
        return None
    if "numpy.ndarray" in kinds:
        return f"pass source.astype('{wanted}')"
    is_on_cpu = not hasattr(source, "__dlpack_device__") or source.__dlpack_device__()[0] == 1
    if given not in NUMPYS or not is_on_cpu:
        return None
    return f"pass numpy.asarray(dlpack.asdlpack(source, copy=None)).astype('{wanted}')"


def of_shape(source: Any, text: str) -> str | None:
    """Hint for a source of another shape than its target, and the same number of items."""
    kinds, shape = classes_of(source), text.partition("target is ")[2].partition(" (")[2].partition(")")[0]
    if "numpy.ndarray" not in kinds and "torch.Tensor" not in kinds:
        return None
    return f"pass source.reshape({'target.shape' if '...' in shape else f'({shape})'})"


# In the order in which they are asked.
WAYS_OUT = (
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
)


def buffer_error(obj: object, error: ValueError | IndexError) -> ValueError | IndexError:
    """Returns the error of an object that gives no buffer, with a hint for closed mappings and Qt's pointers."""
    if type_name(obj) == "mmap.mmap":
        return ValueError(
            f"{error} (map the file again, and keep it open until it is wrapped: then it can't be closed)"
        )
    if type_name(obj).endswith(".sip.voidptr"):
        return IndexError(f"{text_of(error)} (before that call obj.setsize(bytes))")
    return error


def needless_owner(obj: object) -> Exception:
    return TypeError(
        "owner: expected only with a pointer to a dlpack.structs.DLTensor, which is borrowed, got "
        f"{type_name(obj)}, which is kept alive itself"
    )


def field(interface: dict[str, Any], name: str, default: Any = None) -> Any:
    """Is dict.get, but locks nothing: a free-threaded build's locks the dict, and a fork may copy it locked."""
    try:
        return dict.__getitem__(interface, name) if dict.__contains__(interface, name) else default
    except KeyError:  # another thread removed it meanwhile
        return default


def wrong_answer(obj: object, method: str, expected: str, answer: object) -> Exception:
    return ValueError(f"{type_name(obj)}.{method} returned {short_repr(answer)}; expected {expected}")


def no_capsule(obj: object, method: str, answer: object) -> Exception:
    return wrong_answer(obj, method, "a capsule", answer)


def refused_by_all(obj: object, refusal: str, protocol: str | None, other: str | None) -> Exception:
    """What a producer's __dlpack__ said, and what its other protocol said, if it has one."""
    only = f"its only protocol is __dlpack__, which said {refusal}"
    said = only if protocol is None else f"__dlpack__ said {refusal}; {protocol} said {other}"
    instead = "" if said.endswith(")") and protocol is not None else first_way_out(OF_REFUSED, obj, refusal)
    return BufferError(f"{type_name(obj)} can't be exported: {said}{instead}")


def flat_bytes(count: int) -> BufferError:
    """After a refusal of __dlpack__, bytes that the object's own shape and item size don't confirm."""
    return BufferError(
        f"{count} bytes without their shape and type (frombuffer(obj, 'uint8') shares the bytes as they lie in memory)"
    )


def refused_by_frame(obj: object, error: Exception) -> Exception:
    """The error of pandas or xarray that pyarrow is missing or doesn't take the data, with the way out."""
    said = f"__arrow_c_stream__ said {exception_text(bare(error))}"
    return BufferError(f"{type_name(obj)} can't be exported: {said}{first_way_out((of_frame,), obj)}")


def of_frame(obj: Any) -> str | None:
    """Hint for data of pandas and xarray that pyarrow refuses."""
    numpy = modules["numpy"]
    if is_of(obj, "xarray"):
        if isinstance(obj.data, numpy.ndarray):
            return of_numpy("numpy.asarray(obj)", obj.data.dtype, obj.data)
        return "pass numpy.asarray(obj)" if has_numbers(obj) else None  # which may take long
    if obj.ndim == 2:
        numbers = [i for i in range(obj.shape[1]) if has_numbers(obj.iloc[:, i])]
        if len(numbers) < obj.shape[1]:
            return f"pass numpy.asarray(obj.iloc[:, {numbers[0]}])"
    array = numpy.asarray(obj)
    return of_numpy("numpy.asarray(obj)", array.dtype, array)


def of_wrapper(obj: Any, refusal: str) -> str | None:
    """Hint for torch's tensors that consist of other tensors."""
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
    return "it has no memory: pass what is made outside its FakeTensorMode" if "torch.FakeTensor" in kinds else None


def of_parts(obj: Any, refusal: str) -> str | None:
    """Hint for other tensors without memory, which torch.compile takes apart."""
    for name in obj.__tensor_flatten__()[0]:
        if getattr(obj, name).data_ptr():
            return f"pass obj.{name}, and so on: its tensors one by one"
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
        return "make its device the current one: with torch.cuda.device(obj.device)"
    if obj.is_nested:
        return f"pass {name}.to_padded_tensor(0)"
    if "doesn't have storage" in refusal and str(obj.layout) == "torch.strided":
        return "it has no memory inside torch.func.vmap and the like: pass what these return"
    if obj.is_conj():
        return f"pass {name}.resolve_conj()"
    if obj.is_quantized:
        return f"pass {name}.dequantize()"
    if str(obj.dtype).startswith("torch.bits"):
        return f"pass {name}.view(torch.{'uint8' if obj.element_size() == 1 else 'int16'})"
    if str(obj.layout) != "torch.strided":
        return f"pass {name}.to_dense()"
    return "pass obj.detach()" if obj.requires_grad else None


def of_refusing(obj: Any, refusal: str) -> str | None:
    """Hint for an object that refuses to export its memory, and may give it to numpy. Nothing of it is called: it may
    ask others, and these again."""
    device = str(look_up(obj, "device")).lower()
    return None if "torch.Tensor" in classes_of(obj) or "cuda" in device or "gpu" in device else of_array(obj)


OF_REFUSED = of_wrapper, of_tensor, of_refusing


def check_stream_named(obj: Any) -> Exception | None:
    """Before version 3 the CUDA array interface names no stream, and nobody waits for what a producer that has
    __dlpack__ has queued."""
    interface = obj.__cuda_array_interface__
    version = field(interface, "version", 0) if isinstance(interface, dict) else 0
    if hasattr(version, "__index__") and version >= 3:
        return None
    return BufferError(f"version {short_repr(version)} names no stream to wait for; expected version 3")


def capsule_name(name: bytes | None, legacy: str, versioned: str) -> Exception:
    text = "" if name is None else name.decode(errors="replace")
    if text in (f"used_{legacy}", f"used_{versioned}"):
        return ValueError(
            f'capsule "{text}": already consumed, which works once (ask its producer for another, or keep the '
            "DLPackObject, which can be exported any number of times)"
        )
    return ValueError(f'capsule "{text:.{MOST}}": expected the name "{legacy}" or "{versioned}"')


# Hints that begin so make a copy, unless they have one of these words, which lead to the object's own memory. A copy of
# copy_into's target would lose what is copied into it.
OF_THIS_PACKAGE = ("pass ", "copy ", "if it ", "it is open for writing", "after obj.flush()", "of a file's name")
TO_OWN_MEMORY = (
    ".set_(obj)",
    ".view(",
    ", one field",
    "bits()",
    "cast('B')",
    "ctypes.pointer",
    "ffi.buffer(",
    "get_obj()",
    "getbuffer()",
    " one by one",
    "obj.asi8",
    "pass obj.buf)",
    "pass obj.data)",
    "memmap(",
    "mmap.mmap(",
    "saved as bfloat16",
    "samples_mv",
)
COPIES = ".astype(", "pyarrow.array("


def about_side(side: str, error: BaseException) -> BaseException:
    """The error of reading copy_into's source or target, which says which of the two it is about."""
    kind = type(error)
    if kind is not TypeError and kind is not ValueError and kind is not BufferError:
        return error
    text = text_of(error)
    if side == "target" and kind is not ValueError:  # which says what is wrong with obj itself
        text = of_target(text)
    named = kind(f"{side}: {text}")
    named.__cause__ = error.__cause__
    return named.with_traceback(error.__traceback__)


def sides_were_read(source: object, target: object, error: Exception) -> Exception:
    """The error of copying, after both sides were read."""
    from ._arrow import stream_was_read
    from ._describe import is_taken_over, is_used_up

    if type(error) not in (BufferError, ValueError):
        return error
    before = text = text_of(error)
    side, _, said = text.partition(": ")
    used_up = "source" if is_used_up(source) else ""
    if said.startswith(("format ", "typestr ")) and not said.endswith(")"):
        text += first_way_out((of_items,), source if side == "source" else target, said)
        text = of_target(text) if side == "target" else text
    elif "nothing is converted" in text and not text.endswith(")"):
        text += first_way_out((of_conversion,), source, text)
    elif "nothing is repeated (pass dlpack.frombuffer" in text:
        if reshaped := first_way_out((of_shape,), source, text):
            text = text.partition(" (pass ")[0] + reshaped
    if is_taken_over(source):
        text = text.replace("frombuffer(source,", "frombuffer(dlpack.asdlpack(source),")
    if is_used_up(target):
        used_up += " and the target" if used_up else "target"
    if used_up:
        text += f"; before that make the {used_up} anew, which can be read once"
    return stream_was_read(source, error) if text == before else type(error)(text)


FILLED = "pass obj.filled(), in which masked items are obj.fill_value"


def of_target(text: str) -> str:
    """The text of an error with a hint that leads to memory for writing."""
    text = text.replace(FILLED, "pass obj.data")
    text = text.replace("mode='c'", "mode='r+'").replace("ACCESS_COPY", "ACCESS_WRITE")
    text = text.replace("pass mmap", "open it in mode 'r+b', and pass mmap").replace(", with copy=None", "")
    text, is_of_text, _ = text.partition("; of text pass ")
    text, is_of_file, _ = text.partition("; if it is empty ")
    text += ")" if is_of_file or is_of_text else ""
    cut = text.rfind(" (")
    while cut > 0 and text.count("(", cut) != text.count(")", cut):
        cut = text.rfind(" (", 0, cut)
    if cut < 0 or not text.endswith(")") or not text.startswith(OF_THIS_PACKAGE, cut + 2):
        return text
    instead = text[cut:]
    own = [words for words in TO_OWN_MEMORY if words in instead]
    if own and not [words for words in COPIES if words in instead]:
        return text
    return f"{text[:cut]} (copy into a new array, and from there by the library that owns the target)"


def read_only_target(source: object, target: object) -> Exception:
    return BufferError(
        f"target: {type_name(target)} is read-only; expected memory that may be written, to copy the source "
        f"({type_name(source)}) into (pass a new array or bytearray, and keep it; a legacy capsule counts as read-only)"
    )
