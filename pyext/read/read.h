/* read.h: the room of the protocols in: each file reads one of them into a request, and lets the object hold what must
 * live.
 *
 * Ownership: a reader leaves in self what keeps the memory alive, also where it fails; the caller drops self. Errors: -1
 * with an exception set; 0 where the object does not speak the protocol, without one. */
#ifndef DLPACK_READ_H
#define DLPACK_READ_H

#include "object/object.h"

/* protocols.c */

/* Describe self->obj, and set self->protocol to what it was read by. 1: done; 0: it speaks none; -1: error. */
int describe_by_buffer(DLPackObject *self);
int describe_by_protocols(DLPackObject *self); /* by the first protocol other than __dlpack__ that it speaks */

/* After a failure: where self->obj gave a stream, the pending exception says, too, that it has been read. */
void explain_read_stream(DLPackObject *self);

/* Adds to the pending error of reading self->obj what to do instead, if that is known of such an object. */
void explain_refusal(DLPackObject *self);

/* capsule.c */

/* Refuses structures of another major version. */
int check_version(DLPackVersion version);

/* Owns a managed tensor, which the work queued on self->stream completes. Refused, it is not self's, and no deleter was
 * called. */
int take_managed(DLPackObject *self, void *managed, bool versioned);

/* Takes a "dltensor" or "dltensor_versioned" capsule over: renames it and owns its tensor, which the work queued
 * on self->stream completes. Refused, it is as it was. */
int take_capsule(DLPackObject *self, PyObject *capsule);

/* Describes a capsule and takes nothing over: what it leads to must outlive self. */
int inspect_capsule(DLPackObject *self, PyObject *capsule);

/* Takes over the capsule that obj.to_dlpack() returns. Returns as the readers below do. */
int read_to_dlpack(DLPackObject *self, struct request *request);

/* dlpack._dlpack._register_structures */
PyObject *register_structures(PyObject *module, PyObject *args);

/* The function of dlpack.structs that reads such an object, a ctypes pointer to a structure or the structure itself;
 * borrowed. NULL: it is none. */
PyObject *structure_reader(PyObject *obj);

/* dlpack._dlpack._structure_reader */
PyObject *structure_reader_of(PyObject *module, PyObject *obj);

/* dlpack._dlpack._share_structure(pointer, kind, takes, owner, copy, device): a DLPackObject of the structure that a
 * ctypes pointer leads to. Where it is taken over, the pointer becomes NULL, and the deleter is called exactly once, also
 * where the tensor is refused. Otherwise it must outlive the object, which holds the owner. */
PyObject *share_structure(PyObject *module, PyObject *args);

/* buffer.c, interface.c, arrow.c: each reads the protocol self->protocol of self->obj into the request, and lets self hold
 * what must live. 1: read; 0: the object does not speak it; -1: error. */
int read_buffer(DLPackObject *self, struct request *request);
/* The same of an object that is known to have a buffer. */
int lock_buffer(DLPackObject *self, struct request *request);
int read_array_interface(DLPackObject *self, struct request *request);
int read_array_struct(DLPackObject *self, struct request *request);
int read_cuda_array_interface(DLPackObject *self, struct request *request);
int read_arrow_array(DLPackObject *self, struct request *request);
int read_arrow_stream(DLPackObject *self, struct request *request);

/* buffer.c */

/* Refuses numpy's masked arrays. -1: error. Only classes that are defined in Python and have buffers are looked at. */
int check_mask(PyObject *obj);

/* The exporter's compact buffer, locked, as the bytes that the request is about: its data and span. -1: error. */
int read_bytes(DLPackObject *self, PyObject *exporter, struct request *request);

/* The same where the exporter may refuse: 1: read; 0: refused, without an exception; -1: another error. */
int try_bytes(DLPackObject *self, PyObject *exporter, struct request *request);

#endif
