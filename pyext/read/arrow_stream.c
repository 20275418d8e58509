/* arrow_stream.c: reads __arrow_c_stream__ of the Arrow PyCapsule interface: one chunk is shared, several are copied to
 * one memory.
 *
 * It is C because a stream is C callbacks, which are called without the GIL. */
#include "read/arrow.h"
#include "read/read.h"

#include <stdlib.h>
#include <string.h>

/* A stream in use: its schema, and its chunks but for the empty ones. */
struct chunks {
    const char *protocol;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray *arrays;
    size_t count;
};

/* Before each call: the callbacks get the stream itself, and may release it. */
static int check_stream(const char *protocol, const struct ArrowArrayStream *stream)
{
    if (stream->release == NULL) {
        return raise_null(protocol, "ArrowArrayStream.release", "a stream that was not released or moved before");
    }
    if (stream->get_schema == NULL || stream->get_next == NULL) {
        return raise_null(protocol,
                          stream->get_schema == NULL ? "ArrowArrayStream.get_schema" : "ArrowArrayStream.get_next",
                          "a function");
    }
    return 0;
}

/* The callbacks of a stream are called without the GIL: its producer may wait for a thread that runs Python. */
static void release_chunks(struct chunks *chunks)
{
    struct pending pending;
    set_aside(&pending);
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < chunks->count; i++) {
        if (chunks->arrays[i].release != NULL) {
            chunks->arrays[i].release(&chunks->arrays[i]);
        }
    }
    if (chunks->schema.release != NULL) {
        chunks->schema.release(&chunks->schema);
    }
    if (chunks->stream.release != NULL) {
        chunks->stream.release(&chunks->stream);
    }
    Py_END_ALLOW_THREADS
    free(chunks->arrays);
    put_back(&pending);
}

static int raise_stream_error(struct chunks *chunks, const char *callback, int code)
{
    const char *said = NULL;
    if (chunks->stream.release != NULL && chunks->stream.get_last_error != NULL) {
        Py_BEGIN_ALLOW_THREADS
        said = chunks->stream.get_last_error(&chunks->stream);
        Py_END_ALLOW_THREADS
    }
    PyErr_Format(PyExc_BufferError, "%s: %s failed with errno %d (%s)%s%.300s", chunks->protocol, callback, code,
                 strerror(code), said == NULL ? "" : ": ", said == NULL ? "" : said);
    return -1;
}

static int get_schema(struct chunks *chunks)
{
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = chunks->stream.get_schema(&chunks->stream, &chunks->schema);
    Py_END_ALLOW_THREADS
    if (code != 0) {
        chunks->schema.release = NULL;
        return raise_stream_error(chunks, "get_schema", code);
    }
    return 0;
}

/* The next chunk that has items. 1: there is one; 0: the stream has ended; -1: error. */
static int get_next(struct chunks *chunks, struct ArrowArray *array)
{
    int code;
    bool ended, empty;
    do {
        if (PyErr_CheckSignals() < 0 || check_stream(chunks->protocol, &chunks->stream) < 0) {
            return -1;
        }
        *array = (struct ArrowArray){0};
        Py_BEGIN_ALLOW_THREADS
        code = chunks->stream.get_next(&chunks->stream, array);
        ended = code != 0 || array->release == NULL;
        empty = !ended && array->length == 0;
        if (empty) {
            array->release(array);
        }
        Py_END_ALLOW_THREADS
    } while (empty);
    return code != 0 ? raise_stream_error(chunks, "get_next", code) : !ended;
}

/* Takes all chunks out of the stream; where nothing may be copied two are enough to know that. */
static int get_chunks(struct chunks *chunks, enum copy copy)
{
    int found;
    do {
        struct ArrowArray *arrays = realloc(chunks->arrays, (chunks->count + 1) * sizeof *arrays);
        if (arrays == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        chunks->arrays = arrays;
        found = get_next(chunks, &arrays[chunks->count]);
        chunks->count += found > 0;
    } while (found > 0 && !(copy == COPY_NEVER && chunks->count == 2));
    return found < 0 ? -1 : 0;
}

/* What the copy of all chunks is, as it is filled. */
struct joined {
    char *memory; /* from posix_memalign */
    int64_t rows, filled;
    size_t bytes; /* of a row */
};

static int count_rows(struct chunks *chunks, struct joined *joined)
{
    struct request request;
    for (size_t i = 0; i < chunks->count; i++) {
        const struct ArrowArray *array = &chunks->arrays[i];
        if (array->length < 0) {
            return read_column(chunks->protocol, &chunks->schema, array, &request); /* raises that */
        }
        if (__builtin_add_overflow(joined->rows, array->length, &joined->rows)) {
            return raise_too_large(chunks->protocol);
        }
    }
    return 0;
}

static int allocate(struct chunks *chunks, struct joined *joined, const struct answer *answer)
{
    size_t bytes = (size_t)answer->itemsize;
    for (int32_t i = 1; i < answer->ndim; i++) {
        bytes *= (size_t)answer->dims[i];
    }
    joined->bytes = bytes;
    if (__builtin_mul_overflow(bytes, joined->rows, &bytes) || bytes > INT64_MAX) {
        return raise_too_large(chunks->protocol);
    }
    if (posix_memalign((void **)&joined->memory, COPY_ALIGNMENT, bytes > 0 ? bytes : 1) != 0) {
        joined->memory = NULL;
        PyErr_Format(PyExc_MemoryError, "copy: no memory for %zu bytes", bytes);
        return -1;
    }
    return 0;
}

/* Appends a chunk, as Go describes it: what is bit-packed, misaligned or permuted it copies first. */
static int append(struct chunks *chunks, struct joined *joined, const struct ArrowArray *array, struct answer *answer)
{
    struct request request;
    if (read_column(chunks->protocol, &chunks->schema, array, &request) < 0) {
        return -1;
    }
    request.copy = request.facts & FACT_STRIDES ? COPY_ALWAYS : COPY_IF_NEEDED;
    if (ask(&request, answer) < 0) {
        return -1;
    }
    int done = joined->memory == NULL ? allocate(chunks, joined, answer) : 0;
    size_t bytes = joined->bytes * (size_t)array->length;
    if (done == 0 && bytes > 0) {
        char *to = joined->memory + joined->bytes * (size_t)joined->filled;
        const void *from = (const void *)(uintptr_t)(request.data + answer->offset);
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, from, bytes);
        Py_END_ALLOW_THREADS
    }
    joined->filled += array->length;
    free(answer->memory);
    return done;
}

/* Copies all chunks to one memory, which self holds. */
static int join_chunks(DLPackObject *self, struct chunks *chunks, struct request *request)
{
    struct answer answer;
    struct joined joined = {0};
    int done = count_rows(chunks, &joined);
    for (size_t i = 0; i < chunks->count && done == 0; i++) {
        done = append(chunks, &joined, &chunks->arrays[i], &answer);
    }
    if (done == 0) {
        done = check_rows(self->obj, &chunks->schema, joined.rows);
    }
    if (done < 0) {
        free(joined.memory);
        return -1;
    }
    Py_CLEAR(self->obj);
    self->memory = joined.memory;
    self->holding = HOLDS_MEMORY;
    self->copy = COPY_IF_NEEDED; /* it is one already */
    request_init(request, PROTOCOL_DLTENSOR);
    request->ndim = answer.ndim;
    request->dtype = answer.dtype;
    request->flags = DLPACK_FLAG_BITMASK_IS_COPIED;
    request->data = (uint64_t)(uintptr_t)joined.memory;
    answer.dims[0] = joined.rows;
    request_dims(request, answer.dims, NULL, 1);
    return 0;
}

/* What can't be exported for another reason gives that one. */
static int refuse_chunks(struct chunks *chunks)
{
    struct request request;
    struct answer answer;
    if (read_column(chunks->protocol, &chunks->schema, &chunks->arrays[0], &request) < 0 ||
        ask(&request, &answer) < 0) {
        return -1;
    }
    PyErr_Format(PyExc_BufferError,
                 "%s: 2 chunks or more; expected one (pass copy=None to copy them into one, or combine them before, as "
                 "with .combine_chunks() or .rechunk())",
                 chunks->protocol);
    return -1;
}

static int read_stream(DLPackObject *self, struct chunks *chunks, struct request *request)
{
    if (get_schema(chunks) < 0 || get_chunks(chunks, self->copy) < 0) {
        return -1;
    }
    if (chunks->count > 1) {
        return self->copy == COPY_NEVER ? refuse_chunks(chunks) : join_chunks(self, chunks, request);
    }
    return share_column(self, &chunks->schema, chunks->count == 0 ? NULL : &chunks->arrays[0], request);
}

/* Moves the stream out of its capsule: from then on no other consumer can use it. */
static int take_stream(struct chunks *chunks, PyObject *capsule)
{
    static const char name[] = "arrow_array_stream";
    if (!PyCapsule_IsValid(capsule, name)) {
        raise_unexpected(PyExc_ValueError, "__arrow_c_stream__: expected a capsule \"arrow_array_stream\"", capsule);
        return -1;
    }
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, name);
    if (check_stream(chunks->protocol, stream) < 0) {
        return -1;
    }
    chunks->stream = *stream;
    chunks->stream.release = __atomic_exchange_n(&stream->release, NULL, __ATOMIC_ACQ_REL);
    return check_stream(chunks->protocol, &chunks->stream); /* another thread may have been first */
}

int read_arrow_stream(DLPackObject *self, struct request *request)
{
    PyObject *capsule;
    int found = call_exporter(self->obj, names.arrow_c_stream, &capsule);
    if (found > 0) {
        struct chunks chunks = {.protocol = self->protocol};
        found = take_stream(&chunks, capsule);
        drop_capsule(capsule);
        if (found == 0) {
            found = read_stream(self, &chunks, request) < 0 ? -1 : 1;
            release_chunks(&chunks);
        }
    }
    return found;
}
