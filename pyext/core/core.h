/* core.h: the whole contract between the C extension and the Go core.
 *
 * C reads a Python object into one struct request, and Go answers with one struct answer, in which a copy on a device
 * brings the driver's functions that free it. No Python object and no Go pointer crosses, and Go never calls Python. It
 * allocates nothing for a good request that needs no large copy and no driver. */
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
    MAX_NDIM = 64,        /* dimensions of a request and of an answer; numpy's and the buffer protocol's limit too */
    FORMAT_SIZE = 24,     /* a format of this many bytes or more is in long_format, and never known */
    NAME_SIZE = 32,       /* the longest data type name, "float8_e4m3b11fnuzx65535", and its NUL fit */
    LETTERS_SIZE = 4,     /* what another protocol calls a data type, "Zf", and its NUL fit */
    TYPESTR_SIZE = 8,     /* "<c16" and its NUL fit */
    COPY_ALIGNMENT = 64,  /* bytes; where copies begin: jax takes CPU memory without a copy of its own from 64 on */
    HUGE_BYTES = 4 << 20, /* the least memory that huge pages are asked for */
    MOST_CPUS = 16,       /* that Go uses; it has a processor (its word) for each of them */
    FIRST_CPUS = 1,       /* before the first large copy */
    SPARE_CPUS = 4,       /* more processors: a call need not wait until a large copy by all the others gives one up */
    VERSION_SIZE = 32,    /* the package's version and its NUL fit */
    MESSAGE_SIZE = 1024,  /* an error message with its NUL; Go shortens what it quotes */
};

/* Where the request was read from. */
enum protocol {
    PROTOCOL_DLTENSOR = 1, /* a DLTensor: dtype, strides in elements, byte_offset in `offset` */
    PROTOCOL_ARRAY_INTERFACE,
    PROTOCOL_ARRAY_STRUCT,
    PROTOCOL_CUDA_ARRAY_INTERFACE,
    PROTOCOL_BUFFER,
    PROTOCOL_ARROW_ARRAY, /* schema and arrays say it all; data is 0, and Go reads them */
    PROTOCOL_ARROW_STREAM,
    PROTOCOL_MEMORY, /* frombuffer, from_pointer: the caller says what it is; strides in elements, one -1 in shape */
};

/* What was read besides numbers, in request.facts. */
enum fact {
    FACT_NO_SHAPE = 1,  /* the shape pointer is NULL although there are dimensions: dims holds nothing */
    FACT_STRIDES = 2,   /* strides were given */
    FACT_MASK = 4,      /* array interface, CUDA array interface: a mask other than None */
    FACT_STREAM = 8,    /* CUDA array interface, from_pointer: a stream other than None, producer_stream */
    FACT_INDIRECT = 16, /* buffer: a suboffset that is not negative */
    FACT_SPAN = 32,     /* span was given */
};

/* Numbers of streams, as in the Python array API standard and in the CUDA array interface; others are handles. */
enum { STREAM_UNKNOWN = 0, STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 };

/* The values of asdlpack's copy. */
enum copy { COPY_NEVER, COPY_IF_NEEDED, COPY_ALWAYS };

/* What is asked for, besides what the memory is. */
struct terms {
    int64_t stream;  /* __dlpack__(stream=...), where has_stream; None otherwise */
    DLDevice target; /* __dlpack__(dl_device=...), where has_target */
    uint8_t copy;    /* enum copy */
    uint8_t exports; /* the memory goes to a consumer now, in the order of its stream */
    uint8_t has_stream, has_target;
};

/* One side of a copy. */
struct side {
    uint64_t first;         /* address of the item whose indices are all 0 */
    uint64_t below, above;  /* bytes that the items reach below and above `first` */
    const int64_t *strides; /* bytes; NULL of a target: it is new, row-major memory without gaps */
};

/* A copy of one item or more on the CPU, of which Go's table has the data type. */
struct copy_plan {
    struct side source, target;
    const int64_t *shape;
    int64_t itemsize; /* bytes */
    int32_t ndim;
    int32_t swap; /* bytes of the words whose bytes a copy reverses; 0: none */
};

struct request {
    uint8_t protocol;
    uint8_t facts;
    uint16_t version;       /* of the array interface or CUDA array interface; 0 where a protocol has none */
    int32_t ndim;           /* as found; dims holds something only if it is 0 to MAX_NDIM */
    int32_t stride_count;   /* how many strides were given: ndim or none, unless the object contradicts itself */
    DLDataType dtype;       /* PROTOCOL_DLTENSOR only */
    DLDevice device;        /* the device that the memory is on */
    uint64_t flags;         /* PROTOCOL_DLTENSOR only: the DLPACK_FLAG_BITMASK_* of a versioned struct */
    int64_t itemsize;       /* bytes; buffer only */
    uint64_t offset;        /* bytes to add to data; Arrow: items to skip */
    uint64_t format_length; /* bytes of the format, without a NUL */
    /* Padded with NULs. Buffer: the PEP 3118 format. The array interfaces and struct: the typestr, and behind a space
     * obj.dtype.name where the typestr may hide the type ("<V2 bfloat16"). Memory: a data type's name, or such a
     * typestr. */
    char format[FORMAT_SIZE];
    /* The shape, then from dims[ndim] on strides: in bytes, or where `protocol` says so in elements. */
    int64_t dims[2 * MAX_NDIM];

    uint64_t data;           /* address */
    int64_t span;            /* bytes of memory from data on, where FACT_SPAN */
    const char *long_format; /* format_length bytes, where that is FORMAT_SIZE or more */
    uint64_t schema, arrays; /* Arrow: the addresses of an ArrowSchema, and of array_count ArrowArrays in a row */
    int64_t array_count;
    int64_t producer_stream; /* whose queued work completes the memory; 0: not known, unless FACT_STREAM */
    struct request *into;    /* the writable memory that this memory is copied into; the answer is its status alone */
    struct terms terms;
    const struct copy_plan *plan; /* not NULL: Go makes this copy and answers status alone; all else here is void */
    bool owned;                   /* the memory is Python's or numpy's own and can't fault, so that C may copy it */
};

/* What becomes of a request: a Python exception's type, but for STATUS_OK. */
enum status {
    STATUS_OK,
    STATUS_VALUE_ERROR,
    STATUS_BUFFER_ERROR,
    STATUS_MEMORY_ERROR,
    STATUS_RUNTIME_ERROR, /* a bug in the core: a panic was recovered */
};

/* Memory on a device of CUDA, as Go allocated it, with what frees it: without Go, in the context that it is of, and in
 * no other process than its own. */
struct device_memory {
    uint64_t address;
    void *context;    /* CUcontext */
    int32_t retained; /* the device whose primary context this keeps alive, or -1 */
    int32_t process;  /* getpid() */
    /* The driver's functions, in the order of their use. Each returns a CUresult. */
    int (*pointer_get_attribute)(void *data, int attribute, unsigned long long address);
    int (*ctx_push_current)(void *context);
    int (*thread_exchange_stream_capture_mode)(int *mode);
    int (*mem_free)(unsigned long long address);
    int (*ctx_pop_current)(void **context);
    int (*device_primary_ctx_release)(int device);
};

/* What a data type is called; empty where a protocol has no name for it. */
struct type_names {
    char dtype[NAME_SIZE];
    char format[LETTERS_SIZE];  /* buffer protocol */
    char arrow[LETTERS_SIZE];   /* Arrow; of a bool, that of its bytes: "c" */
    char typestr[TYPESTR_SIZE]; /* array interfaces */
};

struct answer {
    int32_t status;
    void *memory; /* a copy, which the caller frees by free_aligned; NULL where nothing was copied to the CPU */
    struct device_memory *device_memory; /* a copy, from malloc; NULL where nothing was copied to a device */

    int32_t ndim;
    DLDataType dtype;
    DLDevice device;
    uint64_t flags;        /* DLPACK_FLAG_BITMASK_*, but for READ_ONLY, which C knows */
    int64_t itemsize;      /* bytes */
    uint64_t offset;       /* bytes from request.data to the first element, modulo 2**64; to NULL where there is none */
    uint64_t byte_offset;  /* what stays in DLTensor.byte_offset, for devices whose data is a handle */
    uint64_t below, above; /* bytes that the elements reach below and above data + offset */
    int64_t stream;        /* whose queued work completes the memory; 0: not known, or there is nothing to wait for */
    uint32_t versioned_only; /* 1: the legacy struct can't say what this tensor is */
    uint32_t on_cpu;         /* 1: the CPU can read the memory */
    int32_t swap;            /* of the table alone: the bytes of the words whose bytes a copy reverses; 0: none */
    struct type_names names;
    int64_t dims[2 * MAX_NDIM]; /* shape, then strides in elements from dims[ndim] on */

    char message[MESSAGE_SIZE]; /* where status is not STATUS_OK */
};

/* What the core's entry is given, and answers. A core of another version, which a forked child may find where the package
 * was upgraded, answers with its version alone; it is told by what stands before the answer, which never changes. */
struct core {
    char version[VERSION_SIZE];                          /* of the package that the extension is of; then the core's */
    void (*describe)(struct request *, struct answer *); /* its answer; NULL where it panicked */
    void (*grow)(uint32_t processors); /* its other one: has Go use so many, and start threads for them */
};

/* The core's one entry, named "dlpack_core". It returns when the Go runtime is ready. */
typedef void dlpack_core_function(struct core *);

/* Memory for a copy, aligned to COPY_ALIGNMENT; NULL: there is none. Where glibc's posix_memalign freed memory, the next
 * of that size does not fit in, so that copies which come and go would take ever more: the alignment is made here. Huge
 * pages take most of the time away that a large copy spends in the kernel, which clears fresh memory page by page. */
static inline void *allocate_aligned(size_t bytes)
{
    char *whole = malloc(bytes + COPY_ALIGNMENT);
    if (whole == NULL) {
        return NULL;
    }
    char *memory = whole + COPY_ALIGNMENT - (uintptr_t)whole % COPY_ALIGNMENT;
    ((char **)memory)[-1] = whole; /* there is room: malloc's own alignment is that of a pointer at least */
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
