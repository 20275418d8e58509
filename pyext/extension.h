/* extension.h: what the C files of the extension share. An object goes through them in this order:
 *
 *   module.c     asdlpack(): which protocol the object speaks (known_types.c: the types of which that is known)
 *   memory.c     frombuffer(), from_pointer(): the caller says what the memory is
 *   capsule.c, producer.c, interface.c, buffer.c, arrow.c, arrow_stream.c    read one protocol into a struct request
 *                (request.c)
 *   core.c       asks the Go core (start.c) what to make of the request, or recalls its answer (answers.c)
 *   object.c     the DLPackObject that holds the memory (device_memory.c: that of a copy on a GPU)
 *   type.c       its attributes, methods and slots
 *   export.c     __dlpack__: capsules and their deleters
 *   exchange_api.c    __dlpack_c_exchange_api__: the same for consumers in C
 *   export_buffer.c, export_interface.c, export_arrow.c    the other protocols out
 */
#ifndef DLPACK_EXTENSION_H
#define DLPACK_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"

/* What every wrap, export and release runs lies together, and whatever leads to an error lies elsewhere: what runs takes
 * few lines of the processor's instruction cache, most of which the libraries on both sides need. */
#define HOT __attribute__((hot))
extern __typeof__(PyErr_Format) PyErr_Format __attribute__((cold));
extern __typeof__(PyErr_SetString) PyErr_SetString __attribute__((cold));
extern __typeof__(PyErr_NoMemory) PyErr_NoMemory __attribute__((cold));

/* Without a GIL, what two threads do to one object may happen at once. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

enum { INLINE_NDIM = 4 }; /* dimensions whose shape and strides need no allocation of their own */

/* What a DLPackObject owns besides its reference to obj, and gives back when it dies. */
enum holding { HOLDS_NOTHING, HOLDS_VIEW, HOLDS_OBJECT, HOLDS_LEGACY, HOLDS_VERSIONED, HOLDS_MEMORY, HOLDS_DEVICE };

/* One piece of memory and what keeps it alive; or, where `delegate` is set, an object with __dlpack__ that is asked
 * anew at every export, and `imported` once its tensor was needed here. */
typedef struct DLPackObject {
    PyObject_HEAD
    PyObject *weakrefs;
    PyObject *obj;                           /* what asdlpack was given; NULL for a copy, which keeps no source alive */
    _Atomic(struct DLPackObject *) imported; /* set once */
    const char *protocol;                    /* NULL after the garbage collector cleared the object */
    uint8_t holding;                         /* enum holding: which of the union */
    uint8_t copy;                            /* enum copy: what asdlpack was told */
    bool has_target;                         /* it was told a device, too */
    bool delegate;
    bool versioned_only;
    bool on_cpu; /* the CPU can read the memory */
    DLDevice target;
    int64_t stream;        /* by whose order the memory is complete, or STREAM_UNKNOWN */
    uint64_t thread;       /* whose STREAM_PER_THREAD that is, by a number of its own */
    int32_t exports;       /* buffers that are not released: the garbage collector takes no memory from under them */
    DLPackVersion version; /* of the versioned struct that was taken over; 0.0 where there was none */
    uint64_t flags;        /* DLPACK_FLAG_BITMASK_* */
    DLTensor tensor;       /* validated; shape and strides are dims or a malloc of their own */
    /* Behind here a new object is not zeroed. */
    int64_t itemsize;
    struct type_names names;
    int64_t dims[2 * INLINE_NDIM];
    union {
        Py_buffer view;
        PyObject *object;
        void *managed; /* a DLManagedTensor or DLManagedTensorVersioned */
        void *memory;  /* from posix_memalign */
        struct device_memory *device_memory;
    };
} DLPackObject;

/* Interned names, made once. */
extern struct names {
    PyObject *dlpack, *dlpack_device, *array_interface, *array_struct, *cuda_array_interface, *arrow_c_array,
        *arrow_c_stream;
    PyObject *stream, *max_version, *dl_device, *copy, *owner, *device, *readonly, *requested_schema;
    PyObject *shape, *typestr, *data, *strides, *offset, *mask, *version, *dtype, *name, *module;
} names;

/* python.c */
int python_init(void);

/* Whether this thread may use Python as it is: it costs less to know than to take the GIL again. Where Python is
 * finalising or gone, no reference may be touched. */
bool holds_gil(void);

/* A new reference to None. From 3.12 on nobody counts those, but the macros here do, as 3.11: 2**30 more or fewer, and
 * None is no longer known as immortal, nor as None. So what may be None is counted by Python's own functions where it
 * goes to Python or comes from it: by this one, and by Py_DecRef. */
PyObject *new_none(void);

/* Takes the GIL. Python does not finalise until it is given back. False while Python finalises, or where this thread holds
 * a sub-interpreter's GIL: touch no reference. */
bool take_gil(PyGILState_STATE *state);

void give_gil_back(PyGILState_STATE state);

void python_after_fork(void);

/* How many calls of a kind are nested: context variables, since greenlets share a thread, and each has its own context. */
extern PyObject *nested_imports, *nested_frees;

/* Counts a call that may lead to another of its kind. 1: counted, until leave_nested gets the token; 0: `most` are nested
 * already; -1: error. */
int enter_nested(PyObject *counter, int most, PyObject **token);
void leave_nested(PyObject *counter, PyObject *token);

/* An attribute, without an exception where it is absent. 1: *value is a new reference; 0: absent, *value is NULL;
 * -1: error. */
int optional_attribute(PyObject *obj, PyObject *name, PyObject **value);

/* dict[key]. 1: *value is a new reference; 0: absent, *value is NULL; -1: error. */
int dict_item(PyObject *dict, PyObject *key, PyObject **value);

/* A parameter of a function: its name, NULL where it is given by position alone, and where its value goes, borrowed. */
struct parameter {
    PyObject *name;
    PyObject **value;
};

/* Puts the arguments of a METH_FASTCALL | METH_KEYWORDS function where its parameters say. The first `positional` may
 * be given by position, the first `required` must be given. -1: error. */
int read_arguments(const char *function, const struct parameter *parameters, int count, int positional, int required,
                   PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* args[0].name(**kwnames): the values of the keywords in the tuple follow in args[1] and on. A new reference; NULL:
 * error. */
PyObject *call_method(PyObject *name, PyObject *const *args, PyObject *kwnames);

/* Reads an int, or what has __index__, into an int64_t or a uint64_t. 1: read; 0: no int, or one that does not fit;
 * -1: error. */
int read_int(PyObject *value, bool is_signed, void *into);

/* Reads a tuple or list of ints, at most MAX_NDIM of them, and counts all. 1: read; 0: no such, or an int that does not
 * fit; -1: error. */
int read_ints(PyObject *sequence, int64_t *into, int32_t *count);

/* The UTF-8 of a str. 1: *text is borrowed; 0: no str, or one with a NUL or a lone surrogate; -1: error. */
int read_text(PyObject *value, const char **text);

/* "numpy.ndarray", "bytes": a new reference. */
PyObject *type_name(PyObject *obj);

/* The repr, cut where it is long: messages quote what comes from outside. A new reference; NULL: error. */
PyObject *short_repr(PyObject *obj);

/* Raises "<expected>, got <repr of value>". */
void raise_unexpected(PyObject *exception, const char *expected, PyObject *value);

/* Calls a function of a module of this package ("dlpack._arguments"), for what is rare and Python's own library does.
 * Steals args, a tuple, which may be NULL. A new reference; NULL: error. */
PyObject *call_python(const char *module, const char *function, PyObject *args);

/* Gives a reference back to what may be a capsule: its destructor is foreign code, and an exception that is pending
 * outlives it. */
void drop_capsule(PyObject *capsule);

/* Clears the pending exception and returns "BufferError: its message", a new reference; NULL: error. */
PyObject *take_exception_text(void);

/* module.c */

/* What asdlpack is told besides obj. */
struct share_arguments {
    enum copy copy;
    PyObject *owner;        /* what a borrowed DLTensor's memory lives by; NULL: none */
    const DLDevice *device; /* where the memory shall be; NULL: where it is */
};

/* asdlpack(obj, ...) */
DLPackObject *share(PyObject *obj, const struct share_arguments *arguments);

/* Describes self->obj by the first protocol other than __dlpack__ that it speaks. 1: done; 0: it speaks none; -1:
 * error. */
int describe_by_other_protocols(DLPackObject *self);

/* memory.c */

/* A device by its name, or as a pair. -1: error. */
int read_device(PyObject *value, DLDevice *device);

extern const char frombuffer_doc[], from_pointer_doc[];
PyObject *frombuffer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *from_pointer(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* known_types.c */
enum known_type { NOT_KNOWN, BUFFER_ALONE, HAS_DLPACK, CHANGES };

/* By which protocol the objects of this one's type are recognised, as far as that is known. */
enum known_type known_type(PyObject *obj);

/* Remembers that of the object's type, which was just seen to be so, where it can't change. -1: error. */
int remember_type(PyObject *obj, enum known_type known);

/* buffer.c, interface.c, arrow.c, arrow_stream.c: each reads the protocol self->protocol of self->obj into the request,
 * and lets self hold what must live. 1: read; 0: the object does not speak it; -1: error. */
int read_buffer(DLPackObject *self, struct request *request);
int lock_buffer(DLPackObject *self, struct request *request); /* of an object that is known to have one */
int read_array_interface(DLPackObject *self, struct request *request);
int read_array_struct(DLPackObject *self, struct request *request);
int read_cuda_array_interface(DLPackObject *self, struct request *request);
int read_arrow_array(DLPackObject *self, struct request *request);
int read_arrow_stream(DLPackObject *self, struct request *request);

/* arrow.c: of arrays and of the chunks of streams. */
struct ArrowSchema;
struct ArrowArray;

/* obj.name(). 1: *exported is a new reference; 0: absent or None; -1: error. */
int call_exporter(PyObject *obj, PyObject *name, PyObject **exported);

/* Reads what an array holds into the request, which borrows the schema's format. The array is NULL where there is
 * none. 0: read; -1: error. */
int read_column(const char *protocol, const struct ArrowSchema *schema, const struct ArrowArray *array,
                struct request *request);

/* The same, of structures that are moved to where self holds them. */
int share_column(DLPackObject *self, struct ArrowSchema *schema, struct ArrowArray *array, struct request *request);

/* Raise ValueError. -1. */
int raise_null(const char *protocol, const char *field, const char *expected);
int raise_too_large(const char *protocol);

/* Refuses an array that gives itself as a table, and so loses its shape. */
int check_rows(PyObject *obj, const struct ArrowSchema *schema, int64_t rows);

/* Lets self hold the exporter's buffer locked, and returns a view of it to read: self's, or the scratch. NULL:
 * error. */
const Py_buffer *hold_view(DLPackObject *self, PyObject *exporter, Py_buffer *scratch, int flags);

/* The exporter's compact buffer, locked, as the bytes that the request is about: its data and span. -1: error. */
int read_bytes(DLPackObject *self, PyObject *exporter, struct request *request);

/* capsule.c */

/* The names of capsules; the standard wants them static, since consumers may compare addresses. */
extern const char capsule_legacy[], capsule_versioned[], capsule_used_legacy[], capsule_used_versioned[];

/* Refuses structures of another major version. */
int check_version(DLPackVersion version);

/* Owns a managed tensor, which is complete by the order of self->stream. Refused, it is not self's, and no deleter was
 * called. */
int take_managed(DLPackObject *self, void *managed, bool versioned);

/* Takes a "dltensor" or "dltensor_versioned" capsule over: renames it and owns its tensor, which is complete by the
 * order of self->stream. Refused, it is as it was. */
int take_capsule(DLPackObject *self, PyObject *capsule);

/* What the structures of dlpack.structs are to asdlpack: borrowed or taken over. */
enum structure { STRUCTURE_TENSOR, STRUCTURE_LEGACY, STRUCTURE_VERSIONED };

/* dlpack._dlpack._register_structures: three times a structure's type and the type of ctypes pointers to it. */
PyObject *register_structures(PyObject *module, PyObject *args);

/* 1: obj is a ctypes pointer to such a structure; 0: it is none; -1: error, it is the structure itself. */
int find_structure(PyObject *obj, enum structure *kind);

/* Takes over the managed tensor that a ctypes pointer leads to, and makes the pointer NULL. Its deleter is called
 * exactly once, also where the tensor is refused. */
int take_structure(DLPackObject *self, PyObject *pointer, enum structure kind);

/* Whether self took a managed tensor over through such a pointer. */
bool holds_structure(const DLPackObject *self);

/* These describe and take nothing over: what they lead to must outlive self. */
int look_at_capsule(DLPackObject *self, PyObject *capsule);
int look_at_structure(DLPackObject *self, PyObject *pointer, enum structure kind);

/* producer.c: objects with __dlpack__. */

/* The arguments of __dlpack__, borrowed; NULL where absent or None. */
struct export_arguments {
    PyObject *stream, *max_version, *dl_device, *copy;
};

/* The producer's own device, or where it does not say, that of its tensor. 0: read; -1: error. */
int delegate_device(DLPackObject *self, DLDevice *device);

/* A new object with the producer's tensor as it is now. */
DLPackObject *delegate_import(DLPackObject *self);

/* Has the producer order its work on the imported memory of CUDA before the legacy default stream's. */
int delegate_order(DLPackObject *self);

/* A new object with the producer's memory, which is here, on another device: as the producer gives it there, or
 * copied. */
DLPackObject *delegate_move(DLPackObject *self, DLDevice here, const struct request *conditions);

/* The capsule that the producer gives for these arguments, or one of the tensor that it gives otherwise. */
PyObject *delegate_export(DLPackObject *self, const struct export_arguments *arguments);

/* request.c */

/* Empties a request, but for its dims. */
void request_init(struct request *request, enum protocol protocol);

/* The format is copied where it is short; a long one is borrowed until the request is answered. */
void request_format(struct request *request, const char *format);

/* Shape and strides (NULL: none) of request->ndim values each; unit is the stride of neighbours in memory whose
 * compact strides say nothing; 0: they are kept. */
void request_dims(struct request *request, const int64_t *shape, const int64_t *strides, int64_t unit);

/* A request about a tensor, with the flags of its versioned struct. */
void request_tensor(struct request *request, const DLTensor *tensor, uint64_t flags);

/* start.c */
int start_init(void);

/* The core's describe. NULL: no core can start; with an exception set. */
typedef void describe_function(struct request *, struct answer *);
describe_function *running_core(void);

/* core.c */
/* Answers the request: from memory, or by one call into Go. -1 with an exception set where the answer is an error, which
 * has no copy. */
int ask(struct request *request, struct answer *answer);

/* Frees the memory of the answer's copy, if it has one. */
void free_copy(const struct answer *answer);

/* How many calls into Go this process has made. */
uint64_t core_calls(void);

/* answers.c */

/* Whether the request is known by its kind alone: compact memory with items, whose shape is no part of its key. */
bool any_shape(const struct request *request);

/* The answer to an equal request, whose data and span, and where they are no part of the key its dims, may be others;
 * false: none is remembered. */
bool recall(const struct request *request, struct answer *answer);

/* Remembers the answer, if it may be. */
void remember(const struct request *request, const struct answer *answer);

void mend_answers_after_fork(void);

/* object.c */
/* An object that nobody sees: the garbage collector knows of it from object_describe, or from being a delegate, on. */
DLPackObject *object_new(PyObject *obj, enum copy copy);

/* Whether the memory is self's own: a copy. */
bool holds_memory(const DLPackObject *self);

/* Calls the deleter, if there is one. */
void delete_managed(void *managed, bool versioned);

/* Lets the object own a managed tensor, or gives it back at once where a copy was made of it. */
void object_hold_managed(DLPackObject *self, void *managed, bool versioned);

/* Asks what to make of the request, and fills the tensor; a copy takes the place of what self held. -1: error. */
int object_describe(DLPackObject *self, struct request *request);

/* -1 with an exception set where the garbage collector cleared the object. */
int object_check(DLPackObject *self);

/* The object with the tensor: self, or for a delegate what was imported; borrowed. NULL: error. */
DLPackObject *tensor_of(DLPackObject *self);

/* The same where the memory is about to be used here: a producer's work on it is ordered before the legacy default
 * stream's. */
DLPackObject *ordered_tensor_of(DLPackObject *self);

/* The same where the CPU is about to use the memory, which is waited for. NULL: error, also where the CPU can't. */
DLPackObject *cpu_tensor_of(DLPackObject *self);

/* The object that meets the conditions: self, or a new one with a copy of its memory, or with the same memory on
 * another device. NULL: error. */
DLPackObject *object_under(DLPackObject *self, const struct request *conditions);

/* By whose order the memory is complete for this thread: CUDA's legacy default stream waits for the per-thread ones of
 * all threads, and stands for that of another. */
int64_t producer_stream(const DLPackObject *self);

/* The object with the memory on a device, and copied where copy says so. NULL: error. */
DLPackObject *object_on(DLPackObject *self, const DLDevice *device, enum copy copy);

/* Slots. */
int object_traverse(DLPackObject *self, visitproc visit, void *arg);
int object_clear(DLPackObject *self);
void object_dealloc(DLPackObject *self);

/* type.c */
extern PyTypeObject *DLPackObject_type;
int type_init(PyObject *module);

/* Bytes of all elements. */
int64_t object_nbytes(const DLPackObject *self);

/* Whether items share bytes; padded sub-byte items fill itemsize each. */
bool object_is_packed(const DLPackObject *self);

/* Whether the items lie without gaps, in row-major ('C') or column-major order ('F'). */
bool object_is_compact(const DLPackObject *self, char order);

/* The address of the first item; where there is none any address, since consumers take NULL for an error. */
void *object_address(DLPackObject *self);

/* Raises "device <name>:<id>: <reason>". */
void object_refuse_device(const DLPackObject *self, const char *reason);

/* Raises "strides <...> of shape <...>: expected <...>". */
void object_refuse_strides(const DLPackObject *self, const char *expected);

/* The values, each times the unit. */
PyObject *tuple_of(const int64_t *values, int32_t count, int64_t unit);

/* device_memory.c */
void free_device_memory(struct device_memory *memory);

/* export.c */

/* 0: read; -1: error. */
int parse_copy(PyObject *value, enum copy *copy);
int parse_max_version(PyObject *value, bool *versioned);

/* 1: read; 0: no pair of 32-bit ints; -1: error. */
int parse_device(PyObject *pair, DLDevice *device);

/* Whether two names mean one device: the CPU has one id. */
bool same_device(DLDevice one, DLDevice other);

/* Whether the CUDA driver knows such memory. */
bool is_of_cuda(DLDevice device);

/* Whether the memory is complete for a consumer that names no stream. */
bool is_complete(const DLPackObject *self);

/* A managed tensor of self's, which holds a reference to self. NULL: error. */
DLManagedTensorVersioned *make_managed(DLPackObject *self);

/* Gives back the reference to the owner and frees the block that had it; on any thread, at any time. */
void release_export(void *owner, void *block);

/* A capsule of self's tensor for these arguments. */
PyObject *export_tensor(DLPackObject *self, const struct export_arguments *arguments);

/* DLPackObject.__dlpack__ */
PyObject *object_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

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
