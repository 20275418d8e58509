"""torch.from_dlpack, and torch's tensors."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ..._abi import Seen, read
from ..expectations import WOULD_WRITE, Consumer, Rule, dtype, layout, negative_strides
from ..findings import Skip
from ..memory import Memory

LEGACY = "max_version" not in inspect.signature(torch.Tensor.__dlpack__).parameters


def known(obj: Any, tensor: Any = None) -> Memory:
    """Describes a tensor as torch does: the object itself, or one that shares the object's memory."""
    tensor = obj if tensor is None else tensor
    return Memory(
        obj,
        str(tensor.dtype).removeprefix("torch."),
        tuple(tensor.shape),
        read(tensor.cpu().contiguous()).values,
        tensor.data_ptr(),
        tuple(tensor.stride()),
        readonly=None if LEGACY else False,
        references=getattr(tensor, "_use_count", None),
    )


def matrix() -> Any:
    return torch.arange(6.0).reshape(2, 3)


def with_gradient() -> Memory:
    tensor = matrix().requires_grad_()
    memory = known(tensor, tensor.detach())
    memory.withheld = "torch exports no tensor that needs a gradient"
    return memory


def need_cuda() -> None:
    if not torch.cuda.is_available():
        raise Skip("no CUDA device")


def on_cuda() -> Memory:
    need_cuda()
    memory = known(matrix().cuda())
    memory.gpu = True
    return memory


def pinned() -> Memory:
    need_cuda()
    return known(matrix().pin_memory())


PROVIDERS: dict[str, Callable[[], Memory]] = {
    "Tensor": lambda: known(matrix()),
    "Tensor, transposed": lambda: known(matrix().T),
    "Tensor, bfloat16": lambda: known(matrix().to(torch.bfloat16)),
    "Tensor, requires_grad": with_gradient,
    "Tensor in pinned memory": pinned,
    "Tensor on CUDA": on_cuda,
}


def see(tensor: Any) -> Seen:
    return read(tensor.cpu().contiguous())._replace(address=tensor.data_ptr()) if tensor.is_cuda else read(tensor)


RULES = [
    # https://github.com/pytorch/pytorch/issues/188023
    Rule("skipped", "torch before 2.13 ends the process at negative strides", negative_strides, before=(2, 13)),
    layout("torch"),
    Rule("skipped", "torch before 2.3 never lets go of empty memory", lambda m: m.size == 0, before=(2, 3)),
    Rule("refused", "torch has no such type", dtype("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")),
    Rule("refused", "an older torch takes no booleans", dtype("bool"), before=(2, 2)),
    Rule("refused", "an older torch has no such type", dtype("uint16", "uint32", "uint64"), before=(2, 3)),
    Rule("refused", "an older torch takes no float8", dtype("float8*"), before=(2, 10)),
]

CONSUMERS = [Consumer("torch", torch.from_dlpack, see, WOULD_WRITE, gpu=True, rules=RULES)]
