"""Arrow data made with ctypes: what a producer written in C exports, with every field as the test wants it."""

import ctypes
import struct
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_void_p
from typing import Any

import numpy as np

from support.capi import Speaks, capsule_new

address = ctypes.addressof
RELEASE = CFUNCTYPE(None, c_void_p)


class ArrowSchema(Structure):
    _fields_ = [
        ("format", c_char_p),
        ("name", c_char_p),
        ("metadata", c_void_p),
        ("flags", c_int64),
        ("n_children", c_int64),
        ("children", POINTER(c_void_p)),
        ("dictionary", c_void_p),
        ("release", RELEASE),
        ("private_data", c_void_p),
    ]


class ArrowArray(Structure):
    _fields_ = [
        ("length", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", POINTER(c_void_p)),
        ("children", POINTER(c_void_p)),
        ("dictionary", c_void_p),
        ("release", RELEASE),
        ("private_data", c_void_p),
    ]


class ArrowArrayStream(Structure):
    _fields_ = [
        ("get_schema", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("get_next", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("get_last_error", CFUNCTYPE(c_void_p, c_void_p)),
        ("release", RELEASE),
        ("private_data", c_void_p),
    ]


class ArrowDeviceArray(Structure):
    _fields_ = [
        ("array", ArrowArray),
        ("device_id", c_int64),
        ("device_type", c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    ]


class ArrowDeviceArrayStream(Structure):
    _fields_ = [("device_type", c_int32), *ArrowArrayStream._fields_]


_all: list[Any] = []  # what a capsule points to may outlive the test that made it


def pointers(values):
    return (c_void_p * max(len(values), 1))(*values)


def metadata(pairs):
    """A dict as the C data interface lays it out: the number of pairs, then each text behind its length."""
    texts = [text for pair in pairs.items() for text in pair]
    return struct.pack("=i", len(pairs)) + b"".join(struct.pack("=i", len(text)) + text for text in texts)


class Column:
    """A schema and an array, with the children's in them. Counts how often each was released."""

    def __init__(self, format=b"i", items=None, *, validity=None, children=(), schema=None, array=None, extension=None):
        self.schema_released = self.array_released = 0
        self.children = children
        self.items = None if items is None else np.asarray(items)
        self.validity = validity
        self.metadata = extension and metadata(
            {b"ARROW:extension:name": extension[0], b"ARROW:extension:metadata": extension[1]}
        )
        buffers = [address(validity) if validity is not None else None]
        if not children:
            buffers.append(None if items is None else self.items.ctypes.data)
        self.schema = ArrowSchema(
            format=format,
            name=b"column",
            metadata=self.metadata and ctypes.cast(self.metadata, c_void_p).value,
            n_children=len(children),
            children=pointers([address(child.schema) for child in children]),
            release=RELEASE(self._release_schema),
        )
        self.array = ArrowArray(
            length=0 if items is None else len(self.items),
            n_buffers=len(buffers),
            buffers=pointers(buffers),
            n_children=len(children),
            children=pointers([address(child.array) for child in children]),
            release=RELEASE(self._release_array),
        )
        for structure, fields in (self.schema, schema), (self.array, array):
            for field, value in (fields or {}).items():
                setattr(structure, field, value)
        _all.append(self)

    def _release_schema(self, schema):
        self.schema_released += 1
        ArrowSchema.from_address(schema).release = RELEASE()

    def _release_array(self, array):
        self.array_released += 1
        ArrowArray.from_address(array).release = RELEASE()

    @property
    def released(self):
        return self.schema_released, self.array_released

    def capsules(self, names=(b"arrow_schema", b"arrow_array")):
        """New capsules, without a destructor: those that die unconsumed release nothing."""
        return capsule_new(address(self.schema), names[0], None), capsule_new(address(self.array), names[1], None)

    def exporter(self):
        return Speaks(__arrow_c_array__=self.capsules)


class DeviceColumn(Column):
    """A column on a device, (type, id). event: the address of an event's handle."""

    def __init__(self, format=b"i", items=None, *, device=(1, -1), event=None, **fields):
        super().__init__(format, items, **fields)
        self.whole = ArrowDeviceArray(self.array, device[1], device[0], event)
        self.array = self.whole.array  # the same memory

    def capsules(self, names=(b"arrow_schema", b"arrow_device_array")):
        return capsule_new(address(self.schema), names[0], None), capsule_new(address(self.whole), names[1], None)

    def exporter(self, **others):
        return Speaks(__arrow_c_device_array__=self.capsules, **others)


class Stream:
    """A stream of these chunks, with the first one's schema unless another is given. `fails` maps names of functions
    to the errno that they return; get_next does so after the last chunk."""

    structure: type[Structure] = ArrowArrayStream
    name = b"arrow_array_stream"

    def __init__(self, *chunks, schema=None, fails=None, said=None, stream=None):
        self.chunks = list(chunks)
        self.schema = schema or chunks[0]
        self.fails = fails or {}
        self.said = ctypes.create_string_buffer(said) if said is not None else None
        self.given = self.released = 0
        fields = dict(ArrowArrayStream._fields_)
        self.stream = self.structure(
            get_schema=fields["get_schema"](self._get_schema),
            get_next=fields["get_next"](self._get_next),
            get_last_error=fields["get_last_error"](lambda stream: address(self.said) if self.said else None),
            release=RELEASE(self._release),
        )
        for field, value in (stream or {}).items():
            setattr(self.stream, field, value)
        _all.append(self)

    def _get_schema(self, stream, out):
        if "get_schema" in self.fails:
            return self.fails["get_schema"]
        ctypes.memmove(out, address(self.schema.schema), ctypes.sizeof(ArrowSchema))
        return 0

    def _get_next(self, stream, out):
        if self.given == len(self.chunks):
            if "get_next" in self.fails:
                return self.fails["get_next"]
            ctypes.memset(out, 0, ctypes.sizeof(ArrowArray))
        else:
            chunk = self.chunks[self.given]
            given = chunk.whole if isinstance(chunk, DeviceColumn) else chunk.array
            ctypes.memmove(out, address(given), ctypes.sizeof(given))
            self.given += 1
        return 0

    def _release(self, stream):
        self.released += 1
        self.structure.from_address(stream).release = RELEASE()

    def capsule(self, *name):
        return capsule_new(address(self.stream), *(name or [self.name]), None)

    def exporter(self):
        return Speaks(__arrow_c_stream__=self.capsule)


class DeviceStream(Stream):
    """A stream of columns on a device."""

    structure = ArrowDeviceArrayStream
    name = b"arrow_device_array_stream"

    def __init__(self, *chunks, device_type=1, stream=None, **options):
        super().__init__(*chunks, stream={"device_type": device_type, **(stream or {})}, **options)

    def exporter(self):
        return Speaks(__arrow_c_device_stream__=self.capsule)


def bits(*values):
    """Packs values into a bitmap, least significant bit first."""
    return (ctypes.c_uint8 * ((len(values) + 7) // 8))(*np.packbits(values, bitorder="little"))


def only_arrow(obj):
    """The same object without its other protocols: pyarrow's arrays have __dlpack__."""
    return Speaks(__arrow_c_array__=obj.__arrow_c_array__)
