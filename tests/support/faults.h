/* faults.h: makes each call that can fail fail in turn, and each Go function panic. Builds for tests include it in
 * pyext/core/core.h and pkg/cuda/driver.h. It replaces functions that their C calls: the allocator, what a start of the
 * core needs, and CPython's functions if Python.h is included. */
#ifndef FAULTS_H
#define FAULTS_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Defined in faults.c; weak, since they are found when the library is loaded. */
#pragma weak faults_strike
#pragma weak faults_interrupts
#pragma weak faults_forgets
#pragma weak faults_panic
#pragma weak faults_malloc
#pragma weak faults_calloc
#pragma weak faults_realloc
#pragma weak faults_free

/* Whether this call shall fail. */
bool faults_strike(void);

/* Whether a call of CPython then raises KeyboardInterrupt, and not MemoryError. */
bool faults_interrupts(void);

/* Whether Go is asked each time. */
bool faults_forgets(void);

/* How the Go function that calls this shall panic; 0: not at all. */
int faults_panic(void);

/* The allocator, with a count of what is not freed. */
void *faults_malloc(size_t bytes);
void *faults_calloc(size_t count, size_t bytes);
void *faults_realloc(void *memory, size_t bytes);
void faults_free(void *memory);

#define malloc(bytes) faults_malloc(bytes)
#define calloc(count, bytes) faults_calloc(count, bytes)
#define realloc(memory, bytes) faults_realloc(memory, bytes)
#define free(memory) faults_free(memory)

#if defined Py_PYTHON_H || defined DLPACK_PLATFORM_H

#define mmap(...) (faults_strike() ? MAP_FAILED : mmap(__VA_ARGS__))
#define mprotect(...) (faults_strike() ? -1 : mprotect(__VA_ARGS__))
#define pthread_create(...) (faults_strike() ? EAGAIN : pthread_create(__VA_ARGS__))
#define pthread_getattr_np(...) (faults_strike() ? ENOMEM : pthread_getattr_np(__VA_ARGS__))
#define pthread_atfork(...) (faults_strike() ? ENOMEM : pthread_atfork(__VA_ARGS__))
#define dladdr(...) (faults_strike() ? 0 : dladdr(__VA_ARGS__))
#define dlopen(...) (faults_strike() ? NULL : dlopen(__VA_ARGS__))
#define syscall(number, ...) ((number) == SYS_memfd_create && faults_strike() ? -1 : syscall(number, ##__VA_ARGS__))
#define open(...) (faults_strike() ? -1 : open(__VA_ARGS__))
#define sendfile(...) (faults_strike() ? -1 : sendfile(__VA_ARGS__))

#endif

#ifdef Py_PYTHON_H

static inline bool faults_raise(void)
{
    if (!faults_strike()) {
        return false;
    }
    if (faults_interrupts()) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
    else {
        PyErr_NoMemory();
    }
    return true;
}

/* Fails after the call: functions that steal references steal them even if they fail. */
static inline PyObject *faults_drop(PyObject *made)
{
    if (made != NULL && faults_raise()) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

#define FAULT(failed, call) (faults_raise() ? (failed) : (call))

#undef Py_BuildValue
#define Py_BuildValue(...) faults_drop(_Py_BuildValue_SizeT(__VA_ARGS__))
#define PyTuple_SetItem(...) (PyTuple_SetItem(__VA_ARGS__) < 0 || faults_raise() ? -1 : 0)
#define PyBool_FromLong(...) faults_drop(PyBool_FromLong(__VA_ARGS__))

#define get_optional_attribute(obj, name, value)                                                                       \
    (faults_raise() ? (*(value) = NULL, -1) : get_optional_attribute(obj, name, value))
#define vectorcall(...) FAULT(NULL, vectorcall(__VA_ARGS__))
#define vectorcall_method(...) FAULT(NULL, vectorcall_method(__VA_ARGS__))

#undef PyArg_ParseTuple
#define PyArg_ParseTuple(...) FAULT(0, _PyArg_ParseTuple_SizeT(__VA_ARGS__))
#undef PyArg_ParseTupleAndKeywords
#define PyArg_ParseTupleAndKeywords(...) FAULT(0, _PyArg_ParseTupleAndKeywords_SizeT(__VA_ARGS__))
#define PyObject_GetAttr(...) FAULT(NULL, PyObject_GetAttr(__VA_ARGS__))
#define PyCapsule_New(...) FAULT(NULL, PyCapsule_New(__VA_ARGS__))
#define PyDict_GetItemString(...) FAULT(NULL, PyDict_GetItemString(__VA_ARGS__))
#define PyDict_GetItemWithError(...) FAULT(NULL, PyDict_GetItemWithError(__VA_ARGS__))
#define PyErr_CheckSignals(...) FAULT(-1, PyErr_CheckSignals(__VA_ARGS__))
#define PyDict_SetItem(...) FAULT(-1, PyDict_SetItem(__VA_ARGS__))
#define PyDict_SetItemString(...) FAULT(-1, PyDict_SetItemString(__VA_ARGS__))
#define PyErr_Format(...) FAULT(NULL, PyErr_Format(__VA_ARGS__))
#define PyErr_SetObject(...) FAULT((void)0, PyErr_SetObject(__VA_ARGS__))
#define PyErr_SetString(...) FAULT((void)0, PyErr_SetString(__VA_ARGS__))
#define PyLong_FromLong(...) FAULT(NULL, PyLong_FromLong(__VA_ARGS__))
#define PyLong_FromLongLong(...) FAULT(NULL, PyLong_FromLongLong(__VA_ARGS__))
#define PyLong_FromUnsignedLongLong(...) FAULT(NULL, PyLong_FromUnsignedLongLong(__VA_ARGS__))
#define PyLong_FromVoidPtr(...) FAULT(NULL, PyLong_FromVoidPtr(__VA_ARGS__))
#define PyMemoryView_FromObject(...) FAULT(NULL, PyMemoryView_FromObject(__VA_ARGS__))
#define PyModule_AddIntConstant(...) FAULT(-1, PyModule_AddIntConstant(__VA_ARGS__))
#define PyModule_AddObjectRef(...) FAULT(-1, PyModule_AddObjectRef(__VA_ARGS__))
#define PyModule_AddStringConstant(...) FAULT(-1, PyModule_AddStringConstant(__VA_ARGS__))
#define PyModule_AddType(...) FAULT(-1, PyModule_AddType(__VA_ARGS__))
#define PyObject_CallNoArgs(...) FAULT(NULL, PyObject_CallNoArgs(__VA_ARGS__))
#define PyMapping_GetItemString(...) FAULT(NULL, PyMapping_GetItemString(__VA_ARGS__))
#define PyObject_CallObject(...) FAULT(NULL, PyObject_CallObject(__VA_ARGS__))
#define _PyObject_GC_New(...) FAULT(NULL, _PyObject_GC_New(__VA_ARGS__))
#define PyObject_GenericGetDict(...) FAULT(NULL, PyObject_GenericGetDict(__VA_ARGS__))
#define PyObject_GetBuffer(...) FAULT(-1, PyObject_GetBuffer(__VA_ARGS__))
#define PyTuple_New(...) FAULT(NULL, PyTuple_New(__VA_ARGS__))
#define PyTuple_Pack(...) FAULT(NULL, PyTuple_Pack(__VA_ARGS__))
#define PyType_FromSpec(...) FAULT(NULL, PyType_FromSpec(__VA_ARGS__))
#define PyUnicode_AsUTF8AndSize(...) FAULT(NULL, PyUnicode_AsUTF8AndSize(__VA_ARGS__))
#define PyUnicode_FromString(...) FAULT(NULL, PyUnicode_FromString(__VA_ARGS__))
#define PyUnicode_InternFromString(...) FAULT(NULL, PyUnicode_InternFromString(__VA_ARGS__))

#endif
#endif
