"""The error table of the design, row by row: each error names the field, its value and the way out."""

import ctypes
import decimal
import sys
import weakref

import numpy as np
import pytest

from dlpack import asdlpack, from_pointer, frombuffer
from support.alone import alone, python
from support.capi import Speaks, capsule_new
from support.refusals import refused
from support.threads import FREE


def interface(**changes):
    keys = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": bytearray(64), **changes}
    return Speaks(__array_interface__=keys)


# No protocol found: a TypeError that names the type and what was looked for.


@pytest.mark.parametrize(
    "obj",
    [None, 5, 2.5, "text", {}, object(), Speaks(), len, decimal, type("X" * 10_000, (), {})()],
    ids=lambda obj: type(obj).__name__[:20],
)
def test_object_without_a_protocol_is_a_type_error_that_names_it(obj):
    with pytest.raises(TypeError) as caught:
        asdlpack(obj)
    message = str(caught.value)
    assert type(obj).__name__[:50] in message
    assert len(message) <= 200
    assert caught.value.reason == "no-protocol"  # type: ignore[attr-defined]
    assert message.endswith("; asdlpack looked for DLPack, array interfaces, buffers and Arrow")


# For each argument: an int out of range is a ValueError, and a value that is not an int is a TypeError.

INTS = {  # an argument: its function, the lowest int that fits, and the first that doesn't
    "asdlpack device type": (lambda value: asdlpack(b"ab", device=(value, 0)), -(2**31), 2**31),
    "asdlpack device id": (lambda value: asdlpack(b"ab", device=(2, value)), -(2**31), 2**31),
    "asdlpack device type, of a delegate": (lambda value: asdlpack(np.zeros(2), device=(value, 0)), -(2**31), 2**31),
    "frombuffer shape": (lambda value: frombuffer(b"ab", "uint8", value), -(2**63), 2**63),
    "frombuffer shape, a tuple": (lambda value: frombuffer(b"ab", "uint8", (1, value)), -(2**63), 2**63),
    "frombuffer shape, a list": (lambda value: frombuffer(b"ab", "uint8", [value]), -(2**63), 2**63),
    "frombuffer strides": (lambda value: frombuffer(b"ab", "uint8", 2, strides=value), -(2**63), 2**63),
    "frombuffer strides, a tuple": (lambda value: frombuffer(b"ab", "uint8", 2, strides=(value,)), -(2**63), 2**63),
    "frombuffer offset": (lambda value: frombuffer(b"ab", "uint8", offset=value), 0, 2**64),
    "from_pointer pointer": (lambda value: from_pointer(value, 2, "uint8"), 0, 2**64),
    "from_pointer shape": (lambda value: from_pointer(64, value, "uint8"), -(2**63), 2**63),
    "from_pointer shape, a tuple": (lambda value: from_pointer(64, (value,), "uint8"), -(2**63), 2**63),
    "from_pointer strides": (lambda value: from_pointer(64, (2,), "uint8", strides=(value,)), -(2**63), 2**63),
    "from_pointer device type": (lambda value: from_pointer(64, 2, "uint8", device=(value, 0)), -(2**31), 2**31),
    "from_pointer device id": (lambda value: from_pointer(64, 2, "uint8", device=(4, value)), -(2**31), 2**31),
    "from_pointer stream": (lambda value: from_pointer(64, 2, "uint8", stream=value), -(2**63), 2**63),
    "__dlpack__ stream": (lambda value: asdlpack(b"ab").__dlpack__(stream=value), -(2**63), 2**63),
    "__dlpack__ dl_device type": (lambda value: asdlpack(b"ab").__dlpack__(dl_device=(value, 0)), -(2**31), 2**31),
    "__dlpack__ dl_device id": (lambda value: asdlpack(b"ab").__dlpack__(dl_device=(2, value)), -(2**31), 2**31),
    "producer's dl_device id": (lambda value: asdlpack(np.ones(2)).__dlpack__(dl_device=(2, value)), -(2**31), 2**31),
    "__dlpack__ max_version": (lambda value: asdlpack(b"ab").__dlpack__(max_version=(1, value)), -(2**63), 2**63),
}
MAY_BE_NONE = {"shape", "strides", "stream", "id"}


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize("argument", INTS)
def test_an_int_out_of_range_is_a_value_error(argument):
    call, least, end = INTS[argument]
    name = argument.replace(",", "").split()[1]
    for value in end, least - 1, 2**64, 2**100, -(2**100), 10**5000:
        for passed in value, Index(value), type("Int", (int,), {})(value):
            with pytest.raises(ValueError, match=f"^{name}: expected .*bits.*, got "):
                call(passed)


@pytest.mark.parametrize("argument", INTS)
def test_an_argument_that_is_not_an_int_is_a_type_error(argument):
    call, _, _ = INTS[argument]
    name = argument.replace(",", "").split()[1]
    for value in 1.0, "1", [1.5], object(), Ellipsis:
        with pytest.raises(TypeError, match=f"^{name}: expected .*, got "):
            call(value)
    if argument.split()[-1] not in MAY_BE_NONE:
        with pytest.raises(TypeError, match=f"^{name}: expected .*, got "):
            call(None)


@pytest.mark.parametrize("error", [TypeError, StopIteration])
@pytest.mark.parametrize("argument", INTS)
def test_an_error_of_an_index_method_is_passed_on(argument, error):
    class Broken:
        def __index__(self):
            raise error("broken")

    with pytest.raises(error, match="^broken$"):
        INTS[argument][0](Broken())


@pytest.mark.parametrize("argument", INTS)
def test_true_counts_as_1(argument):
    call, _, _ = INTS[argument]

    def outcome(value):
        try:
            found = call(value)
        except (BufferError, ValueError) as error:
            return str(error)
        return found.shape if hasattr(found, "shape") else type(found)

    assert outcome(True) == outcome(1) == outcome(Index(1))


# A device that a caller names, and DLPack does not: a ValueError.


@pytest.mark.parametrize(
    ("device", "message"),
    [((number, 0), f"device type is {number}; expected a DLDeviceType, 1 to 4 or 7 to 21") for number in (0, -1, 5, 99)]
    + [((2, -1), "device id is negative: -1 on kDLCUDA"), ((8, -(2**31)), "device id is negative: -2147483648 on")],
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda device: asdlpack(bytearray(8), device=device),
        lambda device: asdlpack(np.zeros(2), device=device, copy=None),
        lambda device: asdlpack(asdlpack(bytearray(8)), device=device),
        lambda device: from_pointer(4096, 2, "uint8", device=device),
    ],
)
def test_a_device_that_dlpack_does_not_name_is_a_value_error(ask, device, message):
    with pytest.raises(ValueError) as caught:
        ask(device)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("number", [0, -1, 5, 99])
def test_a_consumers_device_that_dlpack_does_not_name_is_a_buffer_error(number):
    """As the array API standard has it for devices that can't be served."""
    with pytest.raises(BufferError, match=f"^device type {number}:0: the data is on kDLCPU:0"):
        asdlpack(bytearray(8)).__dlpack__(dl_device=(number, 0))


# And always.


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": ["x"] * 100_000},
        {"strides": "x" * 100_000},
        {"data": b"x", "offset": "x" * 100_000},
        {"version": "x" * 100_000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_values_from_outside_are_shortened(changes):
    with pytest.raises(ValueError) as caught:
        asdlpack(interface(**changes))
    assert len(str(caught.value)) < 400


def test_a_value_of_up_to_100_characters_is_told_whole():
    for value, told in ("x" * 98, repr("x" * 98)), ("x" * 99, "'" + "x" * 99 + "..."):
        with pytest.raises(TypeError) as caught:
            asdlpack(b"a", copy=value)
        assert str(caught.value) == f"copy: expected True, False or None, got {told}"


def test_an_error_leaves_the_object_usable():
    x = asdlpack(bytearray(b"abc"))
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(10, 0))
    with pytest.raises(ValueError):
        x.__dlpack__(stream=1)
    assert np.from_dlpack(x).tolist() == [97, 98, 99]


def test_a_weak_reference_is_refused_since_it_keeps_no_memory_alive():
    array = np.zeros(3)
    refused(lambda: asdlpack(weakref.proxy(array)), "weak-reference", TypeError)


# Arguments that a function does not take: a TypeError that names the function and the argument.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("asdlpack()", "asdlpack() missing 1 required positional argument: 'obj'"),
        ("asdlpack(b'a', None)", "asdlpack() takes 1 positional argument but 2 were given"),
        ("asdlpack(b'a', color=1)", "asdlpack() got an unexpected keyword argument 'color'"),
        ("frombuffer(b'a')", "frombuffer() missing 1 required positional argument: 'dtype'"),
        ("frombuffer(dtype='uint8')", "frombuffer() missing 1 required positional argument: 'obj'"),
        ("frombuffer(obj=b'a', dtype='uint8')", "frombuffer() missing 1 required positional argument: 'obj'"),
        ("frombuffer(b'a', 'uint8', dtype='uint8')", "frombuffer() got multiple values for argument 'dtype'"),
        ("from_pointer(64, dtype='uint8')", "from_pointer() missing 1 required positional argument: 'shape'"),
        ("from_pointer(64, 1, 'uint8', None)", "from_pointer() takes 3 positional arguments but 4 were given"),
        ("asdlpack(b'a').__dlpack__(1, stream=1)", "__dlpack__() got multiple values for argument 'stream'"),
        (
            "asdlpack(b'a').__array__(None, None)",
            "DLPackObject.__array__() takes from 1 to 2 positional arguments but 3 were given",
        ),
        (
            "asdlpack(b'a').__arrow_c_array__(schema=1)",
            "'schema' is an invalid keyword argument for __arrow_c_array__()"
            if sys.version_info < (3, 13)
            else "__arrow_c_array__() got an unexpected keyword argument 'schema'",
        ),
    ],
)
def test_arguments_that_a_function_does_not_take_are_a_type_error(call, message):
    with pytest.raises(TypeError) as caught:
        eval(call)
    assert str(caught.value) == message


def test_keyword_arguments_need_no_interned_names():
    names = {"".join(["d", "type"]): "uint8", "".join(["off", "set"]): 1}
    assert frombuffer(b"ab", **names).size == 1


class Unexported:
    def __dlpack__(self, **arguments):
        raise BufferError("not now")


@alone
def test_errors_are_worded_when_imports_no_longer_work():
    """As after os.chroot, and while Python finalises."""
    strided = asdlpack(np.arange(6, dtype="u1")[::2])
    of_cpu = asdlpack(bytearray(4))
    calls = {
        "unexpected keyword argument 'color'": lambda: asdlpack(b"", color=1),
        "int object shares no memory": lambda: asdlpack(5),
        "Unexported can't be exported": lambda: asdlpack(Unexported()).shape,
        "dtype: expected a name such as 'float32'": lambda: frombuffer(b"", None),
        "offset: expected bytes": lambda: frombuffer(b"", "uint8", offset=-1),
        "pointer: expected an address": lambda: from_pointer(b"", 1, "uint8"),
        "got a ctypes pointer": lambda: frombuffer(ctypes.c_void_p(8), "uint8"),
        'capsule "x": expected the name': lambda: asdlpack(capsule_new(8, b"x", None)),
        "strides (2,) of shape (3,): expected row-major memory": lambda: strided.__arrow_c_array__(),
        "for __cuda_array_interface__": lambda: of_cpu.__cuda_array_interface__,
    }
    sys.meta_path.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlpack"]:
        del sys.modules[name]
    for words, call in calls.items():
        with pytest.raises((AttributeError, BufferError, TypeError, ValueError)) as caught:
            call()
        assert words in str(caught.value)
    assert "uint8[4] at 0x" in repr(of_cpu)


AT_THE_END = """
import os, sys
import dlpack
if {imported}:
    dlpack.DLDeviceType

class Last:
    def __init__(self):
        self.x, self.calls, self.write = dlpack.asdlpack(bytearray(4)), (dlpack.asdlpack, dlpack.describe), os.write

    def __del__(self):
        asdlpack, describe = self.calls
        for use in (
            lambda: self.x.device,
            lambda: str(self.x).partition(" on ")[2],
            lambda: describe(self.x)["device"],
            lambda: asdlpack(self.x, device=(1, 0)) is self.x,
            lambda: asdlpack(self.x, device=(99, 0)),
            lambda: asdlpack(self.x, device="cpu") is self.x,
            lambda: asdlpack(self.x, device=5),
            lambda: self.x.__cuda_array_interface__,
        ):
            try:
                text = str(use())
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            self.write(1, text.encode() + b"\\n")

sys.last = Last()  # which dies when sys is emptied, after nearly all other modules
"""


@pytest.mark.skipif(FREE, reason="a free-threaded Python empties the globals of functions before sys")
@pytest.mark.parametrize(("first", "imported"), [("", True), ("import enum", True), ("", False)])
def test_objects_that_die_with_sys_work_or_say_why_not(first, imported):
    result = python(first + AT_THE_END.replace("{imported}", str(imported)))
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    imported = imported or python("import sys; print('enum' in sys.modules)").stdout == "True\n"  # by a .pth file
    device = "kDLCPU:0" if imported else "device type 1:0"
    assert lines[:4] == [
        "(<DLDeviceType.kDLCPU: 1>, 0)" if imported else "(1, 0)",
        f"{device}, from bytearray by buffer>",
        device,
        "True",
    ]
    # Its words can be imported only if they are compiled already.
    assert lines[4].startswith(("ValueError: device type is 99;", "ValueError: unnamed-device "))
    assert lines[5] == ("True" if imported else "ImportError: dlpack._device can't be imported any more: Python ends")
    assert lines[6].startswith("TypeError: device: expected a name")
    assert lines[7].startswith(f"AttributeError: device {device.removeprefix('device ')}: expected memory of CUDA")
