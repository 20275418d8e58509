/* out.h: the room of the type DLPackObject and what it gives: __dlpack__, buffers, array interfaces, Arrow, the C exchange
 * API.
 *
 * Ownership: what goes out holds a reference to the object with the tensor, which keeps the memory alive. Errors: NULL or
 * -1 with an exception set; attributes that don't apply raise AttributeError. */
#ifndef DLPACK_OUT_H
#define DLPACK_OUT_H

#include "delegate/delegate.h"

/* type.c: makes the type and adds it to the module. Called once per import. */
int type_init(PyObject *module);

/* exchange_api.c: sets DLPackObject.__dlpack_c_exchange_api__ */
int exchange_api_init(void);

/* export_buffer.c: slots of DLPackObject, and __bytes__ */
int object_get_buffer(PyObject *self, Py_buffer *view, int flags);
void object_release_buffer(PyObject *self, Py_buffer *view);
PyObject *object_bytes(PyObject *self, PyObject *ignored);

/* export_interface.c: attributes of DLPackObject, absent (AttributeError) where they don't apply; and __array__ */
PyObject *get_array_interface(PyObject *self, void *closure);
PyObject *get_array_struct(PyObject *self, void *closure);
PyObject *get_cuda_array_interface(PyObject *self, void *closure);
PyObject *object_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* export_arrow.c: DLPackObject.__arrow_c_array__ */
PyObject *object_arrow_c_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

#endif
