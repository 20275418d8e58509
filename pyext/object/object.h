/* object.h: the room of DLPackObject: what it holds, its layout, its capsules and deleters.
 *
 * Ownership: a DLPackObject holds one reference, view, tensor or block that keeps its memory alive, and releases that
 * when it dies. Each capsule and each managed tensor made of it holds one reference to it. Results are new references
 * unless called borrowed. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_OBJECT_H
#define DLPACK_OBJECT_H

#include "read/read.h"

enum { INLINE_NDIM = 4 }; /* dimensions whose shape and strides lie in the object, which saves 5 ns */

/* The stable ABI of free-threaded Pythons hides the size of PyObject (PEP 803). The fields of an object come behind this
 * space; if it is too small, PyType_FromSpec fails. CPython 3.15 fills half of it. */
#ifdef Py_TARGET_ABI3T
#define PyObject_HEAD char head[64];
#endif

/* Fields that both kinds of DLPackObjects begin with. */
#define OBJECT_HEAD                                                                                                    \
    PyObject_HEAD                                                                                                      \
    PyObject *weakrefs;                                                                                                \
    PyObject *obj; /* the object given; NULL for a copy, which keeps no source alive */                                \
    const char *protocol;                                                                                              \
    uint8_t copy; /* enum copy: asdlpack's argument */                                                                 \
    bool is_delegate;
typedef struct {
    OBJECT_HEAD
} DLPackObject;

/* Memory and what keeps it alive. It does not change once others have it. */
struct memory {
    OBJECT_HEAD
    bool hides_obj; /* from the garbage collector: obj keeps alive the structure taken over */
    bool versioned_only;
    bool on_cpu;           /* the CPU can read the memory */
    bool producer_copied;  /* the capsule said IS_COPIED */
    int64_t stream;        /* stream whose queued work completes the memory, or STREAM_UNKNOWN */
    uint64_t thread;       /* serial of the thread to which a STREAM_PER_THREAD belongs */
    DLPackVersion version; /* of the versioned struct taken over; else 0.0 */
    uint64_t flags;        /* DLPACK_FLAG_BITMASK_*. IS_COPIED, which promises a consumer that it owns the memory alone,
                            * only if the object was made for one export. */
    DLTensor tensor;       /* validated; shape, strides and strides in bytes lie in dims, or in one block from malloc */
    int64_t itemsize;
    struct type_names names;
    int64_t dims[3 * INLINE_NDIM];
    struct hold hold;
};

/* An object with __dlpack__, which is asked anew at each export. */
struct delegate {
    OBJECT_HEAD
    const struct exchange *exchange;   /* how to take its tensor without asking; NULL: ask */
    _Atomic(struct memory *) imported; /* its tensor, once that was needed here; set once */
};

/* object.c */

/* Set by type_init, in give/, before the first object. */
extern PyTypeObject *DLPackObject_type;

/* Begins an object for obj's memory (NULL: of no object), on a device (NULL: its own): initialises the reading, whose hold
 * is the object's. NULL: no memory. */
struct memory *object_begin(struct reading *reading, PyObject *obj, enum copy copy, const DLDevice *device);

/* Asks what to make of the reading, and finishes the object that was begun for it (NULL: none). NULL: error, or nothing
 * was found; then the hold gives back what it owns, unless that is lent. */
struct memory *object_of(int found, struct memory *begun, struct reading *reading);

/* Reads obj, and makes the object; if `exports`, for one export alone. NULL: error, or if the reader found nothing,
 * without an exception. */
struct memory *object_by(int (*read)(struct reading *), struct reading *reading, PyObject *obj, enum copy copy,
                         const DLDevice *device, bool exports);

/* Takes over the tensor of a capsule; one that is refused is as before. Steals begun. */
struct memory *object_of_capsule(struct memory *begun, struct reading *reading, PyObject *capsule);

/* Makes the delegate of obj, which has __dlpack__. exchange: how to take its tensor without asking; NULL: ask. */
struct delegate *delegate_of(PyObject *obj, enum copy copy, const struct exchange *exchange);

/* Clears IS_COPIED of an object that was made for one export, and is now kept; before others have it. */
void object_keep(struct memory *self);

/* Reads an object's tensor; the hold then owns the object. */
void read_object(struct reading *reading, struct memory *self);

/* Returns the object that meets the terms: self, or a new one with a copy of its memory, or with the same memory on
 * another device. NULL: error. */
struct memory *object_meeting(struct memory *self, const struct terms *terms);

/* Returns the stream whose queued work completes the memory, as this thread may name it. The per-thread stream of
 * another thread becomes CUDA's legacy default stream, which waits for all per-thread ones. */
int64_t producer_stream(const struct memory *self);

/* Slots. */
int object_traverse(PyObject *self, visitproc visit, void *arg);
void object_dealloc(PyObject *self);

/* layout.c */

/* Bytes of all elements. */
int64_t object_nbytes(const struct memory *self);

/* Strides in bytes; borrowed. Meaningless for packed items. */
int64_t *byte_strides(const struct memory *self);

/* True if items share bytes. Padded sub-byte items do not: each fills itemsize. */
bool object_is_packed(const struct memory *self);

/* True if the items are contiguous, in row-major ('C') or column-major order ('F'). */
bool object_is_compact(const struct memory *self, char order);

/* The address of the first item. Without items, any address but NULL, which consumers take for an error. */
void *object_address(struct memory *self);

/* Raises BufferError with the text of dlpack._errors.REFUSALS[refusal]. Returns -1. */
int object_refuse(const struct memory *self, const char *refusal);

/* True if both are one device; the CPU's id is ignored. */
bool same_device(DLDevice one, DLDevice other);

/* Number of elements. */
int64_t size_of(const DLTensor *tensor);

/* export.c */

/* Arguments of __dlpack__, borrowed; NULL if absent or None. */
enum { EXPORT_ARGUMENTS = 4 };
struct export_arguments {
    union {
        struct {
            PyObject *stream, *max_version, *dl_device, *copy;
        };
        PyObject *all[EXPORT_ARGUMENTS];
    };
};

/* Read plain values. false: not plain. A max_version of NULL is absent. */
bool plain_copy(PyObject *value, enum copy *copy);
bool plain_device(PyObject *pair, DLDevice *device);
bool plain_max_version(PyObject *value, bool *versioned);

/* The value of asdlpack's copy: False, None or True; borrowed. */
PyObject *copy_value(enum copy copy);

/* True if the memory is complete for a consumer that names no stream. */
bool needs_no_ordering(const struct memory *self);

/* Makes a managed tensor, which holds a reference to self. NULL: error. */
DLManagedTensorVersioned *make_managed(struct memory *self);

/* Drops the reference to the owner, and frees the block; on any thread, at any time. */
void release_export(void *owner, void *block);

/* Makes a capsule of self's tensor for these arguments. NULL without an exception: they are not plain. */
PyObject *export_tensor(struct memory *self, const struct export_arguments *arguments);

#endif
