"""Each allocation and each call of CPython that can fail fails in turn, on every way into the package and out of it: an
error is raised, nothing is lost, and what failed works the next time."""

import re

import pytest

from dlpack import _dlpack
from support.alone import SUPPORT, run
from support.cuda_driver import environ
from support.faults import in_faulty

# Functions that the extension calls. They inspect an object or a pending exception, or release something, and can't
# fail if their arguments have the right type. Those that read an int fail if it does not fit; other tests cover that.
CANNOT_FAIL = """
    PyBuffer_IsContiguous PyBuffer_Release PyBytes_AsString PyBytes_Size PyCapsule_GetContext PyCapsule_GetName
    PyCapsule_GetPointer PyDict_Next PyDict_Size
    PyCapsule_IsValid PyCapsule_SetContext PyCapsule_SetName PyErr_Clear PyErr_ExceptionMatches PyErr_Fetch
    PyErr_NoMemory PyErr_NormalizeException PyErr_Occurred PyErr_Restore PyEval_RestoreThread PyEval_SaveThread
    PyException_SetTraceback PyGILState_Ensure PyGILState_GetThisThreadState PyGILState_Release PyInterpreterState_Get
    PyInterpreterState_GetID PyLong_AsLongLongAndOverflow PyLong_AsUnsignedLongLong PyModuleDef_Init
    PyObject_CheckBuffer PyObject_ClearWeakRefs PyObject_GC_Del PyObject_GC_Track PyObject_GC_UnTrack
    PyObject_GenericGetAttr PyThreadState_GetInterpreter PyTuple_GetItem PyTuple_Size PyType_GetFlags PyType_GetSlot
    PyType_IsSubtype PyType_Modified PyUnicode_CompareWithASCIIString Py_DecRef Py_IncRef Py_IsInitialized
    Py_Version _Py_Dealloc
"""


def test_every_function_of_cpython_that_can_fail_is_made_to():
    wrapped = set(re.findall(r"^#define (\w+)\(", (SUPPORT / "faults.h").read_text(), re.MULTILINE))
    used = run("nm", "-D", "--undefined-only", _dlpack.__file__).stdout.split()
    functions = {name for name in used if re.match("_?Py(?!Exc_)", name)}
    types = {name for name in functions if re.search("(_|Proxy)Type$|Struct$", name)}
    called = {re.sub("^_(.*)_SizeT$", r"\1", name) for name in functions - types}
    known = {name for name in wrapped if re.match("_?Py", name)} | set(CANNOT_FAIL.split())
    assert called - known == set(), "wrap these in faults.h, or add them to CANNOT_FAIL"
    assert known - called == set(), "nothing calls these any more"


@pytest.mark.parametrize("with_interrupt", [False, True], ids=["MemoryError", "KeyboardInterrupt"])
def test_each_call_may_fail(faulty, effort, figure, with_interrupt):
    in_faulty(faulty, figure, f"fail_each_call({with_interrupt}, every={effort(1 + 4 * with_interrupt, 1)})")


@pytest.mark.parametrize("with_interrupt", [False, True], ids=["MemoryError", "KeyboardInterrupt"])
def test_each_call_may_fail_where_there_is_a_gpu(faulty, effort, figure, with_interrupt):
    in_faulty(faulty, figure, f"fail_each_call({with_interrupt}, every={effort(3, 1)}, cuda=True)", **environ())


def test_each_call_before_the_first_use_of_a_gpu_may_fail(faulty, figure):
    in_faulty(faulty, figure, "fail_each_opening_of_the_driver()", **environ())


@pytest.mark.parametrize("forever", [False, True], ids=["one", "all from one on"])
def test_each_allocation_of_cpython_may_fail(faulty, figure, forever):
    in_faulty(faulty, figure, f"fail_each_allocation(forever={forever})")


@pytest.mark.parametrize("after_one", [False, True], ids=["the first", "one after a fork"])
def test_each_call_of_a_start_of_the_core_may_fail(faulty, effort, figure, after_one):
    most = effort(150, 1200)
    in_faulty(faulty, figure, f"fail_each_start(after_one={after_one}, most={most})")


def test_each_call_of_an_import_may_fail(faulty, figure):
    in_faulty(faulty, figure, "fail_each_import()")
