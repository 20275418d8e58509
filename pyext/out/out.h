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

/* Adds what Python has for it. -1: error. */
int type_connect(void);

/* exchange_api.c: the capsule __dlpack_c_exchange_api__ */
PyObject *exchange_api(void);

/* export_buffer.c: the slot of DLPackObject */
int object_get_buffer(PyObject *self, Py_buffer *view, int flags);

/* export_interface.c: __array_interface__, __array_struct__ and __cuda_array_interface__, each absent (AttributeError) where
 * it doesn't apply */
PyObject *get_interface(PyObject *self, void *attribute);

/* export_arrow.c: DLPackObject.__arrow_c_array__ */
PyObject *object_arrow_c_array(PyObject *self, PyObject *args, PyObject *keywords);

#endif
