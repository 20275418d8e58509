package protocol

// Why a data type can't be exported, and the way out: what typestrs and formats have in common.
const (
	noObjects     = "Python objects; DLPack holds numbers (convert them, as with .astype('float64'))"
	noText        = "text; DLPack holds numbers (pass its bytes, .view('uint8'))"
	noBitField    = "bit field; DLPack has no such items (pass its bytes, .view('uint8'))"
	noStructure   = "a structure; DLPack has one data type (pass a field of it, or its bytes, .view('uint8'))"
	noLongDouble  = "80-bit or other long double; DLPack has float64 (convert with .astype('float64'))"
	noLongComplex = "80-bit or other long double; DLPack has complex128 (convert with .astype('complex128'))"
)
