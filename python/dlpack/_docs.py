"""What help() shows of the functions and methods that are written in C. Each text begins with the signature."""

from ._foreign import IN_WORDS

DOCS = {
    "asdlpack": f"""\
asdlpack(obj, /, *, copy=False, device=None, align=None, owner=None)
--

Share the memory of any object as a DLPackObject. Every from_dlpack takes it; what knows no DLPack takes it as a
buffer, by the array interfaces, or by Arrow.

The first of these that obj is or has is used: a DLPack capsule (which is taken over, so that it can't be used
again), a ctypes pointer to a structure of dlpack.structs, {", ".join(IN_WORDS[:3])},
{", ".join(IN_WORDS[3:])}.
The memory stays alive and locked until the DLPackObject and all that was exported from it are gone.

copy=False never copies, copy=None copies only what can't be shared as it is (another byte order, strides
that are no multiple of the item, misaligned data, bit-packed booleans, several chunks), copy=True always
copies. A copy is compact, row-major, 64-byte aligned, writable, and complete when asdlpack returns; of what has
__dlpack__, copy=None copies at the first use, once.

device: where the memory shall be: "cpu", "cuda:1", (device type, device id), a device of torch, jax or cupy, or what
has __dlpack_device__, such as an array; None leaves it where it is. The CPU can read CUDA's pinned and managed
memory, so that goes to "cpu" without a copy. A copy between the CPU and CUDA, or between CUDA's devices, needs
copy=None or True.

align: what the address has to be a multiple of, a power of two up to 64: jax copies, and apache-tvm refuses, what is
not at a multiple of 64 bytes. Other memory raises BufferError; copy=None copies it. What has __dlpack__ is then asked
at once, and consumers get that memory.

A DLManagedTensor or DLManagedTensorVersioned is taken over through the pointer, which becomes NULL: its deleter
is called exactly once, also where the tensor is refused. The structure has to live until then: a ctypes pointer
keeps what it was made from alive, so don't point it elsewhere. A DLTensor is borrowed: its memory must live until
all that was exported from it is gone. owner is an object that is kept alive until then.

Raises TypeError where obj has none of the protocols, ValueError where its description contradicts itself,
and BufferError where the memory can't be exported. An object with __dlpack__ is asked when it is used: what it
refuses raises there.

>>> import numpy
>>> x = asdlpack(b"Hello!")
>>> x.shape, x.dtype, x.readonly
((6,), 'uint8', True)
>>> numpy.from_dlpack(x)
array([ 72, 101, 108, 108, 111,  33], dtype=uint8)""",
    "frombuffer": """\
frombuffer(obj, /, dtype, shape=None, *, offset=0, strides=None, copy=False)
--

Share the bytes of an object as a DLPackObject of the data type and shape that you name.

obj: anything with the buffer protocol, or that asdlpack takes, except capsules and pointers; its memory must
be compact, and is taken as bytes, whatever its type. dtype: a name ("bfloat16", "float8_e4m3fn",
"float4_e2m1fnx2"; "f4", "fp32" and "torch.float32" are understood), a typestr (">f4"), or an object that carries
one, of numpy, ml_dtypes, torch, jax or tensorflow, or has __dlpack_data_type__, as paddle's; "int4" is packed, as
in DLPack, and ml_dtypes.int4 and torch.int4 take a byte an item, as there. shape: elements, an int or any sequence of
ints; one may be -1, which takes as many as there are; None is (-1,). offset: bytes from the beginning of obj.
strides: elements, not bytes. copy: as in asdlpack; misaligned data needs copy=None.

The memory stays alive and locked until the DLPackObject and all that was exported from it are gone.

Raises TypeError where obj has no memory, ValueError where shape, strides and offset reach beyond the memory,
and BufferError where it can't be exported so.

>>> x = frombuffer(bytes(14), "bfloat16", (2, -1), offset=2)
>>> x.shape, x.dtype
((2, 3), 'bfloat16')""",
    "from_pointer": """\
from_pointer(pointer, /, shape, dtype, *, strides=None, device='cpu', readonly=False, owner=None, stream=None)
--

Share memory at an address as a DLPackObject. Nothing is copied, and on the CPU nothing can check the address.

pointer: the address of the first element, an int or a ctypes pointer. shape: elements, an int or any
sequence of ints; a pointer has no length, so neither None nor -1 is taken. dtype: as in frombuffer. strides:
elements, not bytes; None is compact, row-major. device: as in asdlpack. readonly: whether consumers must not write.
owner: any object that keeps the memory alive; it is held until the DLPackObject and all that was exported from it
are gone. Without an owner the caller keeps the memory alive; a ctypes pointer is held itself.
stream: the stream on which a GPU's memory is written (1: CUDA's legacy default stream, 2: its per-thread default
stream, a handle, or what has __cuda_stream__), for which consumers' streams wait; None: the work on the memory
is complete.

Raises ValueError for NULL with elements, where shape and strides reach beyond the addresses that there are, or
where the CUDA driver does not know the address on that device, and BufferError for a misaligned address, and
where no CUDA driver runs in this process.

>>> import ctypes
>>> memory = (ctypes.c_float * 6)(1, 2, 3)
>>> x = from_pointer(ctypes.addressof(memory), (2, 3), "float32", owner=memory)
>>> memoryview(x).tolist()
[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]""",
    "copy_into": """\
copy_into(source, target)
--

Copy the items of any memory into memory that is there already: copy_into(received, numpy_array[:, 0]).

The source comes first, the target second; numpy.copyto has them the other way round. Both may be given by name.

source: anything that asdlpack takes. target: the same, where it may be written, such as a numpy array, a bytearray, a
torch tensor or a DLPackObject; it stays where it is, and is locked meanwhile. Both have the same shape (elements) and
data type: nothing is repeated and nothing is converted, as numpy.copyto would. Strides and byte order may differ (a
big-endian array of numpy is of its type's native kind), also where the two overlap: the target gets what the source was
before. Items of less than a byte are packed, or get a byte each, as the target has them, if both are on the CPU. Either
may be on the CPU or on CUDA; there the target has to be compact, row-major. Work that is queued on their streams is
done before, and the items are there when copy_into returns. Nothing is kept of either; a capsule is used up. A large
copy uses several processors, and lets other threads run.

Raises TypeError where one shares no memory, ValueError where their shapes or data types differ, and BufferError where
the target is read-only, has items that overlap each other, gives a copy of its memory, or where the copy can't be done;
each says which of the two is to blame.

>>> import numpy
>>> table = numpy.zeros((2, 3), "uint8")
>>> copy_into(b"ab", table[:, 1])
>>> table.tolist()
[[0, 97, 0], [0, 98, 0]]""",
    "DLPackObject": """\
Memory of another object, to be taken by any from_dlpack, and by what knows buffers, array interfaces or Arrow.
Made by asdlpack, frombuffer and from_pointer.

It holds one reference that keeps the memory alive and locked; each capsule made from it holds one to it.

>>> memory = bytearray(4)
>>> x = asdlpack(memory)
>>> print(x)
<dlpack.DLPackObject: uint8[4] at 0x..., 4 bytes on kDLCPU:0, from bytearray by buffer>
>>> memory.append(5)
Traceback (most recent call last):
BufferError: Existing exports of data: object cannot be re-sized
>>> del x
>>> memory.append(5)""",
    "__dlpack__": """\
__dlpack__($self, stream=None, *, max_version=None, dl_device=None, copy=None)
--

A capsule with this memory, as the array API standard says.

"dltensor_versioned" where max_version is (1, 0) or later, otherwise "dltensor". The capsule keeps the memory
alive until its consumer calls the deleter. Raises BufferError for a device or copy that can't be served, and
ValueError for a stream that the device does not have.""",
    "__dlpack_device__": """\
__dlpack_device__($self)
--

(device type, device id) as ints.""",
    "__arrow_c_array__": """\
__arrow_c_array__($self, requested_schema=None)
--

(schema capsule, array capsule) of the Arrow PyCapsule interface, for compact memory of the CPU.

More than one dimension goes out as arrow.fixed_shape_tensor, bool as arrow.bool8. requested_schema is ignored,
as the interface allows. Raises BufferError where Arrow can't describe the memory.""",
    "_inspect": "(name, tensor or None) of a capsule, for dlpack.describe, without consuming it.",
    "_connect": "Hands down, by name, what the extension calls of Python.",
    "_import": "The tensor of a capsule that the producer of a DLPackObject gave; or the error.",
    "_read_by_others": "(protocol, tensor) of a producer by what it speaks besides __dlpack__.",
    "_producer_calls": "How many calls of producers by this thread have not ended, also of greenlets that wait.",
    "_register_structures": "Tells asdlpack the function of dlpack.structs that reads its structures, and their types.",
    "_structure_reader": "That function for such a structure, or a ctypes pointer to one; None for any other object.",
    "_share_structure": "The tensor of a structure, for dlpack.structs.",
    "_start_copy": "Starts the Go core from a copy of its file; says what failed.",
    "_stop_deleters": "From now on, no deleter begins to use Python. Whether some still do.",
    "_core_calls": "How many calls into the Go core this process has made.",
}


def doc(name: str) -> str:
    return DOCS[name]
