package protocol

// Why a data type can't be exported, and the way out, as errors about typestrs and formats say it.
const (
	asBytes = "bytes: numpy.ascontiguousarray(obj).view('uint8') of a numpy array, else memoryview(obj).cast('B') or .tobytes()"

	asField = "pass a field of numbers of a numpy array, as obj['name'], or if it has no objects its " + asBytes

	noObjects = "Python objects; DLPack holds numbers (convert them: numbers by numpy.asarray(obj).astype('float64'), " +
		"complex ones by .astype('complex128'), times by .astype('datetime64[us]').view('int64'), arrays by numpy.stack(obj))"
	noText = "text; DLPack holds numbers (pass its " + asBytes + "; of text of numbers in a numpy array " +
		"numpy.asarray(obj).astype('float64'))"
	noBitField  = "bit field; DLPack has no such items (its producer can describe the bytes, as \"|u1\")"
	noStructure = "a structure; DLPack has one data type (" + asField + ")"
	noPadding   = "padding; DLPack has one data type (" + asField + ")"
	noPointers  = "pointers; DLPack holds numbers (what one points to: from_pointer; their addresses: " +
		"memoryview(memoryview(obj).tobytes()).cast('Q'))"
	noLongDouble  = "80-bit or other long double; DLPack has float64 (" + asFloat64 + ")"
	noLongComplex = "80-bit or other long double; DLPack has complex128 (pass numpy.asarray(obj).astype('complex128'))"

	asFloat64 = "pass numpy.asarray(obj).astype('float64'), or of ctypes " +
		"numpy.frombuffer(memoryview(obj).tobytes(), 'g').astype('float64')"
)
