/* arrow.h: the structures of the Arrow C data, C stream and C device interfaces, with the standard's layout and names. */
#ifndef ARROW_H
#define ARROW_H

#include <stdint.h>

/* Its holder calls release once; a NULL release marks one that was released or moved. */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

struct ArrowDeviceArray {
    struct ArrowArray array; /* its release frees the event as well */
    int64_t device_id;       /* -1: devices of this type have no ids */
    int32_t device_type;     /* a DLDeviceType */
    void *sync_event;        /* on CUDA a CUevent *; NULL: there is nothing to wait for */
    int64_t reserved[3];
};

struct ArrowDeviceArrayStream {
    int32_t device_type;
    int (*get_schema)(struct ArrowDeviceArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowDeviceArrayStream *, struct ArrowDeviceArray *out);
    const char *(*get_last_error)(struct ArrowDeviceArrayStream *);
    void (*release)(struct ArrowDeviceArrayStream *);
    void *private_data;
};

#endif
