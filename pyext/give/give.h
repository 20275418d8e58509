/* give.h: the room of the type DLPackObject and its exports: __dlpack__, buffers, array interfaces, Arrow, the C
 * exchange API.
 *
 * Ownership: an export holds a reference to the object with the tensor, which keeps the memory alive. Errors: NULL or
 * -1 with an exception set; attributes that don't apply raise AttributeError. */
#ifndef DLPACK_GIVE_H
#define DLPACK_GIVE_H

#include "delegate/delegate.h"

/* type.c: makes the type and adds it to the module. Called once per import. */
int type_init(PyObject *module);

/* Adds the docstrings, and the members that Python defines. -1: error. */
int type_connect(void);

/* exchange_api.c: makes the capsule __dlpack_c_exchange_api__ */
PyObject *exchange_api(void);

/* Makes a managed tensor, of a delegate as its producer exports it now; the caller's. NULL: error. */
DLManagedTensorVersioned *managed_tensor_of(DLPackObject *self);

/* Lets the legacy default stream wait for the memory. -1: error. */
int order_before_default_stream(struct memory *self);

/* export_buffer.c: the type's slot bf_getbuffer */
int object_get_buffer(PyObject *self, Py_buffer *view, int flags);

/* export_interface.c: the three array interfaces; AttributeError if one doesn't apply */
PyObject *get_interface(PyObject *self, void *attribute);

/* export_arrow.c: DLPackObject.__arrow_c_array__ and __arrow_c_device_array__ */
PyObject *object_arrow_c_array(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *object_arrow_c_device_array(PyObject *self, PyObject *args, PyObject *keywords);

#endif
