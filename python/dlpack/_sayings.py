"""Put the refusals of the Go core into words: it sends them as data, by the keys of pkg/dlpack/sayings.go.

Loaded at the first refusal.
"""

from __future__ import annotations

import os

from ._refusals import Cure, pass_copy, refusal_with

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this package
if TYPE_CHECKING:
    from typing import Any

# Texts before a saying.
SUBJECTS = {
    "": "",
    "source": "source: ",
    "target": "target: ",
    "device": "device {target}: ",
    "device-type": "{target}: ",
    "copy": "copy from {from} to {to}: ",
    "column": "column {column}: ",
}

# Texts that say what is wrong. {type} is the data type as the object or DLPack names it.
SAYINGS = {
    # descriptions
    "unknown-code": "{type}: unknown code; expected 0 to {most}",
    "no-lanes": "{type}: no lanes; expected 1 or more",
    "wrong-bits": "{type}: no such {name}; expected {expected} bits",
    "unknown-device": "device type is {device_type}; expected a DLDeviceType, 1 or more",
    "unnamed-device": "device type is {device_type}; expected a DLDeviceType, 1 to 4 or 7 to 21",
    "negative-device-id": "device id is negative: {id} on {device}",
    "wrong-ndim": "ndim is {ndim}; expected 0 to {most} dimensions",
    "shape-is-null": "shape is NULL; expected {ndim} dimensions, as ndim says",
    "strides-length": "strides has length {count}; expected {ndim}, one for each dimension of shape",
    "negative-dimension": "shape dimension {dimension} is negative: {length}",
    "too-large": "shape {shape} of items of {itemsize} bytes is too large; expected at most {most} bytes, an empty "
    "dimension counted as 1",
    "offset-beyond-span": "offset {offset} is beyond the end of data; expected at most its {span} bytes",
    "second-open": "shape dimension {dimension} is -1, beside another; expected at most one",
    "open-of-unknown": "shape dimension {dimension} is -1, which needs memory of a known size; expected the number of "
    "items",
    "open-beside-strides": "shape dimension {dimension} is -1, beside strides; expected the number of items",
    "open-beside-zero": "shape dimension {dimension} is -1, beside a dimension of 0, where any number fits; expected "
    "the number of items",
    "indivisible-items": "shape {shape}: the {bytes} bytes from offset {offset} on can't be divided into items of "
    "{size} {unit}",
    "indivisible-groups": "shape {shape}: the {bytes} bytes from offset {offset} on can't be divided into groups of "
    "{group} items of {size} {unit}",
    "data-is-null": "data is NULL; expected an address, since shape {shape} has items",
    "too-far-elements": "strides dimension {dimension} is {stride} elements, too far for {items} items; expected an "
    "extent within 2^64 addresses",
    "too-far-bytes": "strides dimension {dimension} is {stride} bytes, too far for {items} items; expected an extent "
    "within 2^64 addresses",
    "offset-beyond-last": "data {address} plus offset {offset} is beyond the last address",
    "reach-beyond-last": "data {address}: shape and strides reach from {below} bytes below to {above} above this "
    "address; expected addresses of 64 bits",
    "beyond-span": "data has {span} bytes; shape, strides and offset need bytes {from} to {to} of it",
    "null-items": "{type}: {nulls} of {items} items are null; DLPack has no nulls",
    "null-rows": "{type}: {nulls} rows are null; DLPack has no nulls",
    "packed-strides": "{type}: items of {size} bits share bytes, so that only a compact layout can be said",
    "packed-bits-strides": "{type}: items of a bit share bytes, so that only a compact layout can be said",
    "padded-lanes": "{type}: padded items of {lanes} lanes; DLPack doesn't say whether lanes are padded too",
    "big-endian": "{type}: big-endian; DLPack needs native byte order",
    "bit-packed": "{type}: bit-packed booleans; expected a byte an item",
    "odd-strides": "strides dimension {dimension} is {stride} bytes; expected a multiple of the item size of "
    "{itemsize} bytes",
    "misaligned": "data {address} is misaligned; expected a multiple of {alignment}",
    "indirect": "suboffsets: an indirect buffer is an array of pointers, and DLPack needs one piece of memory",
    "format-dimensions": "format has {own} dimensions of its own, {ndim} in all; expected at most {most}",
    "interface-version": "{protocol} version {version}; expected {oldest} to {newest}",
    "interface-too-new": "{protocol} version {version} or more; expected {oldest} to {newest}",
    "mask": "{protocol} has a mask, which DLPack can't say",
    "offset-from-address": "{protocol} offset {offset} beside an address; expected an offset only where data is a "
    "buffer",
    # devices, streams and copies
    "cpu-has-no-streams": "stream {stream}: memory of the CPU has no streams; expected None",
    "no-such-stream": "stream {stream}: {device} has no such stream; expected None, -1, {expected}",
    "no-such-producer-stream": "stream {stream}: {device} has no such stream; expected None (nothing is queued on the "
    "memory) or {expected}",
    "order-of-stream": "stream {stream}: the order of streams on {device} can't be kept",
    "order-of-no-stream": "stream None: the memory is written on stream {stream}, and the order of streams on "
    "{device} can't be kept",
    "order-of-event": "the memory is complete after an event, which can't be waited for on {device}",
    "no-copy-to": "the data is on {device}, and is copied between the CPU and CUDA alone",
    "copy-forbidden": "the data is on {device}, and copy=False forbids to copy it",
    "no-copy-from": "copy: memory on {device} can't be copied; expected memory of the CPU or of CUDA",
    "no-copy-between": "source is on {source}, target on {target}; expected both on the CPU or on CUDA",
    "wrong-device": "device {device}: the memory at {address} is on {found}",
    "no-memory": "copy: no memory",
    "no-memory-for": "copy: no memory for {bytes} bytes",
    "no-host-memory": "copy: no memory of the host for {bytes} bytes",
    "unreadable": "data: the memory at {address} can't be read; expected an address that is mapped",
    "unwritable": "the memory at {address} can't be written; expected an address that is mapped, and writable",
    "types-differ": "source is {source_dtype} {source_shape}, target is {target_dtype} {target_shape}; expected one "
    "data type, since nothing is converted",
    "small-types-differ": "source is {source_dtype} {source_shape}, target is {target_dtype} {target_shape}; expected "
    "one data type, packed, padded or in lanes, since no number is converted",
    "lanes-differ": "source is {source_dtype} {source_shape}, target is {target_dtype} {target_shape}; expected "
    "{expected} of the {single}",
    "shapes-differ": "source is {source_dtype} {source_shape}, target is {target_dtype} {target_shape}; expected one "
    "shape, since nothing is repeated",
    "repeated-items": "strides dimension {dimension} is 0: its {items} items are one; expected memory for each",
    "overlapping-items": "strides dimension {dimension} is {stride} bytes, and items reach over {reach}: items "
    "may overlap; expected memory for each",
    "not-compact": "{dtype} {shape} on {device} is not compact, row-major; expected such memory there",
    "part-of-byte": "{dtype} {shape} on {device} ends within a byte; expected whole bytes there",
    "chunks-changed": "chunks: their lengths or types changed while they were read; expected chunks that do not change",
    "no-driver": "CUDA memory needs the CUDA driver, which can't be opened ({why})",
    "driver-not-running": "the CUDA driver is not running in this process; the library that owns the memory starts it "
    "({why})",
    "driver-not-started": "the CUDA driver can't be initialised ({why})",
    "devices-not-counted": "the CUDA driver can't count its devices ({why})",
    "device-not-told": "data {address}: the CUDA driver can't tell its device ({why})",
    "unknown-to-driver": "data {address} is no address that the CUDA driver knows; expected memory allocated by or "
    "registered with CUDA, and not freed",
    "no-such-device": "device {device} is not there; the CUDA driver has {count}, counted from 0",
    "not-copied": "copy: {bytes} bytes can't be copied from {from} to {to} ({why})",
    "not-ordered": "the consumer's stream {consumer} can't be made to wait for the producer's stream {producer} "
    "({why})",
    "event-not-awaited": "the event that completes the memory can't be waited for ({why})",
    "event-unreadable": "the event that completes the memory is at {address}, which can't be read; expected a CUevent",
    "not-finished": "the producer's stream {producer} can't be waited for ({why})",
    "no-handle": "the {whose}'s stream {stream} is no stream's handle ({why}); expected 1 (legacy default "
    "stream), 2 (per-thread default stream) or the handle of a stream that exists",
    "capturing": "the {whose}'s stream {stream} is in the capture of a graph, whose work runs later: it can't wait "
    "for other work, nor other work for it",
    "swapped-on-device": "copy: a device can't reverse the bytes of items",
    "scattered-on-device": "copy: strides of {strides} bytes on {device}: CUDA's copies would move the items "
    "one by one, or in over {most} blocks",
    "unknown-name": '{type}: unknown; expected a name like "int32", "bfloat16" or "float32x4"',
    "objects": "{type}: Python objects; DLPack holds numbers",
    "text": "{type}: text; DLPack holds numbers",
    "text-of-any-length": "{type}: text of any length; DLPack holds numbers",
    "times": "{type}: times; DLPack holds numbers",
    "intervals": "{type}: times of several numbers; DLPack has one data type",
    "bit-field": "{type}: bit field; DLPack has no such items",
    "structure": "{type}: a structure; DLPack has one data type",
    "padding": "{type}: padding; DLPack has one data type",
    "pointers": "{type}: pointers; DLPack holds numbers",
    "long-double": "{type}: 80-bit or other long double; DLPack has float64",
    "long-complex": "{type}: 80-bit or other long double; DLPack has complex128",
    "bytes": "{type}: items that are bytes; DLPack holds numbers",
    "bytes-of-any-length": "{type}: bytes of any length; DLPack holds numbers",
    "nulls-alone": "{type}: nulls alone; DLPack holds numbers",
    "decimals": "{type}: decimals; DLPack has float64",
    "lists": "{type}: lists of any length; DLPack needs one length",
    "maps": "{type}: maps; DLPack has one data type",
    "unions": "{type}: a union; DLPack has one data type",
    "run-ends": "{type}: run-end encoded items; DLPack holds each item",
    "wide-integers": "{type}: integers of 128 bits, which Arrow has not; DLPack's consumers have 64",
    "dictionary": "{type}: dictionary-encoded items; DLPack holds numbers",
    "malformed-typestr": '{type}: malformed; expected byte order, kind and bytes, like "<f4"',
    "unknown-kind": "{type}: unknown kind; expected b, i, u, f or c",
    "behind-typestr": '{type}: malformed; expected nothing behind the bytes, like "<f4"',
    "swapped-complex": "{type}: ml_dtypes swaps the real and the imaginary part, too",
    "no-byte-order": '{type}: no byte order, for items of {size} bytes; expected "<" or ">"',
    "bytes-without-name": "{type}: bytes whose type has no name; expected one like bfloat16",
    "named-structure": "{type}: dtype {name} is a structure, or a type that DLPack doesn't have",
    "named-itemsize": "{type}: dtype {name} has an itemsize of {itemsize}; expected {expected}",
    "no-such-itemsize": "{type}: no such {name}; expected an item size of {expected}",
    "sub-array-dimension": '{type}: expected "," or ")" behind a dimension of a sub-array',
    "sub-array-dimensions": "{type}: too many dimensions; expected at most {most}",
    "sub-array-number": "{type}: expected a number of elements up to 2^63 - 1",
    "unknown-complex": "{type}: unknown complex number; expected Ze, Zf or Zd",
    "unknown-letter": "{type}: unknown or missing code; expected one of ?cbBhHiIlLqQnNefdFD, Ze, Zf or Zd",
    "format-size": "{type}: size {size}; expected the itemsize, {itemsize}",
    "format-too-large": "{type}: size more than {size}; expected the itemsize, {itemsize}",
    "malformed-list": '{type}: malformed; expected "+w:", a length, and one child',
    "unknown-arrow": "{type}: unknown; expected one of {expected}",
    # Arrow's structures
    "chunks": "{protocol}: 2 chunks or more; expected one",
    "no-columns": "{protocol}: 0 columns; DLPack holds one array",
    "columns": "{protocol}: {columns} columns: {names}; DLPack holds one array",
    "column-types": "{dtype}, where column {first} has {expected}; a matrix has one data type",
    "list-column": "lists of {length} items; a matrix needs numbers",
    "null-structures": "{protocol}: {nulls} of {items} items are null, which are structures of a column: {names}; "
    "DLPack holds one array",
    "released": "{protocol}: {field} is NULL; expected {what} that was not released or moved before",
    "arrow-null": "{protocol}: {field} is NULL; expected {expected}",
    "arrow-value": "{protocol}: {field} of the array of format {format} is {value}; expected {expected}",
    "arrow-length": "{protocol}: ArrowArray.length of the array of format {format} is {length}; expected {least} or "
    "more, which the array around it uses",
    "arrow-pairs": "{protocol}: the first number in ArrowSchema.metadata of the array of format {format} is {value}; "
    "expected 0 or more",
    "arrow-pair": "{protocol}: a length in ArrowSchema.metadata of the array of format {format} is {value}; expected "
    "0 or more",
    "arrow-too-large": "{protocol}: lengths, offsets and list sizes overflow 64 bits; expected what fits memory",
    "arrow-offset": "offset {offset} items is beyond the last address; expected an offset within the array's memory",
    "arrow-nested": "{protocol}: lists in lists, more than {most} dimensions; expected at most {most}",
    "arrow-unreadable": "{protocol}: {field} leads to {address}, which can't be read; expected an address that is "
    "mapped",
    "bitmap-unreadable": "{protocol}: the validity bitmap in {field} leads to {address}, which can't be read; "
    "expected an address that is mapped",
    "nulls-on-device": "{protocol}: null_count is {nulls}; expected 0, since no validity bitmap on {device} is read",
    "bits-on-device": "{type}: bit-packed booleans on {device}; expected a byte an item",
    "no-event": "{protocol}: ArrowDeviceArray.sync_event leads to the handle {address}; expected that of an event",
    "tensor-metadata": "arrow.fixed_shape_tensor: metadata is {found}; expected a JSON object, nested at most {most} "
    "deep",
    "tensor-lengths": "arrow.fixed_shape_tensor: shape is {found}; expected a list of lengths from 0 to 2^63 - 1",
    "tensor-dimensions": "arrow.fixed_shape_tensor: shape is {found}; expected at most {most} dimensions",
    "tensor-size": "arrow.fixed_shape_tensor: shape is {found}; expected the {items} items of its lists",
    "tensor-order": "arrow.fixed_shape_tensor: permutation is {found}; expected each of 0 to {last} once",
    "bug": "bug in dlpack's core, please report it: {text}",
}

# The reasons, for programs, of sayings whose key is not the reason. docs/errors.md lists all reasons.
REASONS = {
    "data-type": "unknown-code no-lanes wrong-bits unknown-name malformed-typestr unknown-kind behind-typestr "
    "no-byte-order no-such-itemsize sub-array-dimension sub-array-number unknown-complex unknown-letter "
    "malformed-list unknown-arrow",
    "unknown-device": "unnamed-device negative-device-id",
    "dimensions": "wrong-ndim format-dimensions sub-array-dimensions arrow-nested tensor-dimensions",
    "null-pointer": "shape-is-null arrow-null no-event",
    "negative-shape": "negative-dimension",
    "out-of-bounds": "offset-beyond-span beyond-span",
    "open-shape": "second-open open-of-unknown open-beside-strides open-beside-zero",
    "indivisible": "indivisible-items indivisible-groups",
    "beyond-addresses": "too-far-elements too-far-bytes offset-beyond-last reach-beyond-last arrow-offset",
    "types-differ": "small-types-differ",
    "shapes-differ": "lanes-differ",
    "nulls": "null-items null-rows nulls-alone null-structures nulls-on-device",
    "bit-packed": "bits-on-device",
    "packed": "packed-strides packed-bits-strides",
    "byte-order": "big-endian swapped-on-device swapped-complex",
    "interface-version": "interface-too-new",
    "stream": "cpu-has-no-streams no-such-stream no-such-producer-stream no-handle",
    "stream-order": "order-of-stream order-of-no-stream order-of-event",
    "other-device": "no-copy-to no-copy-from no-copy-between",
    "no-memory": "no-memory-for no-host-memory",
    "overlap": "repeated-items overlapping-items",
    "changed": "chunks-changed",
    "no-driver": "driver-not-running driver-not-started",
    "driver-failed": "devices-not-counted device-not-told not-copied not-ordered not-finished event-not-awaited",
    "capture": "capturing",
    "scattered": "scattered-on-device",
    "text": "text-of-any-length",
    "long-double": "long-complex",
    "bytes": "bytes-of-any-length bytes-without-name",
    "structure": "named-structure",
    "itemsize": "named-itemsize format-size format-too-large",
    "columns": "no-columns",
    "lists": "list-column",
    "arrow-structure": "arrow-value arrow-length arrow-pairs arrow-pair",
    "too-large": "arrow-too-large",
    "unreadable": "arrow-unreadable bitmap-unreadable event-unreadable",
    "arrow-tensor": "tensor-metadata tensor-lengths tensor-size tensor-order",
}
REASON_OF = {saying: reason for reason, sayings in REASONS.items() for saying in sayings.split()}

CURES = {
    "copy": "pass copy=None to copy",
    "convert": "pass copy=None to convert",
    "copy-bytes": "copy its bytes: frombuffer(ctypes.string_at(address, {reached}), dtype, shape, copy=None)",
    "copy-bytes-strided": "copy its bytes: frombuffer(ctypes.string_at(address, {reached}), dtype, shape, "
    "strides=strides, copy=None)",
    "copy-bytes-below": "copy its bytes: frombuffer(ctypes.string_at(address - {below}, {reached}), dtype, shape, "
    "offset={below}, strides=strides, copy=None)",
    "copy-with-library": "copy it with the library that owns it",
    "copy-with-libraries": "copy with the library that owns them",
    "copy-to-host": 'copy it with the library that owns it, or to the host: asdlpack(x, device="cpu", copy=None)',
    "copy-by-owner": "copy into a new array, and from there by the library that owns the target",
    "copy-chunks": "pass copy=None to copy them into one",
    "join-with-library": "join them with the library that owns them",
    "cast-with-library": "cast it to uint8 with the library that owns it",
    "fill-nulls": "fill the nulls with the library that owns it",
    "copy-columns": "pass copy=None to copy them into one matrix",
    "copy-pointers": "copy it: bytes(memoryview(obj))",
    "copy-if-needed": "pass copy=None",
    "compact-with-library": "make it compact with the library that owns it",
    "compact-by-owner": "copy to a compact one, and have the target's library move it, as target.copy_(compact)"
    " does in torch",
    "native-order": "pass obj.astype(obj.dtype.newbyteorder('='))",
    "one-lane": "pass one lane an item",
    "give-length": "give the length: the rest is then left out",
    "count-units": "strides count elements, offset bytes",
    "add-offset": "add it to the address",
    "synchronise": "synchronise before, and pass stream=-1, or name no stream where the memory is described",
    "beside-capture": "take the memory before or after the capture",
    "pass-device": "pass that device",
    "name-type": 'name a type that DLPack has: "int64" for times, "uint8" for any bytes',
    "nearest": "did you mean {names}?",
    "no-float16": 'of 16 bits "float16" or "<f2"; numpy\'s "f16" is a long double of 16 bytes, which DLPack doesn\'t '
    "have",
    "repack": "pack or pad the items on the CPU, by copy_into there",
    "reinterpret": "pass dlpack.frombuffer({object}, '{dtype}', {shape}{converted})",
    "first-items": "pass the first items: dlpack.frombuffer({object}, '{dtype}', {shape}{converted})",
    "broadcast": "pass numpy.broadcast_to(numpy.asarray(dlpack.asdlpack(source, copy=None)), {shape})",
    "one-item": "pass one of them, target[{first}], and as much of the source",
    "fill-byte": "pass as many items as fill the last byte",
}

# Cures that neither copy nor differ by the object.
SAFE = "compact-with-library give-length count-units add-offset synchronise beside-capture name-type nearest no-float16"
SAFE_CURES = {*SAFE.split(), "repack"}
PASS_COPY = "pass copy=None"
CAPSULE = "dlpack.asdlpack(source)"

# Words within the others.
WORDS = {
    "nothing": "",
    "host": "the host",
    "missing": "missing",
    "streams-of-cuda": "1 (legacy default stream), 2 (per-thread default stream) or a stream's handle",
    "streams-of-rocm": "0 (default stream) or a stream's handle",
    "streams": "a stream's handle",
    "call-failed": "{call}: {result}",
    "call-missing": "the driver is too old: it has no {call}; update it",
    "call-forked": "{call}: {result}; a forked child can't use CUDA: use the spawn start method",
    "unreadable-handle": "there is no memory that can be read",
    "not-negative": "0 or more",
    "schema-children": "the n_children of its schema",
    "one-buffer": "1, the validity bitmap",
    "two-buffers": "2, the validity bitmap and the items",
    "unknown-or-more": "-1 (unknown), 0 or more",
    "none-without-bitmap": "0 where there is no bitmap",
    "text-of-format": "the text of a format",
    "buffer-pointers": "an array of n_buffers pointers",
    "child-schemas": "n_children schemas",
    "child-arrays": "n_children arrays",
    "schema": "a schema",
    "array": "an array",
    "source": "source",
    "source-bytes": "memoryview(source).tobytes()",
    "source-copy": "dlpack.asdlpack(source, copy=True)",
    "target": "target",
    "target-shape": "target.shape",
    "may-copy": ", copy=None",
}


OF_STRUCT, AS_TEXT = "dtype code {code}, bits {bits}, lanes {lanes}", "{field} {text}"  # {type} of a saying


class Places(dict[str, str]):
    """Fields by number, for the names of values: "{2}" for the third; "..." for a name that no value has."""

    def __missing__(self, name: str) -> str:
        return "..."


class Template:
    """Holds the facts that all refusals of a subject, a saying, a cure, and values of these forms and names share."""

    def __init__(self, subject: str, saying: str, cure: str, forms: str, names: str = "") -> None:
        self.key = cure
        self.names = names.split(" ")
        forms, _, of_cure = forms.partition("/")
        self.values = list(zip(range(len(forms)), self.names, forms))  # noqa: B905 (names of the cure's follow)
        self.forms_of_cure = list(enumerate(of_cure, len(forms)))  # of values that only the cure needs
        self.reason = REASON_OF[saying] if saying in REASON_OF else saying
        self.side = subject if subject in ("source", "target") else None
        said = SUBJECTS[subject] + SAYINGS[saying]
        said = said.replace("{type}", OF_STRUCT if "code" in self.names else AS_TEXT)
        places = Places({name: f"{{{i}}}" for i, name in enumerate(self.names)})
        self.said = said.format_map(places)
        self.cure = CURES[self.key].format_map(places) if self.key else ""
        self.only_cure = None if "{" in self.cure else self.cure_of([])  # if it is the same in all of them

    def cure_of(self, shown: list[str]) -> str:
        """Returns the cure of a refusal whose values are shown so."""
        text = self.cure.format(*shown)
        if not text or self.key in SAFE_CURES:
            return text
        if text.startswith(PASS_COPY):
            return pass_copy(text.removeprefix(PASS_COPY))
        cure = Cure(text)
        cure.key = self.key
        if "object" in self.names and shown[place := self.names.index("object")] == "source":
            cure.for_capsule = self.cure.format(*shown[:place], CAPSULE, *shown[place + 1 :])
        return cure


templates: dict[str, Template] = {}
latest: tuple[bytes, tuple[dict[str, Any], str, str, str]] | None = None  # the data and parts of a refusal


def forget_templates() -> None:
    """Lets a forked child begin its own dict: without a GIL, another thread may have held the lock of this one."""
    global templates
    templates = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_templates)


def in_words(kind: type[Exception], data: bytes) -> Exception:
    """Returns the exception for a refusal: core.h describes the data, and Form in pkg/dlpack/errors.go the values."""
    global latest
    kept = latest  # another thread may replace it
    if kept is None or kept[0] != data:
        kept = latest = data, composed(data)
    details, reason, said, cure = kept[1]
    return refusal_with(details.copy(), kind, reason, said, cure)


def composed(data: bytes) -> tuple[dict[str, Any], str, str, str]:
    """Returns the details, reason, text and cure of a refusal."""
    keys, *shown = data.decode(errors="replace").split("\x1e")
    template = templates.get(keys)
    if template is None:
        template = templates[keys] = Template(*keys.split("\x1f"))
    details: dict[str, Any] = {}
    for i, name, form in template.values:
        if form == "#":
            details[name] = int(shown[i], 0)
        elif form == "'":
            details[name] = shown[i]
        else:
            details[name], shown[i] = value_of(form, shown[i], template.names, shown)
    for i, form in template.forms_of_cure:
        shown[i] = value_of(form, shown[i], template.names, shown)[1]
    if template.side is not None:
        details["side"] = template.side
    cure = template.cure_of(shown) if template.only_cure is None else template.only_cure
    return details, template.reason, template.said.format(*shown), cure


def value_of(form: str, text: str, names: list[str], shown: list[str]) -> tuple[Any, str]:
    """Returns a value for error.details, and as it is shown. A word may have other values in it."""
    if form in "#'":
        return text, text
    if form == '"':
        return text, f'"{text}"'
    if form == "~":
        return f"{text}...", f'"{text}"...'
    if form == "=":
        return text, WORDS[text].format(**dict(zip(names, shown)))  # noqa: B905
    if form == ",":
        *others, last = items = text.split(" ")
        return tuple(items), f"{', '.join(others)} or {last}" if others else last
    items = text.split(" ")
    return tuple(items), '"' + '" or "'.join(items) + '"'
