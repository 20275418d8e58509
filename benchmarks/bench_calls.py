"""Times wrapping, exporting and handing on, compared with Python, numpy, torch, tvm-ffi and pydlpack."""

import math
from collections.abc import Iterator

from timing import Row, Table, Worker, beside, in_turn

PYDLPACK_GOAL = 0.02

WRAPPING = [
    ("asdlpack(some_bytearray)", "memoryview(some_bytearray)", 1.4),
    ("asdlpack(some_array)", "memoryview(some_array)", 1.4),
    ("asdlpack(ndarray)", "memoryview(ndarray)", 0.9),
    ("asdlpack(interface)", "numpy.asarray(interface)", 0.5),
    ("asdlpack(some_bytes)", "memoryview(some_bytes)", None),
    ("asdlpack(some_view)", "memoryview(some_view)", None),
    ("asdlpack(interface_property)", "numpy.asarray(interface_property)", None),
    ("dlpack.frombuffer(some_bytearray, 'float32')", "numpy.frombuffer(some_bytearray, 'float32')", None),
    ("asdlpack(ndarray.__dlpack__())", "torch.from_dlpack(ndarray.__dlpack__())", None),
]
EXPORTING = [
    ("wrapped.__dlpack__(max_version=(1, 1))", "ndarray.__dlpack__(max_version=(1, 1))", 0.8),
    ("wrapped.__dlpack__()", "ndarray.__dlpack__()", None),
    ("wrapped_ndarray.__dlpack__(max_version=(1, 1))", "ndarray.__dlpack__(max_version=(1, 1))", None),
]
CROPS = ("numpy.from_dlpack(asdlpack(next(crop_views)))", "numpy.from_dlpack(next(crops))", 2.0)
HANDING_ON = [
    ("numpy.from_dlpack(asdlpack(some_bytearray))", "numpy.frombuffer(some_bytearray, 'u1')", 1.4),
    ("numpy.from_dlpack(asdlpack(ndarray))", "numpy.from_dlpack(ndarray)", 1.7),
    ("torch.from_dlpack(asdlpack(some_bytearray))", "torch.frombuffer(some_bytearray, dtype=torch.uint8)", 2.0),
    ("torch.from_dlpack(asdlpack(some_bytearray))", "torch.from_dlpack(ndarray)", 1.1),
    ("tvm_ffi.from_dlpack(asdlpack(some_bytearray))", "tvm_ffi.from_dlpack(ndarray)", 1.3),
    ("tvm_ffi.from_dlpack(exchanged)", "tvm_ffi.from_dlpack(ndarray)", 0.5),
    ("torch.from_dlpack(asdlpack(tensor))", "torch.from_dlpack(tensor)", None),
    CROPS,
]
TO = [
    ("numpy.from_dlpack(asdlpack(tensor))", "numpy.from_dlpack(tensor)", 0.22),
    ("asdlpack(tensor).shape", "tensor.__dlpack__()", 0.2),
    ("to(tensor, 'numpy')", "tensor.numpy()", 0.9),
    ("to(ndarray, 'torch')", "torch.from_dlpack(ndarray)", 0.5),
    ("to(ndarray, 'torch')", "torch.from_numpy(ndarray)", 1.25),
    ("to(some_bytearray, 'torch')", "torch.frombuffer(some_bytearray, dtype=torch.uint8)", 0.8),
    ("to(tensor, 'paddle')", "paddle.from_dlpack(tensor)", 0.1),
    ("to(some_bytearray, 'paddle')", "paddle.from_dlpack(ndarray)", 0.1),
    ("to(bfloat16_tensor, 'numpy')", "numpy_by_views(bfloat16_tensor)", 1.2),
    ("to(bfloat16_ndarray, 'torch')", "torch_by_views(bfloat16_ndarray)", 1.2),
]
LEAST = [
    ("asdlpack(some_bytearray)", "floor.hold(some_bytearray)", None),
    ("asdlpack(some_array)", "floor.hold(some_array)", None),
    ("asdlpack(ndarray)", "floor.refer(ndarray)", None),
    ("wrapped.__dlpack__(max_version=(1, 1))", "floor_held.__dlpack__(max_version=(1, 1))", None),
    ("numpy.from_dlpack(asdlpack(some_bytearray))", "numpy.from_dlpack(floor.hold(some_bytearray))", None),
    ("numpy.from_dlpack(asdlpack(ndarray))", "numpy.from_dlpack(floor.refer(ndarray))", None),
    ("torch.from_dlpack(asdlpack(some_bytearray))", "torch.from_dlpack(floor.hold(some_bytearray))", None),
    ("tvm_ffi.from_dlpack(asdlpack(some_bytearray))", "tvm_ffi.from_dlpack(floor.hold(some_bytearray))", None),
    ("tvm_ffi.from_dlpack(exchanged)", "tvm_ffi.from_dlpack(floor_held)", None),
]
LOOKING_UP = [
    *((ours, least.replace("hold", "describe"), goal) for ours, least, goal in LEAST if "floor.hold" in least),
    (CROPS[0], CROPS[0].replace("asdlpack", "floor.describe"), None),
]
AFTER_A_GAP = [
    (statement, peer, 2.0)
    for statement, peer, goal in (*WRAPPING, EXPORTING[0], *HANDING_ON[:2], CROPS)
    if goal is not None
]
KINDS = [
    "some_bytes",
    "some_bytearray",
    "some_array",
    "some_view",
    "some_mmap",
    "some_ctypes",
    "ndarray",
    "interface",
    "interface_property",
    "producer",
]


def tables(rounds: int) -> Iterator[Table]:
    with Worker() as worker:
        yield beside("wrapping", worker, WRAPPING, rounds)
        yield beside("exporting", worker, EXPORTING, rounds)
        yield beside("handing on", worker, HANDING_ON, rounds)
        yield beside("as another library's array", worker, TO, rounds)
        yield beside("beside the least that C can do", worker, LEAST, rounds)
        yield beside("beside the least with a look-up", worker, LOOKING_UP, rounds)
        yield beside("after 1 ms of sleep", worker, AFTER_A_GAP, max(1, rounds // 4), "gap")


def beside_pydlpack(python: str, rounds: int) -> Table:
    """Both in turn, each in its own process."""
    statements = [f"asdlpack({kind}){export}" for kind in KINDS for export in ("", ".__dlpack__()")]
    with Worker() as ours, Worker(python, path="") as peer:  # PYTHONPATH may lead to ours
        if ours.about["file"] == peer.about["file"]:
            raise ValueError(f"{python}: its dlpack is the one to be timed, not pydlpack")
        title = f"beside pydlpack {peer.about['version']}"
        least = zip(statements, in_turn([ours, peer], statements, rounds), strict=True)
        rows = [Row(it, value, "pydlpack's", other, PYDLPACK_GOAL) for it, (value, other) in least]
        return Table(title, "ns", [row for row in rows if not math.isnan(row.ratio)])
