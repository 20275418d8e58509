"""What is known of the libraries: where something else than sharing is expected, and why. The first rule that fits
counts."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .._to import NARROWER, TAKERS, is_compact
from .memory import Memory
from .results import Outcome

Condition = Callable[[Memory], bool]


@dataclass(frozen=True)
class Rule:
    consumer: str  # fnmatch's patterns
    outcome: Outcome
    reason: str
    when: Condition = lambda memory: True
    provider: str = "*"  # "section: name"
    before: tuple[int, ...] = ()  # holds for the versions of the library before this one
    since: tuple[int, ...] = ()  # and from this one on
    becomes: dict[str, str] = field(default_factory=dict)  # data types that arrive as others

    def fits(self, consumer: str, version: str, provider: str, memory: Memory) -> bool:
        number = release(version)
        return (
            fnmatchcase(consumer, self.consumer)
            and fnmatchcase(provider, self.provider)
            and (not self.before or number < self.before)
            and (not self.since or number >= self.since)
            and self.when(memory)
        )


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def dtype(*patterns: str) -> Condition:
    return lambda memory: any(fnmatchcase(memory.dtype, pattern) for pattern in patterns)


def negative_strides(memory: Memory) -> bool:
    pairs = zip(memory.shape, memory.strides, strict=True)
    return memory.size > 0 and any(stride < 0 and extent > 1 for extent, stride in pairs)


def not_row_major(memory: Memory) -> bool:
    return not memory.packed


def not_contiguous(memory: Memory) -> bool:
    """Whether it is neither row-major nor column-major, which is row-major with the dimensions turned around."""
    turned = dataclasses.replace(memory, shape=memory.shape[::-1], strides=memory.strides[::-1])
    return not memory.packed and not turned.packed


def unaligned(align: int) -> Condition:
    """True if asdlpack shares memory whose address is not a multiple of `align`; its own copies are aligned."""
    return lambda memory: memory.copy is False and memory.size > 0 and (memory.address or 0) % align != 0


def column_major(memory: Memory) -> bool:
    """Whether it is a matrix whose columns have no gaps."""
    return len(memory.shape) == 2 and (memory.size == 0 or (memory.strides[0] == 1 and memory.strides[1] > 1))


def read_only(memory: Memory) -> bool:
    """Whether it arrives so, as what can't say it does; a copy may be written."""
    return memory.readonly is not False and memory.copy is False


def in_ml_dtypes(memory: Memory) -> bool:
    try:
        import ml_dtypes
    except ImportError:
        return False
    return hasattr(ml_dtypes, memory.dtype)


NOT_IN_ONNX = "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"
SUBBYTE = dtype("float6_*", "float4_*", "int4", "uint4", "int2", "uint2")
SMALLER_IN_MLX = {name: NARROWER[name] for name in TAKERS["mlx"].narrows(None)}
LAYOUTS: dict[str, tuple[str, Condition]] = {
    "forward": ("has no negative strides", negative_strides),
    "compact": ("needs memory without gaps", lambda memory: not is_compact(memory)),
    "row-major": ("needs row-major memory without gaps", not_row_major),
}


def layout(library: str) -> Rule:
    """The layouts that a library refuses, as dlpack.to has them."""
    words, refused = LAYOUTS[TAKERS[library].layout]
    return Rule(library, "refused", f"{library} {words}", refused)


def arrow(consumer: str) -> Iterator[Rule]:
    """What takes Arrow's arrays."""
    yield Rule(consumer, "refused", "Arrow has no such type", dtype("complex*", "bfloat16", "float8*"))
    yield Rule(consumer, "refused", "Arrow's arrays have a length", lambda memory: memory.shape == ())
    yield Rule(consumer, "refused", "Arrow's arrays are compact and row-major", not_row_major)


RULES = (
    Rule("*", "refused", "DLPack has no structured types", provider="standard library: ctypes array of structures"),
    Rule("C, versioned", "shared", "", SUBBYTE),
    Rule("mpi4py", "shared", "", SUBBYTE),
    Rule("numpy.asarray", "shared", "", in_ml_dtypes),
    Rule("*", "refused", "it has no type with one such item in each byte", SUBBYTE),
    Rule("*", "refused", "torch exports no tensor that needs a gradient", provider="torch: *requires_grad"),
    Rule("*", "refused", "an NDArray speaks no protocol: its capsules do", provider="mxnet: NDArray"),
    # numpy
    Rule("numpy*", "refused", "numpy has no such type", dtype("bfloat16", "float8*")),
    Rule("numpy", "refused", "an older numpy takes no booleans", dtype("bool"), before=(1, 25)),
    # memoryview
    Rule("memoryview", "refused", "the buffer protocol has no such type", dtype("bfloat16", "float8*")),
    # torch; the first: https://github.com/pytorch/pytorch/issues/188023
    Rule(
        "torch", "skipped", "torch before 2.13 ends the process at negative strides", negative_strides, before=(2, 13)
    ),
    layout("torch"),
    Rule("torch", "skipped", "torch before 2.3 never lets go of empty memory", lambda m: m.size == 0, before=(2, 3)),
    Rule("torch", "refused", "torch has no such type", dtype("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")),
    Rule("torch", "refused", "an older torch takes no booleans", dtype("bool"), before=(2, 2)),
    Rule("torch", "refused", "an older torch has no such type", dtype("uint16", "uint32", "uint64"), before=(2, 3)),
    Rule("torch", "refused", "an older torch takes no float8", dtype("float8*"), before=(2, 10)),
    # jax
    layout("jax"),
    Rule("jax", "copied", "jax copies what is not at a multiple of 64 bytes", unaligned(TAKERS["jax"].align)),
    # tensorflow
    layout("tensorflow"),
    Rule("tensorflow", "refused", "tensorflow takes no such type", dtype("float8*")),
    # cupy
    Rule("cupy", "shared", "", provider="*on CUDA"),
    Rule("cupy", "refused", "cupy takes what is on the GPU"),
    # cudf
    Rule("cudf", "refused", "a Series has no gaps", lambda m: len(m.shape) == 1 and not m.packed),
    Rule("cudf", "refused", "a DataFrame is column-major", lambda m: len(m.shape) != 1 and not column_major(m)),
    Rule("cudf", "refused", "cudf has no such type", dtype("bool", "float16", "complex*", "bfloat16", "float8*")),
    Rule("cudf", "skipped", "a DataFrame without columns has no rows either", lambda m: m.shape[1:] == (0,)),
    Rule("cudf", "copied", "cudf copies", lambda m: m.size > 0),
    # Arrow, pyarrow
    *arrow("pyarrow.array"),
    *arrow("polars"),
    *arrow("nanoarrow"),
    Rule(
        "pyarrow.[AT]*",
        "refused",
        "pyarrow takes int, uint and float",
        dtype("bool", "complex*", "bfloat16", "float8*"),
    ),
    Rule("pyarrow.Array", "refused", "an Array has one dimension", lambda memory: len(memory.shape) != 1),
    Rule("pyarrow.Array", "refused", "an Array has no gaps", not_row_major),
    layout("pyarrow.Tensor"),
    # polars
    Rule("polars", "refused", "polars panics at lists without items", lambda m: m.size == 0 and len(m.shape) > 1),
    # mxnet
    Rule("mxnet", "refused", "mxnet's arrays are compact and row-major", not_row_major),
    Rule("mxnet", "refused", "mxnet takes no matrix without items", lambda m: m.size == 0 and len(m.shape) > 1),
    Rule("mxnet", "refused", "mxnet has no such type", dtype("bool", "int16", "uint16", "uint32", "uint64")),
    Rule("mxnet", "refused", "mxnet has no such type", dtype("complex*", "float8*")),
    # tvm
    Rule("tvm", "refused", "tvm's tensors are compact and row-major", not_row_major),
    Rule("tvm", "refused", "tvm needs data at a multiple of 64 bytes", unaligned(64)),
    # mpi4py
    Rule("mpi4py", "refused", "a message is row-major or column-major", not_contiguous),
    # onnxruntime
    Rule("onnxruntime", "refused", "onnxruntime's tensors are compact and row-major", not_row_major),
    Rule("onnxruntime", "refused", "onnxruntime takes no such type", dtype("complex*")),
    Rule("onnxruntime", "refused", "onnxruntime takes no such type", dtype(*NOT_IN_ONNX)),
    Rule("onnxruntime", "refused", "an older onnxruntime takes no such type", dtype("bool", "float8*"), before=(1, 32)),
    # paddle
    Rule("paddle", "shared", "paddle calls uint16 bfloat16", dtype("uint16"), becomes={"uint16": "bfloat16"}),
    Rule("paddle", "shared", "", dtype("float8_e4m3fn", "float8_e5m2")),
    Rule("paddle", "refused", "paddle has no such type", dtype("float8*")),
    # mlx
    layout("mlx"),
    Rule("mlx", "refused", "mlx has no such type", dtype("float8*")),
    Rule("mlx", "copied", "mlx copies memory of the CPU", lambda memory: memory.size > 0, becomes=SMALLER_IN_MLX),
    # nanobind
    Rule("nanobind ndarray<>", "refused", "read-only memory needs ndarray<ro>", read_only),
    # What asdlpack itself copies, where copy=None allows it.
    Rule("*", "copied", "the bytes have to be swapped", provider="*: *big-endian*"),
    Rule("*", "copied", "DLPack needs items at multiples of their size", provider="*: *misaligned*"),
    Rule("*", "copied", "DLPack needs a byte an item", provider="*: *booleans*"),
    Rule("*", "copied", "the chunks have to be joined", provider="*: *two chunks*"),
)

# Libraries that can't be in one process.
APART = {frozenset(("paddle", TAKERS["paddle"].crashes_after)): "paddle and tensorflow crash each other at import"}


def rule(consumer: str, version: str, provider: str, memory: Memory) -> Rule:
    for candidate in RULES:
        if candidate.fits(consumer, version, provider, memory):
            return candidate
    return Rule("*", "shared", "")
