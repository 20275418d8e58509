/* module.h: the room of the module: asdlpack, frombuffer, from_pointer, copy_into, and which protocol an object speaks.
 *
 * Ownership: new references. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_MODULE_H
#define DLPACK_MODULE_H

#include "out/out.h"

/* module.c */

/* asdlpack(obj, copy=copy, device=device); a device of NULL is None */
DLPackObject *share(PyObject *obj, enum copy copy, const DLDevice *device);

/* memory.c */

PyObject *frombuffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *from_pointer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* copy_into.c */

PyObject *copy_into(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* Makes an object that holds obj's buffer, and describes that in the request. NULL: error. */
DLPackObject *hold_buffer(PyObject *obj, enum copy copy, struct request *request);

/* known_types.c */
enum known_type {
    NOT_KNOWN, /* not looked at yet */
    CHANGES,   /* look at each object: the type, or a single object, may change */
    BUFFER_ALONE,
    HAS_DLPACK,
    HAS_BOTH, /* the same memory by __dlpack__ and by the buffer, as numpy arrays have */
};

/* Returns how objects of obj's type are recognised, if it is known. */
enum known_type known_type(PyObject *obj);

/* True if obj's buffer is memory of Python's or numpy's own, which can't fault. A mapped file can, once it is
 * truncated. */
bool owns_memory(PyObject *obj);

/* Caches `known`, which was just found for obj, for its type, if that can't change. -1: error. */
int remember_type(PyObject *obj, enum known_type known);

#endif
