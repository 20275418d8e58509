"""numpy's masked arrays are refused, as array interfaces with a mask are: DLPack has no word for a mask."""

import numpy
import pytest

import dlpack
from dlpack import asdlpack, copy_into, describe, frombuffer
from support.capi import Speaks
from support.hints import follow, hint_of
from support.refusals import refused

MASKED = {
    "some masked": lambda: numpy.ma.array([1.0, 2.0, 3.0], mask=[False, True, False], fill_value=-1),
    "none masked": lambda: numpy.ma.array([1.0, 2.0, 3.0], mask=[False] * 3),
    "no mask": lambda: numpy.ma.array([1.0, 2.0, 3.0]),
    "big-endian": lambda: numpy.ma.array([1.0, 2.0, 3.0], ">f8", mask=[False, True, False]),
    "read-only": lambda: numpy.ma.array(numpy.frombuffer(bytes(24)), mask=[False, True, False]),
    "strided": lambda: numpy.ma.array(numpy.arange(6.0)[::2], mask=[False, True, False]),
    "one item": lambda: numpy.ma.masked,
    "structures": lambda: numpy.ma.array([(1, 2.0)], [("a", "i4"), ("b", "f4")], mask=[(True, False)]),
    "a subclass": lambda: numpy.ma.array([1, 2], mask=[False, True]).view(type("Mine", (numpy.ma.MaskedArray,), {})),
}
USES = {
    "asdlpack": lambda obj: asdlpack(obj),
    "asdlpack, copy=None": lambda obj: asdlpack(obj, copy=None),
    "asdlpack, copy=True": lambda obj: asdlpack(obj, copy=True),
    "asdlpack, align": lambda obj: asdlpack(obj, align=64, copy=None),
    "asdlpack, device": lambda obj: asdlpack(obj, device="cpu"),
    "frombuffer": lambda obj: frombuffer(obj, "uint8"),
    "frombuffer, copy=None": lambda obj: frombuffer(obj, "uint8", copy=None),
    "copy_into's source": lambda obj: copy_into(obj, numpy.zeros(obj.shape, obj.dtype)),
    "copy_into's target": lambda obj: copy_into(numpy.zeros(obj.shape, obj.dtype), obj),
    "borrow": lambda obj: dlpack.borrow(obj).__enter__(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("what", MASKED)
def test_masked_array_is_refused_everywhere(what, use):
    obj = MASKED[what]()
    refused(lambda: USES[use](obj), "mask")


@pytest.mark.parametrize("what", MASKED)
def test_masked_array_is_described_as_refused(what):
    assert describe(MASKED[what]())["refused"].startswith("BufferError: ")


@pytest.mark.parametrize(
    ("what", "values"), [("some masked", [1, -1, 3]), ("none masked", [1, 2, 3]), ("no mask", [1, 2, 3])]
)
def test_hint_of_a_masked_array_gives_its_items(what, values):
    obj = MASKED[what]()
    with pytest.raises(BufferError) as caught:
        asdlpack(obj)
    x = follow(str(caught.value), {"obj": obj})
    assert numpy.asarray(x).tolist() == values
    assert (x.pointer == obj.ctypes.data) == (what != "some masked")


def test_hint_of_a_masked_target_is_its_data():
    target = MASKED["some masked"]()
    error = refused(lambda: copy_into(numpy.zeros(3), target), "mask", hint="pass obj.data", side="target")
    copy_into(numpy.zeros(3), eval("obj.data", {"obj": target}))
    assert hint_of(str(error)) == "pass obj.data"
    assert target.data.tolist() == [0, 0, 0] and target.mask.tolist() == [False, True, False]


def test_interface_with_a_mask_is_refused_alike():
    obj = Speaks(__array_interface__={**numpy.zeros(3).__array_interface__, "mask": numpy.zeros(3, bool)})
    refused(lambda: asdlpack(obj), "mask")


class Image(numpy.ndarray):
    """An array with a mask that isn't numpy's."""

    mask = "glasses"


class Raising(numpy.ndarray):
    @property
    def mask(self):
        raise LookupError("no mask today")


@pytest.mark.parametrize("kind", [Image, Raising, numpy.memmap, numpy.recarray, numpy.matrix])
def test_other_classes_of_arrays_are_shared(kind, tmp_path):
    array = numpy.arange(4, dtype="u1").reshape(2, 2)
    obj = array.view(kind) if kind is not numpy.memmap else numpy.memmap(tmp_path / "file", "u1", "w+", shape=(2, 2))
    for use in asdlpack, lambda obj: frombuffer(obj, "uint8"):
        assert use(obj).pointer == obj.ctypes.data
    copy_into(numpy.full((2, 2), 5, "u1"), obj)
    assert obj.tolist() == [[5, 5], [5, 5]]
