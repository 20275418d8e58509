package protocol

// Reasons why a data type can't be exported, for errors about typestrs and formats. The hint depends on the object:
// Python adds it, from dlpack._ways_out.
const (
	noObjects     = "Python objects; DLPack holds numbers"
	noText        = "text; DLPack holds numbers"
	noTimes       = "times; DLPack holds numbers"
	noBitField    = "bit field; DLPack has no such items"
	noStructure   = "a structure; DLPack has one data type"
	noPadding     = "padding; DLPack has one data type"
	noPointers    = "pointers; DLPack holds numbers"
	noLongDouble  = "80-bit or other long double; DLPack has float64"
	noLongComplex = "80-bit or other long double; DLPack has complex128"
)
