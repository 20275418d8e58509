"""pickle and copy of a DLPackObject: the memory out of band and in it, its type and layout, and damaged pickles."""

import copy
import gc
import multiprocessing
import pickle
import random
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import asdlpack, from_pointer, frombuffer
from support.alone import uses_dev_shm
from support.refusals import refused

DTYPES = (
    "int2 int4 int8 int16 int32 int64 uint1 uint2 uint4 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 "
    "bool complex32 bcomplex32 complex64 complex128 float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 "
    "float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float32x4 bfloat16x2 "
    "float4_e2m1fnx2"
).split()
ITEMS = np.arange(24.0).reshape(2, 3, 4)


def facts(x):
    return x.dtype, x.shape, x.readonly, x._flags, bytes(x)


def out_of_band(x):
    """The pickle, and its one buffer."""
    buffers = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(data) < 100  # as docs/processes.md says
    return data, buffers


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype, protocol):
    x = frombuffer(bytearray(range(48)), dtype)
    assert facts(pickle.loads(pickle.dumps(x, protocol=protocol))) == facts(x)


def test_a_protocol_that_is_not_an_int_is_a_type_error():
    with pytest.raises(TypeError, match="'str' object cannot be interpreted as an integer"):
        asdlpack(b"memory").__reduce_ex__("5")


@pytest.mark.parametrize("name", [ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn])
def test_items_padded_to_bytes_stay_so(name):
    x = asdlpack(np.arange(6).astype(name).reshape(2, 3))
    y = pickle.loads(pickle.dumps(x))
    assert facts(y) == facts(x) and x._flags & 4
    assert np.asarray(y).dtype == name


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("memory", [b"read-only", bytearray(b"writable")])
def test_a_pickle_alone_brings_the_memory_read_only_or_not(memory, protocol):
    x = asdlpack(memory)
    y = pickle.loads(pickle.dumps(x, protocol=protocol))
    assert facts(y) == facts(x) and y.readonly is isinstance(memory, bytes)
    assert y.pointer != x.pointer


def test_the_longest_names_and_usual_shapes_take_less_than_100_bytes():
    for name in DTYPES:
        out_of_band(frombuffer(bytearray(48), name))
    out_of_band(frombuffer(bytearray(8), "float8_e4m3b11fnuz", (1,) * 8))
    out_of_band(asdlpack(np.zeros((1, 3, 1024, 1024), "c8")))


def test_a_buffer_out_of_band_is_the_memory_itself():
    array = np.arange(1 << 16, dtype="f4")
    data, buffers = out_of_band(asdlpack(array))
    y = pickle.loads(data, buffers=buffers)
    assert y.pointer == array.ctypes.data and not y.readonly
    array[5] = -1
    assert np.from_dlpack(y)[5] == -1
    array.flags.writeable = False
    data, buffers = out_of_band(asdlpack(array))
    assert pickle.loads(data, buffers=buffers).readonly


@pytest.mark.parametrize("compact", [ITEMS, ITEMS.T, ITEMS[0, 0], ITEMS[0, 0, 0, None][0], ITEMS[:0], ITEMS[:1, :, :]])
def test_row_and_column_major_memory_is_kept(compact):
    x = asdlpack(compact)
    data, buffers = out_of_band(x)
    y = pickle.loads(data, buffers=buffers)
    assert facts(y) == facts(x)
    assert y.pointer == x.pointer and (compact.size < 2 or y.strides == x.strides)


@pytest.mark.parametrize(
    "strided", [ITEMS[:, ::2], ITEMS[::-1], ITEMS.transpose(0, 2, 1), np.broadcast_to(3.0, (2, 3))]
)
def test_other_memory_is_copied_compactly(strided):
    x = asdlpack(strided)
    y = pickle.loads(pickle.dumps(x))
    assert np.array_equal(np.from_dlpack(y), strided)
    assert y.nbytes == x.nbytes and np.from_dlpack(y).flags.c_contiguous


def test_a_misaligned_buffer_is_copied():
    data, [buffer] = out_of_band(asdlpack(np.arange(3.0)))
    shifted = bytearray(b"x" + bytes(buffer))
    y = pickle.loads(data, buffers=[memoryview(shifted)[1:]])
    assert np.from_dlpack(y).tolist() == [0, 1, 2]


def test_the_memory_is_locked_while_its_buffer_lives_and_no_longer():
    memory = bytearray(8)
    data, buffers = out_of_band(asdlpack(memory))
    with pytest.raises(BufferError):
        memory.append(0)
    y = pickle.loads(data, buffers=buffers)
    del buffers
    with pytest.raises(BufferError):
        memory.append(0)
    del y
    gc.collect()
    memory.append(0)


def test_copy_shares_and_deepcopy_copies():
    array = np.arange(6.0)
    for x in asdlpack(array), asdlpack(asdlpack(array)):
        shared, [copied, same] = copy.copy(x), copy.deepcopy([x, x])
        assert shared.pointer == array.ctypes.data and copied is same
        array[0] += 1
        assert np.from_dlpack(shared)[0] == array[0] == np.from_dlpack(copied)[0] + 1


def test_memory_that_the_cpu_can_not_read_is_refused():
    x = from_pointer(4096, 4, "uint8", device="vulkan")
    refused(lambda: pickle.dumps(x), "on-gpu", TypeError, device="kDLVulkan:0")


def with_arguments(*arguments):
    """A pickle of these arguments, as another version or a damaged one has them."""

    class Other:
        def __reduce__(self):
            return dlpack._pickle.restored, arguments

    return pickle.dumps(Other())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((2, "float32", (1,), "C", b"1234"), "it has form 2, expected 1 .upgrade dlpack-go here"),
        ((2**20_000,), "it has form .* .upgrade dlpack-go here"),
        ((), "it is damaged"),
        ((1,), "it is damaged"),
        ((1, "float32", (1,), "C", b"123"), "data has 3 bytes"),
        ((1, "float32", (1,), "C", b"12345678"), "has 8 bytes, expected 4 for float32 of shape .1,.; it is damaged"),
        ((1, "floot32", (1,), "C", b"1234"), 'it is damaged.*"floot32"'),
        ((1, "float32", "one", "F", b"1234"), "it is damaged"),
        ((1, "float32", (-1,), "C", b""), r"it is damaged, .*shape \(-1,\), expected .*shape \(0,\)"),
        ((1, "float32", (2**70,), "C", b""), "it is damaged"),
        ((1, "float32", (1,), "C", 5), "it is damaged.*'int'"),
        ((1, "float32", (2, 1), "D", bytes(8)), "it is damaged.*order 'D'"),
        ((1, "float32", (2, 1), b"F", bytes(8)), "it is damaged.*a field is of another type"),
        ((1, ">f4", (2,), "C", bytes(8)), "it is damaged.*>f4 of shape .*, expected float32"),
        ((1, float, (1,), "C", bytes(8)), "it is damaged.*a field is of another type"),
        ((1, "|O8", (1,), "C", bytes(8)), "it is damaged.*Python objects"),
    ],
)
def test_a_damaged_or_newer_pickle_says_so(arguments, text):
    with pytest.raises(ValueError, match=text):
        pickle.loads(with_arguments(*arguments))


ODD = (
    [None, True, False, 0, -1, 1.0, np.int64(1), np.array([1]), np.array([1, 1]), {2: 3}, [2, 3], range(2)]
    + ["", "A", "c", "f", "K", "CF", b"C", b"F", ["F"], np.array(["F"]), np.str_("C"), np.str_("float64")]
    + ["f8", "<f8", ">f8", "|V8", "M8[s]", "float", "Float64", "torch.float64", "(2, 64, 1)", float, np.dtype("f8")]
    + [(2, -1), (-1, 3), (True, 6), (2.0, 3), (np.int64(2), 3), ("2", 3), ("2", 2**60)]
    + [(2,) * 70, (2**62, 4), ((2, 3),)]
    + ["x" * 48, bytes(47), np.array([None]), np.zeros((2, 3), "c16").T]
)


@pytest.mark.parametrize("position", range(5), ids=["form", "dtype", "shape", "order", "memory"])
@pytest.mark.parametrize("numbers", [np.ones((2, 3)), np.arange(6.0).reshape(2, 3).T, np.arange(6.0), ITEMS[:0]])
def test_damaged_field_restores_no_other_items(numbers, position):
    """Each field is replaced by what it can't be, although some of it would convert, as True to the form 1."""
    x = asdlpack(numbers.copy("K"))
    function, arguments = x.__reduce_ex__(5)
    for odd in ODD:
        damaged = [*arguments]
        damaged[position] = odd
        refused(partial(function, *damaged), "damaged-pickle", ValueError)
    assert facts(function(*arguments)) == facts(x)


def test_buffers_missing_too_short_or_of_another_object_are_errors():
    data, buffers = out_of_band(asdlpack(np.arange(3.0)))
    for none in None, []:
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(data, buffers=none)
    for other in b"", bytes(23), bytes(25), bytearray(48):
        refused(partial(pickle.loads, data, buffers=[other]), "damaged-pickle", ValueError)


FUZZ = """if True:
    import pickle, random, sys, warnings
    import numpy as np
    import dlpack

    warnings.simplefilter("ignore")
    dlpack._pickle.restored(1, "float32", (1,), "C", b"1234")
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # a damaged index makes pickle's memo of any size
    arguments = random.Random({seed})
    pieces = [0, -1, 1, 2**63, 2**64, None, True, "", "C", "F", "float32", "|V1 int4", "int4", ">f8", "bool", (), (1,),
              (0,), (2**62, 4), (-1,), (1,) * 65, b"", b"1234", bytearray(8), [1], {{}}, 1.5, (1, "x"), ((1,),)]
    for _ in range({count}):
        given = [1, "float32", (2, 3), "F", bytes(24)]
        for _ in range(arguments.randrange(3)):
            given[arguments.randrange(5)] = arguments.choice(pieces)
        try:
            x = dlpack._pickle.restored(*given)
        except ValueError as error:
            assert "it is damaged" in str(error) or "(upgrade" in str(error), error
            continue
        form, dtype, shape, order, memory = given
        assert (type(form), form, type(order), x.dtype) == (int, 1, str, dtype.removeprefix("|V1 "))
        assert x.shape == shape and order in ("C", "F")
        assert np.asarray(x).tobytes(order) == bytes(memory)
    data = pickle.dumps(dlpack.asdlpack(np.arange(6.0).reshape(2, 3)), protocol=4)
    for _ in range({count}):
        damaged = bytearray(data)
        for _ in range(arguments.randrange(1, 4)):
            # Beyond the names of what is called: pickle would call any other function by these.
            damaged[arguments.randrange(data.index(b"float64"), len(data))] = arguments.randrange(256)
        try:
            x = pickle.loads(bytes(damaged))
            assert not isinstance(x, dlpack.DLPackObject) or len(bytes(x)) == x.nbytes
        except Exception as error:  # of pickle's own words it raises any
            assert not isinstance(error, (SystemError, AssertionError)), repr(error)
"""


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_no_damaged_pickle_crashes(count):
    code = FUZZ.format(seed=random.randrange(1 << 30), count=count)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, (code, result.stderr)


def doubled(x):
    return asdlpack(np.from_dlpack(x) * 2)


@uses_dev_shm
@pytest.mark.parametrize("method", sorted({*multiprocessing.get_all_start_methods()} - {"fork"}))
def test_another_process_takes_and_gives_it(method):
    x = asdlpack(np.arange(6.0).reshape(2, 3).T)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        y = pool.submit(doubled, x).result()
    assert np.array_equal(np.from_dlpack(y), np.from_dlpack(x) * 2)


def test_the_library_that_made_the_array_need_not_be_there(tmp_path):
    (tmp_path / "pickle").write_bytes(pickle.dumps(asdlpack(np.arange(4).astype(ml_dtypes.bfloat16))))
    code = (
        "import pickle, sys\n"
        "sys.modules['numpy'] = sys.modules['ml_dtypes'] = None\n"
        "print(pickle.load(open('pickle', 'rb')).dtype)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.stdout == "bfloat16\n", result.stderr


def test_nothing_is_left_of_many_pickles():
    memory = bytearray(64)
    x = asdlpack(memory)
    references = sys.getrefcount(x)
    for protocol in 2, 5:
        for _ in range(200):
            pickle.loads(pickle.dumps(x, protocol=protocol))
    for _ in range(100):
        out_of_band(x)
    assert sys.getrefcount(x) == references
    del x
    memory.append(0)
