// Package protocol reads how Python's protocols name data types, and tells what they call a type.
//
// There is a parser for each way in which an item is described:
//
//   - [ParseTypestr]: the typestr of the array interfaces, "<f4"
//   - [ParseFormat]: the format of the buffer protocol (PEP 3118), "(2,3)d"
//   - [ParseArrow]: the format of the Arrow C data interface, "g"
//   - [ParseName]: the names that array libraries print, "bfloat16"
//
// The first three give a [dlpack.Item]: the data type, and what else the text says of an item. A name says the type
// alone. [NamesElsewhere] and [AppendName] are the way back.
//
// An error names the text, what was expected and the way out. Its kind is [dlpack.KindMalformed] for a text that means
// nothing, and [dlpack.KindUnsupported] for one that means what DLPack has no type for. Nothing here allocates for a
// good input. Native byte order is little-endian, as on every platform that is supported.
package protocol
