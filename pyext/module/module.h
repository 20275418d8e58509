/* module.h: the room of the module: asdlpack, frombuffer, from_pointer, copy_into, and which protocol an object speaks.
 *
 * Ownership: new references. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_MODULE_H
#define DLPACK_MODULE_H

#include "give/give.h"

/* module.c */

/* asdlpack(obj, copy=copy, device=device); a device of NULL is None */
PyObject *share(PyObject *obj, enum copy copy, const DLDevice *device);

/* memory.c */

PyObject *frombuffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *from_pointer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* dlpack._dlpack._keep(x, obj, readonly): a new DLPackObject of x's memory, with obj. It drops x before obj. If
 * `readonly`, the memory must not be written through it. */
PyObject *keep(PyObject *module, PyObject *args);

/* structures.c */

/* dlpack._dlpack._register_structures */
PyObject *register_structures(PyObject *module, PyObject *args);

/* Returns the function of dlpack.structs that reads obj, a structure or a ctypes pointer to one; borrowed. NULL: obj is
 * neither. */
PyObject *structure_reader(PyObject *obj);

/* dlpack._dlpack._structure_reader */
PyObject *structure_reader_of(PyObject *module, PyObject *obj);

/* dlpack._dlpack._share_structure(pointer, kind, takes, copy, device): a DLPackObject of the structure at a ctypes
 * pointer. If `takes`, takes it over: the pointer becomes NULL, and the deleter is called exactly once, even if the
 * tensor is refused. Otherwise the structure and its memory must outlive the object. */
PyObject *share_structure(PyObject *module, PyObject *args);

/* to.c */

PyObject *to(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* copy_into.c */

PyObject *copy_into(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

#endif
