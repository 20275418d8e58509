/* arrow.c: takes over the results of __arrow_c_array__ and __arrow_c_stream__, the Arrow PyCapsule interface.
 *
 * It is C because C callbacks read streams and release all structures, without Go. A request holds only the addresses
 * of the structures, which Go reads. */
#include "read/arrow.h"
#include "read/read.h"

#include <stdlib.h>
#include <string.h>

/* Structures that the hold owns, moved out of their capsules or their stream. */
struct held {
    struct ArrowSchema schema;
    struct ArrowArray *arrays; /* from malloc */
    size_t count;
};

static const char held_name[] = "dlpack.held";

static void release_held(PyObject *capsule)
{
    struct held *held = PyCapsule_GetPointer(capsule, held_name);
    /* Chunks that asdlpack joined: releasing them may take long. */
    PyThreadState *without_gil = held->count > 1 ? PyEval_SaveThread() : NULL;
    for (size_t i = 0; i < held->count; i++) {
        if (held->arrays[i].release != NULL) {
            held->arrays[i].release(&held->arrays[i]);
        }
    }
    if (without_gil != NULL) {
        PyEval_RestoreThread(without_gil);
    }
    if (held->schema.release != NULL) {
        held->schema.release(&held->schema);
    }
    free(held->arrays);
    free(held);
}

/* Lets the hold own structures, at first none. NULL: error. */
static struct held *hold_structures(struct reading *reading)
{
    struct held *held = calloc(1, sizeof *held);
    if (held == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    reading->hold->object = PyCapsule_New(held, held_name, release_held);
    if (reading->hold->object == NULL) {
        free(held);
        return NULL;
    }
    reading->hold->holding = HOLDS_OBJECT;
    reading->readonly = true; /* Arrow data are immutable */
    return held;
}

/* Returns memory for one more array. NULL: error. */
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

/* Lets Python refuse an array that exports itself as a table, and so loses its shape. Columns of lists are checked as
 * well, since they have children like tables. */
static int check_rows(PyObject *obj, const struct held *held)
{
    if (held->schema.n_children == 0) {
        return 0;
    }
    uint64_t rows = 0;
    for (size_t i = 0; i < held->count; i++) {
        rows += (uint64_t)held->arrays[i].length;
    }
    return check_in_python(python.check_rows, Py_BuildValue("OL", obj, (long long)rows));
}

static void request_arrow(struct request *request, enum protocol protocol, const struct held *held)
{
    request_init(request, protocol);
    request->schema = (uint64_t)(uintptr_t)&held->schema;
    request->arrays = (uint64_t)(uintptr_t)held->arrays;
    request->array_count = (int64_t)held->count;
}

/* Moves both structures out of their capsules. If two threads take one capsule, one gets its release, and the other
 * NULL, which Go refuses. */
static int take_pair(struct reading *reading, PyObject *pair)
{
    bool is_pair = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
    PyObject *schema = is_pair ? PyTuple_GetItem(pair, 0) : NULL, *array = is_pair ? PyTuple_GetItem(pair, 1) : NULL;
    if (!PyCapsule_IsValid(schema, "arrow_schema") || !PyCapsule_IsValid(array, "arrow_array")) {
        return check_in_python(python.refuse_in_words, Py_BuildValue("(sO)", "no-arrow-pair", pair));
    }
    struct held *held = hold_structures(reading);
    if (held == NULL || next_array(held) == NULL) {
        return -1;
    }
    struct ArrowSchema *given_schema = PyCapsule_GetPointer(schema, "arrow_schema");
    struct ArrowArray *given_array = PyCapsule_GetPointer(array, "arrow_array");
    held->schema = *given_schema;
    held->schema.release = __atomic_exchange_n(&given_schema->release, NULL, __ATOMIC_ACQ_REL);
    held->arrays[0] = *given_array;
    held->arrays[0].release = __atomic_exchange_n(&given_array->release, NULL, __ATOMIC_ACQ_REL);
    held->count = 1;
    request_arrow(&reading->request, PROTOCOL_ARROW_ARRAY, held);
    return check_rows(reading->obj, held);
}

static int check_stream(const struct ArrowArrayStream *stream)
{
    const char *null = stream->release == NULL      ? "ArrowArrayStream.release"
                       : stream->get_schema == NULL ? "ArrowArrayStream.get_schema"
                       : stream->get_next == NULL   ? "ArrowArrayStream.get_next"
                                                    : NULL;
    if (null == NULL) {
        return 0;
    }
    const char *key = stream->release == NULL ? "released-stream" : "no-callback";
    return check_in_python(python.refuse_in_words, Py_BuildValue("(ss)", key, null));
}

/* Gets the schema from the stream, or if that is NULL the next array. Releases the GIL during the callbacks: the
 * producer may wait for a thread that runs Python. They get the stream itself, and may release it. */
static int call_stream(struct ArrowArrayStream *stream, struct ArrowSchema *schema, struct ArrowArray *array)
{
    if (check_stream(stream) < 0) {
        return -1;
    }
    int code;
    const char *said = NULL;
    Py_BEGIN_ALLOW_THREADS
    code = schema != NULL ? stream->get_schema(stream, schema) : stream->get_next(stream, array);
    if (code != 0 && stream->release != NULL && stream->get_last_error != NULL) {
        said = stream->get_last_error(stream);
    }
    Py_END_ALLOW_THREADS
    if (code == 0) {
        return 0;
    }
    Py_ssize_t length = said == NULL ? 0 : (Py_ssize_t)strnlen(said, 300);
    return check_in_python(python.refuse_in_words,
                           Py_BuildValue("(ssiyy#)", said == NULL ? "callback-failed" : "callback-said",
                                         schema != NULL ? "get_schema" : "get_next", code, strerror(code), said,
                                         length));
}

/* Gets the next chunk that has items. 1: there is one; 0: the stream has ended; -1: error. */
static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    for (;;) {
        *array = (struct ArrowArray){0};
        if (PyErr_CheckSignals() < 0 || call_stream(stream, NULL, array) < 0) {
            return -1;
        }
        if (array->release == NULL || array->length != 0) {
            return array->release != NULL;
        }
        Py_BEGIN_ALLOW_THREADS
        array->release(array);
        Py_END_ALLOW_THREADS
    }
}

/* Reads all chunks; if copying is forbidden, only two, which are already too many. */
static int read_stream(struct reading *reading, struct ArrowArrayStream *stream)
{
    struct held *held = hold_structures(reading);
    if (held == NULL) {
        return -1;
    }
    if (call_stream(stream, &held->schema, NULL) < 0) {
        held->schema.release = NULL;
        return -1;
    }
    int found;
    do {
        struct ArrowArray *array = next_array(held);
        found = array == NULL ? -1 : get_next(stream, array);
        held->count += found > 0;
    } while (found > 0 && !(reading->terms.copy == COPY_NEVER && held->count == 2));
    if (found < 0) {
        return -1;
    }
    request_arrow(&reading->request, PROTOCOL_ARROW_STREAM, held);
    return found > 0 ? 0 : check_rows(reading->obj, held);
}

/* Moves the stream out of its capsule, as take_pair does, then reads and releases it. */
static int take_stream(struct reading *reading, PyObject *capsule)
{
    static const char name[] = "arrow_array_stream";
    if (!PyCapsule_IsValid(capsule, name)) {
        return check_in_python(python.refuse_in_words, Py_BuildValue("(sO)", "no-arrow-stream", capsule));
    }
    struct ArrowArrayStream *given = PyCapsule_GetPointer(capsule, name), stream = *given;
    if (check_stream(given) < 0) {
        return -1;
    }
    stream.release = __atomic_exchange_n(&given->release, NULL, __ATOMIC_ACQ_REL);
    int read = read_stream(reading, &stream);
    struct pending pending;
    set_aside(&pending);
    Py_BEGIN_ALLOW_THREADS
    if (stream.release != NULL) {
        stream.release(&stream);
    }
    Py_END_ALLOW_THREADS
    put_back(&pending);
    return read;
}

/* Takes the result of obj.name(). 1: taken; 0: absent or None; -1: error. */
static int take_exported(struct reading *reading, PyObject *name, int (*take)(struct reading *, PyObject *))
{
    PyObject *method;
    int found = optional_attribute(reading->obj, name, &method);
    if (found <= 0) {
        return found;
    }
    PyObject *exported = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    if (exported == NULL) {
        bool has_other = take == take_pair; /* the stream */
        return has_other
                   ? check_in_python(python.streams_instead, Py_BuildValue("(ON)", reading->obj, take_exception()))
                   : -1;
    }
    found = take(reading, exported) < 0 ? -1 : 1;
    drop_capsule(exported);
    return found;
}

int read_arrow_array(struct reading *reading)
{
    return take_exported(reading, names.arrow_c_array, take_pair);
}

int read_arrow_stream(struct reading *reading)
{
    return take_exported(reading, names.arrow_c_stream, take_stream);
}
