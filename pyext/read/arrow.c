/* arrow.c: reads __arrow_c_array__ of the Arrow PyCapsule interface, and what an ArrowArray holds.
 *
 * It is C because what the capsules hold are C structures, whose release must work without Go. */
#include "read/arrow.h"
#include "read/read.h"

#include <stdlib.h>
#include <string.h>

/* What self holds: both structures, moved out of where they came from. The format stays as long as the memory, since
 * the request may borrow it. */
struct held {
    struct ArrowSchema schema;
    struct ArrowArray array; /* its release is NULL where there is none */
};

static const char held_name[] = "dlpack.held";

static void release_held(PyObject *capsule)
{
    struct held *held = PyCapsule_GetPointer(capsule, held_name);
    if (held->array.release != NULL) {
        held->array.release(&held->array);
    }
    if (held->schema.release != NULL) {
        held->schema.release(&held->schema);
    }
    free(held);
}

/* The way from an array down to its items: each fixed-size list is a dimension. */
struct walk {
    const char *protocol;
    int64_t first, count; /* what is in use of the array that is looked at, before its own offset */
    int64_t nulls;        /* among these, in the outermost array that has any */
    int32_t ndim;
    bool permuted;
    int64_t shape[MAX_NDIM], strides[MAX_NDIM]; /* in elements of the array that is looked at */
};

static int malformed(const struct walk *walk, const struct ArrowSchema *schema, const char *field, int64_t value,
                     const char *expected)
{
    PyErr_Format(PyExc_ValueError, "%s: %s of the array of format \"%.100s\" is %lld; expected %s", walk->protocol,
                 field, schema->format, (long long)value, expected);
    return -1;
}

int raise_null(const char *protocol, const char *field, const char *expected)
{
    PyErr_Format(PyExc_ValueError, "%s: %s is NULL; expected %s", protocol, field, expected);
    return -1;
}

int raise_too_large(const char *protocol)
{
    PyErr_Format(PyExc_ValueError, "%s: lengths, offsets and list sizes overflow 64 bits; expected what fits memory",
                 protocol);
    return -1;
}

static int check_schema(const struct walk *walk, const struct ArrowSchema *schema)
{
    if (schema->release == NULL) {
        return raise_null(walk->protocol, "ArrowSchema.release", "a schema that was not released or moved before");
    }
    if (schema->format == NULL) {
        return raise_null(walk->protocol, "ArrowSchema.format", "the text of a format");
    }
    if (schema->n_children < 0) {
        return malformed(walk, schema, "ArrowSchema.n_children", schema->n_children, "0 or more");
    }
    return 0;
}

/* Checks the array and that it has the elements in use. */
static int check_array(const struct walk *walk, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    int64_t end;
    if (array->release == NULL) {
        return raise_null(walk->protocol, "ArrowArray.release", "an array that was not released or moved before");
    }
    if (array->length < 0) {
        return malformed(walk, schema, "ArrowArray.length", array->length, "0 or more");
    }
    if (array->offset < 0) {
        return malformed(walk, schema, "ArrowArray.offset", array->offset, "0 or more");
    }
    if (__builtin_add_overflow(array->offset, array->length, &end)) {
        return raise_too_large(walk->protocol);
    }
    if (array->length < walk->first + walk->count) {
        PyErr_Format(
            PyExc_ValueError,
            "%s: ArrowArray.length of the array of format \"%.100s\" is %lld; expected %lld or more, which the "
            "array around it uses",
            walk->protocol, schema->format, (long long)array->length, (long long)(walk->first + walk->count));
        return -1;
    }
    if (array->n_children != schema->n_children) {
        return malformed(walk, schema, "ArrowArray.n_children", array->n_children, "the n_children of its schema");
    }
    return 0;
}

/* The bits that are 0. */
static int64_t count_nulls(const uint8_t *validity, int64_t first, int64_t count)
{
    int64_t i = first, end = first + count, valid = 0;
    while (i < end) {
        if (i % 8 == 0 && end - i >= 64) {
            uint64_t bits;
            memcpy(&bits, validity + i / 8, sizeof bits);
            valid += __builtin_popcountll(bits);
            i += 64;
        }
        else {
            valid += validity[i / 8] >> i % 8 & 1;
            i++;
        }
    }
    return count - valid;
}

/* Checks the buffers, of which the first is the validity bitmap, and counts the nulls: null_count is of the whole
 * array, and may be unknown. */
static int read_buffers(struct walk *walk, const struct ArrowSchema *schema, const struct ArrowArray *array,
                        int64_t n_buffers)
{
    if (array->n_buffers != n_buffers) {
        return malformed(walk, schema, "ArrowArray.n_buffers", array->n_buffers,
                         n_buffers == 1 ? "1, the validity bitmap" : "2, the validity bitmap and the items");
    }
    if (array->buffers == NULL) {
        return raise_null(walk->protocol, "ArrowArray.buffers", "an array of n_buffers pointers");
    }
    if (array->null_count < -1) {
        return malformed(walk, schema, "ArrowArray.null_count", array->null_count, "-1 (unknown), 0 or more");
    }
    const uint8_t *validity = array->buffers[0];
    if (validity == NULL && array->null_count > 0) {
        return malformed(walk, schema, "ArrowArray.null_count", array->null_count, "0 where there is no bitmap");
    }
    if (walk->nulls == 0 && array->null_count != 0 && validity != NULL) {
        walk->nulls = count_nulls(validity, array->offset + walk->first, walk->count);
    }
    return 0;
}

/* The only child of schema and array, whose elements in use are `size` for each of theirs. */
static int enter_child(struct walk *walk, const struct ArrowSchema **schema, const struct ArrowArray **array,
                       int64_t size)
{
    const struct ArrowArray *parent = *array;
    if ((*schema)->children == NULL || (*schema)->children[0] == NULL) {
        return raise_null(walk->protocol, "ArrowSchema.children", "n_children schemas");
    }
    if (parent != NULL) {
        if (parent->children == NULL || parent->children[0] == NULL) {
            return raise_null(walk->protocol, "ArrowArray.children", "n_children arrays");
        }
        int64_t end;
        walk->first += parent->offset;
        if (__builtin_mul_overflow(walk->first + walk->count, size, &end)) {
            return raise_too_large(walk->protocol);
        }
        walk->first *= size;
        walk->count *= size;
        walk->nulls *= size;
        *array = parent->children[0];
    }
    *schema = (*schema)->children[0];
    return 0;
}

/* Appends dimensions of `size` elements: the lengths as they lie in memory, and their order in the shape. */
static int add_dims(struct walk *walk, int64_t size, int32_t ndim, const int64_t *lengths, const int64_t *order)
{
    int64_t strides[MAX_NDIM], stride = 1;
    for (int32_t i = 0; i < walk->ndim; i++) {
        if (__builtin_mul_overflow(walk->strides[i], size, &walk->strides[i])) {
            return raise_too_large(walk->protocol);
        }
    }
    for (int32_t i = ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        if (__builtin_mul_overflow(stride, lengths[i], &stride)) {
            return raise_too_large(walk->protocol);
        }
    }
    for (int32_t i = 0; i < ndim; i++) {
        walk->shape[walk->ndim] = lengths[order[i]];
        walk->strides[walk->ndim++] = strides[order[i]];
        walk->permuted = walk->permuted || order[i] != i;
    }
    return 0;
}

/* The value of a key of the schema's metadata: their number, and each key and value behind its length. 1: found,
 * borrowed; 0: there is none; -1: error. */
static int find_metadata(const struct walk *walk, const struct ArrowSchema *schema, const char *key, const char **value,
                         int32_t *length)
{
    const char *at = schema->metadata;
    int32_t pairs = 0;
    if (at != NULL) {
        memcpy(&pairs, at, sizeof pairs);
        at += sizeof pairs;
    }
    for (int32_t i = 0; i < pairs; i++) {
        const char *texts[2];
        int32_t lengths[2];
        for (int part = 0; part < 2; part++) {
            memcpy(&lengths[part], at, sizeof *lengths);
            if (lengths[part] < 0) {
                return malformed(walk, schema, "a length in ArrowSchema.metadata", lengths[part], "0 or more");
            }
            texts[part] = at + sizeof *lengths;
            at = texts[part] + lengths[part];
        }
        if ((size_t)lengths[0] == strlen(key) && memcmp(texts[0], key, strlen(key)) == 0) {
            *value = texts[1];
            *length = lengths[1];
            return 1;
        }
    }
    return pairs < 0 ? malformed(walk, schema, "the first number in ArrowSchema.metadata", pairs, "0 or more") : 0;
}

/* 1: the schema is of this extension type; 0: it is not; -1: error. */
static int is_extension(const struct walk *walk, const struct ArrowSchema *schema, const char *extension)
{
    const char *name;
    int32_t length;
    int found = find_metadata(walk, schema, "ARROW:extension:name", &name, &length);
    if (found > 0) {
        found = (size_t)length == strlen(extension) && memcmp(name, extension, strlen(extension)) == 0;
    }
    return found;
}

/* Lists of an arrow.fixed_shape_tensor: its metadata, JSON, tell the dimensions, which Python's side checks. */
static int add_tensor(struct walk *walk, const struct ArrowSchema *schema, int64_t size)
{
    const char *metadata = "";
    int32_t length = 0, ndim;
    int64_t lengths[MAX_NDIM], order[MAX_NDIM];
    PyObject *shape, *permutation;
    if (find_metadata(walk, schema, "ARROW:extension:metadata", &metadata, &length) < 0) {
        return -1;
    }
    PyObject *args = Py_BuildValue("y#Li", metadata, (Py_ssize_t)length, (long long)size, MAX_NDIM - walk->ndim);
    PyObject *layout = call_python(PYTHON_TENSOR_LAYOUT, args);
    if (layout == NULL) {
        return -1;
    }
    int added = -1;
    if (PyArg_ParseTuple(layout, "OO", &shape, &permutation) && read_ints(shape, lengths, &ndim) > 0 &&
        read_ints(permutation, order, &ndim) > 0) {
        added = add_dims(walk, size, ndim, lengths, order);
    }
    Py_DECREF(layout);
    return added;
}

/* "+w:6": lists of six. */
static bool read_list_size(const char *format, int64_t *size)
{
    if (strncmp(format, "+w:", 3) != 0 || format[3] == '\0') {
        return false;
    }
    const char *at = format + 3;
    *size = 0;
    while (*at >= '0' && *at <= '9') {
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *at++ - '0', size)) {
            return false;
        }
    }
    return *at == '\0';
}

static int enter_list(struct walk *walk, const struct ArrowSchema **schema, const struct ArrowArray **array,
                      int64_t size)
{
    if (*array != NULL && read_buffers(walk, *schema, *array, 1) < 0) {
        return -1;
    }
    int tensor = is_extension(walk, *schema, "arrow.fixed_shape_tensor");
    if (tensor < 0 || (tensor > 0 && add_tensor(walk, *schema, size) < 0)) {
        return -1;
    }
    if (tensor == 0) {
        if (walk->ndim == MAX_NDIM) {
            PyErr_Format(PyExc_ValueError, "%s: lists in lists, more than %d dimensions; expected at most %d",
                         walk->protocol, MAX_NDIM, MAX_NDIM);
            return -1;
        }
        if (add_dims(walk, size, 1, &size, &(int64_t){0}) < 0) {
            return -1;
        }
    }
    return enter_child(walk, schema, array, size);
}

static int refuse_columns(const struct walk *walk, const struct ArrowSchema *schema)
{
    enum { MOST = 3 };
    PyObject *columns = PyUnicode_FromString("");
    for (int64_t i = 0; i < schema->n_children && i < MOST && columns != NULL; i++) {
        const struct ArrowSchema *child = schema->children == NULL ? NULL : schema->children[i];
        PyObject *more = PyUnicode_FromFormat("%U%s'%.50s'", columns, i == 0 ? ": " : ", ",
                                              child == NULL || child->name == NULL ? "" : child->name);
        Py_DECREF(columns);
        columns = more;
    }
    if (columns != NULL) {
        PyErr_Format(PyExc_BufferError,
                     "%s: %lld columns%U%s; DLPack holds one array (pass one column, as with table['a'])",
                     walk->protocol, (long long)schema->n_children, columns, schema->n_children > MOST ? ", ..." : "");
        Py_DECREF(columns);
    }
    return -1;
}

/* A table or record batch of one column is that column. */
static int enter_column(struct walk *walk, const struct ArrowSchema **schema, const struct ArrowArray **array)
{
    if ((*schema)->n_children != 1) {
        return refuse_columns(walk, *schema);
    }
    if (*array != NULL && read_buffers(walk, *schema, *array, 1) < 0) {
        return -1;
    }
    return enter_child(walk, schema, array, 1);
}

/* Formats whose arrays have a validity bitmap and a buffer of items. Go refuses the others. */
static bool is_primitive(const char *format)
{
    return strlen(format) == 1 && strchr("bcCsSiIlLefg", *format) != NULL;
}

static int read_items(struct walk *walk, const struct ArrowSchema *schema, const struct ArrowArray *array,
                      struct request *request)
{
    const char *format = schema->format;
    int bool8 = strcmp(format, "c") == 0 ? is_extension(walk, schema, "arrow.bool8") : 0;
    if (bool8 < 0) {
        return -1;
    }
    request_format(request, bool8 ? "c arrow.bool8" : format);
    if (schema->dictionary != NULL) {
        request->facts |= FACT_ENCODED;
    }
    if (array != NULL && is_primitive(format)) {
        if (read_buffers(walk, schema, array, 2) < 0) {
            return -1;
        }
        request->data = (uint64_t)(uintptr_t)array->buffers[1];
        request->offset = (uint64_t)(array->offset + walk->first);
    }
    return 0;
}

int read_column(const char *protocol, const struct ArrowSchema *schema, const struct ArrowArray *array,
                struct request *request)
{
    struct walk walk = {.protocol = protocol, .ndim = 1, .strides = {1}};
    request_init(request, PROTOCOL_ARROW);
    if (array != NULL) {
        walk.count = walk.shape[0] = array->length;
    }
    for (bool outermost = true;; outermost = false) {
        int64_t size;
        if (check_schema(&walk, schema) < 0 || (array != NULL && check_array(&walk, schema, array) < 0)) {
            return -1;
        }
        if (outermost && strcmp(schema->format, "+s") == 0) {
            if (enter_column(&walk, &schema, &array) < 0) {
                return -1;
            }
        }
        else if (schema->dictionary == NULL && schema->n_children == 1 && read_list_size(schema->format, &size)) {
            if (enter_list(&walk, &schema, &array, size) < 0) {
                return -1;
            }
        }
        else {
            break;
        }
    }
    if (read_items(&walk, schema, array, request) < 0) {
        return -1;
    }
    if (walk.nulls > 0) {
        request->facts |= FACT_NULLS;
        request->null_count = walk.nulls;
    }
    request->ndim = walk.ndim;
    request_dims(request, walk.shape, walk.permuted ? walk.strides : NULL, 1);
    return 0;
}

int check_rows(PyObject *obj, const struct ArrowSchema *schema, int64_t rows)
{
    if (strcmp(schema->format, "+s") != 0) {
        return 0;
    }
    return check_in_python(PYTHON_CHECK_ROWS, Py_BuildValue("OL", obj, (long long)rows));
}

int share_column(DLPackObject *self, struct ArrowSchema *schema, struct ArrowArray *array, struct request *request)
{
    struct held *held = calloc(1, sizeof *held);
    if (held == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *capsule = PyCapsule_New(held, held_name, release_held);
    if (capsule == NULL) {
        free(held);
        return -1;
    }
    /* Of two threads that take one structure, one gets its release, and the other is refused. */
    held->schema = *schema;
    held->schema.release = __atomic_exchange_n(&schema->release, NULL, __ATOMIC_ACQ_REL);
    if (array != NULL) {
        held->array = *array;
        held->array.release = __atomic_exchange_n(&array->release, NULL, __ATOMIC_ACQ_REL);
    }
    self->object = capsule;
    self->holding = HOLDS_OBJECT;
    self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY; /* Arrow data are immutable */
    if (read_column(self->protocol, &held->schema, array == NULL ? NULL : &held->array, request) < 0) {
        return -1;
    }
    return check_rows(self->obj, &held->schema, request->dims[0]);
}

int call_exporter(PyObject *obj, PyObject *name, PyObject **exported)
{
    PyObject *method;
    int found = optional_attribute(obj, name, &method);
    if (found <= 0) {
        return found;
    }
    if (method == Py_None) {
        found = 0;
    }
    else {
        *exported = PyObject_CallNoArgs(method);
        found = *exported == NULL ? -1 : 1;
    }
    Py_DecRef(method);
    return found;
}

static int read_pair(DLPackObject *self, PyObject *pair, struct request *request)
{
    PyObject *schema = NULL, *array = NULL;
    if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        schema = PyTuple_GetItem(pair, 0);
        array = PyTuple_GetItem(pair, 1);
    }
    if (schema == NULL || !PyCapsule_IsValid(schema, "arrow_schema") || !PyCapsule_IsValid(array, "arrow_array")) {
        raise_unexpected(PyExc_ValueError,
                         "__arrow_c_array__: expected a tuple of two capsules, \"arrow_schema\" and \"arrow_array\"",
                         pair);
        return -1;
    }
    return share_column(self, PyCapsule_GetPointer(schema, "arrow_schema"), PyCapsule_GetPointer(array, "arrow_array"),
                        request);
}

int read_arrow_array(DLPackObject *self, struct request *request)
{
    PyObject *pair;
    int found = call_exporter(self->obj, names.arrow_c_array, &pair);
    if (found > 0) {
        found = read_pair(self, pair, request) < 0 ? -1 : 1;
        drop_capsule(pair);
    }
    return found;
}
