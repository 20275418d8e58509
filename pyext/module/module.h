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

/* structures.c */

/* dlpack._dlpack._register_structures */
PyObject *register_structures(PyObject *module, PyObject *args);

/* Returns the function of dlpack.structs that reads obj, a structure or a ctypes pointer to one; borrowed. NULL: obj is
 * neither. */
PyObject *structure_reader(PyObject *obj);

/* dlpack._dlpack._structure_reader */
PyObject *structure_reader_of(PyObject *module, PyObject *obj);

/* dlpack._dlpack._share_structure(pointer, kind, takes, owner, copy, device): a DLPackObject of the structure at a
 * ctypes pointer. If `takes`, takes it over: the pointer becomes NULL, and the deleter is called exactly once, even if
 * the tensor is refused. Otherwise the structure must outlive the object, which holds the owner. */
PyObject *share_structure(PyObject *module, PyObject *args);

/* to.c */

PyObject *to(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* copy_into.c */

PyObject *copy_into(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

#endif
