// Package dlpack is the DLPack standard in Go: its data types, devices and flags, and the rules by which a description
// of memory becomes a tensor.
//
// A protocol fills a [Description], whose fields nobody has checked. [Description.Validate] checks it once and fills a
// [Tensor], which every consumer can rely on. [CheckTarget], [CheckStream] and [CheckOrder] then decide whether the
// consumer can have the memory where it wants it, and in the order of its stream.
//
// An error has a [Kind], by which a program decides, and a text for people, which names the field, its value, what was
// expected and the way out. [Malformed] and its three siblings make such errors in other packages.
//
// Nothing here reads the memory that is described or keeps state. A good input allocates nothing.
package dlpack

// The version of DLPack whose codes and structures these are.
const (
	MajorVersion = 1
	MinorVersion = 3
)

// MaxNDim is the largest number of dimensions: numpy's and the buffer protocol's limit too.
const MaxNDim = 64

// Flags are the flags of a versioned tensor, the header's DLPACK_FLAG_BITMASK_*.
type Flags uint64

// The flags of DLPack 1.3.
const (
	ReadOnly          Flags = 1 << 0
	IsCopied          Flags = 1 << 1
	SubbyteTypePadded Flags = 1 << 2
)

// knownFlags are the flags of this version. Others are dropped: nobody here can tell whether they still hold.
const knownFlags = ReadOnly | IsCopied | SubbyteTypePadded
