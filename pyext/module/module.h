/* module.h: the room of the module: asdlpack, frombuffer, from_pointer, copy_into, and which protocol an object speaks.
 *
 * Ownership: new references. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_MODULE_H
#define DLPACK_MODULE_H

#include "out/out.h"

/* module.c */

/* asdlpack(obj, copy=copy, device=device); NULL: None */
DLPackObject *share(PyObject *obj, enum copy copy, const DLDevice *device);

/* memory.c */

PyObject *frombuffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *from_pointer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* copy_into.c */

PyObject *copy_into(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* A new object that holds obj's buffer, which the request describes. NULL: error. */
DLPackObject *hold_buffer(PyObject *obj, enum copy copy, struct request *request);

/* known_types.c */
enum known_type {
    NOT_KNOWN, /* nobody has looked */
    CHANGES,   /* each object is looked at: the type, or one object alone, may change */
    BUFFER_ALONE,
    HAS_DLPACK,
    HAS_BOTH, /* the same memory by __dlpack__ and by the buffer, as numpy's arrays */
};

/* By which protocol the objects of obj's type are recognised, as far as that is known. */
enum known_type known_type(PyObject *obj);

/* Whether the memory that obj's buffer gives is Python's or numpy's own, which can't fault: a file's can, once that is cut
 * short. */
bool owns_memory(PyObject *obj);

/* Remembers that of the object's type, which was just seen to be so, where it can't change. -1: error. */
int remember_type(PyObject *obj, enum known_type known);

#endif
