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

/* Has Go copy `bytes` bytes, one or more. It needs a request and an answer, of which only plan and status change. 1: copied;
 * 0: Go has to be asked in full; -1: error. */
int copy_in_core(const struct copy_plan *plan, size_t bytes, struct request *request, struct answer *answer);

/* dlpack._dlpack._core_calls: how many calls into Go this process has made. */
PyObject *core_calls(PyObject *module, PyObject *ignored);

/* copies.c */

/* Copies memory that can't fault, and may overlap. false: Go is faster. */
bool copy_contiguous(uint64_t to, uint64_t from, size_t bytes);

/* Describes a side of a copy of the request's memory, as the table has answered it. Its strides, in bytes, are written to
 * `strides`, which the side borrows. */
struct side side_of(const struct request *request, const struct answer *answer, int64_t *strides);

/* Copies the request's memory, as the table has answered it, to new memory, which the answer then describes. Returns what
 * copy_in_core does. */
int copy_known(struct request *request, struct answer *answer);

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

/* Answers a request to share ordinary memory, as Go would; where answer->swap is set, Go would refuse to. false: only Go can
 * answer, and the answer is undefined. */
bool look_up(const struct request *request, struct answer *answer);

#endif
