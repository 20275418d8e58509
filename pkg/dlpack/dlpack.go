// Package dlpack is the DLPack standard in Go: its data types, devices and flags, and the rules that turn a description
// of memory into a tensor.
//
// A protocol fills a [Description], whose fields are not trusted. [Description.Validate] checks it once and fills a
// [Tensor], which every consumer can rely on. [CheckTarget], [CheckStream] and [CheckOrder] then decide whether the
// consumer can have the memory on its device and in the order of its stream.
//
// An error is a [Refusal]: data, which Python puts into words. It has a [Kind], on which a program decides, and names
// what is wrong, with which values, and what helps. Other packages make refusals with [Malformed], [Unsupported],
// [NeedsCopy] and [OutOfMemory].
//
// The package never reads the described memory and keeps no state. Valid input allocates nothing.
package dlpack

// The version of DLPack that versioned capsules have, and the structures are from. core.h's dlpack.h has the same, or the
// core does not compile.
const (
	MajorVersion = 1
	MinorVersion = 3
)

// MaxNDim is the largest number of dimensions. numpy and the buffer protocol have the same limit.
const MaxNDim = 64

// Flags are a versioned tensor's flags, the header's DLPACK_FLAG_BITMASK_*.
type Flags uint64

// The header's flags.
const (
	ReadOnly          Flags = 1 << 0
	IsCopied          Flags = 1 << 1
	SubbyteTypePadded Flags = 1 << 2
)

// knownFlags are the flags of this version. Others are dropped, since nothing here can tell whether they still hold.
const knownFlags = ReadOnly | IsCopied | SubbyteTypePadded
