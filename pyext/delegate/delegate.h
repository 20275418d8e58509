/* delegate.h: the room of objects with __dlpack__, which are asked when their memory is needed: delegates.
 *
 * Ownership: a delegate holds its producer, and at most one import of its tensor, which is kept; other imports are the
 * caller's. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_DELEGATE_H
#define DLPACK_DELEGATE_H

#include "read/read.h"

/* These are for any DLPackObject, a delegate or not. */

/* The object with the tensor: self, or of a delegate its import; borrowed. Work on the memory may go on. NULL: error. */
DLPackObject *tensor_of(DLPackObject *self);

/* tensor_of, for use in the order of the legacy default stream: a producer's work on a device is ordered before. */
DLPackObject *ordered_tensor_of(DLPackObject *self);

/* tensor_of, for use by the CPU: work on the memory has ended. NULL: error, or the CPU can't read the memory. */
DLPackObject *cpu_tensor_of(DLPackObject *self);

/* The object with the memory on a device, and copied where copy says so. NULL: error. */
DLPackObject *object_on(DLPackObject *self, const DLDevice *device, enum copy copy);

/* These are for delegates alone. */

/* The producer's own device, or where it does not say, that of its tensor. 0: read; -1: error. */
int delegate_device(DLPackObject *self, DLDevice *device);

/* The capsule that the producer gives for these arguments, or one of the tensor that it gives otherwise. */
PyObject *delegate_export(DLPackObject *self, const struct export_arguments *arguments);

/* For dlpack._delegate; what they raise they return, as the functions there do. */

/* dlpack._dlpack._import(x, capsule, stream): a new object with the tensor of a capsule that x's producer gave, which the
 * work queued on the stream completes. */
PyObject *import_given(PyObject *module, PyObject *args);

/* dlpack._dlpack._read_by_others(x, copy): (protocol or None, object): the first protocol other than __dlpack__ of x's
 * producer, and a new object with what it says, None where there is none. */
PyObject *read_by_others(PyObject *module, PyObject *args);

#endif
