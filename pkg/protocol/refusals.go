package protocol

// Why a data type can't be exported, and the way out, as errors about typestrs and formats say it.
const (
	asBytes = "bytes, .view('uint8') of an array or memoryview(obj).cast('B')"

	noObjects   = "Python objects; DLPack holds numbers (convert them, as with .astype('float64'))"
	noText      = "text; DLPack holds numbers (pass its " + asBytes + ")"
	noBitField  = "bit field; DLPack has no such items (pass its " + asBytes + ")"
	noStructure = "a structure; DLPack has one data type (pass a field of it, or its " + asBytes + ")"
	noPadding   = "padding; DLPack has one data type (pass a field of it, or its " + asBytes + ")"
	noPointers  = "pointers; DLPack holds numbers (what one leads to: from_pointer; as integers: " +
		"memoryview(obj).cast('B').cast('Q'))"
	noLongDouble  = "80-bit or other long double; DLPack has float64 (convert with .astype('float64'))"
	noLongComplex = "80-bit or other long double; DLPack has complex128 (convert with .astype('complex128'))"
)
