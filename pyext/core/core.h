/* core.h: the whole contract between the C extension and the Go core.
 *
 * C reads a Python object into a struct request; Go answers with a struct answer. No Python object and no Go pointer
 * crosses, and Go never calls Python. Go allocates nothing for a valid request that needs no large copy and no driver.
 * The answer for a copy on a device carries the driver functions that free it. */
#ifndef DLPACK_CORE_H
#define DLPACK_CORE_H

#include <dlpack/dlpack.h>

#include <stdbool.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

enum {
    MAX_NDIM = 64,    /* dimensions of a request and of an answer; also the limit of numpy and of the buffer protocol */
    FORMAT_SIZE = 24, /* a format of this many bytes or more is in long_format, and never in Go's table */
    NAME_SIZE = 32,   /* the longest data type name, "float8_e4m3b11fnuzx65535", and its NUL fit */
    LETTERS_SIZE = 4, /* another protocol's format of a data type, such as "Zf", and its NUL fit */
    TYPESTR_SIZE = 8, /* "<c16" and its NUL fit */
    COPY_ALIGNMENT = 64,  /* bytes; alignment of copies: from 64 on jax shares CPU memory zero-copy */
    HUGE_BYTES = 4 << 20, /* bytes; smaller memory does not ask for huge pages */
    MOST_CPUS = 16,       /* most CPUs that Go uses; each gets a processor (Go's word) */
    FIRST_CPUS = 1,       /* CPUs before the first large copy */
    SPARE_CPUS = 4, /* processors beyond the CPUs: a call need not wait until a large copy on all others gives one up */
    VERSION_SIZE = 32,   /* the package's version and its NUL fit */
    MESSAGE_SIZE = 1024, /* bytes of answer.message with its NUL; Go shortens what it quotes */
};

/* The protocol that the request was read from. */
enum protocol {
    PROTOCOL_DLTENSOR = 1, /* a DLTensor: dtype, strides in elements, byte_offset in `offset` */
    PROTOCOL_ARRAY_INTERFACE,
    PROTOCOL_ARRAY_STRUCT,
    PROTOCOL_CUDA_ARRAY_INTERFACE,
    PROTOCOL_BUFFER,
    PROTOCOL_ARROW_ARRAY, /* uses schema and arrays, which Go reads; data is 0 */
    PROTOCOL_ARROW_STREAM,
    PROTOCOL_MEMORY,             /* frombuffer, from_pointer; strides in elements, at most one -1 in shape */
    PROTOCOL_ARROW_DEVICE_ARRAY, /* as PROTOCOL_ARROW_ARRAY, on `device`, complete after sync_event */
    PROTOCOL_ARROW_DEVICE_STREAM,
};

/* Bits of request.facts. */
enum fact {
    FACT_NO_SHAPE = 1,  /* the shape pointer is NULL although ndim > 0: dims is not filled */
    FACT_STRIDES = 2,   /* strides were given */
    FACT_MASK = 4,      /* array interface, CUDA array interface: a mask other than None */
    FACT_STREAM = 8,    /* CUDA array interface, from_pointer: a stream other than None is in producer_stream */
    FACT_INDIRECT = 16, /* buffer: a suboffset that is not negative */
    FACT_SPAN = 32,     /* span was given */
    FACT_BYTES = 64,    /* Arrow: items of a fixed number of bytes are arrays of uint8 */
};

/* Stream numbers of the Python array API standard and of the CUDA array interface; other values are handles. A producer's
 * stream below STREAM_NO_ORDER is an event, which completes the memory: its handle, negated. */
enum { STREAM_NO_ORDER = -1, STREAM_UNKNOWN, STREAM_LEGACY, STREAM_PER_THREAD };

/* asdlpack(copy=...): False, None, True. */
enum copy { COPY_NEVER, COPY_IF_NEEDED, COPY_ALWAYS };

/* Consumers that get the memory now want it in the order of their stream, or all work on it to end before. */
enum exports { EXPORTS_NOTHING, EXPORTS_ORDERED, EXPORTS_COMPLETE };

/* Terms that the answer has to meet. */
struct terms {
    int64_t stream;  /* __dlpack__(stream=...) if has_stream; else None */
    DLDevice target; /* __dlpack__(dl_device=...) or asdlpack(device=...), if has_target */
    uint8_t copy;    /* enum copy */
    uint8_t exports; /* enum exports */
    uint8_t has_stream, has_target;
};

/* One side of a copy. */
struct side {
    uint64_t first;         /* address of the item whose indices are all 0 */
    uint64_t below, above;  /* bytes that the items reach below and above `first` */
    const int64_t *strides; /* bytes; NULL only for a target: new, row-major memory without gaps */
};

/* A copy of at least one item on the CPU; its data type is in Go's table. */
struct copy_plan {
    struct side source, target;
    const int64_t *shape;
    int64_t itemsize; /* bytes */
    int32_t ndim;
    int32_t swap; /* bytes of each word that the copy byte-swaps; 0: none */
};

struct request {
    uint8_t protocol;
    uint8_t facts;
    uint16_t version;       /* of the array interface or CUDA array interface; 0 for others */
    int32_t ndim;           /* as read; dims is filled only if it is 0 to MAX_NDIM */
    int32_t stride_count;   /* number of strides given: ndim or 0, unless the object contradicts itself */
    DLDataType dtype;       /* PROTOCOL_DLTENSOR only */
    DLDevice device;        /* the memory's device */
    uint64_t flags;         /* PROTOCOL_DLTENSOR only: the DLPACK_FLAG_BITMASK_* of a versioned struct */
    int64_t itemsize;       /* bytes; PROTOCOL_BUFFER only */
    uint64_t offset;        /* bytes to add to data */
    uint64_t format_length; /* bytes of the format, without a NUL */
    /* Padded with NULs. Buffer: the PEP 3118 format. Array interfaces and array struct: the typestr; if that may hide
     * the type, a space and obj.dtype.name follow ("<V2 bfloat16"). PROTOCOL_MEMORY: a data type's name, or such a
     * typestr. */
    char format[FORMAT_SIZE];
    /* The shape, then strides from dims[ndim] on: in elements for PROTOCOL_DLTENSOR and PROTOCOL_MEMORY, else in
     * bytes. */
    int64_t dims[2 * MAX_NDIM];

    /* Arrow; else not initialised. */
    uint64_t schema, arrays; /* addresses of an ArrowSchema, and of array_count consecutive ArrowArrays */
    uint64_t sync_event;     /* the first array's; the address of a CUevent on CUDA; 0: nothing to wait for */

    uint64_t data;           /* address */
    int64_t span;            /* bytes of memory from data on, if FACT_SPAN */
    const char *long_format; /* a format of FORMAT_SIZE bytes or more, borrowed; else, and for typestrs, NULL */
    int64_t array_count;     /* Arrow */
    int64_t producer_stream; /* stream whose queued work completes the memory; 0: unknown, unless FACT_STREAM */
    struct request *into;    /* writable memory to copy this memory into; Go then answers status alone */
    struct terms terms;
    const struct copy_plan *plan; /* not NULL: Go makes this copy, reads nothing else here, and answers status alone */
    bool owned;                   /* Python's or numpy's own memory, which can't fault: C may copy it */
};

/* The result of a request; all but STATUS_OK name a Python exception's type. */
enum status {
    STATUS_OK,
    STATUS_VALUE_ERROR,
    STATUS_BUFFER_ERROR,
    STATUS_MEMORY_ERROR,
    STATUS_RUNTIME_ERROR, /* a bug in the core: a panic was recovered */
};

/* Memory that Go allocated on a CUDA device. These functions free it without Go, in its own context and its own process
 * only. */
struct device_memory {
    uint64_t address;
    void *context;    /* CUcontext */
    int32_t retained; /* device whose primary context this keeps alive, or -1 */
    int32_t process;  /* getpid() of the process that allocated it */
    /* Driver functions in the order of their use. Each returns a CUresult. */
    int (*pointer_get_attribute)(void *data, int attribute, unsigned long long address);
    int (*ctx_push_current)(void *context);
    int (*thread_exchange_stream_capture_mode)(int *mode);
    int (*mem_free)(unsigned long long address);
    int (*ctx_pop_current)(void **context);
    int (*device_primary_ctx_release)(int device);
};

/* Names of a data type in each protocol; empty if a protocol has none. */
struct type_names {
    char dtype[NAME_SIZE];
    char format[LETTERS_SIZE];  /* buffer protocol */
    char arrow[LETTERS_SIZE];   /* Arrow; for bool that of its bytes, "c" */
    char typestr[TYPESTR_SIZE]; /* array interfaces */
};

struct answer {
    int32_t status;
    void *memory;                        /* a copy in CPU memory, which the caller frees by free_aligned; NULL: none */
    struct device_memory *device_memory; /* a copy on a device, for free_device_memory; NULL: none */

    int32_t ndim;
    DLDataType dtype;
    DLDevice device;
    uint64_t flags;          /* DLPACK_FLAG_BITMASK_* except READ_ONLY, which C keeps */
    int64_t itemsize;        /* bytes */
    uint64_t offset;         /* bytes from request.data to the first element, modulo 2**64; without elements to NULL */
    uint64_t byte_offset;    /* for DLTensor.byte_offset, on devices whose data is a handle */
    uint64_t below, above;   /* bytes that the elements reach below and above data + offset */
    int64_t stream;          /* stream whose queued work completes the memory; 0: unknown, or nothing to wait for */
    uint32_t versioned_only; /* 1: the legacy struct can't describe this tensor */
    uint32_t on_cpu;         /* 1: the CPU can read the memory */
    int32_t swap;            /* set by the table only: bytes of each word that a copy byte-swaps; 0: none */
    struct type_names names;
    int64_t dims[2 * MAX_NDIM]; /* shape, then strides in elements from dims[ndim] on */

    /* If status is not STATUS_OK, except for a plan: the refusal as UTF-8 texts, separated by US (0x1f). They are the
     * keys of its subject, saying and cure, the first and the last of which may be empty; the letters of its values'
     * forms, pkg/dlpack's Form, with a "/" before those that only the cure needs; and if there are values, their names,
     * separated by spaces. The text of each value follows behind an RS (0x1e). Python's dlpack._sayings puts them into
     * words. */
    char message[MESSAGE_SIZE];
};

/* Argument of the core's entry, which fills it. After an upgrade of the package, a forked child may load a core of
 * another version; that fills in only `version`, a field that never changes. */
struct core {
    char version[VERSION_SIZE];                          /* in: the extension's; out: the core's */
    void (*describe)(struct request *, struct answer *); /* out: answers a request; NULL: the core panicked */
    void (*grow)(int32_t processors);                    /* out: sets GOMAXPROCS and starts the threads in advance */
    int32_t most_processors;                             /* out: for grow */
};

/* The core's only entry, named "dlpack_core". Returns when the Go runtime is ready. */
typedef void dlpack_core_function(struct core *);

/* Allocates memory for a copy, aligned to COPY_ALIGNMENT. NULL: no memory. It aligns by hand: glibc's posix_memalign
 * can't reuse freed memory for the same size, so repeated copies would take ever more. Huge pages save most of the time
 * in which the kernel clears fresh memory page by page. */
static inline void *allocate_aligned(size_t bytes)
{
    char *whole = malloc(bytes + COPY_ALIGNMENT);
    if (whole == NULL) {
        return NULL;
    }
    char *memory = whole + COPY_ALIGNMENT - (uintptr_t)whole % COPY_ALIGNMENT;
    ((char **)memory)[-1] = whole; /* fits: malloc aligns at least to a pointer */
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_BYTES) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = -(uintptr_t)memory % page;
        madvise(memory + first, bytes - first, MADV_HUGEPAGE);
    }
#endif
    return memory;
}

static inline void free_aligned(void *memory)
{
    if (memory != NULL) {
        free(((char **)memory)[-1]);
    }
}

#endif
