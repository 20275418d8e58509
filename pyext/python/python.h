/* python.h: the room of CPython: names, arguments, the GIL, attributes. It knows objects of Python, and nothing of memory.
 *
 * Ownership: what a function returns or stores is a new reference, and what it takes is borrowed, unless it says
 * otherwise. Errors: NULL or -1 with an exception set; a function that also answers 0 has then set none. */
#ifndef DLPACK_PYTHON_H
#define DLPACK_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"

/* HOT puts what every wrap, export and release runs into one text section; cold moves what leads to an error out of it.
 * So they take few lines of the instruction cache, which the libraries on both sides need, too: 0 to 3 %. */
#define HOT __attribute__((hot))
extern __typeof__(PyErr_Format) PyErr_Format __attribute__((cold));
extern __typeof__(PyErr_SetString) PyErr_SetString __attribute__((cold));
extern __typeof__(PyErr_NoMemory) PyErr_NoMemory __attribute__((cold));

#define COUNT_OF(array) (int)(sizeof(array) / sizeof *(array))

/* Without a GIL, what two threads do to one object may happen at once. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* Each names.<name> is the interned str "name", or "__name__", made once and kept for ever. */
#define NAMES(NAME, DUNDER)                                                                                            \
    DUNDER(dlpack), DUNDER(dlpack_device), DUNDER(array_interface), DUNDER(array_struct),                              \
        DUNDER(cuda_array_interface), DUNDER(arrow_c_array), DUNDER(arrow_c_stream), NAME(stream), NAME(max_version),  \
        NAME(dl_device), NAME(copy), NAME(owner), NAME(device), NAME(readonly), NAME(shape), NAME(typestr),            \
        NAME(data), NAME(strides), NAME(offset), NAME(mask), NAME(version), NAME(dtype), NAME(obj), NAME(pointer),     \
        NAME(cpu), NAME(base), NAME(to_dlpack), NAME(harden_mask)

#define MEMBER(name) *name
extern struct names {
    PyObject NAMES(MEMBER, MEMBER);
} names;

/* Made once, and kept for ever. */
extern struct constants {
    PyObject *newest_version;  /* of DLPack, for max_version */
    PyObject *legacy_stream;   /* 1 */
    PyObject *cpu;             /* (kDLCPU, 0) */
    PyObject *export_keywords; /* tuples of __dlpack__'s, by the bits of those that are in it */
} constants;

/* Finds functions that Python has and the stable ABI has not, and makes the names and constants. Called once per import. */
int python_init(PyObject *module);

/* Takes the Python functions, from a dict. -1: error. */
int take_functions(PyObject *functions);

/* dlpack._dlpack._stop_deleters: from now on, no deleter begins to take the GIL. Whether some still have or await it. */
PyObject *stop_deleters(PyObject *module, PyObject *ignored);

/* In a forked child. */
void python_after_fork(void);

/* Whether this thread holds the GIL, which costs less to know than to take it again. false while Python finalises. */
bool holds_gil(void);

/* A new reference to None. The macros of 3.11 count None even where it is immortal, from 3.12 on, and after 2**30 of them
 * Python takes it for mortal. So for what may be None, use this and Py_DecRef, Python's own functions. */
PyObject *new_none(void);

/* Takes the GIL. Python does not finalise until it is given back. False while Python finalises, or where this thread holds
 * a sub-interpreter's GIL: touch no reference. */
bool take_gil(PyGILState_STATE *state);

void give_gil_back(PyGILState_STATE state);

/* An attribute, without an exception where it is absent. 1: *value is a new reference; 0: absent or None, *value is
 * NULL; -1: error. */
int optional_attribute(PyObject *obj, PyObject *name, PyObject **value);

/* The parameters of a function. The first `positional` may be given by position, and the first `required` must be given;
 * if any is required, the first is positional-only. */
enum { MOST_PARAMETERS = 8 };
struct parameters {
    int positional, required;
    PyObject **names[MOST_PARAMETERS + 1]; /* behind the last, NULL */
};

/* Puts the arguments of a METH_FASTCALL | METH_KEYWORDS function into values, a struct of pointers in the order of the
 * parameters; what is not given stays as it is. false: the arguments are others, or their names are not interned, and
 * read_in_python has to look at them. */
bool read_arguments(const struct parameters *parameters, void *values, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames);

/* The count of this thread's calls of producers that have not ended, which the caller counts down after its own. NULL:
 * error. A producer may say that its memory is a DLPackObject's, whose producer says the same, and so on in a circle.
 * Python's recursion limit does not end that: no Python function need be on the stack. Where one is (in_python), this
 * ends it earlier. */
int *begin_producer_call(bool in_python);

/* PyObject_VectorcallMethod(name, args, nargs, kwnames) */
extern PyObject *(*vectorcall_method)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Plain values are ints, tuples and strs. To read them runs no foreign code and raises nothing; what is not plain, such as
 * a list or an int of numpy's, Python's side makes plain, or refuses. */
bool plain_int(PyObject *value, int64_t *into);
bool plain_address(PyObject *value, uint64_t *into);
bool plain_pair(PyObject *value, int64_t pair[2]);
bool plain_ints(PyObject *value, int64_t *into, int32_t *count); /* reads MAX_NDIM of them at most, and counts all */
bool plain_text(PyObject *value, const char **text);             /* UTF-8 without a NUL, borrowed */

/* Raises "<expected>, got <repr of value>". -1. */
int raise_unexpected(PyObject *exception, const char *expected, PyObject *value);

/* What Python does, since it is rare, or mostly words: python.<name>, which dlpack._connect hands down as <name>. */
#define PYTHON_FUNCTIONS(F)                                                                                            \
    F(call_dlpack), F(name_hidden), F(no_buffer), F(partial), F(plain_asdlpack), F(plain_copy_into), F(plain_dlpack),  \
        F(plain_from_pointer), F(plain_frombuffer), F(plain_interface), F(refuse_bytes), F(refuse_mask),               \
        F(refuse_pointer), F(refuse_tensor), F(check_rows), F(describe_column), F(explain), F(device_answered),        \
        F(export_keywords), F(export_otherwise), F(import_refused), F(import_tensor), F(move), F(refusal_kinds),       \
        F(refuse_copy), F(device), F(doc), F(buffer_error), F(capsule_name), F(no_capsule), F(no_holder),              \
        F(no_protocol), F(unexpected_value), F(absent), F(add_members), F(interface), F(no_array), F(refuse),          \
        F(repr_of), F(shares_by_both), F(is_numpy_scalar), F(about_side), F(read_only_target), F(sides_were_read),     \
        F(start_failed), F(stream_failed), F(streams_instead), F(kind_and_message)

#define PYTHON_MEMBER(name) *name
extern struct python_functions {
    PyObject PYTHON_FUNCTIONS(PYTHON_MEMBER);
} python;

/* Steals args, a tuple, which may be NULL. An exception that the function returns is raised. If it raises one itself and there
 * is no memory, CPython 3.11 may lose it, and ends the process at the tenth or so. A new reference; NULL: error. */
PyObject *call_python(PyObject *function, PyObject *args);

/* The result of a call without arguments, which it steals and which may be NULL: error. */
PyObject *make_call(PyObject *call);

/* Gives the arguments of a METH_FASTCALL | METH_KEYWORDS function, after self, which may be NULL, to a Python function that
 * returns a call with plain arguments, or an exception. Makes that call and returns its result. */
PyObject *read_in_python(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames);

/* call_python of a function that returns an exception or None. 0: None; -1: error. */
int check_in_python(PyObject *function, PyObject *args);

/* Sets the documentation of the methods, as dlpack._docs has it. -1: error. */
int add_docs(PyMethodDef *methods);

/* An exception that is pending, set aside while foreign code runs. */
struct pending {
    PyObject *type, *value, *traceback;
};
void set_aside(struct pending *pending);
void put_back(const struct pending *pending);

/* True if the pending exception says that an object can't, rather than that something broke. */
bool is_refusal(void);

/* Gives a reference back to what may be a capsule: its destructor is foreign code, and an exception that is pending
 * outlives it. */
void drop_capsule(PyObject *capsule);

/* The pending exception, which is no more, with its traceback; a new reference. */
PyObject *take_exception(void);

#endif
