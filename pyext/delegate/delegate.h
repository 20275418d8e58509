/* delegate.h: the room of delegates: objects with __dlpack__, which are asked when their memory is needed.
 *
 * Ownership: a delegate holds its producer, and keeps at most one import of its tensor; other imports are the caller's.
 * Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_DELEGATE_H
#define DLPACK_DELEGATE_H

#include "object/object.h"

/* For any DLPackObject, delegate or not. */

/* Returns the object with the tensor: self, or a delegate's import; borrowed. Work on it may still run. NULL: error. */
struct memory *tensor_of(DLPackObject *self);

/* Like tensor_of, but a new reference. Orders a producer's work on a device before the legacy default stream, or off CUDA
 * waits for it: then the object is a new one of the same memory. */
struct memory *ordered_tensor_of(DLPackObject *self);

/* Like tensor_of, and waits for work on the memory to end. NULL: error, or the CPU can't read the memory. */
struct memory *cpu_tensor_of(DLPackObject *self);

/* Returns an object with self's memory on the device (NULL: its own), copied if `copy` says so. NULL: error. */
PyObject *object_on(DLPackObject *self, const DLDevice *device, enum copy copy);

/* For delegates only. */

/* Reads the producer's device, or if it does not say, that of its tensor. 0: read; -1: error. */
int delegate_device(struct delegate *self, DLDevice *device);

/* Returns the producer's capsule for these arguments, or if it gives none that fits, another capsule of its tensor. NULL
 * without an exception: the arguments are not plain. */
PyObject *delegate_export(struct delegate *self, const struct export_arguments *arguments);

/* For dlpack._delegate; like the functions there, they return exceptions instead of raising them. */

/* dlpack._dlpack._import(x, capsule, stream): a new object with the tensor of a capsule from x's producer, which the
 * work queued on the stream completes. */
PyObject *import_given(PyObject *module, PyObject *args);

/* dlpack._dlpack._read_by_others(x, copy): the first protocol other than __dlpack__ that x's producer speaks, and a new
 * object read by it; (None, None) if there is none. */
PyObject *read_by_others(PyObject *module, PyObject *args);

#endif
