// Package protocol reads the names of data types in Python's protocols, and writes them.
//
// It has a parser for each way to describe an item:
//
//   - [ParseTypestr]: the typestr of the array interfaces, "<f4"
//   - [ParseFormat]: the format of the buffer protocol (PEP 3118), "(2,3)d"
//   - [ParseArrow]: the format of the Arrow C data interface, "g"
//   - [ParseName]: the names that array libraries print, "bfloat16"
//
// The first three return a [dlpack.Item]: the data type, and what else the text says of an item. A name gives the type
// alone. [NamesElsewhere] and [AppendName] turn a type into its names.
//
// An error is a [dlpack.Refusal] with the text. Its kind is [dlpack.ErrMalformed] for a text that means nothing, and
// [dlpack.ErrUnsupported] for a text that means a type which DLPack doesn't have. Valid input allocates nothing. The
// native byte order is little-endian, as on all supported platforms.
package protocol
