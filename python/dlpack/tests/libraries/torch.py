"""torch.from_dlpack, and torch's tensors."""

from typing import Any

import torch

from ..capsules import read
from ..memory import Memory
from . import Consumer


def known(tensor: Any, dtype: str = "float32") -> Memory:
    """What torch says of a tensor."""
    values = read(tensor.detach().contiguous()).values
    return Memory(
        tensor, dtype, tuple(tensor.shape), values, tensor.data_ptr(), tensor.stride(), references=tensor._use_count
    )


class FromDLPack(Consumer):
    name = "torch"
    readonly = "not known to it: it would write"

    def take(self, x: Any) -> Any:
        return torch.from_dlpack(x)


CONSUMERS = [FromDLPack()]
PROVIDERS = {"Tensor": lambda: known(torch.arange(6.0).reshape(2, 3))}
