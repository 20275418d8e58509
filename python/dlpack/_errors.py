"""The words of errors. Functions that C calls return a text or an exception, which C raises: CPython 3.11 loses an
exception that a Python function raises where there is no memory for its frame object."""

from __future__ import annotations

import io
import os
import stat
from sys import _getframe, exception

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from types import FrameType, TracebackType
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
IN_WORDS = ["the buffer protocol" if protocol == "buffer" else protocol for protocol in PROTOCOLS]
MOST = 100  # characters of a text from outside
HAS_VARARGS = 4  # inspect.CO_VARARGS
# Consumers may write to it, also those that don't know read-only memory; the file stays as it is.
MAPPED = "mmap.mmap({}.fileno(), 0, access=mmap.ACCESS_COPY)"
# What to pass instead of objects of a class, by its library and name.
INSTEAD = {
    "astropy.NDData": "pass obj.data",
    "astropy.TimeBase": "pass obj.jd1 and obj.jd2 one by one, whose sum is days",
    "av.Frame": "pass its planes one by one, as obj.planes[0], or obj.to_ndarray()",
    "awkward.Array": "pass numpy.asarray(obj), of lists of any length numpy.asarray(awkward.flatten(obj, axis=None))",
    "builtins.CArgObject": "pass ctypes.pointer(...) instead of ctypes.byref(...)",
    "cv2.UMat": "pass obj.get()",
    "dask.Delayed": "pass obj.compute()",
    "h5py.Empty": "it has no items",
    "jax.JAXSparse": "pass obj.todense()",
    "jax.PRNGKeyArray": "pass jax.random.key_data(obj)",
    "keras.KerasTensor": "it has no memory: pass what the model returns",
    "narwhals.LazyFrame": "pass a column of obj.collect()",
    "netCDF4.Dataset": "pass one of its variables, as with numpy.asarray(obj['name'])",
    "onnx.TensorProto": "pass onnx.numpy_helper.to_array(obj)",
    "pandas.BaseGroupBy": "pass its groups one by one: for name, group in obj",
    "polars.LazyFrame": "pass a column of obj.collect()",
    "pyarrow.BufferOutputStream": "pass obj.getvalue()",
    "sparse.SparseArray": "pass obj.todense()",
    "tensorflow.IndexedSlices": "pass obj.values and obj.indices one by one",
    "tensorflow.RaggedTensor": "pass obj.flat_values and obj.row_splits one by one, or obj.to_tensor()",
    "tensorflow.SparseTensor": "pass tensorflow.sparse.to_dense(obj), or obj.values and obj.indices one by one",
    "tensorflow.SymbolicTensor": "it has no memory: pass what the function returns",
}


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
    except outside_handlers(ValueError):  # an int of thousands of digits has none
        return type_name(value)


def printable(text: str) -> str:
    """Escapes what is not printable, as repr does: a text from outside stays one line and commands no terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shorten(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def of_handler(traceback: TracebackType | None) -> bool:
    """Whether a signal handler of the program's raised an error: wherever that comes, it is the program's to catch."""
    running, frame = set(), _getframe(1) if traceback else None
    while frame:  # f_locals of a function that still runs would keep its variables alive, or make a cycle
        running.add(id(frame))
        frame = frame.f_back
    while traceback and (id(traceback.tb_frame) in running or not was_called_as_handler(traceback.tb_frame)):
        traceback = traceback.tb_next
    return traceback is not None


def outside_handlers(*kinds: type[Error]) -> tuple[type[Error], ...]:
    """What an except clause catches: these kinds, and of a signal handler's errors none."""
    error = exception()
    return () if error and of_handler(error.__traceback__) else kinds


def was_called_as_handler(frame: FrameType) -> bool:
    """Whether it was given a number and the frame that it interrupted, as a signal handler is."""
    code, caller = frame.f_code, frame.f_back
    has_varargs = code.co_flags & HAS_VARARGS
    # A generator that has ended has no caller, nor has a greenlet's first function. Whoever reads f_locals makes a
    # dict, which CPython before 3.13 keeps in the frame until the error is gone.
    if caller is None or (code.co_argcount < 2 and not has_varargs):
        return False
    names = code.co_varnames[: code.co_argcount]
    if has_varargs:
        names += (code.co_varnames[code.co_argcount + code.co_kwonlyargcount],)
    before: object = None
    for name in names:
        given = frame.f_locals.get(name)
        for each in given if type(given) is tuple else (given,):
            if each is caller and type(before) is int:
                return True
            before = each
    return False


def bare(error: Error) -> Error:
    """An error without its traceback, which would keep the objects here alive where the producer keeps the error."""
    return BaseException.with_traceback(error, None)


def exception_text(error: BaseException) -> str:
    """ "BufferError: its message", which is cut in the middle where it is long: it may quote another, and so on."""
    try:
        message = str(error)
    except outside_handlers(Exception) as failure:
        message = f"(its text can't be read: {type_name(bare(failure))})"
    if len(message) > 20 * MOST:
        message = f"{message[: 10 * MOST]} ... {message[-10 * MOST :]}"
    return f"{type_name(error)}: {message}" if message else type_name(error)


def kind_and_message(error: BaseException) -> tuple[str, str]:
    kind, _, message = exception_text(error).partition(": ")
    return kind, message


def of_asdlpack(error: BaseException, obj: str = "obj") -> str:
    """The text of an error of asdlpack's, where a function says it that has no argument copy, or another one."""
    return str(error).replace("(pass copy=None", f"(pass asdlpack({obj}, copy=None)")


def unexpected(expected: str, value: object) -> str:
    return f"{expected}, got {short_repr(value)}"


def unexpected_value(kind: type[Exception], expected: str, value: object) -> Exception:
    return kind(unexpected(expected, value))


def no_holder(obj: object) -> Exception:
    if issubclass(type(obj), type):
        return TypeError(f"asdlpack: expected an object that holds memory, got the type {obj!r}: pass an instance")
    return TypeError("asdlpack: a weak reference keeps no memory alive: pass the object itself")


def no_protocol(obj: object) -> Exception:
    return TypeError(
        f"{type_name(obj)} object shares no memory: asdlpack looked for {', '.join(IN_WORDS[:-1])} and "
        f"{IN_WORDS[-1]}{way_out(obj)}"
    )


def way_out(obj: Any) -> str:
    """What to pass instead of an object without memory, in parentheses; empty where nothing is known."""
    try:
        names = [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(obj).__mro__]
        known = [INSTEAD[name] for name in names if name in INSTEAD]
        if known:
            instead = known[0]
        elif isinstance(obj, list | tuple):
            instead = way_out_of_list(obj[:MOST])
        elif isinstance(obj, int):
            instead = "for an address use dlpack.from_pointer"
        elif getattr(obj, "closed", None) is True:
            instead = "it is closed: pass an open one"
        elif hasattr(obj, "getbuffer"):
            instead = "pass its getbuffer()"
        elif hasattr(obj, "get_obj"):  # multiprocessing's Array and Value
            instead = "pass its get_obj()"
        elif isinstance(getattr(obj, "buf", None), memoryview):
            instead = "pass its buf"
        elif isinstance(obj, str | os.PathLike):
            name, text = ("obj", ", or of text obj.encode()") if isinstance(obj, str) else ("os.fspath(obj)", "")
            instead = f"map the file: numpy.memmap({name}, mode='c'), or opened as file, {MAPPED.format('file')}{text}"
        elif hasattr(obj, "getvalue"):  # io.StringIO
            instead = "pass obj.getvalue().encode()"
        elif hasattr(obj, "readable"):
            instead = way_out_of_file(obj)
        elif hasattr(obj, "toarray"):  # scipy.sparse
            instead = "pass obj.toarray(); of csr and csc also obj.data, obj.indices and obj.indptr one by one"
        elif hasattr(obj, "to_tensor"):  # pyarrow's sparse tensors
            instead = "pass obj.to_tensor()"
        elif hasattr(obj, "keys") and not hasattr(obj, "__array__"):
            instead = "pass its values one by one"
        elif hasattr(obj, "__array__"):
            instead = way_out_of_array(obj)
        elif type(obj).__module__ == "_cffi_backend":
            instead = "pass ffi.buffer(obj)"
        elif hasattr(obj, "as_py"):  # pyarrow's scalars
            instead = f"pass {'pyarrow.array([obj])' if getattr(obj, 'values', None) is None else 'obj.values'}"
        elif type(obj).__module__ == "torch.storage":
            dtype = "torch.uint8" if type(obj).__name__ == "UntypedStorage" else "obj.dtype"
            instead = f"pass torch.empty(0, dtype={dtype}, device=obj.device).set_(obj)"
        elif hasattr(obj, "__iter__"):
            instead = "pass numpy.asarray(list(obj)), of bytes b''.join(obj), or items that share memory one by one"
        else:
            return ""
    except outside_handlers(Exception):  # of the object's own: it has no memory all the same
        return ""
    return f" ({instead})"


def way_out_of_list(items: list[Any] | tuple[Any, ...]) -> str:
    for item in items:
        if has_memory(item):
            return "pass its items one by one"
    lengths = {len(item) if isinstance(item, list | tuple) else None for item in items}
    return "pass numpy.asarray(obj) or an array.array" if len(lengths) < 2 else "pass numpy.asarray(obj[0]), and so on"


def has_memory(item: Any) -> bool:
    """Whether an item of a list shares memory; of numpy's scalars an array is made."""
    from ._arguments import is_numpy_scalar

    if isinstance(item, bytes | bytearray | memoryview):
        return True
    for name in PROTOCOLS:
        if hasattr(item, name):
            return not is_numpy_scalar(item)
    return False


def way_out_of_file(obj: Any) -> str:
    """The same of an open file. Only one of the system's can be mapped: the descriptor of what reads a compressed file
    is that of the compressed one."""
    if not obj.readable():
        return "it is open for writing alone: open it for reading"
    if hasattr(obj, "read_buffer"):
        return "pass obj.read_buffer()"  # pyarrow's
    read = "pass obj.read().encode()" if hasattr(obj, "encoding") else "pass obj.read()"
    raw = getattr(getattr(obj, "buffer", obj), "raw", obj)
    if not isinstance(raw, io.FileIO):
        return read
    status = os.fstat(raw.fileno())
    if not stat.S_ISREG(status.st_mode):  # a pipe or device
        return read
    mapped = f"map the file: {MAPPED.format('obj')} after obj.flush()"
    return mapped if status.st_size else f"{mapped}; if it is empty {read}"


def way_out_of_array(obj: Any) -> str:
    """The same of what numpy.asarray takes, without parentheses."""
    if getattr(obj, "shape", ()) is None:  # h5py's datasets of h5py.Empty
        return "it has no items"
    if hasattr(obj, "levels"):  # pandas.MultiIndex
        return "pass one of its levels, as with numpy.asarray(obj.get_level_values(0))"
    if hasattr(obj, "codes"):  # pandas.Categorical
        return "pass obj.codes"
    if hasattr(obj, "asi8"):  # pandas' times
        return "pass obj.asi8, their ticks as int64"
    if hasattr(obj, "closed_left"):  # pandas' intervals
        return "pass numpy.asarray(obj.left) and numpy.asarray(obj.right) one by one"
    if hasattr(obj, "isna"):  # pandas' other arrays and Index
        return (
            "pass numpy.asarray(obj), or if that has Python's objects pyarrow.array(obj); where it has nulls, "
            "obj.to_numpy('float64', na_value=numpy.nan)"
        )
    if hasattr(obj, "keys"):
        return "pass one of its variables, as with numpy.asarray(obj['name'])"
    return "pass numpy.asarray(obj)"


def buffer_error(obj: object, error: ValueError) -> ValueError:
    """What an object that gives no buffer raises; of a closed mapping, with the way out."""
    if type_name(obj) != "mmap.mmap":
        return error
    return ValueError(f"{error} (map the file again, and keep it open until it is wrapped: then it can't be closed)")


def needless_owner(obj: object) -> Exception:
    return TypeError(
        "owner: expected only with a pointer to a dlpack.structs.DLTensor, which is borrowed, got "
        f"{type_name(obj)}, which is kept alive itself"
    )


def wrong_answer(obj: object, method: str, expected: str, answer: object) -> Exception:
    return ValueError(f"{type_name(obj)}.{method} returned {short_repr(answer)}; expected {expected}")


def no_capsule(obj: object, method: str, answer: object) -> Exception:
    return wrong_answer(obj, method, "a capsule", answer)


def refused_by_all(obj: object, refusal: str, protocol: str | None, other: str | None) -> Exception:
    """What a producer's __dlpack__ said, and what its other protocol said, if it has one."""
    only = f"its only protocol is __dlpack__, which said {refusal}"
    said = only if protocol is None else f"__dlpack__ said {refusal}; {protocol} said {other}"
    return BufferError(f"{type_name(obj)} can't be exported: {said}{way_out_of_tensor(obj, refusal)}")


def flat_bytes(count: int) -> BufferError:
    """After a refusal of __dlpack__, bytes that the object's own shape and item size don't confirm."""
    return BufferError(
        f"{count} bytes without their shape and type (frombuffer(obj, 'uint8') shares the bytes as they lie in memory)"
    )


def refused_by_frame(obj: object, error: Exception) -> Exception:
    """The error of pandas or xarray that pyarrow is missing or doesn't take the data, with the way out."""
    refused = f"{type_name(obj)} can't be exported: __arrow_c_stream__ said {exception_text(bare(error))}"
    if isinstance(error, ImportError):
        return BufferError(f"{refused} (pass obj.to_numpy())")
    return BufferError(
        f"{refused} (pass numpy.asarray(obj), of big-endian numbers with copy=None; of items that are arrays "
        "numpy.stack(obj); of long doubles or Python's numbers numpy.asarray(obj).astype('float64'), of complex ones "
        ".astype('complex128'); one column of a table: obj.iloc[:, 0])"
    )


def way_out_of_tensor(obj: Any, refusal: str) -> str:
    """The same of a tensor that torch, jax or paddle refuses to export."""
    try:
        library = type(obj).__module__.partition(".")[0]
        if library == "jaxlib" and not obj.is_deleted():
            return " (pass numpy.asarray(obj))"
        if library == "paddle" and obj.is_sparse():
            return " (pass obj.to_dense())"
        if library != "torch":
            return ""
        name = "obj.detach()" if obj.requires_grad else "obj"
        if obj.is_meta:
            instead = "it has no memory; torch.empty_like(obj, device='cpu') has"
        elif "different CUDA device" in refusal:
            instead = "make its device the current one: with torch.cuda.device(obj.device)"
        elif obj.is_nested:
            instead = f"pass {name}.unbind()[0], and so on, or {name}.to_padded_tensor(0)"
        elif obj.is_conj():
            instead = f"pass {name}.resolve_conj()"
        elif obj.is_quantized:
            instead = f"pass {name}.int_repr()"
        elif str(obj.dtype).startswith("torch.bits"):
            instead = f"pass {name}.view(torch.{'uint8' if obj.element_size() == 1 else 'int16'})"
        elif str(obj.layout) != "torch.strided":
            instead = f"pass {name}.to_dense()"
        elif "doesn't have storage" in refusal:
            instead = "it has no memory inside torch.func.vmap and the like: pass what these return"
        else:
            return ""
    except outside_handlers(Exception):  # another version of torch
        return ""
    return f" ({instead})"


def check_stream_named(obj: Any) -> Exception | None:
    """Before version 3 the CUDA array interface names no stream, and nobody waits for what a producer that has
    __dlpack__ has queued."""
    interface = obj.__cuda_array_interface__
    version = dict.get(interface, "version", 0) if isinstance(interface, dict) else 0
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


# Of the ways out that begin so, those with these words lead to an object's own memory. All others make a copy, or need
# one, and of copy_into's target that would lose what is copied into it.
OF_THIS_PACKAGE = ("pass ", "convert ", "cast ", "copy ", "decode ", "give ", "it is open for writing")
TO_OWN_MEMORY = (
    ".set_(obj)",
    ".view(torch.",
    "ctypes.pointer",
    "ffi.buffer(",
    "get_obj()",
    "getbuffer()",
    "its items one by one",
    "its values one by one",
    "obj.asi8",
    "pass its buf",
    "pass obj.data",
    "ticks, .view(",
)


def about_side(side: str, error: BaseException) -> BaseException:
    """The error of reading copy_into's source or target, which says which of the two it is about."""
    kind = type(error)
    if kind is not TypeError and kind is not ValueError and kind is not BufferError:
        return error
    if of_handler(error.__traceback__):
        return error
    text = str(error)
    if side == "target" and kind is not ValueError:  # which says what is wrong with obj itself
        text = of_target(text)
    named = kind(f"{side}: {text}")
    named.__cause__ = error.__cause__
    return named.with_traceback(error.__traceback__)


def sides_were_read(source: object, target: object, error: Exception) -> Exception:
    """The error of copying, after both sides were read."""
    from ._arrow import stream_was_read
    from ._describe import is_taken_over, is_used_up

    if error.__traceback__ or type(error) not in (BufferError, ValueError):
        return error  # of a signal handler
    text, used_up = str(error), "source" if is_used_up(source) else ""
    if is_taken_over(source):
        text = text.replace("frombuffer(source,", "frombuffer(dlpack.asdlpack(source),")
    if is_used_up(target):
        used_up += " and the target" if used_up else "target"
    if used_up:
        text += f"; before that make the {used_up} anew, which can be read once"
    return stream_was_read(source, error) if text == str(error) else type(error)(text)


def of_target(text: str) -> str:
    """The text of an error with a way out by which the object can be written to."""
    text = text.replace("mode='c'", "mode='r+'").replace("ACCESS_COPY", "ACCESS_WRITE")
    text = text.replace("map the file: mmap", "open it in mode 'r+b' and map it: mmap")
    text = text.replace("or opened as file", "or opened in mode 'r+b' as file").replace(", or of text obj.encode()", "")
    text, is_of_file, _ = text.partition("; if it is empty ")
    text += ")" if is_of_file else ""
    cut = text.rfind(" (")
    while cut > 0 and text.count("(", cut) != text.count(")", cut):
        cut = text.rfind(" (", 0, cut)
    if cut < 0 or not text.endswith(")") or not text.startswith(OF_THIS_PACKAGE, cut + 2):
        return text
    for words in TO_OWN_MEMORY:
        if words in text[cut:]:
            return text
    return f"{text[:cut]} (copy into a new array, and from there by the library that owns the target)"


def read_only_target(source: object, target: object) -> Exception:
    return BufferError(
        f"target: {type_name(target)} is read-only; expected memory that may be written, to copy the source "
        f"({type_name(source)}) into (pass a new array or bytearray, and keep it; a legacy capsule counts as read-only)"
    )
