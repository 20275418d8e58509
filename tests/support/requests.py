"""Random requests to describe memory, and what became of each: one line a request, alike in every build."""

import random
import re
import sys

import numpy as np

import dlpack
from dlpack._abi import STRUCTS
from support.capi import Managed, Speaks, look

DATA = 1 << 40  # shared memory is not read
NAMES = ["float32", "Float32", "FLOAT32", "f4", "i8", "torch.int16", "bf16", "BF16", "half", "bool", "complex64"]
NAMES += ["int4", "int4x2", "float4_e2m1fn", "float8_e4m3fn", "float32x4", "uint8", "fp32", "(2, 32, 1)", "(3, 64, 1)"]
NAMES += ["float", "flaot32", "", "i16 ", "é", "x" * 30, "float8_e4m3b11fnuz", "torch.float8_e4m3b11fnuz", "F16", "f16"]
TYPESTRS = [
    "f4",
    "i1",
    "u2",
    "b1",
    "c8",
    "c16",
    "V2 bfloat16",
    "V1 int4",
    "f1 float8_e5m2",
    "V4",
    "f16",
    "i3",
    "U4",
    "M8",
]

SCALARS = [(0, 8), (0, 32), (0, 4), (1, 64), (2, 16), (3, 64), (4, 16), (5, 128), (6, 8), (10, 8), (15, 6), (17, 4)]


def number(chosen):
    return chosen.choice([0, 1, 1, 2, 2, 3, 5, 7, -1, -2, 2**31, 2**62, -(2**63), 2**63 - 1])


def shape(chosen):
    small = chosen.random() < 0.8
    return tuple(
        chosen.choice([0, 1, 2, 3, 4, 1, 2, 3, 4, -1]) if small else number(chosen)
        for _ in range(chosen.choice([0, 1, 1, 2, 2, 3, 5]))
    )


def strides(chosen, count, unit):
    if chosen.random() < 0.4:
        return None
    return tuple(
        unit * chosen.choice([-3, -1, 0, 1, 1, 2, 4, 6]) if chosen.random() < 0.9 else number(chosen)
        for _ in range(count)
    )


def dtype_name(chosen):
    return chosen.choice(NAMES) if chosen.random() < 0.6 else chosen.choice("<>|=") + chosen.choice(TYPESTRS)


def from_bytes(chosen):
    memory = bytearray(chosen.choice([0, 1, 3, 4, 24, 48, 64, 96]))
    dims = shape(chosen)
    return dlpack.frombuffer(
        memory,
        dtype_name(chosen),
        chosen.choice([None, dims]),
        offset=chosen.choice([0, 0, 4, 8, 1, 100]),
        strides=strides(chosen, len(dims), 1) if chosen.random() < 0.5 else None,
        copy=chosen.choice([False, None]),
    )


def from_pointer(chosen):
    dims = shape(chosen)
    address = chosen.choice([DATA, DATA + 1, DATA + 4, 0, 2**64 - 16])
    return dlpack.from_pointer(address, dims, dtype_name(chosen), strides=strides(chosen, len(dims), 1))


def from_interface(chosen):
    dims, typestr = shape(chosen), chosen.choice("<>|=") + chosen.choice(TYPESTRS)
    typestr, _, name = typestr.partition(" ")
    interface = {"version": chosen.choice([3, 3, 2, 1, 4]), "typestr": typestr, "shape": dims}
    interface["data"] = (chosen.choice([DATA, DATA + 1, DATA + 4, 0]), chosen.random() < 0.5)
    if chosen.random() < 0.2:
        interface |= {"data": bytearray(64), "offset": chosen.choice([0, 1, 8, 65])}
    if chosen.random() < 0.1:
        interface["offset"] = 8
    interface["strides"] = strides(chosen, len(dims) - (chosen.random() < 0.05), chosen.choice([1, 4, 8]))
    if name:
        return dlpack.asdlpack(Speaks(__array_interface__=interface, dtype=Speaks(name=name)))
    return dlpack.asdlpack(Speaks(__array_interface__=interface))


def from_capsule(chosen):
    name, dims = chosen.choice([*STRUCTS]), shape(chosen)
    code, bits = chosen.choice([*SCALARS, *SCALARS, (chosen.randrange(19), chosen.choice([1, 7, 8, 80]))])
    dtype = code, bits, chosen.choice([1, 1, 1, 2, 4, 3])
    managed = Managed(
        chosen.choice([DATA, DATA + 1, DATA + 4, 0]),
        name=name,
        shape=dims,
        strides=strides(chosen, len(dims), chosen.choice([1, 1, 2**62 - 3])),
        dtype=dtype,
        device=chosen.choice([(1, 0), (1, 0), (1, 0), (1, 3), (1, -1), (8, 0)]),
        byte_offset=chosen.choice([0, 0, 4, 1]),
        flags=chosen.choice([0, 1, 2, 4, 8, 7]),
    )
    return dlpack.asdlpack(managed.capsule())


def from_view(chosen):
    values = np.arange(96, dtype=chosen.choice(["u1", "<f4", ">f4", ">i1", "<i8", "c8", "?", "f2"])).reshape(2, 3, 4, 4)
    values = values[chosen.choice([..., 0, slice(None, None, -1), (slice(None), slice(0, 0)), (0, 0, 0, 0)])]
    view = memoryview(values.T if chosen.random() < 0.3 else values)
    if view.contiguous and view.c_contiguous and chosen.random() < 0.5 and 0 not in view.shape:
        view = view.cast("B") if view.format.isalpha() or view.format == "?" else view
    return dlpack.asdlpack(view, copy=chosen.choice([False, None]))


WAYS = [from_bytes, from_pointer, from_interface, from_capsule, from_view]


def said(x):
    """All that is said of the memory. Its address is left out unless the request said it."""
    read = [
        x.dtype,
        x.itemsize,
        x.shape,
        x.strides,
        x.size,
        x.nbytes,
        x.readonly,
        tuple(x.device),
        x.__dlpack_device__(),
    ]
    read.append(hex(x.pointer))
    for attribute in "__array_interface__", "__array_struct__", "__arrow_c_array__":
        try:
            found = getattr(x, attribute)
        except Exception as error:
            found = error
        read.append(found["typestr"] if isinstance(found, dict) else type(found).__name__)
    try:
        look(x.__dlpack__())
        read.append("legacy")
    except BufferError as error:
        read.append(str(error))
    tensor = look(x.__dlpack__(max_version=(1, 0)))
    return [*read, tensor.flags, tensor.dl_tensor.byte_offset]


def is_chosen(address):
    return address < 256 or DATA - 4096 <= address < DATA + 4096 or address >= 2**64 - 4096


def main(seed, count):
    chosen = random.Random(seed)
    for _ in range(count):
        way = chosen.choice(WAYS)
        state = chosen.getrandbits(64)
        try:
            outcome = said(way(random.Random(state)))
        except Exception as error:
            outcome = [type(error).__name__, str(error)]
        print(
            way.__name__,
            re.sub("0x[0-9a-f]+", lambda it: it[0] if is_chosen(int(it[0], 16)) else "there", repr(outcome)),
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
