/* arrow.c: takes over the results of the Arrow PyCapsule interface: __arrow_c_array__, __arrow_c_stream__, and the same
 * for devices.
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

/* A stream of either kind. A device stream has its device type before the same callbacks, which get the whole stream. */
struct stream {
    int32_t device_type;
    struct ArrowArrayStream host;
    bool has_devices; /* behind the standard's fields */
};
_Static_assert(offsetof(struct stream, host) == offsetof(struct ArrowDeviceArrayStream, get_schema) &&
                   sizeof(struct ArrowArrayStream) + offsetof(struct stream, host) ==
                       sizeof(struct ArrowDeviceArrayStream),
               "both kinds of streams have the same callbacks");

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
    return check_in_python(python.check_rows,
                           Py_BuildValue("OLL", obj, (long long)rows, (long long)held->schema.n_children));
}

/* device: has the device of the memory, and its event; NULL for the CPU. */
static void request_arrow(struct request *request, const struct held *held, const struct ArrowDeviceArray *device)
{
    request->schema = (uint64_t)(uintptr_t)&held->schema;
    request->arrays = (uint64_t)(uintptr_t)held->arrays;
    request->array_count = (int64_t)held->count;
    request->sync_event = device == NULL ? 0 : (uint64_t)(uintptr_t)device->sync_event;
    if (device != NULL) {
        int32_t id = (int32_t)device->device_id;
        request->device = (DLDevice){device->device_type, id == device->device_id ? id : INT32_MIN};
    }
}

/* Moves both structures out of their capsules. If two threads take one capsule, one gets its release, and the other
 * NULL, which Go refuses. */
static int take_pair(struct reading *reading, PyObject *pair)
{
    bool has_device = reading->request.protocol == PROTOCOL_ARROW_DEVICE_ARRAY;
    const char *name = has_device ? "arrow_device_array" : "arrow_array";
    bool is_pair = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
    PyObject *schema = is_pair ? PyTuple_GetItem(pair, 0) : NULL, *array = is_pair ? PyTuple_GetItem(pair, 1) : NULL;
    if (!PyCapsule_IsValid(schema, "arrow_schema") || !PyCapsule_IsValid(array, name)) {
        return check_in_python(python.refuse_in_words,
                               Py_BuildValue("(sssO)", "no-arrow-pair", reading->protocol, name, pair));
    }
    struct held *held = hold_structures(reading);
    if (held == NULL || next_array(held) == NULL) {
        return -1;
    }
    struct ArrowSchema *given_schema = PyCapsule_GetPointer(schema, "arrow_schema");
    struct ArrowArray *given_array = PyCapsule_GetPointer(array, name); /* the beginning of an ArrowDeviceArray */
    held->schema = *given_schema;
    held->schema.release = __atomic_exchange_n(&given_schema->release, NULL, __ATOMIC_ACQ_REL);
    held->arrays[0] = *given_array;
    held->arrays[0].release = __atomic_exchange_n(&given_array->release, NULL, __ATOMIC_ACQ_REL);
    held->count = 1;
    request_arrow(&reading->request, held, has_device ? (struct ArrowDeviceArray *)given_array : NULL);
    return check_rows(reading->obj, held);
}

static int check_stream(const struct reading *reading, const struct ArrowArrayStream *stream)
{
    const char *null = stream->release == NULL      ? "ArrowArrayStream.release"
                       : stream->get_schema == NULL ? "ArrowArrayStream.get_schema"
                       : stream->get_next == NULL   ? "ArrowArrayStream.get_next"
                                                    : NULL;
    if (null == NULL) {
        return 0;
    }
    const char *key = stream->release == NULL ? "released-stream" : "no-callback";
    return check_in_python(python.refuse_in_words, Py_BuildValue("(sss)", key, reading->protocol, null));
}

/* Gets the schema from the stream, or if that is NULL the next array. Releases the GIL during the callbacks: the
 * producer may wait for a thread that runs Python. They get the stream itself, and may release it. */
static int call_stream(const struct reading *reading, struct stream *whole, struct ArrowSchema *schema,
                       struct ArrowDeviceArray *chunk)
{
    struct ArrowArrayStream *stream = &whole->host, *self = whole->has_devices ? (void *)whole : stream;
    if (check_stream(reading, stream) < 0) {
        return -1;
    }
    int code;
    const char *said = NULL;
    Py_BEGIN_ALLOW_THREADS
    code = schema != NULL ? stream->get_schema(self, schema) : stream->get_next(self, &chunk->array);
    if (code != 0 && stream->release != NULL && stream->get_last_error != NULL) {
        said = stream->get_last_error(self);
    }
    Py_END_ALLOW_THREADS
    if (code == 0) {
        return 0;
    }
    Py_ssize_t length = said == NULL ? 0 : (Py_ssize_t)strnlen(said, 300);
    return check_in_python(python.refuse_in_words,
                           Py_BuildValue("(sssiyy#)", said == NULL ? "callback-failed" : "callback-said",
                                         reading->protocol, schema != NULL ? "get_schema" : "get_next", code,
                                         strerror(code), said, length));
}

/* Gets the next chunk that has items. 1: there is one; 0: the stream has ended; -1: error. */
static int get_next(const struct reading *reading, struct stream *stream, struct ArrowDeviceArray *chunk)
{
    struct ArrowArray *array = &chunk->array;
    for (;;) {
        *chunk = (struct ArrowDeviceArray){.device_type = stream->device_type};
        if (PyErr_CheckSignals() < 0 || call_stream(reading, stream, NULL, chunk) < 0) {
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

/* Reads all chunks. If they can't be joined, reads only two, which are already too many. */
static int read_stream(struct reading *reading, struct stream *stream)
{
    struct ArrowDeviceArray chunk, first = {.device_type = stream->device_type};
    bool joins = reading->terms.copy != COPY_NEVER && stream->device_type == kDLCPU;
    struct held *held = hold_structures(reading);
    if (held == NULL) {
        return -1;
    }
    if (call_stream(reading, stream, &held->schema, NULL) < 0) {
        held->schema.release = NULL;
        return -1;
    }
    int found;
    do {
        struct ArrowArray *array = next_array(held);
        found = array == NULL ? -1 : get_next(reading, stream, &chunk);
        if (found > 0) {
            *array = chunk.array;
            first = held->count == 0 ? chunk : first;
            held->count++;
            if (chunk.device_type != stream->device_type) {
                return check_in_python(python.refuse_in_words,
                                       Py_BuildValue("(ssii)", "device-of-chunk", reading->protocol,
                                                     (int)chunk.device_type, (int)stream->device_type));
            }
        }
    } while (found > 0 && (joins || held->count < 2));
    if (found < 0) {
        return -1;
    }
    request_arrow(&reading->request, held, &first);
    return found > 0 ? 0 : check_rows(reading->obj, held);
}

/* Moves the stream out of its capsule, as take_pair does, then reads and releases it. */
static int take_stream(struct reading *reading, PyObject *capsule)
{
    bool has_devices = reading->request.protocol == PROTOCOL_ARROW_DEVICE_STREAM;
    const char *name = has_devices ? "arrow_device_array_stream" : "arrow_array_stream";
    if (!PyCapsule_IsValid(capsule, name)) {
        return check_in_python(python.refuse_in_words,
                               Py_BuildValue("(sssO)", "no-arrow-stream", reading->protocol, name, capsule));
    }
    char *structure = PyCapsule_GetPointer(capsule, name);
    struct ArrowArrayStream *given = (void *)(structure + (has_devices ? offsetof(struct stream, host) : 0));
    struct stream stream = {has_devices ? *(int32_t *)structure : kDLCPU, *given, has_devices};
    if (check_stream(reading, given) < 0) {
        return -1;
    }
    stream.host.release = __atomic_exchange_n(&given->release, NULL, __ATOMIC_ACQ_REL);
    int read = read_stream(reading, &stream);
    struct pending pending;
    set_aside(&pending);
    Py_BEGIN_ALLOW_THREADS
    if (stream.host.release != NULL) {
        stream.host.release(has_devices ? (void *)&stream : &stream.host);
    }
    Py_END_ALLOW_THREADS
    put_back(&pending);
    return read;
}

int read_arrow(struct reading *reading, PyObject *method)
{
    PyObject *exported = PyObject_CallNoArgs(method);
    if (exported == NULL) {
        return check_in_python(python.other_method,
                               Py_BuildValue("(OsN)", reading->obj, reading->protocol, take_exception()));
    }
    int protocol = reading->request.protocol;
    bool is_stream = protocol == PROTOCOL_ARROW_STREAM || protocol == PROTOCOL_ARROW_DEVICE_STREAM;
    int taken = is_stream ? take_stream(reading, exported) : take_pair(reading, exported);
    drop_foreign(exported);
    return taken < 0 ? -1 : 1;
}

int read_frame(struct reading *reading, PyObject *Py_UNUSED(ignored))
{
    PyObject *iloc, *method;
    PyTypeObject *type = Py_TYPE(reading->obj);
    bool may_be_frame = !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE); /* pandas' classes are Python's */
    int found = may_be_frame ? optional_attribute((PyObject *)type, names.iloc, &iloc) : 0;
    if (found <= 0) {
        return found;
    }
    Py_DECREF(iloc);
    PyObject *source =
        call_python(python.frame_source, Py_BuildValue("(Oi)", reading->obj, reading->terms.copy != COPY_NEVER));
    if (source == NULL) {
        return -1;
    }
    if (PyObject_CheckBuffer(source)) {
        found = lock_exporter(reading, source);
        if (found > 0 && reading->request.ndim > 1) {
            reading->terms.copy = COPY_ALWAYS; /* a matrix is row-major */
        }
    }
    else if ((found = optional_attribute(source, names.arrow_c_stream, &method)) > 0) {
        request_init(&reading->request, PROTOCOL_ARROW_STREAM);
        found = read_arrow(reading, method);
        Py_DECREF(method);
    }
    drop_foreign(source);
    return found;
}
