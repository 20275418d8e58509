/* ask.h: the room of questions to the Go core: the request, Go's table of types, the core's start and the call into it.
 *
 * Ownership: requests and answers are the caller's, and a request borrows all that it leads to. A copy that an answer
 * carries is the caller's to free. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_ASK_H
#define DLPACK_ASK_H

#include "python/python.h"

/* request.c */

/* Empties a request, but for its dims. */
void request_init(struct request *request, enum protocol protocol);

/* The format is copied where it is short; a long one is borrowed until the request is answered. */
void request_format(struct request *request, const char *format);

/* Shape and strides (NULL: none) of request->ndim values each. Strides of row-major memory without gaps say no more than
 * the shape, and are left out; unit is the stride of the last dimension there, the itemsize or 1. */
void request_dims(struct request *request, const int64_t *shape, const int64_t *strides, int64_t unit);

/* Where the strides go: behind the shape. With more than MAX_NDIM dimensions nobody reads them, and any place serves. */
int64_t *strides_in(struct request *request);

/* A request about a tensor, with the flags of its versioned struct. */
void request_tensor(struct request *request, const DLTensor *tensor, uint64_t flags);

/* core.c */

/* A thread's first call into Go takes less than 5 KiB, but more than 8 if it has to wait for a processor on its way back. */
enum { GO_STACK = 16 << 10 };
enum { GIL_BYTES = 1 << 20 }; /* a copy from this size on lets other Python threads run */

/* Answers the request: by Go's table, or by one call into Go. -1 with an exception set where the answer is an error, which
 * has no copy. */
int ask(struct request *request, struct answer *answer);

/* dlpack._dlpack._core_calls: how many calls into Go this process has made. */
PyObject *core_calls(PyObject *module, PyObject *ignored);

/* copies.c */

/* Most bytes of a buffer that C copies, where it swaps none. Above, Go is faster: it uses vectors where few bytes lie side
 * by side, and from 8 MiB on other processors. */
size_t most_copied(const struct request *buffer);

/* Copies compact memory, which may overlap. */
void copy_compact(void *to, const void *from, size_t bytes);

/* Items of one shape at two places, with the strides of both in items. */
struct items {
    int32_t ndim;
    int64_t itemsize; /* bytes */
    const int64_t *shape, *strides, *source_strides;
};

/* Copies so many bytes of items from where the first item is, to where it shall be. The two must not overlap. */
void copy_items(char *to, const char *from, const struct items *items, size_t bytes);

/* Frees the memory of the answer's copy, if it has one. */
void free_copy(const struct answer *answer);

/* Frees a copy on a device, without Go: a deleter calls it. */
void free_device_memory(struct device_memory *memory);

/* start.c */

/* dlpack._dlpack._start_copy: starts the core from a copy of its file. Gives a struct failure. */
PyObject *start_copy(PyObject *module, PyObject *path);

/* Finds the core's file and sees to forks; the core starts when it is first asked. Called once per import. */
int start_init(void);

/* Gives the core more processors, once, before the first copy that lets other Python threads run: one that waits for its
 * memory would keep others from the core. Where a limit forbids it, the core stays as it is. */
void grow_core(void);

/* The core's describe, after its start where none runs yet. NULL: none can start; with an exception set. */
typedef void describe_function(struct request *, struct answer *);
describe_function *running_core(void);

/* table.c */

/* Answers a request to share ordinary memory, as Go would. false: only Go can answer, and the answer is undefined. */
bool look_up(const struct request *request, struct answer *answer);

#endif
