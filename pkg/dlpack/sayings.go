package dlpack

// The words of refusals are in Python, in dlpack._sayings, under the keys below. tests/functions/test_refusals.py
// compares the two.

// A Saying is the key of what a refusal says.
type Saying string

// Problems of descriptions.
const (
	UnknownCode       Saying = "unknown-code"
	NoLanes           Saying = "no-lanes"
	WrongBits         Saying = "wrong-bits"
	UnknownDevice     Saying = "unknown-device"
	UnnamedDevice     Saying = "unnamed-device"
	NegativeDeviceID  Saying = "negative-device-id"
	WrongNDim         Saying = "wrong-ndim"
	ShapeIsNull       Saying = "shape-is-null"
	StridesLength     Saying = "strides-length"
	NegativeDimension Saying = "negative-dimension"
	TooLarge          Saying = "too-large"
	OffsetBeyondSpan  Saying = "offset-beyond-span"
	SecondOpen        Saying = "second-open"
	OpenOfUnknown     Saying = "open-of-unknown"
	OpenBesideStrides Saying = "open-beside-strides"
	OpenBesideZero    Saying = "open-beside-zero"
	IndivisibleItems  Saying = "indivisible-items"
	IndivisibleGroups Saying = "indivisible-groups"
	DataIsNull        Saying = "data-is-null"
	TooFarElements    Saying = "too-far-elements"
	TooFarBytes       Saying = "too-far-bytes"
	OffsetBeyondLast  Saying = "offset-beyond-last"
	ReachBeyondLast   Saying = "reach-beyond-last"
	BeyondSpan        Saying = "beyond-span"
	NullItems         Saying = "null-items"
	NullRows          Saying = "null-rows"
	PackedStrides     Saying = "packed-strides"
	PackedBitsStrides Saying = "packed-bits-strides"
	PaddedLanes       Saying = "padded-lanes"
	BigEndian         Saying = "big-endian"
	BitPacked         Saying = "bit-packed"
	OddStrides        Saying = "odd-strides"
	Misaligned        Saying = "misaligned"
	Indirect          Saying = "indirect"
	FormatDimensions  Saying = "format-dimensions"
	InterfaceVersion  Saying = "interface-version"
	InterfaceTooNew   Saying = "interface-too-new"
	Mask              Saying = "mask"
	OffsetFromAddress Saying = "offset-from-address"
)

// Problems of devices, streams and copies.
const (
	CPUHasNoStreams   Saying = "cpu-has-no-streams"
	NoSuchStream      Saying = "no-such-stream"
	NoSuchProducer    Saying = "no-such-producer-stream"
	OrderOfStream     Saying = "order-of-stream"
	OrderOfNoStream   Saying = "order-of-no-stream"
	OrderOfEvent      Saying = "order-of-event"
	NoCopyTo          Saying = "no-copy-to"
	CopyForbidden     Saying = "copy-forbidden"
	NoCopyFrom        Saying = "no-copy-from"
	NoCopyBetween     Saying = "no-copy-between"
	WrongDevice       Saying = "wrong-device"
	NoMemory          Saying = "no-memory"
	NoMemoryFor       Saying = "no-memory-for"
	NoHostMemory      Saying = "no-host-memory"
	Unreadable        Saying = "unreadable"
	Unwritable        Saying = "unwritable"
	TypesDiffer       Saying = "types-differ"
	SmallTypesDiffer  Saying = "small-types-differ"
	ShapesDiffer      Saying = "shapes-differ"
	LanesDiffer       Saying = "lanes-differ"
	RepeatedItems     Saying = "repeated-items"
	OverlappingItems  Saying = "overlapping-items"
	NotCompact        Saying = "not-compact"
	PartOfByte        Saying = "part-of-byte"
	ChunksChanged     Saying = "chunks-changed"
	NoDriver          Saying = "no-driver"
	DriverNotRunning  Saying = "driver-not-running"
	DriverNotStarted  Saying = "driver-not-started"
	DevicesNotCounted Saying = "devices-not-counted"
	DeviceNotTold     Saying = "device-not-told"
	UnknownToDriver   Saying = "unknown-to-driver"
	NoSuchDevice      Saying = "no-such-device"
	NotCopied         Saying = "not-copied"
	NotOrdered        Saying = "not-ordered"
	NotFinished       Saying = "not-finished"
	EventNotAwaited   Saying = "event-not-awaited"
	EventUnreadable   Saying = "event-unreadable"
	NoHandle          Saying = "no-handle"
	Capturing         Saying = "capturing"
	SwappedOnDevice   Saying = "swapped-on-device"
	ScatteredOnDevice Saying = "scattered-on-device"
)

// Problems of texts that name a data type.
const (
	UnknownName        Saying = "unknown-name"
	Objects            Saying = "objects"
	TextItems          Saying = "text"
	TextOfAnyLength    Saying = "text-of-any-length"
	Times              Saying = "times"
	Intervals          Saying = "intervals"
	BitField           Saying = "bit-field"
	Structure          Saying = "structure"
	Padding            Saying = "padding"
	Pointers           Saying = "pointers"
	LongDouble         Saying = "long-double"
	LongComplex        Saying = "long-complex"
	BytesItems         Saying = "bytes"
	BytesOfAnyLength   Saying = "bytes-of-any-length"
	NullsAlone         Saying = "nulls-alone"
	Decimals           Saying = "decimals"
	Lists              Saying = "lists"
	Maps               Saying = "maps"
	Unions             Saying = "unions"
	RunEnds            Saying = "run-ends"
	WideIntegers       Saying = "wide-integers"
	Dictionary         Saying = "dictionary"
	MalformedTypestr   Saying = "malformed-typestr"
	UnknownKind        Saying = "unknown-kind"
	BehindTypestr      Saying = "behind-typestr"
	SwappedComplex     Saying = "swapped-complex"
	NoByteOrder        Saying = "no-byte-order"
	BytesWithoutName   Saying = "bytes-without-name"
	NamedStructure     Saying = "named-structure"
	NamedItemSize      Saying = "named-itemsize"
	NoSuchItemSize     Saying = "no-such-itemsize"
	SubArrayDimension  Saying = "sub-array-dimension"
	SubArrayDimensions Saying = "sub-array-dimensions"
	SubArrayNumber     Saying = "sub-array-number"
	UnknownComplex     Saying = "unknown-complex"
	UnknownLetter      Saying = "unknown-letter"
	FormatSize         Saying = "format-size"
	FormatTooLarge     Saying = "format-too-large"
	MalformedList      Saying = "malformed-list"
	UnknownArrow       Saying = "unknown-arrow"
)

// Problems of Arrow's structures.
const (
	Chunks           Saying = "chunks"
	NoColumns        Saying = "no-columns"
	Columns          Saying = "columns"
	ColumnTypes      Saying = "column-types"
	ListColumn       Saying = "list-column"
	NullStructures   Saying = "null-structures"
	Released         Saying = "released"
	ArrowNull        Saying = "arrow-null"
	ArrowValue       Saying = "arrow-value"
	ArrowLength      Saying = "arrow-length"
	ArrowPairs       Saying = "arrow-pairs"
	ArrowPair        Saying = "arrow-pair"
	ArrowTooLarge    Saying = "arrow-too-large"
	ArrowOffset      Saying = "arrow-offset"
	ArrowNested      Saying = "arrow-nested"
	ArrowUnreadable  Saying = "arrow-unreadable"
	BitmapUnreadable Saying = "bitmap-unreadable"
	NullsOnDevice    Saying = "nulls-on-device"
	BitsOnDevice     Saying = "bits-on-device"
	NoEvent          Saying = "no-event"
	TensorMetadata   Saying = "tensor-metadata"
	TensorLengths    Saying = "tensor-lengths"
	TensorDimensions Saying = "tensor-dimensions"
	TensorSize       Saying = "tensor-size"
	TensorOrder      Saying = "tensor-order"
)

// Bug is what a panic says. It has one value, text.
const Bug Saying = "bug"

// A Subject is the key of what stands before a saying.
type Subject string

// The subjects.
const (
	OfSource     Subject = "source"
	OfTarget     Subject = "target"
	OfDevice     Subject = "device"      // the value target is the name of the device that is asked for
	OfDeviceType Subject = "device-type" // target is a device of a type without a name
	OfCopy       Subject = "copy"        // from and to are devices
	OfColumn     Subject = "column"      // column is its name
)

// A Cure is the key of what helps.
type Cure string

// The cures.
const (
	Copy               Cure = "copy"
	Convert            Cure = "convert"
	CopyBytes          Cure = "copy-bytes"
	CopyBytesStrided   Cure = "copy-bytes-strided"
	CopyBytesBelow     Cure = "copy-bytes-below"
	CopyWithLibrary    Cure = "copy-with-library"
	CopyWithLibraries  Cure = "copy-with-libraries"
	CopyToHost         Cure = "copy-to-host"
	CopyByOwner        Cure = "copy-by-owner"
	CopyChunks         Cure = "copy-chunks"
	JoinWithLibrary    Cure = "join-with-library"
	CastWithLibrary    Cure = "cast-with-library"
	FillNulls          Cure = "fill-nulls"
	CopyColumns        Cure = "copy-columns"
	CopyPointers       Cure = "copy-pointers"
	CopyIfNeeded       Cure = "copy-if-needed"
	CompactWithLibrary Cure = "compact-with-library"
	CompactByOwner     Cure = "compact-by-owner"
	NativeOrder        Cure = "native-order"
	OneLane            Cure = "one-lane"
	GiveLength         Cure = "give-length"
	CountUnits         Cure = "count-units"
	AddOffset          Cure = "add-offset"
	Synchronise        Cure = "synchronise"
	BesideCapture      Cure = "beside-capture"
	PassDevice         Cure = "pass-device"
	NameType           Cure = "name-type"
	Nearest            Cure = "nearest"
	NoFloat16          Cure = "no-float16"
	Repack             Cure = "repack"
	Reinterpret        Cure = "reinterpret"
	FirstItems         Cure = "first-items"
	Broadcast          Cure = "broadcast"
	OneItem            Cure = "one-item"
	FillByte           Cure = "fill-byte"
)

// Copies reports whether the cure is to use a copy in place of the memory.
func (c Cure) Copies() bool {
	switch c {
	case Copy, Convert, CopyBytes, CopyBytesStrided, CopyBytesBelow, CopyWithLibrary, CopyChunks, CopyColumns,
		CopyPointers, NativeOrder, OneLane:
		return true
	}
	return false
}

// A Word is the key of words within a saying or a cure.
type Word string

// The words.
const (
	Nothing           Word = "nothing"
	Host              Word = "host"
	Missing           Word = "missing"
	StreamsOfCUDA     Word = "streams-of-cuda"
	StreamsOfROCm     Word = "streams-of-rocm"
	Streams           Word = "streams"
	CallFailed        Word = "call-failed"
	CallMissing       Word = "call-missing"
	CallForked        Word = "call-forked"
	UnreadableHandle  Word = "unreadable-handle"
	NotNegative       Word = "not-negative"
	SchemaChildren    Word = "schema-children"
	OneBuffer         Word = "one-buffer"
	TwoBuffers        Word = "two-buffers"
	UnknownOrMore     Word = "unknown-or-more"
	NoneWithoutBitmap Word = "none-without-bitmap"
	TextOfFormat      Word = "text-of-format"
	BufferPointers    Word = "buffer-pointers"
	ChildSchemas      Word = "child-schemas"
	ChildArrays       Word = "child-arrays"
	Schema            Word = "schema"
	Array             Word = "array"
	Source            Word = "source"
	SourceBytes       Word = "source-bytes"
	SourceCopy        Word = "source-copy"
	Target            Word = "target"
	TargetShape       Word = "target-shape"
	MayCopy           Word = "may-copy"
)
