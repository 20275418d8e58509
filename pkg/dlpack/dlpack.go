// Package dlpack is the DLPack standard in Go: its data types, devices and flags, and the rules by which a
// description of memory, of which nothing is trusted, becomes a tensor that every consumer can rely on.
//
// The way of the data: a protocol fills a [Description], [Description.Validate] checks it once and fills a [Tensor],
// and [CheckTarget], [CheckStream] and [CheckOrder] decide whether a consumer's wishes can be met. Nothing here allocates
// for a good input, reads the memory described, or keeps state.
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

// knownFlags are the flags of this version. Others are not passed on: what they promise may not hold of what leaves
// here.
const knownFlags = ReadOnly | IsCopied | SubbyteTypePadded
