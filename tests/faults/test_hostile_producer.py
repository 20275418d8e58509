"""A producer that lies, raises, changes its mind, re-enters and lets go: whatever it does, asdlpack shares or raises,
and each deleter is called once.

Each call follows from its number: `python tests/faults/test_hostile_producer.py 1234` makes that one again.
"""

import collections
import ctypes
import gc
import json
import mmap
import random
import resource
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import dlpack
from dlpack._abi import USED, capsule_name, capsule_rename, gather, look
from dlpack.structs import DLManagedTensor, DLManagedTensorVersioned, DLTensor
from support import arrow_c
from support.abi import LEGACY, MEMORY, MIDDLE, ROOM, VERSIONED, Tensor, owned, strays
from support.alone import JOBS, run
from support.arrow_c import Column, DeviceColumn, DeviceStream, Stream
from support.capi import Py_buffer, PyArrayInterface, Speaks, capsule_new
from support.libraries import library
from support.process import status

PROCESSES = 2
ROOM_ADDRESSES = 512 << 20  # what a lie about sizes may get before memory is out


class Mischief(Exception):
    pass


class Harm(BaseException):
    pass


RAISED = [
    *(Mischief, Harm, BufferError, TypeError, ValueError, RuntimeError, NotImplementedError, KeyError, AttributeError),
    *(OverflowError, MemoryError, RecursionError, ZeroDivisionError),
]
NUMBERS = [*range(-3, 9), 63, 64, 65, 2**31 - 1, 2**31, 2**60, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64, 2**80]
NUMBERS += [-(2**31), -(2**60), -(2**63), -(2**63) - 1]
INT64 = [number for number in NUMBERS if -(2**63) <= number < 2**63]
UINT64 = [number for number in NUMBERS if 0 <= number < 2**64]
INT32 = [number for number in NUMBERS if -(2**31) <= number < 2**31]
TYPES = [(2, 32, 1), (1, 8, 1), (0, 16, 1), (6, 8, 1), (5, 64, 1), (4, 16, 1), (0, 4, 1), (17, 4, 2), (2, 16, 4)]
TYPESTRS = [*"<f4 |u1 <i2 >i4 |b1 <c8 <V2 |V1 |O8 <M8[s] <f1 f".split(), "", "<f4 x", "\udc80", "é" * 30]
FORMATS = [*b"B f @h >i ? Zf (2)h T{i:a:} P \xff\xfe".split(), b"", b"9" * 40, b"(" * 99, None]
ARROW_FORMATS = [*b"i C b g c u +s +w:3 +w:0 +w:99999999999999999999 \xff +l".split(), b""]
DEVICES = [0, 1, 2, 3, 8, 10, 13, 99, -1]
PROTOCOLS = [
    *("__dlpack__", "__dlpack_device__", "__array_interface__", "__array_struct__", "__cuda_array_interface__"),
    *("__arrow_c_device_array__", "__arrow_c_device_stream__"),
    *("__arrow_c_array__", "__arrow_c_stream__", "dtype", "shape", "__array__", "name"),
]


def exporter_type():
    """The type of hostile.c."""
    with library("hostile") as path:
        make = ctypes.PyDLL(str(path)).make_exporter
    make.restype = ctypes.py_object
    return make()


Exporter: Any = exporter_type() if __name__ == "__main__" else object


class Buffer(Exporter):
    """Its buffer is another one each time."""

    def __init__(self, game):
        self.game = game
        self.exports = 0
        self.wild = True  # if False, a memoryview survives the buffer
        self.kept = []

    def get_buffer(self, flags):
        game, choose = self.game, self.game.random.choice
        game.mischief()
        view = Py_buffer(buf=MIDDLE, len=12, itemsize=4, format=b"f", ndim=1, readonly=choose([0, 1]))
        view.shape = (ctypes.c_ssize_t * ROOM)(*game.lengths())
        if game.chance(0.5):
            view.strides = (ctypes.c_ssize_t * ROOM)(*[choose([4, -4, 8, 0, 1])] * 4)
        if game.chance(0.4):
            view.len = choose([0, 1, 8, 16, 64, *INT64])
        if game.chance(0.4):
            view.format, view.itemsize = choose(FORMATS), choose([1, 2, 4, 8, *INT64])
        if game.chance(0.4):
            view.ndim = choose([0, 1, 2, 3, 4, *(INT32 if self.wild else [])])
        if self.wild and game.chance(0.1):
            view.shape = ctypes.POINTER(ctypes.c_ssize_t)()
        if game.chance(0.1):
            view.suboffsets = (ctypes.c_ssize_t * ROOM)(*[choose([-1, 0])] * ROOM)
        if game.chance(0.1):
            view.buf = choose([0, MIDDLE + 1, 2**63, 2**64 - 8])
        self.kept.append(view)
        self.exports += 1
        return ctypes.addressof(view)

    def release_buffer(self):
        self.exports -= 1
        self.game.mischief()


class Thing:
    """An object whose protocols come, go, and change with each look at them."""

    def __init__(self, game):
        self.game = game
        self.speaks = [name for name in PROTOCOLS if game.chance(0.3)]

    def __getattr__(self, name):
        if name not in PROTOCOLS:
            raise AttributeError(name)
        self.game.mischief()
        if name not in self.speaks:
            raise AttributeError(name)
        return self.game.answer(name)


class Liar(Thing):
    """Says that it is of another class; also a method that is one of the type."""

    @property  # type: ignore[misc]
    def __class__(self):
        return self.game.random.choice([bytes, np.ndarray, memoryview, dlpack.DLPackObject, int, tuple, type(None)])

    def __dlpack__(self, **arguments):
        return self.game.export(**arguments)


class BufferThing(Thing, Buffer):
    """A Thing that also has a buffer."""

    def __init__(self, game):
        Thing.__init__(self, game)
        Buffer.__init__(self, game)


class Number:
    """An int only where somebody asks."""

    def __init__(self, game, value):
        self.game, self.value = game, value

    def __index__(self):
        self.game.mischief()
        return self.value

    def __bool__(self):
        self.game.mischief()
        return True

    def __repr__(self):
        self.game.mischief()
        return "Number" * self.game.random.choice([1, 100])


class Lengths(tuple):
    """A tuple that is another one when it is iterated."""

    def __iter__(self):
        return iter([3] * 100 if len(self) == 2 else [])


class Keys(dict):
    """A dict that says it has everything."""

    def __getitem__(self, key):
        return 5

    def __contains__(self, key):
        return True


class Key(str):
    """Equal to any key of the same hash, and up to something when it is compared."""

    def __new__(cls, text, game):
        made = str.__new__(cls, text)
        made.game = game
        return made

    def __hash__(self):
        return str.__hash__(self)

    def __eq__(self, other):
        self.game.mischief()
        return str.__eq__(self, other)


class Game:
    """One call, and all that was made for it."""

    def __init__(self, number):
        self.random = random.Random(number)
        self.depth = 0
        self.objects, self.capsules = [], []  # what it may do more with, or let go
        self.kept = []  # what others have the address of
        self.tensors, self.pointers, self.buffers, self.columns, self.streams = [], [], [], [], []

    def chance(self, probability):
        return self.random.random() < probability

    # Actions in a callback.

    def mischief(self):
        if self.depth < 4 and self.chance(0.25):
            self.depth += 1
            try:
                self.random.choice([self.raise_, self.enter, self.forget, self.drop, self.tie])()
            finally:
                self.depth -= 1

    def raise_(self):
        raise self.random.choice(RAISED)("mischief")

    def enter(self):
        if self.objects:
            self.use(self.random.choice(self.objects))

    def forget(self):
        """Protocols that were there a moment ago are not."""
        for thing in self.objects:
            if isinstance(thing, Thing):
                thing.speaks.clear()

    def drop(self):
        self.objects.clear()
        self.capsules.clear()

    def tie(self):
        """Garbage that only the collector finds."""
        if self.objects:
            self.kept.append([self.random.choice(self.objects), dlpack.asdlpack(bytearray(3))])
            self.kept[-1].append(self.kept[-1])

    # What it gives.

    def length(self):
        return self.random.choice([0, 1, 1, 2, 2, 3, 3])

    def lengths(self):
        return [self.length() for _ in range(self.random.choice([0, 1, 1, 2, 3, 4]))]

    def number(self):
        value = self.random.choice(NUMBERS)
        return self.random.choice([value, Number(self, value), Number(self, value), None, 1.5, "5"])

    def tuple(self):
        values = [self.random.choice([self.length(), self.length(), self.number()]) for _ in range(self.length())]
        return self.random.choice([tuple, tuple, list, Lengths, lambda values: values * 30, iter])(values)

    def tensor(self):
        choose = self.random.choice
        fields = {"shape": self.lengths(), "name": choose([LEGACY, VERSIONED])}
        of_versioned = {"version": (choose([0, 1, 2]), choose(UINT64) % 2**32), "flags": choose([0, 1, 2, 4, *UINT64])}
        wrong = {
            "shape": lambda: choose([None, [choose(INT64) for _ in range(self.length())], [1] * 65]),
            "strides": lambda: [choose([1, 2, -1, 0, -3, *INT64]) for _ in range(4)],
            "ndim": lambda: choose(INT32),
            "data": lambda: choose([None, MIDDLE + 1, 2**63, 2**64 - 8]),
            "byte_offset": lambda: choose([0, 4, 1, *UINT64]),
            "dtype": lambda: (choose([0, 2, 7, 17, 99, 255]), choose([0, 1, 8, 7, 64, 255]), choose([0, 1, 4, 65535])),
            "device": lambda: (choose([0, 1, 2, 3, 7, 8, 10, 99, -1]), choose([0, 1, -1])),
            **{name: lambda value=value: value for name, value in of_versioned.items()},
        }
        fields["dtype"] = choose(TYPES)
        if self.chance(0.5):
            fields["strides"] = [choose([1, 2, 3, -1, 0]) for _ in range(4)]
        while self.chance(0.4):
            name = choose(list(wrong))
            if name not in of_versioned or fields["name"] == VERSIONED:
                fields[name] = wrong[name]()
        self.tensors.append(tensor := Tensor(**fields))
        tensor.then = self.mischief
        return tensor

    def capsule(self):
        choose = self.random.choice
        if self.capsules and self.chance(0.15):
            return choose(self.capsules)
        tensor = self.tensor()
        if self.chance(0.05):
            capsule = capsule_new(tensor.address, USED[tensor.name], None)
        else:
            name = choose([b"dltensor2", b"", b"\xff", b"x" * 1000, LEGACY]) if self.chance(0.1) else tensor.name
            capsule = tensor.capsule(name)
            self.kept.append(name)
        self.capsules.append(capsule)
        return capsule

    def pointer(self):
        tensor = self.tensor()
        kind = {LEGACY: DLManagedTensor, VERSIONED: DLManagedTensorVersioned}[tensor.name]
        if self.chance(0.2):
            return ctypes.pointer(tensor.struct.dl_tensor)
        if self.chance(0.1):
            return ctypes.POINTER(self.random.choice([kind, DLTensor]))()
        pointer = ctypes.pointer(tensor.owned())
        self.pointers.append((pointer, tensor))
        return pointer

    def export(self, **arguments):
        self.mischief()
        if self.chance(0.1):
            return self.random.choice([None, 5, self, b"dltensor", np.zeros(2).__dlpack__])
        if self.chance(0.1):
            return dlpack.asdlpack(bytearray(8)).__dlpack__(**arguments)
        return self.capsule()

    def device(self):
        self.mischief()
        return self.random.choice([(1, 0), (1, 0), (1, None), (2, 0), (10, 1), (1,), [1, 0], None, self.tuple()])

    def interface(self):
        choose = self.random.choice
        keys = {"version": 3, "typestr": choose(TYPESTRS), "shape": tuple(self.lengths()), "data": (MIDDLE, False)}
        if self.chance(0.5):
            keys["strides"] = tuple(choose([4, 8, -4, 0, 1]) for _ in keys["shape"])
        if self.chance(0.4):
            keys["data"] = self.random.choice([self.buffer, self.pair, self.thing, self.number, lambda: bytes(64)])()
        while self.chance(0.3):
            name = choose([*keys, "offset", "mask", "stream"])
            keys[name] = choose([self.number, self.tuple, self.pair, lambda: None, lambda: choose(TYPESTRS)])()
        if self.chance(0.1):
            del keys[choose(list(keys))]
        if self.chance(0.1):
            keys = {Key(name, self): value for name, value in keys.items()}
        return choose([keys, keys, keys, Keys(keys), list(keys), None])

    def pair(self):
        return self.random.choice([(MIDDLE, False), (MIDDLE + 1, True), (self.number(), self.number()), (), (0, 0)])

    def struct(self):
        choose = self.random.choice
        array = PyArrayInterface(
            two=2, nd=choose([0, 1, 2, 3]), typekind=b"f", itemsize=4, flags=choose([0x701, 0x301])
        )
        array.shape = (ctypes.c_ssize_t * ROOM)(*[choose([0, 1, 2, 3]) for _ in range(ROOM)])
        array.strides = (ctypes.c_ssize_t * ROOM)(*[choose([4, 4, 8, -4, 0, 1]) for _ in range(ROOM)])
        if self.chance(0.2):
            array.nd, array.two = choose(INT32), choose([2, 2, 3])
        if self.chance(0.2):
            array.typekind, array.itemsize = choose([b"f", b"V", b"\0", b"\xff", b"O", b" "]), choose(INT32)
        if self.chance(0.1):
            array.data = choose([0, MIDDLE + 1, 2**63])
        if self.chance(0.1):
            array.shape[choose(range(4))], array.strides[choose(range(4))] = choose(INT64), choose(INT64)
        self.kept.append(array)
        return capsule_new(ctypes.addressof(array), None if self.chance(0.9) else b"array", None)

    def column(self, deep=0, has_device=False):
        choose = self.random.choice
        children = [self.column(deep + 1) for _ in range(choose([0, 0, 1, 2]))] if deep < 2 else []
        schema, array = {}, {}
        while self.chance(0.3):
            schema[choose(["n_children", "flags"])] = choose([*range(len(children) + 1), -1, -(2**63)])
        while self.chance(0.3):
            array[choose(["length", "offset", "null_count", "n_buffers"])] = choose([0, 1, 3, -1, *INT64])
        if self.chance(0.1):
            choose([schema, array])["release"] = arrow_c.RELEASE()
        if self.chance(0.1):
            choose([schema, array])["children"] = ctypes.POINTER(ctypes.c_void_p)()
        if self.chance(0.05):
            array["buffers"] = ctypes.POINTER(ctypes.c_void_p)()
        format = choose(ARROW_FORMATS)
        extension = choose([None, None, (b"arrow.bool8", b""), (b"arrow.fixed_shape_tensor", b'{"shape":[3]}')])
        items = None if self.chance(0.1) else np.frombuffer(MEMORY, "u1")[2048:]
        fields = {"children": children, "schema": schema, "array": array, "extension": extension}
        if has_device:
            device = choose([1, 1, 1, 1, choose(DEVICES)]), choose([-1, 0, choose(INT64)])
            event = choose([None, None, 64, MIDDLE, ctypes.addressof(MEMORY)])
            column = DeviceColumn(format, items, device=device, event=event, **fields)
        else:
            column = Column(format, items, **fields)
        column.had = bool(column.schema.release), bool(column.array.release)
        self.columns.append(column)
        return column

    def arrow_device_array(self):
        return self.arrow_array(b"arrow_device_array", has_device=True)

    def arrow_device_stream(self):
        return self.arrow_stream(DeviceStream, device_type=self.random.choice([1, 1, 1, 2, 0]))

    def arrow_array(self, name=b"arrow_array", has_device=False):
        self.mischief()
        names = (b"arrow_schema", name) if self.chance(0.95) else (name, b"arrow_schema")
        pair = self.column(has_device=has_device).capsules(names)
        return self.random.choice([pair, pair, pair, pair, pair[0], pair[:1], list(pair), (pair[0], None), None])

    def arrow_stream(self, kind=Stream, **options):
        self.mischief()
        choose = self.random.choice
        chunks = [self.column(has_device=kind is DeviceStream) for _ in range(choose([0, 1, 1, 2, 3]))]
        fails = {choose(["get_schema", "get_next"]): choose([5, -1, 9999])} if self.chance(0.2) else {}
        said = choose([None, b"", b"\xff", b"x" * 999])
        stream = kind(*chunks, schema=self.column(), fails=fails, said=said, **options)
        if self.chance(0.2):
            field = choose(["get_schema", "get_next", "get_last_error", "release"])
            setattr(stream.stream, field, getattr(kind.structure(), field))
        stream.had = bool(stream.stream.release)
        self.streams.append(stream)
        return choose([stream.capsule(), stream.capsule(), stream.capsule(), stream.capsule(b"arrow_array"), None, 5])

    def answer(self, name):
        answers = {
            "__dlpack__": lambda: self.export,
            "__dlpack_device__": lambda: self.device,
            "__array_interface__": self.interface,
            "__cuda_array_interface__": self.interface,
            "__array_struct__": self.struct,
            "__arrow_c_device_array__": lambda: self.arrow_device_array,
            "__arrow_c_device_stream__": lambda: self.arrow_device_stream,
            "__arrow_c_array__": lambda: self.arrow_array,
            "__arrow_c_stream__": lambda: self.arrow_stream,
        }
        if name in answers and self.chance(0.95):
            return answers[name]()
        return self.random.choice([None, 5, "bfloat16", (3,), self.thing(), self.mischief, Number(self, 3)])

    def buffer(self):
        self.buffers.append(Buffer(self))
        return self.buffers[-1]

    def view(self):
        buffer = self.buffer()
        buffer.wild = False
        return memoryview(buffer)

    def thing(self):
        kind = self.random.choice([Thing, Thing, Liar, BufferThing])
        thing = kind(self)
        if kind is BufferThing:
            self.buffers.append(thing)
        return thing

    def object(self):
        makers = [self.capsule, self.pointer, self.buffer, self.view, *[self.thing] * 5]
        makers += [lambda: dlpack.asdlpack(bytearray(8)), lambda: Speaks(__arrow_c_array__=self.arrow_array)]
        makers += [lambda: Speaks(__arrow_c_stream__=self.arrow_stream), lambda: Speaks(__array_struct__=self.struct())]
        self.objects.append(obj := self.random.choice(makers)())
        return obj

    # Uses of an object.

    def wrap(self, obj):
        choose = self.random.choice
        if self.chance(0.15):
            shape, offset = choose([None, self.tuple(), 3]), choose([0, 4, self.number()])
            return dlpack.frombuffer(obj, choose(["u1", "float32", "int4", self.thing()]), shape, offset=offset or 0)
        return dlpack.asdlpack(obj, copy=choose([False, False, None, True]), device=choose([None, None, "cpu", (1, 7)]))

    def use(self, obj):
        if self.chance(0.1):
            dlpack.describe(obj)
        x = self.wrap(obj)
        self.objects.append(x)
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            self.random.choice(USES)(self, x)

    def attributes(self, x):
        shape, strides = x.shape, x.strides
        assert len(shape) == len(strides) == x.ndim
        repr(x)
        assert (x.nbytes > 0) == (x.size > 0)
        assert isinstance(x.readonly, bool) and x.dtype and x.device and x.protocol

    def export_object(self, x):
        arguments = {}
        while self.chance(0.4):
            arguments["max_version"] = self.random.choice([(1, 0), (1, 3), (0, 8), (2**70, 0), self.tuple(), None])
            arguments["stream"] = self.random.choice([None, None, None, 1, -1, self.number()])
            arguments["dl_device"] = self.random.choice([None, None, (1, 0), (2, 0), self.tuple()])
            arguments["copy"] = self.random.choice([None, None, True, False, 5])
        capsule = x.__dlpack__(**arguments)
        if self.chance(0.3) and capsule_name(capsule) in USED:
            managed = look(capsule)
            capsule_rename(capsule, USED[capsule_name(capsule)])
            del capsule, managed.capsule
            managed.deleter(ctypes.addressof(managed))
        elif self.chance(0.3):
            dlpack.asdlpack(capsule)

    def read(self, x):
        """Memory that is there is read, and right."""
        if x.nbytes != x.size * x.itemsize or x.size > 4096:
            return
        first, start = x.pointer, ctypes.addressof(MEMORY)
        reach = [(length - 1) * stride * x.itemsize for length, stride in zip(x.shape, x.strides, strict=True)]
        low = first + sum(distance for distance in reach if distance < 0)
        high = first + sum(distance for distance in reach if distance > 0) + x.itemsize
        if x.size and start <= low and high <= start + len(MEMORY) and x.device[0] == 1:
            assert bytes(x) == gather(first, x.shape, x.strides, x.itemsize)

    def interfaces(self, x):
        self.random.choice(
            [
                memoryview,
                lambda x: x.__array_interface__,
                lambda x: x.__array_struct__,
                lambda x: x.__cuda_array_interface__,
                lambda x: x.__arrow_c_array__(),
                lambda x: x.__arrow_c_device_array__(),
                lambda x: x.__dlpack_device__(),
                lambda x: dlpack.describe(x),
            ]
        )(x)

    def wrap_again(self, x):
        self.objects.append(self.wrap(self.random.choice([x, memoryview(x)])))

    def check(self):
        """After all: what was handed over was deleted once, and nothing else."""
        self.depth = 100
        del self.objects[:], self.capsules[:], self.kept[:]
        gc.collect()
        for pointer, tensor in self.pointers:
            if pointer:  # nobody took it over
                tensor.struct.deleter(tensor.address)
        assert [tensor.deleted for tensor in self.tensors] == [tensor.given for tensor in self.tensors]
        assert (owned(), strays) == (0, [])
        assert [buffer.exports for buffer in self.buffers] == [0] * len(self.buffers)
        of_streams = [column for stream in self.streams for column in (*stream.chunks, stream.schema)]
        for column in self.columns:
            if column not in of_streams:
                moved = column.had[0] > bool(column.schema.release), column.had[1] > bool(column.array.release)
                assert column.released == moved
        for stream in self.streams:
            assert stream.released == (stream.had > bool(stream.stream.release))
            for i, chunk in enumerate(stream.chunks):
                assert chunk.array_released == (chunk.had[1] and i < stream.given)
            assert stream.schema.schema_released == 1 or not (stream.given and stream.schema.had[0])
        arrow_c._all.clear()


USES = [Game.attributes, Game.attributes, Game.export_object, Game.export_object, Game.read]
USES += [Game.interfaces, Game.wrap_again]


def play(number):
    """One call: what came of it."""
    game, outcome = Game(number), "shared"
    try:
        game.use(game.object())
    except BaseException as error:
        outcome = type(error).__name__
        known = TypeError, ValueError, BufferError, MemoryError, RecursionError, AttributeError
        if type(error) not in known and not (type(error) in RAISED and error.args == ("mischief",)):
            raise
    game.check()
    return outcome


def main(first, count=1, note=None):
    """Plays `count` games from number `first` on, and prints their outcomes and the memory that they left behind."""
    dlpack.asdlpack(memoryview(bytes(4))[::-2], copy=True)
    size = int(status("VmSize")) * 1024 + ROOM_ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    sys.unraisablehook = lambda unraisable: None
    gc.set_threshold(100, 5, 5)
    gc.collect()
    gc.freeze()  # a collection after each call costs too much otherwise
    outcomes = collections.Counter()
    for number in range(first, first + count):
        if note:
            note[:8] = number.to_bytes(8, "little")
        if number == first + count // 10:
            gc.collect()
            blocks, resident = sys.getallocatedblocks(), int(status("VmRSS"))
        outcomes[play(number)] += 1
    gc.collect()
    blocks, resident = sys.getallocatedblocks() - blocks, int(status("VmRSS")) - resident
    print(json.dumps({"outcomes": outcomes, "blocks": blocks, "resident": resident}))


def play_in_a_process(first, count):
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(8)
        result = run(sys.executable, __file__, first, count, file.name, timeout=900)
        number = int.from_bytes(file.read(8), "little")
    assert result.returncode == 0, f"number {number}: exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return json.loads(result.stdout)


def test_whatever_a_producer_does_its_deleters_are_called_once(effort, figure):
    count = effort(8_000, 1_000_000)
    with ThreadPoolExecutor(JOBS) as pool:
        share = count // PROCESSES
        reports = list(pool.map(lambda i: play_in_a_process(i * share, share), range(PROCESSES)))
    outcomes = sum((collections.Counter(report["outcomes"]) for report in reports), collections.Counter())
    assert outcomes["shared"] > count / 10
    assert all(outcomes[error.__name__] for error in RAISED)
    for report in reports:
        assert report["blocks"] < 1000
        assert report["resident"] < 20_000  # KiB
    figure("calls of a hostile producer", count)
    figure("which were shared", outcomes["shared"])


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(play(int(sys.argv[1])))
    else:
        with open(sys.argv[3], "r+b") as file:
            main(int(sys.argv[1]), int(sys.argv[2]), mmap.mmap(file.fileno(), 8))
