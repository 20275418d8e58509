"""dlpack.to: an object's memory as another library's own array. TAKERS says how each library takes memory."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from sys import modules
from types import ModuleType
from typing import Any, NamedTuple

from ._arguments import carried_device, device_pair, device_types, refuse_mask
from ._delegate import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, OF_OTHERS, takers
from ._dlpack import DLPackObject, asdlpack, copy_into, frombuffer
from ._errors import device_text
from ._foreign import NO_MEMORY, bare, exception_text, printable, short_repr
from ._object import tensor_text, type_of
from ._refusals import as_refusal, pass_copy, refusal

ROCM, ROCM_HOST = 10, 11
HOST = CPU, CUDA_HOST, ROCM_HOST, CUDA_MANAGED  # the CPU can read it
GPU = CUDA, ROCM, CUDA_MANAGED
PACKED = "items that share bytes"
NARROWER = {"float64": "float32", "complex128": "complex64", "int64": "int32", "uint64": "uint32"}
TO_COPY = pass_copy(" to copy it")
EXCHANGE_API = "__dlpack_c_exchange_api__"


class Taker(NamedTuple):
    """How a library takes memory, and what it can't use as it is."""

    module: str
    array: str  # its array type in the module
    take: Callable[[Any, DLPackObject], Any]  # called with the module and x
    devices: tuple[int, ...] = ()  # the device types that it can use; (): it refuses the others itself
    writes: bool = False  # also to read-only memory, which it has no flag for
    layout: str = "any"  # "forward": no negative strides; "compact": no gaps, any order of axes; "row-major": no gaps
    align: int = 1  # bytes; it silently copies memory at other addresses, or crashes on it
    copies: tuple[str, ...] | None = ()  # the data types that it always copies, or PACKED; None: all
    narrows: Callable[[Any], tuple[str, ...]] = lambda library: ()  # the data types that it makes smaller
    crashes_after: str = ""  # the library after which its import ends the process
    direct: str | None = None  # what C calls without this module: a function, or the array type's C exchange API


def from_dlpack(library: Any, x: DLPackObject) -> Any:
    return library.from_dlpack(x)


def take_numpy(numpy: Any, x: DLPackObject) -> Any:
    """Makes an array of numpy's types, or of those of ml_dtypes, whose items have a byte each."""
    if not x._is_packed:
        return x.__array__()
    array = numpy.empty(x.shape, type_of(x))
    copy_into(x, array)
    return array


def narrowed_by_jax(jax: Any) -> tuple[str, ...]:
    return () if jax.config.jax_enable_x64 else tuple(NARROWER)


def take_mlx(mlx: Any, x: DLPackObject) -> Any:
    return mlx.from_dlpack(x, copy=True)  # if it shared read-only memory, it would write to it


def narrowed_by_mlx(mlx: Any) -> tuple[str, ...]:
    return "float64", "complex128"


def take_tensorflow(tensorflow: Any, x: DLPackObject) -> Any:
    """Makes a Tensor, whose memory a tensorflow.Variable made of it writes to."""
    return tensorflow.experimental.dlpack.from_dlpack(x.__dlpack__())


def take_polars(polars: Any, x: DLPackObject) -> Any:
    """Makes a Series of polars' Boolean and Array, not of Arrow's extension types."""
    series = polars.Series(frombuffer(x, x.dtype) if x.ndim > 1 else x)
    if x.dtype == "bool":
        series = series.to_physical().cast(polars.Boolean)
    return series.reshape(x.shape) if x.ndim > 1 else series


TAKERS = {
    "numpy": Taker("numpy", "ndarray", take_numpy, HOST, copies=(PACKED,), direct="from_dlpack"),
    "torch": Taker("torch", "Tensor", from_dlpack, writes=True, layout="forward", direct=EXCHANGE_API),
    "jax": Taker(
        "jax", "Array", lambda jax, x: jax.numpy.from_dlpack(x), layout="compact", align=64, narrows=narrowed_by_jax
    ),
    "tensorflow": Taker("tensorflow", "Tensor", take_tensorflow, writes=True, layout="row-major", align=64),
    "cupy": Taker("cupy", "ndarray", from_dlpack, GPU, writes=True),
    "paddle": Taker(
        "paddle", "Tensor", from_dlpack, writes=True, layout="forward", crashes_after="tensorflow", direct=EXCHANGE_API
    ),
    "mlx": Taker("mlx.core", "array", take_mlx, HOST, layout="forward", copies=None, narrows=narrowed_by_mlx),
    "tvm_ffi": Taker("tvm_ffi", "Tensor", from_dlpack, writes=True),
    "pyarrow": Taker("pyarrow", "Array", lambda pyarrow, x: pyarrow.array(x), HOST, layout="row-major"),
    "pyarrow.Tensor": Taker(
        "pyarrow", "Tensor", lambda pyarrow, x: pyarrow.Tensor.from_dlpack(x), HOST, layout="forward"
    ),
    "polars": Taker("polars", "Series", take_polars, HOST, layout="row-major", copies=("bool",)),
    "memoryview": Taker("builtins", "memoryview", lambda builtins, x: memoryview(x), HOST),
    "bytes": Taker("builtins", "bytes", lambda builtins, x: bytes(x), HOST, copies=None),
}

# Names under which programs import these libraries.
SHORT = {"cp": "cupy", "jnp": "jax", "mx": "mlx", "np": "numpy", "pa": "pyarrow", "pl": "polars", "tf": "tensorflow"}

types_of_numpy: dict[str, Any] = {}  # those of other libraries, of one or two bytes, by DLPack's names


def hand_over(obj: Any, target: Any, device: Any, copy: bool | None) -> Any:
    """Does what to() does."""
    name, like = name_of(target)
    taker = TAKERS[name]
    library = library_of(name)
    kind = part_of(library, taker.array, name)
    if taker.direct is not None and name not in takers:
        is_api = taker.direct == EXCHANGE_API
        direct = getattr(kind, EXCHANGE_API, None) if is_api else part_of(library, taker.direct, name)
        for key in (name, library, kind) if direct is not None else ():
            takers.setdefault(key, (kind, direct, types_of_numpy))
    there = None if like is None else carried_device(like) or (CPU, 0)
    if isinstance(obj, kind) and (copy is None or copy is False) and refuse_mask(obj) is None:
        wanted = there if device is None else device_pair(device)
        if wanted is None or same_device(carried_device(obj) or (CPU, 0), wanted):
            return obj
    x = asdlpack(obj, device=device, copy=None if copy is True and taker.copies is None else copy)
    x = on_device(x, taker, name, there if device is None else None)
    if x.dtype in taker.narrows(library):
        raise narrowed(x, name)
    if obstacle_of(x, taker, name) is not None:
        if copy is False:
            raise obstacle_of(x, taker, name)  # type: ignore[misc]  # a variable would keep its traceback alive
        x = asdlpack(x, copy=True)
    if copy is False and (taker.copies is None or (PACKED if x._is_packed else x.dtype) in taker.copies):
        said = f"dtype {x.dtype}: {name} always copies it"
        raise refusal(BufferError, "library-copies", said, TO_COPY, dtype=x.dtype.name, library=name)
    try:
        array = taker.take(library, x)
    except BaseException as error:
        if is_passed_on(error):
            raise
        raise of_library(error, x, name) from None
    if name == "numpy" and array.itemsize <= 2 and array.dtype.isbuiltin == OF_OTHERS:
        types_of_numpy.setdefault(x.dtype.name, array.dtype)
    return array


def name_of(target: Any) -> tuple[str, Any]:
    """Returns target's name in TAKERS, and target if it is an array, else None."""
    given = ""
    if isinstance(target, (str, ModuleType)):
        given = target if isinstance(target, str) else str(target.__name__).partition(".")[0]
        if given in TAKERS:
            return given, None
    else:
        is_type = isinstance(target, type)
        for name, taker in TAKERS.items():
            kind = getattr(modules.get(taker.module), taker.array, None)  # a target's module is imported
            if isinstance(kind, type) and (issubclass(target, kind) if is_type else isinstance(target, kind)):
                return name, None if is_type else target
    said = f"target {short_repr(target)}: expected a library, its name, its array type, or one of its arrays"
    library = given.partition(".")[0].lower()
    near = library if library in TAKERS else SHORT.get(library) or "".join(get_close_matches(library, TAKERS, 1))
    cure = f'did you mean "{near}"?' if near else "pass dlpack.asdlpack(obj) to another library's from_dlpack"
    raise refusal(TypeError, "unknown-target", said, cure, target=short_repr(target))


def library_of(name: str) -> Any:
    module, other = TAKERS[name].module, TAKERS[name].crashes_after
    if other in modules and module not in modules:
        said = f"target {name}: the process would crash, since {other} was imported before {name}"
        raise refusal(ImportError, "no-library", said, f"import {name} before {other}", library=name)
    try:
        return import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name in (module, module.partition(".")[0]):
            raise refusal(ImportError, "no-library", f"target {name}: it is not installed", library=name) from None
        said = f"target {name}: it can't be imported: {exception_text(error)}"
        raise refusal(ImportError, "no-library", said, library=name) from error


def part_of(library: Any, part: str, name: str) -> Any:
    try:
        return getattr(library, part)
    except AttributeError:
        said = f"target {name}: {library.__name__} has no {part}: it is half imported, or another module of that name"
        raise refusal(ImportError, "no-library", said, library=name) from None


def same_device(here: Any, there: Any) -> bool:
    """False if one of them is an error."""
    both = isinstance(here, tuple) and isinstance(there, tuple)
    return both and (here == there or (here[0] in HOST and there[0] in HOST))


def on_device(x: DLPackObject, taker: Taker, name: str, there: Any) -> DLPackObject:
    """Returns x's tensor, or x on a GPU: its producer gets the library's stream. there: the device that it must be on,
    of the array to be like."""
    tensor = x._tensor  # the one export of a call, to look at and to hand over
    here = tensor.__dlpack_device__()
    if there is None and taker.devices and here[0] not in taker.devices:
        there = (CUDA if taker.devices is GPU else CPU, 0)
    if there is not None and not same_device(here, there):
        cure = f'pass device="{device_name(there)}"' if {here[0], there[0]} <= {*HOST, CUDA} else ""
        said = f"{device_text(tensor)}: target {name} is on {device_name(there)}; device=None never moves memory"
        raise refusal(BufferError, "device-differs", said, cure, device=device_text(tensor), target=device_name(there))
    if here[0] == CUDA_HOST and taker.devices is not GPU:  # torch and jax have no such device
        return asdlpack(tensor, device="cpu")
    return tensor if here[0] == CPU or tensor._is_copy else x


def device_name(device: tuple[int, int]) -> str:
    """Returns the name that device= accepts."""
    kind = getattr(device_types()(device[0]), "name", "")
    return f"{kind.removeprefix('kDL').lower()}:{device[1]}" if device[0] != CPU else "cpu"


def narrowed(x: DLPackObject, name: str) -> Exception:
    cure = f"pass numpy.asarray(obj).astype({NARROWER[x.dtype]!r})"
    if name == "jax":
        cure = f'jax.config.update("jax_enable_x64", True) keeps it; or {cure}'
    said = f"dtype {x.dtype}: {name} would make {NARROWER[x.dtype]} of it"
    return refusal(BufferError, "narrowed", said, cure, dtype=x.dtype.name, library=name)


def obstacle_of(x: DLPackObject, taker: Taker, name: str) -> Exception | None:
    """Returns the error for memory that a library can't use until it is copied."""
    if taker.writes and x.readonly:
        said = f"readonly True: {name} has no read-only arrays, and might write to it"
        return refusal(BufferError, "read-only", said, TO_COPY, readonly=True)
    shape, strides = x.shape, x.strides
    if taker.layout == "forward" and min(strides, default=0) < 0:
        said = f"strides {strides} of shape {shape}: {name} has no negative strides"
        return refusal(BufferError, "negative-strides", said, TO_COPY, strides=strides, shape=shape)
    if taker.layout == "row-major" and not x._is_row_major:
        said = f"strides {strides} of shape {shape}: {name} needs row-major memory without gaps"
        return refusal(BufferError, "not-row-major", said, TO_COPY, strides=strides, shape=shape)
    if taker.layout == "compact" and not is_compact(x):
        said = f"strides {strides} of shape {shape}: {name} needs memory without gaps"
        return refusal(BufferError, "not-compact", said, TO_COPY, strides=strides, shape=shape)
    if x.size and x.pointer % taker.align:
        said = f"pointer {x.pointer:#x}: {name} needs a multiple of {taker.align}"
        return refusal(BufferError, "alignment", said, TO_COPY, pointer=x.pointer, align=taker.align)
    return None


def is_compact(x: Any) -> bool:
    """True if the items of an object with shape, strides and size have no gaps in some order of the axes."""
    expected = 1
    for stride, length in sorted(zip(x.strides, x.shape, strict=True)):
        if length != 1 and stride != expected:
            return bool(x.size == 0)
        expected *= length
    return True


def is_passed_on(error: BaseException) -> bool:
    """True for an error that says nothing of the memory, or is this package's own."""
    if not isinstance(error, Exception):
        return type(error).__name__ != "PanicException"  # of polars, which derives from BaseException
    return isinstance(error, (*NO_MEMORY, RecursionError)) or as_refusal(error) is error


def of_library(error: BaseException, x: DLPackObject, name: str) -> Exception:
    said = f"{name} refuses {tensor_text(x)}: {printable(exception_text(bare(error)))}"
    cure = ""
    if name == "torch" and x.dtype == "float4_e2m1fn" and x.ndim > 0 and x.shape[-1] % 2 == 0:
        shape = (*x.shape[:-1], x.shape[-1] // 2)
        cure = f"a = torch.empty({shape}, dtype=torch.float4_e2m1fn_x2); dlpack.copy_into(obj, a)"
    return refusal(BufferError, "library-refuses", said, cure, dtype=x.dtype.name, library=name)
