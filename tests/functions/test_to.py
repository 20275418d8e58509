"""dlpack.to with numpy, memoryview and bytes, and with modules that stand for other libraries.
tests/libraries/test_to_libraries.py has the real ones."""

import array
import mmap
import sys
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import dlpack
from dlpack import _delegate, _to, asdlpack, from_pointer, frombuffer, to
from support.alone import python
from support.capi import Speaks
from support.refusals import refused
from support.threads import in_threads

COPIES = None, False, True
METAL = 8, 0


def address(obj):
    return asdlpack(obj).pointer


def reason(*arguments, **keywords):
    """Returns the type and the reason of the error of `to`."""
    with pytest.raises((TypeError, ValueError, BufferError, ImportError)) as caught:
        to(*arguments, **keywords)
    return type(caught.value), getattr(caught.value, "reason", None)


@pytest.fixture
def takers():
    """Empties what C knows of libraries for a test, and restores it."""
    known = dict(_delegate.takers)
    _delegate.takers.clear()
    yield _delegate.takers
    _delegate.takers.clear()
    _delegate.takers.update(known)


@pytest.fixture
def library(takers, monkeypatch):
    """A module in the place of tvm_ffi, whose from_dlpack raises `library.error`, or keeps x in a Tensor."""
    module = ModuleType("tvm_ffi")
    module.error = None

    class Tensor:
        def __init__(self, x):
            self.x = x

    def from_dlpack(x):
        if module.error is not None:
            raise module.error
        return Tensor(x)

    module.Tensor, module.from_dlpack = Tensor, from_dlpack
    monkeypatch.setitem(sys.modules, "tvm_ffi", module)
    return module


TARGETS = {
    "module": np,
    "name": "numpy",
    "type": np.ndarray,
    "subclass": np.matrix,
    "array": np.zeros(3),
    "part": np.ma,
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_each_form_of_target_shares_the_memory(target):
    memory = bytearray(b"shared")
    made = to(memory, target)
    assert type(made) is np.ndarray
    assert made.ctypes.data == address(memory)
    made[0] = 7
    memory[1] = 8
    assert (memory[0], made[1]) == (7, 8)


@pytest.mark.parametrize("target", ["memoryview", memoryview, memoryview(b"")])
def test_memoryview_shares_the_memory(target):
    values = np.arange(6.0).reshape(2, 3)[:, ::-1]
    view = to(values, target)
    view[1, 0] = 7
    assert values[1, 0] == 7
    assert view.tolist() == values.tolist()


@pytest.mark.parametrize("target", ["bytes", bytes, b""])
def test_bytes_are_always_a_copy(target):
    values = np.arange(6, dtype="i2").reshape(2, 3).T
    for copy in None, True:
        assert to(values, target, copy=copy) == values.tobytes()
    assert reason(values, target, copy=False) == (BufferError, "library-copies")


def test_copy_true_gives_independent_memory():
    for source in np.arange(3.0), array.array("d", [0, 1, 2]), asdlpack(bytearray(24)):
        before, made = bytes(asdlpack(source)), to(source, "numpy", copy=True)
        assert made.tobytes() == before
        made[0] = 9
        assert bytes(asdlpack(source)) == before
        assert made.flags.writeable


def test_copy_false_names_the_obstacle():
    big = Speaks(__array_interface__={"version": 3, "typestr": ">f4", "shape": (1,), "data": b"\x3f\x80\0\0"})
    assert reason(big, "numpy", copy=False) == (BufferError, "byte-order")
    for copy in None, True:
        assert to(big, "numpy", copy=copy).tolist() == [1]


def test_read_only_memory_stays_read_only():
    mapped = mmap.mmap(-1, 4096, access=mmap.ACCESS_READ)
    for source in b"bytes", memoryview(b"bytes"), mapped, np.frombuffer(b"bytes", "u1"):
        assert to(source, memoryview).readonly
        for copy in None, False:
            assert not to(source, np, copy=copy).flags.writeable
        assert to(source, np, copy=True).flags.writeable


SUBCLASSES = {
    "ndarray": lambda: (np.zeros(3), "numpy"),
    "big-endian": lambda: (np.zeros(3, ">f4"), "numpy"),
    "of text": lambda: (np.array(["text"]), "numpy"),
    "matrix": lambda: (np.zeros((1, 2)).view(np.matrix), np),
    "recarray": lambda: (np.recarray(2, [("a", "i4")]), np.ndarray),
    "memoryview": lambda: (memoryview(b"bytes"), memoryview),
    "bytes": lambda: (b"bytes", "bytes"),
    "a subclass of bytes": lambda: (type("Mine", (bytes,), {})(b"bytes"), bytes),
}


@pytest.mark.parametrize("make", SUBCLASSES.values(), ids=SUBCLASSES)
def test_an_instance_of_the_target_is_returned_itself(make):
    source, target = make()
    for keywords in {}, {"copy": None}, {"copy": False}, {"device": "cpu"}, {"device": "cpu", "copy": False}:
        assert to(source, target, **keywords) is source
    assert to(source, source) is source


@pytest.mark.parametrize("copy", COPIES)
def test_a_masked_array_is_refused(copy):
    masked = np.ma.array([1, 2], mask=[0, 1])
    for target in "numpy", memoryview, masked:
        assert reason(masked, target, copy=copy) == (BufferError, "mask")


@pytest.mark.parametrize(
    ("dtype", "made"),
    [(name, getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")],
)
def test_types_of_ml_dtypes_reach_numpy_zero_copy(dtype, made):
    values = np.array([1, 2, 3], made)
    for copy in None, False:
        taken = to(asdlpack(values), "numpy", copy=copy)
        assert taken.dtype == made
        taken[0] = taken[2]
        assert values.tolist() == [3, 2, 3]
        values[0] = 1
    if dtype != "int4" and dtype != "uint4":  # whose items are padded in numpy, and packed in DLPack
        assert to(frombuffer(values.tobytes(), dtype), "numpy").tolist() == [1, 2, 3]
        assert reason(values, memoryview) == (BufferError, "no-format")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float4_e2m1fn", "float6_e2m3fn"])
def test_packed_items_reach_numpy_as_a_copy(dtype):
    values = np.array([0, 1, 0, 1, 1, 1, 0, 0]).astype(getattr(ml_dtypes, dtype))
    packed = frombuffer(bytearray(values.itemsize * 8), dtype, 8)
    dlpack.copy_into(values, packed)
    for copy in None, True:
        made = to(packed, "numpy", copy=copy)
        assert (made.dtype, made.tolist()) == (values.dtype, values.tolist())
    assert reason(packed, "numpy", copy=False) == (BufferError, "library-copies")
    assert reason(frombuffer(b"12", "float4_e2m1fnx2"), "numpy") == (BufferError, "not-in-numpy")


@pytest.mark.parametrize(
    ("target", "meant"), [("nump", "numpy"), ("pytorch", "torch"), ("Numpy", "numpy"), ("arrow", "pyarrow")]
)
def test_a_misspelt_name_gets_the_right_one(target, meant):
    with pytest.raises(TypeError, match=f'did you mean "{meant}"') as caught:
        to(b"", target)
    assert caught.value.reason == "unknown-target"


UNKNOWN: list[object] = [
    None,
    3,
    [],
    {},
    "",
    "x",
    dict,
    object,
    type,
    np.dtype("f4"),
    np.float32,
    np.float32(1),
    sys,
    print,
]


@pytest.mark.parametrize("target", UNKNOWN, ids=repr)
def test_an_unknown_target_is_refused(target):
    capsule = np.zeros(3).__dlpack__()
    assert reason(capsule, target) == (TypeError, "unknown-target")
    assert to(capsule, "numpy").tolist() == [0, 0, 0]  # it was not consumed


@pytest.mark.parametrize("name", ["cupy", "torch", "mlx", "pyarrow.Tensor"])
def test_a_library_that_is_not_installed_is_named(takers, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name.partition(".")[0], None)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    error = refused(lambda: to(b"", name), "no-library", ImportError, library=name)
    assert error.details == {"library": name}


def test_a_library_that_fails_to_import_keeps_its_cause(tmp_path, monkeypatch):
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    with pytest.raises(ImportError, match="libcudart.so: cannot open") as caught:
        to(b"", "cupy")
    assert caught.value.reason == "no-library"
    assert str(caught.value.__cause__) == "libcudart.so: cannot open"


def test_an_import_that_would_crash_is_refused(takers, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    monkeypatch.delitem(sys.modules, "paddle", raising=False)
    hint = "import paddle before tensorflow"
    refused(lambda: to(bytearray(3), "paddle"), "no-library", ImportError, hint=hint, library="paddle")


def test_a_half_imported_library_is_an_import_error(monkeypatch):
    for half in ModuleType("cupy"), ModuleType("tvm_ffi"):
        monkeypatch.setitem(sys.modules, half.__name__, half)
        for target in half, half.__name__:
            assert reason(b"", target) == (ImportError, "no-library")


@pytest.mark.parametrize(
    ("obj", "kind", "said"),
    [
        (None, TypeError, "no-protocol"),
        ([1, 2], TypeError, "no-protocol"),
        ("text", TypeError, "no-protocol"),
        (np.ndarray, TypeError, "no-instance"),
        (np.array(["text"]), BufferError, "refused"),
        (np.array([None]), BufferError, "refused"),
        (np.array(["2026-01-01"], "M8[D]"), BufferError, "refused"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("copy", COPIES)
def test_an_object_without_memory_is_refused_as_by_asdlpack(obj, kind, said, copy):
    assert reason(obj, memoryview, copy=copy) == (kind, said)


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [({"copy": 1}, TypeError), ({"copy": "yes"}, TypeError), ({"device": 3}, TypeError), ({"device": "x"}, ValueError)],
)
def test_wrong_arguments_are_refused(keywords, kind):
    for obj in b"", np.zeros(3):
        with pytest.raises(kind):
            to(obj, "numpy", **keywords)


def test_a_device_that_the_target_cannot_use_is_refused():
    memory = from_pointer(4096, 3, "f4", device=METAL)
    for target in "numpy", np.zeros(3), memoryview, "bytes":
        assert reason(memory, target) == (BufferError, "device-differs")


def test_a_target_on_another_device_is_refused(library):
    memory, elsewhere = from_pointer(4096, 3, "f4", device=METAL), library.Tensor(None)
    elsewhere.__dlpack_device__ = lambda: METAL
    assert reason(bytearray(3), elsewhere) == (BufferError, "device-differs")
    assert reason(library.Tensor(None), elsewhere) == (TypeError, "no-protocol")  # it isn't returned itself
    assert to(memory, elsewhere).x.pointer == 4096
    assert to(bytearray(3), elsewhere, device="cpu").x.size == 3


def test_a_library_without_read_only_arrays_gets_a_copy(library):
    for source in b"bytes", memoryview(b"bytes"), np.frombuffer(b"bytes", "u1"):
        x = to(source, "tvm_ffi").x
        assert (x.pointer != address(source), x.readonly, bytes(x)) == (True, False, b"bytes")
        assert reason(source, "tvm_ffi", copy=False) == (BufferError, "read-only")
    writable = bytearray(5)
    assert to(writable, "tvm_ffi", copy=False).x.pointer == address(writable)


class PanicException(BaseException):
    """As polars' has it."""


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), TypeError(), PanicException("no"), ExceptionGroup("", [OSError()])]
)
@pytest.mark.parametrize("copy", COPIES)
def test_an_error_of_the_library_becomes_a_refusal(library, error, copy):
    library.error = error
    assert reason(bytearray(3), library, copy=copy) == (BufferError, "library-refuses")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), MemoryError(), RecursionError(), GeneratorExit()])
def test_an_error_that_says_nothing_of_the_memory_is_passed_on(library, error):
    library.error = error
    with pytest.raises(type(error)) as caught:
        to(bytearray(3), library)
    assert caught.value is error


def test_an_error_of_this_package_keeps_its_reason(library):
    with pytest.raises(BufferError) as caught:
        memoryview(asdlpack(np.zeros(1, ml_dtypes.bfloat16)))
    library.error = caught.value
    assert reason(bytearray(3), library) == (BufferError, "no-format")


def test_a_failure_keeps_no_reference(library):
    def fail(*arguments, **keywords):
        try:
            to(*arguments, **keywords)
        except (TypeError, BufferError):
            failures.append(1)

    failures = []
    values, readonly = np.zeros(3), np.zeros(3)
    readonly.flags.writeable = False
    counts = [sys.getrefcount(each) for each in (values, readonly, asdlpack(b""))]
    library.error = RuntimeError("no")
    for _ in range(10):
        for copy in COPIES:
            fail(values, library, copy=copy)
            fail(readonly, library, copy=copy)
            fail(values, "nump", copy=copy)
            fail(from_pointer(4096, 3, "f4", device=METAL, owner=values), "numpy", copy=copy)
        fail(values, "bytes", copy=False)
    assert len(failures) == 130
    assert [sys.getrefcount(each) for each in (values, readonly, asdlpack(b""))] == counts
    values.resize(4)  # raises if something still refers to it


def test_a_producer_is_asked_once_by_each_call():
    """to() hands over the memory that it checked, even if each export of the producer gives other memory."""
    exports = []

    def export(**keywords):
        exports.append(np.full(2, len(exports)))
        return exports[-1].__dlpack__(**keywords)

    producer = Speaks(__dlpack__=export, __dlpack_device__=lambda: (1, 0))
    for count, copy in enumerate(COPIES, 1):
        assert to(producer, "numpy", copy=copy).tolist() == [count - 1] * 2
        assert len(exports) == count


def test_a_capsule_is_consumed():
    capsule = np.arange(3).__dlpack__(max_version=(1, 0))
    assert to(capsule, "numpy").tolist() == [0, 1, 2]
    assert reason(capsule, "numpy") == (ValueError, "consumed-capsule")


def test_numpy_is_kept_for_c_and_tvm_ffi_is_not(takers, library):
    for target in "numpy", library:
        to(bytearray(3), target)
    assert takers == dict.fromkeys(["numpy", np, np.ndarray], (np.ndarray, np.from_dlpack, _to.types_of_numpy))


def test_threads_share_the_memory(takers):
    memory, addresses = bytearray(8), set()

    def share(number):
        for _ in range(100):
            addresses.add(to(memory, "numpy").ctypes.data)

    in_threads(share, 8)
    assert addresses == {address(memory)}
    memory.append(1)  # nothing holds it any more


def test_the_module_is_imported_at_the_first_use():
    loaded = "print('dlpack._to' in sys.modules)"
    assert python(f"import sys, dlpack; {loaded}; dlpack.to(b'', 'numpy'); {loaded}").stdout == "False\nTrue\n"
