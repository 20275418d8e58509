"""The docstrings of the functions and methods that are written in C. Those for users begin with the signature."""

from ._foreign import IN_WORDS

DOCS = {
    "asdlpack": f"""\
asdlpack(obj, /, *, copy=False, device=None, align=None, owner=None, readonly=None)
--

Share the memory of any object as a DLPackObject. Pass that to any from_dlpack() (for tensorflow, pass its
__dlpack__()). Libraries without DLPack can use it as a buffer, by the array interfaces, or by Arrow.

asdlpack uses the first of these that obj is or has: a DLPack capsule (which is consumed, so it can't be used
again), a ctypes pointer to a structure of dlpack.structs, {", ".join(IN_WORDS[:3])},
{", ".join(IN_WORDS[3:])}.
The memory stays alive and locked until the DLPackObject and everything exported from it are gone.

copy: False never copies. None copies only memory that can't be shared as it is (another byte order, strides
that aren't a multiple of the item size, misaligned data, bit-packed booleans, several chunks, the columns of a
table, which become a matrix). True always copies. A copy is contiguous (row-major), 64-byte aligned, writable,
and complete when asdlpack returns. If obj has __dlpack__, copy=None copies once, at the first use.

device: the device that the memory shall be on: "cpu", "cuda:1", (device type, device id), a device of torch, jax or
cupy, or an object with __dlpack_device__, such as an array. None leaves the memory on its device. The CPU can read
CUDA's pinned and managed memory, so device="cpu" shares that zero-copy. A copy between the CPU and CUDA, or between
CUDA devices, needs copy=None or True.

align: a power of two up to 64; the address has to be a multiple of it, else asdlpack raises BufferError, or copies
with copy=None. jax copies memory that isn't 64-byte aligned, and apache-tvm refuses it.

owner: any object, for memory that dies with another object than obj. It is kept alive until the DLPackObject and
everything exported from it are gone; a copy made by this call keeps none.

readonly: True exports the memory as read-only (a legacy capsule can't say so; torch, paddle and tvm-ffi ignore it).
False needs writable memory: asdlpack raises BufferError for read-only memory and for legacy capsules, or copies them
with copy=None. None leaves it as it is.

With align, owner or readonly, an object with __dlpack__ is exported at once, and consumers get that memory.

A DLManagedTensor or DLManagedTensorVersioned is taken over through the pointer, which becomes NULL. Its deleter
is called exactly once, also if the tensor is refused. The structure has to live until then: a ctypes pointer
keeps its target alive, so don't point it elsewhere. A DLTensor is borrowed: its memory must live until everything
exported from it is gone, so pass its owner.

Raises TypeError if obj has none of the protocols, ValueError if its description contradicts itself, and
BufferError if the memory can't be exported. An object with __dlpack__ is exported at its first use, so its refusals
raise there, but for numpy's arrays of objects.

>>> import numpy
>>> x = asdlpack(b"Hello!")
>>> x.shape, x.dtype, x.readonly
((6,), 'uint8', True)
>>> numpy.from_dlpack(x)
array([ 72, 101, 108, 108, 111,  33], dtype=uint8)""",
    "frombuffer": """\
frombuffer(obj, /, dtype, shape=None, *, offset=0, strides=None, copy=False, device=None, align=None, owner=None,
           readonly=None)
--

Share the bytes of an object as a DLPackObject of the data type and shape that you name.

obj: an object with the buffer protocol, a multiprocessing.shared_memory.SharedMemory, or any other that asdlpack
accepts, except capsules and pointers. Its memory must be contiguous (row-major), and is read as bytes, whatever its
type. So are Arrow's items of a fixed number of bytes.
dtype: a name ("bfloat16", "float8_e4m3fn", "float4_e2m1fnx2"; "f4", "fp32", "torch.float32" and safetensors' "BF16"
and "F8_E4M3" work as well), a typestr (">f4"), an object of numpy, ml_dtypes, torch, jax or tensorflow that carries
one, or an object with __dlpack_data_type__, such as paddle's. "int4" is packed, as in DLPack; ml_dtypes.int4 and
torch.int4 use a byte per item, as in those libraries. The dtype of a DLPackObject means what the object has.
shape: elements, an int or any sequence of ints. One may be -1, which infers that dimension. None means (-1,).
offset: bytes from the beginning of obj.
strides: elements, not bytes.
copy: as in asdlpack; misaligned data needs copy=None.
device, align, owner, readonly: as in asdlpack.

The memory stays alive and locked until the DLPackObject and everything exported from it are gone.

Raises TypeError if obj has no memory, ValueError if shape, strides and offset reach beyond the memory, and
BufferError if the memory can't be exported so.

>>> x = frombuffer(bytes(14), "bfloat16", (2, -1), offset=2)
>>> x.shape, x.dtype
((2, 3), 'bfloat16')""",
    "from_pointer": """\
from_pointer(pointer, /, shape, dtype, *, strides=None, device='cpu', readonly=False, owner=None, stream=None)
--

Share memory at an address as a DLPackObject. Nothing is copied, and on the CPU nothing can check the address.

pointer: the address of the first element, an int or a ctypes pointer.
shape: elements, an int or any sequence of ints. A pointer has no length, so None and -1 are refused.
dtype: as in frombuffer.
strides: elements, not bytes. None means contiguous (row-major).
device: as in asdlpack.
readonly: True if consumers must not write.
owner: any object that keeps the memory alive. It is held until the DLPackObject and everything exported from it are
gone. Without an owner the caller has to keep the memory alive; a ctypes pointer is itself held.
stream: the stream on which a GPU's memory is written; consumers' streams wait for it. 1 is CUDA's legacy default
stream, 2 its per-thread default stream; else a handle, or an object with __cuda_stream__. None: the work on the
memory is complete.

Raises ValueError for NULL with elements, if shape and strides reach beyond the address space, or if the CUDA
driver does not know the address on that device. Raises BufferError for a misaligned address, and if no CUDA driver
runs in this process.

>>> import ctypes
>>> memory = (ctypes.c_float * 6)(1, 2, 3)
>>> x = from_pointer(ctypes.addressof(memory), (2, 3), "float32", owner=memory)
>>> memoryview(x).tolist()
[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]""",
    "to": """\
to(obj, target, /, *, device=None, copy=None)
--

Return the memory of any object as another library's own array: to(obj, "torch") is a torch.Tensor.

obj: anything that asdlpack accepts.
target: a library (numpy, torch, jax, tensorflow, cupy, paddle, mlx, tvm_ffi, pyarrow, polars), its name, its array
type or one of its arrays; or memoryview or bytes. pyarrow gives a pyarrow.Array, pyarrow.Tensor a Tensor.
device: as in asdlpack; it allows the copy to another device. None never moves memory: if target is an array on
another device, to raises.
copy: None shares the memory, and copies it only if the library can't use it as it is: for its strides or address,
or because it is read-only, and torch, paddle, tvm_ffi and cupy would write to it. False never copies. True always
copies.

An array of the target's library, or of a subclass, is returned itself, unless copy=True or device needs another.
numpy's masked arrays are refused, and with copy=True torch's tensors that require grad: pass tensor.detach().
The values stay the same: to raises if jax or mlx would make 32 bits of 64.

Raises TypeError for an unknown target, ImportError if its library can't be imported, BufferError if the library
can't use the memory, and what asdlpack raises for obj.

>>> import numpy
>>> memory = bytearray(b"shared")
>>> array = to(memory, numpy)
>>> array[0] = ord("S")
>>> memory
bytearray(b'Shared')""",
    "copy_into": """\
copy_into(source, target)
--

Copy the items of any memory into existing memory: copy_into(received, numpy_array[:, 0]).

The source comes first, the target second; numpy.copyto has the opposite order. Both may be passed by name.

source: anything that asdlpack accepts.
target: the same, if it is writable, such as a numpy array, a bytearray, a torch tensor or a DLPackObject. It is
written in place, and locked meanwhile.

Both need the same shape (elements) and data type: unlike numpy.copyto, copy_into repeats and converts nothing.
Strides and byte order may differ; a big-endian numpy array counts as its native type. The two may overlap: the target
gets the items that the source had before. Items of less than a byte are stored as the target stores them: packed
("int4"), in pairs ("int4x2", half as many in the last dimension), or, if both are on the CPU, one per byte
(ml_dtypes.int4). Either may be on the CPU or on CUDA; a target on CUDA has to be contiguous (row-major). copy_into
waits for work queued on their streams, and returns when the items are copied. It keeps no reference to either; a
capsule is consumed. A large copy uses several processors, and lets other threads run.

Raises TypeError if one of the two shares no memory, ValueError if their shapes or data types differ, and BufferError
if the target is read-only, has items that overlap each other, or exports a copy of its memory, or if the copy can't
be done. Each error says whether the source or the target is to blame.

>>> import numpy
>>> table = numpy.zeros((2, 3), "uint8")
>>> copy_into(b"ab", table[:, 1])
>>> table.tolist()
[[0, 97, 0], [0, 98, 0]]""",
    "DLPackObject": """\
Memory of another object, for any from_dlpack(), and for libraries that use buffers, array interfaces or Arrow.
Returned by asdlpack, frombuffer, from_pointer, memmap and shared.

It holds one reference that keeps the memory alive and locked. Each capsule made from it holds a reference to it.

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

Return a capsule with this memory, as the array API standard defines it.

Its name is "dltensor_versioned" if max_version is (1, 0) or later, otherwise "dltensor". The capsule keeps the
memory alive until its consumer calls the deleter. Raises BufferError for a device or copy that isn't available, and
ValueError for a stream that the device does not have.""",
    "__dlpack_device__": """\
__dlpack_device__($self)
--

Return (device type, device id) as ints.""",
    "__arrow_c_array__": """\
__arrow_c_array__($self, requested_schema=None)
--

Return (schema capsule, array capsule) of the Arrow PyCapsule interface, for contiguous (row-major) CPU memory.

Memory of several dimensions is exported as arrow.fixed_shape_tensor, bool as arrow.bool8. requested_schema is
ignored, as the interface allows. Raises BufferError if Arrow can't describe the memory.""",
    "__arrow_c_device_array__": """\
__arrow_c_device_array__($self, requested_schema=None, **kwargs)
--

Return (schema capsule, device array capsule), as __arrow_c_array__ does, for memory of the CPU or of CUDA.

Waits until the work on CUDA memory has ended; sync_event is NULL. Raises NotImplementedError for a keyword that
is not None, as the interface says.""",
    "_inspect": "Returns (name, tensor or None) of a capsule, for dlpack.describe, without consuming it.",
    "_connect": "Gives the extension, by name, the Python functions that it calls.",
    "_import": "Imports a capsule from the producer of a DLPackObject; returns the tensor, or the error.",
    "_read_by_others": "Reads a producer by another protocol than __dlpack__; returns (protocol, tensor).",
    "_producer_calls": "Counts this thread's unfinished calls of producers, with those of waiting greenlets.",
    "_register_structures": "Registers the function of dlpack.structs that reads its structures, and their types.",
    "_structure_reader": "Returns the registered function if obj is a structure or a ctypes pointer to one; else None.",
    "_share_structure": "Returns the tensor of a structure, for dlpack.structs.",
    "_keep": "Returns a new object of a DLPackObject's memory that keeps another object alive, or is read-only.",
    "_start_copy": "Starts the Go core from a copy of its file; returns what failed.",
    "_stop_deleters": "Lets no more deleters begin to use Python; returns True while some still use it.",
    "_core_calls": "Counts the calls into the Go core that this process has made.",
}


def doc(name: str) -> str:
    return DOCS[name]
