/* read.h: the room that reads the protocols: each file reads one of them into a request, and lets the object hold what
 * keeps the memory alive.
 *
 * Ownership: a reader stores in self what keeps the memory alive, even if it then fails; the caller drops self. Errors:
 * -1 with an exception set; 0 without one if the object does not speak the protocol. */
#ifndef DLPACK_READ_H
#define DLPACK_READ_H

#include "object/object.h"

/* protocols.c */

/* Describe self->obj, and set self->protocol to the protocol read. 1: done; 0: it speaks none; -1: error. */
int describe_by_buffer(DLPackObject *self);
int describe_by_protocols(DLPackObject *self); /* by the first protocol other than __dlpack__ that it speaks */

/* After a failure: if self->obj gave a stream, adds to the pending exception that the stream has been read. */
void explain_read_stream(DLPackObject *self);

/* Adds to the pending error of reading self->obj what to do instead, if that is known for this object. */
void explain_refusal(DLPackObject *self);

/* capsule.c */

/* Refuses structures of another major version. */
int check_version(DLPackVersion version);

/* Takes over a managed tensor, which the work queued on self->stream completes. If it is refused, self does not own it,
 * and its deleter was not called. */
int take_managed(DLPackObject *self, void *managed, bool versioned);

/* Takes over a "dltensor" or "dltensor_versioned" capsule: renames it and owns its tensor, which the work queued on
 * self->stream completes. If it is refused, the capsule is as before. */
int take_capsule(DLPackObject *self, PyObject *capsule);

/* Describes a capsule without taking it over: its tensor must outlive self. */
int inspect_capsule(DLPackObject *self, PyObject *capsule);

/* Takes over the capsule that obj.to_dlpack() returns. Returns as the readers below do. */
int read_to_dlpack(DLPackObject *self, struct request *request);

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

/* buffer.c, interface.c, arrow.c: each reads its protocol of self->obj into the request, and lets self hold what keeps
 * the memory alive. 1: read; 0: the object does not speak it; -1: error. */
int read_buffer(DLPackObject *self, struct request *request);
/* As read_buffer, for an object that is known to have a buffer. */
int lock_buffer(DLPackObject *self, struct request *request);
int read_array_interface(DLPackObject *self, struct request *request);
int read_array_struct(DLPackObject *self, struct request *request);
int read_cuda_array_interface(DLPackObject *self, struct request *request);
int read_arrow_array(DLPackObject *self, struct request *request);
int read_arrow_stream(DLPackObject *self, struct request *request);

/* buffer.c */

/* Refuses numpy's masked arrays. -1: error. Looks only at objects with buffers whose type is mutable. */
int check_mask(PyObject *obj);

/* Locks the exporter's contiguous buffer, and sets the request's data and span to its bytes. -1: error. */
int read_bytes(DLPackObject *self, PyObject *exporter, struct request *request);

/* As read_bytes, if the exporter may refuse. 1: read; 0: refused, without an exception; -1: another error. */
int try_bytes(DLPackObject *self, PyObject *exporter, struct request *request);

#endif
