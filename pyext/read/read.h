/* read.h: the room that reads the protocols: each file reads one of them into a request, and lets the hold own what keeps
 * the memory alive. It knows no DLPackObject.
 *
 * Ownership: the hold owns that even if the reader then fails; the caller gives it back. */
#ifndef DLPACK_READ_H
#define DLPACK_READ_H

#include "hold/hold.h"

/* Facts read of an object. */
struct reading {
    PyObject *obj; /* borrowed; NULL: none */
    const char *protocol;
    struct hold *hold;      /* the place in the future DLPackObject */
    struct terms terms;     /* copy and target */
    int64_t stream;         /* completes a managed tensor's memory */
    DLPackVersion version;  /* of a versioned struct; else 0.0 */
    bool readonly;          /* the memory must not be written */
    bool lent;              /* if the memory is refused, the hold gives nothing back: it stays the caller's */
    bool exports;           /* the object is made for one export: IS_COPIED stays in its flags */
    bool hides_obj;         /* from the garbage collector: obj keeps alive the structure taken over */
    struct request request; /* not zeroed */
};

/* Initialises all but the request. device: NULL for the memory's own. */
void reading_init(struct reading *reading, PyObject *obj, enum copy copy, const DLDevice *device, struct hold *hold);

/* Readers. 1: read; 0: the object does not speak the protocol; -1: error, with an exception set. */
int lock_buffer(struct reading *reading); /* for an object that is known to have a buffer; never 0 */
int lock_exporter(struct reading *reading, PyObject *exporter); /* as lock_buffer, of another object */
int read_fixed_size_binary(struct reading *reading);            /* Arrow items of N bytes, as arrays of uint8 */
int read_by_protocols(struct reading *reading); /* by the first of those other than __dlpack__ that the object speaks */

/* Readers of one protocol, for protocols.c. The first three get the value of its attribute, and an initialised request. */
int read_interface(struct reading *reading, PyObject *dict);
int read_array_struct(struct reading *reading, PyObject *capsule);
int read_arrow(struct reading *reading, PyObject *method);
int read_buffer(struct reading *reading, PyObject *ignored);
int read_frame(struct reading *reading, PyObject *ignored); /* of pandas, as dlpack._arrow.frame_source says */
int read_to_dlpack(struct reading *reading, PyObject *ignored);

/* protocols.c */

/* Adds to the pending error of reading the object what to do instead, if that is known for it. */
void explain_refusal(const struct reading *reading);

/* capsule.c */

/* Capsule names. The standard wants them static, since consumers may compare addresses. */
extern const char capsule_legacy[], capsule_versioned[], capsule_used_legacy[], capsule_used_versioned[];

/* Refuses structures of another major version. */
int check_version(DLPackVersion version);

/* Reads a managed tensor, which is lent; the hold owns it. */
int read_managed(struct reading *reading, void *managed, bool versioned);

/* Reads a "dltensor" or "dltensor_versioned" capsule, and renames it: its tensor is lent. */
int read_capsule(struct reading *reading, PyObject *capsule);

/* Gives a refused capsule its name back. */
void return_capsule(PyObject *capsule);

/* exchange.c */

/* How to take the tensors of a type by its C exchange API. */
struct exchange;

/* Returns how to take the tensors of objects of obj's type by its C exchange API, if that was found before; borrowed,
 * never freed. NULL: it was not. */
const struct exchange *known_exchange(PyObject *obj);

/* Finds that for a type that is not known. NULL: ask __dlpack__. -1: error. */
int find_exchange(PyObject *obj, const struct exchange **exchange);

/* Returns the C exchange API in a capsule, of this major version. NULL: none; an exception may be pending. */
const DLPackExchangeAPI *exchange_api_in(PyObject *capsule);

/* Takes a tensor on the CPU or CUDA, as __dlpack__ would give it; *managed is the caller's. Work on CUDA's memory is
 * queued on *stream. Refuses what check_negative refuses. 1: taken; 0: ask __dlpack__; -1: error, which is final. */
int exchange_tensor(const struct exchange *exchange, PyObject *obj, DLManagedTensorVersioned **managed,
                    int64_t *stream);

/* 1: obj's memory is the CPU's, as __dlpack_device__ would say; 0: ask __dlpack_device__; -1: error. */
int exchange_is_on_cpu(const struct exchange *exchange, PyObject *obj);

/* Refuses an object whose items are stored negated: its __dlpack__ would give other values. -1: error, which is final. */
int check_negative(const struct exchange *exchange, PyObject *obj);

/* Calls the deleter of a managed tensor. A pending exception stays. */
void delete_exchanged(DLManagedTensorVersioned *managed);

/* Makes a capsule; steals managed. */
PyObject *exchanged_capsule(DLManagedTensorVersioned *managed);

/* buffer.c */

/* Refuses numpy's masked arrays. -1: error. Looks only at objects with buffers whose type is mutable. */
int check_mask(PyObject *obj);

/* Locks the exporter's contiguous buffer, and sets the request's data and span to its bytes. -1: error. */
int read_bytes(struct reading *reading, PyObject *exporter);

/* As read_bytes, if the exporter may refuse. 1: read; 0: refused, without an exception; -1: another error. */
int try_bytes(struct reading *reading, PyObject *exporter);

/* known_types.c */
enum known_type {
    NOT_KNOWN, /* not looked at yet */
    CHANGES,   /* look at each object: the type, or a single object, may change */
    BUFFER_ALONE,
    HAS_DLPACK,
    HAS_BOTH, /* the same memory by __dlpack__ and by the buffer, as numpy arrays have */
};

/* Returns how objects of obj's type are recognised, if it is known. */
enum known_type known_type(PyObject *obj);

/* True if obj's buffer is memory of Python's or numpy's own, which can't fault. A mapped file can, once it is
 * truncated. */
bool owns_memory(PyObject *obj);

/* 1: a numpy array (HAS_BOTH) holds Python objects, which no protocol shares; 0: it doesn't; -1: error. */
int holds_objects(PyObject *obj);

/* Caches `known`, which was just found for obj, for its type, if that can't change. -1: error. */
int remember_type(PyObject *obj, enum known_type known);

#endif
