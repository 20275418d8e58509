/* python.h: the room of CPython: names, arguments, the GIL, attributes. It knows Python objects, and nothing of memory.
 *
 * Ownership: unless said otherwise, results are new references and arguments are borrowed. Errors: NULL or -1 with an
 * exception set; with a result of 0, no exception is set. */
#ifndef DLPACK_PYTHON_H
#define DLPACK_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"

/* HOT puts all functions that each wrap, export and release runs into one text section; cold moves error paths out of
 * it. That saves lines of the instruction cache, which the libraries on both sides need as well: 0 to 3 %. */
#define HOT __attribute__((hot))
extern __typeof__(PyErr_Format) PyErr_Format __attribute__((cold));
extern __typeof__(PyErr_SetString) PyErr_SetString __attribute__((cold));
extern __typeof__(PyErr_NoMemory) PyErr_NoMemory __attribute__((cold));

#define COUNT_OF(array) (int)(sizeof(array) / sizeof *(array))

/* Only a Python without a GIL needs to keep two threads from using one object at once. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* names.<name> is the interned str "name", or "__name__". Made once, and never freed. */
#define NAMES(NAME, DUNDER)                                                                                            \
    DUNDER(dlpack), DUNDER(dlpack_device), DUNDER(array_interface), DUNDER(array_struct),                              \
        DUNDER(cuda_array_interface), DUNDER(arrow_c_device_array), DUNDER(arrow_c_device_stream),                     \
        DUNDER(arrow_c_array), DUNDER(arrow_c_stream), DUNDER(dlpack_c_exchange_api), NAME(stream), NAME(max_version), \
        NAME(dl_device), NAME(copy), NAME(owner), NAME(device), NAME(readonly), NAME(shape), NAME(typestr),            \
        NAME(data), NAME(strides), NAME(offset), NAME(mask), NAME(version), NAME(dtype), NAME(obj), NAME(pointer),     \
        NAME(cpu), NAME(base), NAME(to_dlpack), NAME(harden_mask), NAME(view), NAME(iloc)

#define MEMBER(name) *name
extern struct names {
    PyObject NAMES(MEMBER, MEMBER);
} names;

/* Made once, and never freed. */
extern struct constants {
    PyObject *newest_version;  /* DLPack's, for max_version */
    PyObject *cpu;             /* (kDLCPU, 0) */
    PyObject *export_keywords; /* tuples of __dlpack__'s keywords; a tuple's index has a bit for each */
} constants;

/* Finds functions of Python that the stable ABI lacks, and makes the names and constants. Called once per import. */
int python_init(PyObject *module);

/* Stores the functions of the dict in python. -1: error. */
int take_functions(PyObject *functions);

/* dlpack._dlpack._stop_deleters: from now on no deleter takes the GIL. Returns True while others hold or await it. */
PyObject *stop_deleters(PyObject *module, PyObject *ignored);

/* Runs in a forked child. */
void python_after_fork(void);

/* True if this thread holds the GIL; cheaper than taking it again. False while Python finalises. */
bool holds_gil(void);

/* A new reference to None. The 3.11 macros count None even if it is immortal (3.12 and later); after 2**30 of them
 * Python takes it for mortal. So if a value may be None, use this and Py_DecRef, which are Python's own. */
PyObject *new_none(void);

/* Takes the GIL; Python does not finalise until it is given back. False while Python finalises, or if this thread holds
 * a sub-interpreter's GIL: touch no object. */
bool take_gil(PyGILState_STATE *state);

void give_gil_back(PyGILState_STATE state);

/* Gets an attribute. 1: *value is a new reference; 0: absent or None, *value is NULL, no exception; -1: error. */
int optional_attribute(PyObject *obj, PyObject *name, PyObject **value);

/* Parameters of a function. The first `positional` may be positional, the first `required` must be given; if any is
 * required, the first is positional-only. */
enum { MOST_PARAMETERS = 8 };
struct parameters {
    int positional, required;
    PyObject **names[MOST_PARAMETERS + 1]; /* ends with NULL */
};

/* Stores the arguments of a METH_FASTCALL | METH_KEYWORDS function in `values`, a struct of pointers in the
 * parameters' order; skips those not given. false: the arguments don't match, or their names are not interned: call
 * read_in_python. */
bool read_arguments(const struct parameters *parameters, void *values, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames);

/* Counts one more call of a producer in this thread, and returns the counter; decrement it after the call. NULL: error.
 * Producers may refer to each other in a circle, through DLPackObjects. Python's recursion limit does not end that,
 * since no Python function need be on the stack. If one is (in_python), the circle ends earlier. */
int *begin_producer_call(bool in_python);

/* PyObject_Vectorcall(function, args, nargs, kwnames) and PyObject_VectorcallMethod(name, args, nargs, kwnames) */
extern PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *(*vectorcall_method)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Read plain values: ints, tuples and strs. They run no foreign code and raise nothing. false: not plain, such as a
 * list or a numpy int; Python code then makes it plain, or refuses it. */
bool plain_int(PyObject *value, int64_t *into);
bool plain_address(PyObject *value, uint64_t *into);
bool plain_pair(PyObject *value, int64_t pair[2]);
bool plain_ints(PyObject *value, int64_t *into, int32_t *count); /* stores MAX_NDIM at most, counts all */
bool plain_text(PyObject *value, const char **text);             /* UTF-8 without a NUL, borrowed */

/* Functions in Python, which are rare or mostly words: python.<name>, handed down by dlpack._connect as <name>. */
#define PYTHON_FUNCTIONS(F)                                                                                            \
    F(name_hidden), F(no_buffer), F(partial), F(plain_asdlpack), F(plain_copy_into), F(plain_dlpack),                  \
        F(plain_from_pointer), F(plain_frombuffer), F(plain_to), F(takers), F(types_refused), F(plain_interface),      \
        F(buffer_in), F(refuse_bytes), F(refuse_mask), F(refuse_pointer), F(refuse_tensor), F(check_rows),             \
        F(describe_column), F(explain), F(device_answered), F(exchange_checks), F(export_keywords),                    \
        F(export_otherwise), F(import_refused), F(import_tensor), F(move), F(refusal_kinds), F(refuse_copy),           \
        F(device), F(doc), F(buffer_error), F(capsule_name), F(no_capsule), F(no_holder), F(no_protocol),              \
        F(refuse_in_words), F(absent), F(add_members), F(interface), F(no_array), F(refuse), F(repr_of),               \
        F(shares_by_both), F(is_numpy_scalar), F(about_side), F(read_only_target), F(sides_were_read),                 \
        F(start_failed), F(stream_failed), F(other_method), F(kind_and_message), F(refused), F(DType), F(PaddedDType), \
        F(dtypes), F(frame_source)

#define PYTHON_MEMBER(name) *name
extern struct python_functions {
    PyObject PYTHON_FUNCTIONS(PYTHON_MEMBER);
} python;

/* Calls a Python function and raises an exception that it returns. (Raised by the function itself without memory,
 * CPython 3.11 may lose it, and ends the process after about ten.) Steals args, a tuple or NULL. NULL: error. */
PyObject *call_python(PyObject *function, PyObject *args);

/* Makes a call without arguments, and steals `call`, which may be NULL. NULL: error. */
PyObject *make_call(PyObject *call);

/* Passes self (unless NULL) and the arguments of a METH_FASTCALL | METH_KEYWORDS function to a Python function, which
 * returns a call with plain arguments, or an exception. Makes that call and returns its result. */
PyObject *read_in_python(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames);

/* call_python for a function that returns an exception or None. 0: None; -1: error. */
int check_in_python(PyObject *function, PyObject *args);

/* Sets the docstrings of the methods from dlpack._docs. -1: error. */
int add_docs(PyMethodDef *methods);

/* A pending exception, set aside while foreign code runs. */
struct pending {
    PyObject *type, *value, *traceback;
};
void set_aside(struct pending *pending);
void put_back(const struct pending *pending);

/* True if the pending exception says that an object can't do it, rather than that something broke. */
bool is_refusal(void);

/* Drops a reference to what another library made, or NULL, and keeps a pending exception: the last reference to a capsule
 * runs its destructor, which is foreign code. */
void drop_foreign(PyObject *object);

/* Clears the pending exception and returns it with its traceback; a SystemError if foreign code failed without one. */
PyObject *take_exception(void);

#endif
