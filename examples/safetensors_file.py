"""Opens safetensors files without the safetensors package: each tensor is the mapped file itself, not a copy.

    python examples/safetensors_file.py FILE...

prints what is in them. The format: https://github.com/huggingface/safetensors#format
"""

import json
import os
import sys

import dlpack

DTYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fnx2",
}


def load(path: str | os.PathLike[str], *, copy: bool | None = False) -> dict[str, dlpack.DLPackObject]:
    """Returns the tensors by name. Writes to them stay in this process: the mapping is private, the file unchanged.

    Some writers misalign a tensor's items. That raises BufferError; copy=None copies such a tensor.
    """
    data = memoryview(dlpack.memmap(path, "uint8"))
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8:start]))
    header.pop("__metadata__", None)

    tensors: dict[str, dlpack.DLPackObject] = {}
    for name, tensor in header.items():
        shape, offset = tensor["shape"], start + tensor["data_offsets"][0]
        if tensor["dtype"] == "F4":
            shape[-1] //= 2  # the file counts halves of a byte, torch and numpy's bytes count pairs
        tensors[name] = dlpack.frombuffer(data, DTYPES[tensor["dtype"]], shape, offset=offset, copy=copy)
    return tensors


if __name__ == "__main__":
    for path in sys.argv[1:]:
        for name, tensor in load(path).items():
            print(f"{name}: {tensor}")
