"""Arrow data of well-formed structures, made with ctypes."""

import numpy as np
import pytest

from dlpack import asdlpack
from support.arrow_c import Column, Stream, bits
from support.capi import Speaks

NUMBERS = np.arange(1, 25, dtype="i4")


def test_lists_of_no_items_have_a_dimension_of_length_0():
    x = asdlpack(Column(b"+w:0", children=[Column(items=NUMBERS)], array={"length": 3}).exporter())
    assert (x.shape, x.size, x.pointer) == ((3, 0), 0, 0)


def test_64_dimensions_are_read_and_65_are_not():
    def nested(depth):
        column = Column(items=NUMBERS[:1])
        for _ in range(depth - 1):
            column = Column(b"+w:1", children=[column], array={"length": 1})
        return column

    assert asdlpack(nested(64).exporter()).shape == (1,) * 64
    column = nested(65)
    with pytest.raises(ValueError, match="64 dimensions"):
        asdlpack(column.exporter())
    assert column.released == (1, 1)


def test_a_misaligned_chunk_is_copied_too():
    odd = np.frombuffer(bytes(1) + NUMBERS.tobytes(), "u1")[1:]
    chunks = [Column(items=NUMBERS), Column(items=odd, array={"length": 24})]
    x = asdlpack(Stream(*chunks).exporter(), copy=None)
    assert np.from_dlpack(x).tolist() == [*NUMBERS, *NUMBERS]
    with pytest.raises(BufferError, match="copy=None"):
        asdlpack(Column(items=odd, array={"length": 24}).exporter())


@pytest.mark.parametrize("start", [0, 1, 8, 63, 64, 65, 130])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 150])
def test_an_unknown_number_of_nulls_is_counted_in_the_range_in_use(start, count):
    valid = np.random.default_rng(start + count).integers(0, 2, 300)
    fields = {"offset": start, "length": count, "null_count": -1}
    column = Column(items=np.arange(300, dtype="i4"), validity=bits(*valid), array=fields)
    nulls = count - valid[start : start + count].sum()
    if nulls:
        with pytest.raises(BufferError, match=f"{nulls} of {count} items are null"):
            asdlpack(column.exporter())
    else:
        assert asdlpack(column.exporter()).shape == (count,)
    valid[start : start + count] = 1
    column = Column(items=np.arange(300, dtype="i4"), validity=bits(*valid), array=fields)
    assert asdlpack(column.exporter()).shape == (count,)


def test_the_array_comes_before_the_stream():
    column, stream = Column(items=NUMBERS), Stream(Column(items=NUMBERS[:3]))
    both = Speaks(__arrow_c_array__=column.capsules, __arrow_c_stream__=stream.capsule)
    assert asdlpack(both).protocol == "__arrow_c_array__"
    both.__arrow_c_array__ = None
    x = asdlpack(both)
    assert (x.protocol, x.shape) == ("__arrow_c_stream__", (3,))
    both.__arrow_c_stream__ = None
    with pytest.raises(TypeError, match="shares no memory"):
        asdlpack(both)


@pytest.mark.parametrize("name", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_an_error_of_the_method_passes_through_as_it_is(name):
    def broken():
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        asdlpack(Speaks(**{name: broken}))
