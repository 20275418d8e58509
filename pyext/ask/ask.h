/* ask.h: the room that asks the Go core: requests, Go's table of types, and the call into the core.
 *
 * Ownership: the caller owns requests and answers, and frees the copy in an answer. A request borrows all that it
 * points to. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_ASK_H
#define DLPACK_ASK_H

#include "runtime/runtime.h"

/* request.c */

/* Zeroes all fields but dims, then sets the protocol and the CPU as device. */
void request_init(struct request *request, enum protocol protocol);

/* Copies the format; one of FORMAT_SIZE bytes or more is borrowed until the request is answered. */
void request_format(struct request *request, const char *format);

/* Sets shape and strides (NULL: none), request->ndim values each. Leaves out the strides of row-major memory without
 * gaps; unit is the last dimension's stride in such memory: the itemsize or 1. */
void request_dims(struct request *request, const int64_t *shape, const int64_t *strides, int64_t unit);

/* Returns the place of the strides, behind the shape. With more than MAX_NDIM dimensions it is dims: nobody reads
 * them. */
int64_t *strides_in(struct request *request);

/* Fills a request about a tensor; flags are those of its versioned struct. */
void request_tensor(struct request *request, const DLTensor *tensor, uint64_t flags);

/* core.c */

enum { GIL_BYTES = 1 << 20 }; /* copies of at least this size let other Python threads run */
#ifdef Py_GIL_DISABLED
enum { LARGE_BYTES = 0 }; /* other threads run anyway, and may copy meanwhile */
#else
enum { LARGE_BYTES = GIL_BYTES };
#endif

/* Calls the core. -1: it can't start, or too little stack is left; else the answer has a status. */
int call_core(struct request *request, struct answer *answer, bool lets_others_run);

/* Raises the answer's error, and frees its copy. Returns -1. */
int raise_answer(const struct answer *answer);

/* Lets Go copy `bytes` bytes, at least one. Uses only plan of the request, and only status and the copies of the
 * answer. 1: copied; 0: ask Go in full; -1: error. */
int copy_in_core(const struct copy_plan *plan, size_t bytes, struct request *request, struct answer *answer);

/* dlpack._dlpack._core_calls: the number of requests that Go has answered. */
PyObject *core_calls(PyObject *module, PyObject *ignored);

/* copies.c */

/* Copies memory that can't fault; the two may overlap. false: nothing copied, since Go is faster. */
bool copy_contiguous(uint64_t to, uint64_t from, size_t bytes);

/* Describes one side of a copy: the request's memory, as the table answered. Writes the strides in bytes to `strides`,
 * which the side borrows. */
struct side side_of(const struct request *request, const struct answer *answer, int64_t *strides);

/* Copies the request's memory, as the table answered, to new memory; the answer then describes that. Returns as
 * copy_in_core does. */
int copy_known(struct request *request, struct answer *answer);

/* free.c */

/* Frees the memory of the answer's copy, if it has one. */
void free_copy(const struct answer *answer);

/* Frees a copy on a device. Deleters call it, so it never enters Go. */
void free_device_memory(struct device_memory *memory);

/* table.c */

/* Answers a request to share ordinary memory as Go would, but if it sets answer->swap, Go would refuse. false: only Go
 * can answer; the answer is undefined. */
bool look_up(const struct request *request, struct answer *answer);

/* Gives an answer, whose itemsize is set, the request's shape and the layout of a copy: row-major, from its first item
 * on. false: only Go can answer. */
bool lay_out(const struct request *request, struct answer *answer);

/* Returns the name of the i-th type of Go's table; NULL behind the last. */
const char *known_type_name(int i);

/* ask.c */

/* Answers the request from Go's table, or by one call into Go. -1: error; the answer has no copy. */
int ask(struct request *request, struct answer *answer);

#endif
