/* object.h: the room of DLPackObject: what it holds, its layout, its capsules and deleters.
 *
 * Ownership: a DLPackObject holds one reference, view, tensor or block that keeps its memory alive, and gives it back
 * when it dies. Each capsule and each managed tensor made of it holds one reference to it. Functions return new
 * references unless they say borrowed. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_OBJECT_H
#define DLPACK_OBJECT_H

#include "ask/ask.h"

enum { INLINE_NDIM = 4 }; /* dimensions whose shape and strides need no allocation of their own, which is 5 ns */

/* What a DLPackObject owns besides its reference to obj, and gives back when it dies. */
enum holding { HOLDS_NOTHING, HOLDS_VIEW, HOLDS_OBJECT, HOLDS_LEGACY, HOLDS_VERSIONED, HOLDS_MEMORY, HOLDS_DEVICE };

/* One piece of memory and what keeps it alive; or, where `delegate` is set, an object with __dlpack__ that is asked
 * anew at every export, and `imported` once its tensor was needed here. */
typedef struct DLPackObject {
    PyObject_HEAD
    PyObject *weakrefs;
    PyObject *obj;                           /* what asdlpack was given; NULL for a copy, which keeps no source alive */
    _Atomic(struct DLPackObject *) imported; /* set once */
    const char *protocol;
    uint8_t holding; /* enum holding: which of the union */
    uint8_t copy;    /* enum copy: what asdlpack was told */
    bool has_target; /* it was told a device, too */
    bool delegate;
    bool hides_obj; /* from the garbage collector: obj keeps alive the structure that was taken over */
    bool versioned_only;
    bool on_cpu;          /* the CPU can read the memory */
    bool producer_copied; /* the capsule said IS_COPIED; object_kept clears that flag */
    DLDevice target;
    int64_t stream;        /* whose queued work completes the memory, or STREAM_UNKNOWN */
    uint64_t thread;       /* whose STREAM_PER_THREAD that is: the thread's serial */
    DLPackVersion version; /* of the versioned struct that was taken over; 0.0 where there was none */
    uint64_t flags;        /* DLPACK_FLAG_BITMASK_* */
    DLTensor tensor; /* validated; behind shape and strides lie the strides in bytes: dims or a malloc of their own */
    /* object_new zeroes only the fields above. */
    int64_t itemsize;
    struct type_names names;
    int64_t dims[3 * INLINE_NDIM];
    union {
        Py_buffer view;
        PyObject *object;
        void *managed; /* a DLManagedTensor or DLManagedTensorVersioned */
        void *memory;  /* from allocate_aligned; or a struct device_memory */
    };
} DLPackObject;

/* object.c */

/* Set by the room that makes the type, out/, before the first object. */
extern PyTypeObject *DLPackObject_type;

/* A new object that holds obj (or NULL). Not GC-tracked yet: object_describe tracks it; a delegate its maker. */
DLPackObject *object_new(PyObject *obj, enum copy copy);

/* Whether the memory is self's own: a copy. */
bool holds_memory(const DLPackObject *self);

/* Clears IS_COPIED, and returns self (or NULL): the flag promises a consumer that it owns the memory alone, but who has
 * self keeps it, and may export it again. */
DLPackObject *object_kept(DLPackObject *self);

/* Calls the deleter, if there is one. */
void delete_managed(void *managed, bool versioned);

/* Lets the object own a managed tensor, or gives it back at once where a copy was made of it. */
void object_hold_managed(DLPackObject *self, void *managed, bool versioned);

/* Asks what to make of the request, and fills the tensor; a copy takes the place of what self held. -1: error. */
int object_describe(DLPackObject *self, struct request *request);

/* The object that meets the terms: self, or a new one with a copy of its memory, or with the same memory on
 * another device. NULL: error. */
DLPackObject *object_meeting(DLPackObject *self, const struct terms *terms);

/* The stream whose queued work completes the memory, as this thread may name it: CUDA's legacy default stream waits for
 * the per-thread ones of all threads, and stands for that of another. */
int64_t producer_stream(const DLPackObject *self);

/* Slots. */
int object_traverse(DLPackObject *self, visitproc visit, void *arg);
void object_dealloc(DLPackObject *self);

/* layout.c */

/* Bytes of all elements. */
int64_t object_nbytes(const DLPackObject *self);

/* The strides in bytes, of items that share none; borrowed. */
int64_t *byte_strides(const DLPackObject *self);

/* Whether items share bytes; padded sub-byte items fill itemsize each. */
bool object_is_packed(const DLPackObject *self);

/* Whether the items lie without gaps, in row-major ('C') or column-major order ('F'). */
bool object_is_compact(const DLPackObject *self, char order);

/* The address of the first item; where there is none any address, since consumers take NULL for an error. */
void *object_address(DLPackObject *self);

/* Raises BufferError with the text of this name in dlpack._object.REFUSALS. -1. */
int object_refuse(const DLPackObject *self, const char *refusal);

/* Elements, whatever they take. */
int64_t size_of(const DLTensor *tensor);

/* export.c */

/* The names of capsules; the standard wants them static, since consumers may compare addresses. */
extern const char capsule_legacy[], capsule_versioned[], capsule_used_legacy[], capsule_used_versioned[];

/* The arguments of __dlpack__, borrowed; NULL where absent or None. */
enum { EXPORT_ARGUMENTS = 4 };
struct export_arguments {
    union {
        struct {
            PyObject *stream, *max_version, *dl_device, *copy;
        };
        PyObject *all[EXPORT_ARGUMENTS];
    };
};

/* Read plain values; false: it is none. A max_version of NULL is absent. */
bool plain_copy(PyObject *value, enum copy *copy);
bool plain_device(PyObject *pair, DLDevice *device);
bool plain_max_version(PyObject *value, bool *versioned);

/* asdlpack's copy; borrowed. */
PyObject *copy_value(enum copy copy);

/* For a function of Python's: self and the arguments. */
PyObject *pack_arguments(DLPackObject *self, const struct export_arguments *arguments);

/* self.__dlpack__ with arguments of which some are not plain. */
PyObject *export_in_python(DLPackObject *self, const struct export_arguments *arguments);

/* Whether two names mean one device: the CPU has one id. */
bool same_device(DLDevice one, DLDevice other);

/* Whether the memory is complete for a consumer that names no stream. */
bool needs_no_ordering(const DLPackObject *self);

/* A managed tensor of self's, which holds a reference to self. NULL: error. */
DLManagedTensorVersioned *make_managed(DLPackObject *self);

/* Gives back the reference to the owner and frees the block that had it; on any thread, at any time. */
void release_export(void *owner, void *block);

/* A capsule of self's tensor for these arguments. */
PyObject *export_tensor(DLPackObject *self, const struct export_arguments *arguments);

#endif
