package protocol

// Why a data type can't be exported, as errors about typestrs and formats say it. What to do instead depends on the
// object: dlpack._errors adds that.
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
