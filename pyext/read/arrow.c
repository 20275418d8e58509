/* arrow.c: takes over what __arrow_c_array__ and __arrow_c_stream__ of the Arrow PyCapsule interface give.
 *
 * It is C because streams are read, and all is released, by C callbacks, without Go. A request holds no more than the
 * addresses of the structures: Go reads them. */
#include "read/arrow.h"
#include "read/read.h"

#include <stdlib.h>
#include <string.h>

/* What self holds, moved out of where it came from. */
struct held {
    struct ArrowSchema schema;
    struct ArrowArray *arrays; /* from malloc */
    size_t count;
};

static const char held_name[] = "dlpack.held";

static void release_arrays(struct held *held)
{
    for (size_t i = 0; i < held->count; i++) {
        if (held->arrays[i].release != NULL) {
            held->arrays[i].release(&held->arrays[i]);
        }
    }
}

static void release_held(PyObject *capsule)
{
    struct held *held = PyCapsule_GetPointer(capsule, held_name);
    if (held->count > 1) { /* chunks to be joined, during asdlpack: that may take long */
        Py_BEGIN_ALLOW_THREADS
        release_arrays(held);
        Py_END_ALLOW_THREADS
    }
    else {
        release_arrays(held);
    }
    if (held->schema.release != NULL) {
        held->schema.release(&held->schema);
    }
    free(held->arrays);
    free(held);
}

/* Lets self hold structures, none as yet. */
static struct held *hold(DLPackObject *self)
{
    struct held *held = calloc(1, sizeof *held);
    if (held == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    self->object = PyCapsule_New(held, held_name, release_held);
    if (self->object == NULL) {
        free(held);
        return NULL;
    }
    self->holding = HOLDS_OBJECT;
    self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY; /* Arrow data are immutable */
    return held;
}

/* Room for one array more. */
static struct ArrowArray *next_array(struct held *held)
{
    struct ArrowArray *arrays = realloc(held->arrays, (held->count + 1) * sizeof *arrays);
    if (arrays == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    held->arrays = arrays;
    return &arrays[held->count];
}

/* Python's side refuses an array that gives itself as a table, and so loses its shape. Columns of lists are asked too,
 * since these have children as tables have. */
static int check_rows(PyObject *obj, const struct held *held)
{
    if (held->schema.n_children == 0) {
        return 0;
    }
    uint64_t rows = 0;
    for (size_t i = 0; i < held->count; i++) {
        rows += (uint64_t)held->arrays[i].length;
    }
    return check_in_python(PYTHON_CHECK_ROWS, Py_BuildValue("OL", obj, (long long)rows));
}

static void request_arrow(struct request *request, enum protocol protocol, const struct held *held)
{
    request_init(request, protocol);
    request->schema = (uint64_t)(uintptr_t)&held->schema;
    request->arrays = (uint64_t)(uintptr_t)held->arrays;
    request->array_count = (int64_t)held->count;
}

/* obj.name(). 1: *exported is a new reference; 0: absent or None; -1: error. */
static int call_exporter(PyObject *obj, PyObject *name, PyObject **exported)
{
    PyObject *method;
    int found = optional_attribute(obj, name, &method);
    if (found > 0) {
        *exported = PyObject_CallNoArgs(method);
        found = *exported == NULL ? -1 : 1;
        Py_DECREF(method);
    }
    return found;
}

/* Arrays. */

/* Moves both structures out of their capsules. Of two threads that take one, one gets its release; the other gets NULL,
 * which Go refuses. */
static int take_pair(DLPackObject *self, PyObject *pair, struct request *request)
{
    PyObject *schema_capsule = NULL, *array_capsule = NULL;
    if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        schema_capsule = PyTuple_GetItem(pair, 0);
        array_capsule = PyTuple_GetItem(pair, 1);
    }
    if (schema_capsule == NULL || !PyCapsule_IsValid(schema_capsule, "arrow_schema") ||
        !PyCapsule_IsValid(array_capsule, "arrow_array")) {
        raise_unexpected(PyExc_ValueError,
                         "__arrow_c_array__: expected a tuple of two capsules, \"arrow_schema\" and \"arrow_array\"",
                         pair);
        return -1;
    }
    struct held *held = hold(self);
    struct ArrowArray *array = held == NULL ? NULL : next_array(held);
    if (array == NULL) {
        return -1;
    }
    struct ArrowSchema *given_schema = PyCapsule_GetPointer(schema_capsule, "arrow_schema");
    struct ArrowArray *given_array = PyCapsule_GetPointer(array_capsule, "arrow_array");
    held->schema = *given_schema;
    held->schema.release = __atomic_exchange_n(&given_schema->release, NULL, __ATOMIC_ACQ_REL);
    *array = *given_array;
    array->release = __atomic_exchange_n(&given_array->release, NULL, __ATOMIC_ACQ_REL);
    held->count = 1;
    request_arrow(request, PROTOCOL_ARROW_ARRAY, held);
    return check_rows(self->obj, held);
}

int read_arrow_array(DLPackObject *self, struct request *request)
{
    PyObject *pair;
    int found = call_exporter(self->obj, names.arrow_c_array, &pair);
    if (found > 0) {
        found = take_pair(self, pair, request) < 0 ? -1 : 1;
        drop_capsule(pair);
    }
    return found;
}

/* Streams. Their callbacks are called without the GIL: the producer may wait for a thread that runs Python. */

static int raise_null(const char *field, const char *expected)
{
    PyErr_Format(PyExc_ValueError, "__arrow_c_stream__: ArrowArrayStream.%s is NULL; expected %s", field, expected);
    return -1;
}

/* Before each call: the callbacks get the stream itself, and may release it. */
static int check_stream(const struct ArrowArrayStream *stream)
{
    if (stream->release == NULL) {
        return raise_null("release", "a stream that was not released or moved before");
    }
    if (stream->get_schema == NULL || stream->get_next == NULL) {
        return raise_null(stream->get_schema == NULL ? "get_schema" : "get_next", "a function");
    }
    return 0;
}

static int raise_stream_error(struct ArrowArrayStream *stream, const char *callback, int code)
{
    const char *said = NULL;
    if (stream->release != NULL && stream->get_last_error != NULL) {
        Py_BEGIN_ALLOW_THREADS
        said = stream->get_last_error(stream);
        Py_END_ALLOW_THREADS
    }
    PyErr_Format(PyExc_BufferError, "__arrow_c_stream__: %s failed with errno %d (%s)%s%.300s", callback, code,
                 strerror(code), said == NULL ? "" : ": ", said == NULL ? "" : said);
    return -1;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = stream->get_schema(stream, schema);
    Py_END_ALLOW_THREADS
    if (code != 0) {
        schema->release = NULL;
        return raise_stream_error(stream, "get_schema", code);
    }
    return 0;
}

/* The next chunk that has items. 1: there is one; 0: the stream has ended; -1: error. */
static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    int code;
    bool ended, empty;
    do {
        if (PyErr_CheckSignals() < 0 || check_stream(stream) < 0) {
            return -1;
        }
        *array = (struct ArrowArray){0};
        Py_BEGIN_ALLOW_THREADS
        code = stream->get_next(stream, array);
        ended = code != 0 || array->release == NULL;
        empty = !ended && array->length == 0;
        if (empty) {
            array->release(array);
        }
        Py_END_ALLOW_THREADS
    } while (empty);
    return code != 0 ? raise_stream_error(stream, "get_next", code) : !ended;
}

/* Takes all chunks out of the stream; where nothing may be copied two are enough to know that. */
static int get_chunks(struct ArrowArrayStream *stream, struct held *held, enum copy copy)
{
    int found;
    do {
        struct ArrowArray *array = next_array(held);
        found = array == NULL ? -1 : get_next(stream, array);
        held->count += found > 0;
    } while (found > 0 && !(copy == COPY_NEVER && held->count == 2));
    return found; /* 1: there may be more */
}

static int read_stream(DLPackObject *self, struct ArrowArrayStream *stream, struct request *request)
{
    struct held *held = hold(self);
    if (held == NULL || get_schema(stream, &held->schema) < 0) {
        return -1;
    }
    int more = get_chunks(stream, held, self->copy);
    if (more < 0) {
        return -1;
    }
    request_arrow(request, PROTOCOL_ARROW_STREAM, held);
    return more ? 0 : check_rows(self->obj, held);
}

/* Moves the stream out of its capsule: from then on no other consumer can use it. */
static int take_stream(struct ArrowArrayStream *stream, PyObject *capsule)
{
    static const char name[] = "arrow_array_stream";
    if (!PyCapsule_IsValid(capsule, name)) {
        raise_unexpected(PyExc_ValueError, "__arrow_c_stream__: expected a capsule \"arrow_array_stream\"", capsule);
        return -1;
    }
    struct ArrowArrayStream *given = PyCapsule_GetPointer(capsule, name);
    if (check_stream(given) < 0) {
        return -1;
    }
    *stream = *given;
    stream->release = __atomic_exchange_n(&given->release, NULL, __ATOMIC_ACQ_REL);
    return check_stream(stream); /* another thread may have been first */
}

static void release_stream(struct ArrowArrayStream *stream)
{
    struct pending pending;
    set_aside(&pending);
    Py_BEGIN_ALLOW_THREADS
    if (stream->release != NULL) {
        stream->release(stream);
    }
    Py_END_ALLOW_THREADS
    put_back(&pending);
}

int read_arrow_stream(DLPackObject *self, struct request *request)
{
    PyObject *capsule;
    int found = call_exporter(self->obj, names.arrow_c_stream, &capsule);
    if (found > 0) {
        struct ArrowArrayStream stream;
        found = take_stream(&stream, capsule);
        drop_capsule(capsule);
        if (found == 0) {
            found = read_stream(self, &stream, request) < 0 ? -1 : 1;
            release_stream(&stream);
        }
    }
    return found;
}
