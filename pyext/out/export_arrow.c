/* export_arrow.c: gives a DLPackObject's memory by __arrow_c_array__, the Arrow PyCapsule interface.
 *
 * It is C because the structures of the Arrow C data interface are, and they are released on any thread, at any time. A
 * consumer may move a child out of its parent: each structure has a release and a block of its own. */
#include "out/out.h"
#include "read/arrow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a schema owns. */
struct schema_block {
    struct ArrowSchema child, *children[1];
    char format[16]; /* "+w:2147483647" */
    char metadata[];
};

static void release_schema(struct ArrowSchema *schema)
{
    if (schema->n_children > 0 && schema->children[0]->release != NULL) {
        schema->children[0]->release(schema->children[0]);
    }
    schema->release = NULL;
    free(schema->private_data);
}

/* What an array owns; owner is a reference to the DLPackObject, which keeps the memory alive. */
struct array_block {
    PyObject *owner;
    const void *buffers[2]; /* the first would say which items are null */
    struct ArrowArray child, *children[1];
};

static void release_array(struct ArrowArray *array)
{
    struct array_block *block = array->private_data;
    if (array->n_children > 0 && array->children[0]->release != NULL) {
        array->children[0]->release(array->children[0]);
    }
    array->release = NULL;
    release_export(block->owner, block);
}

/* The metadata that names an extension type: the number of pairs, then each text behind its length. Returns the size;
 * writes where `to` is not NULL. */
static size_t write_metadata(char *to, const char *extension, const char *parameters)
{
    const char *texts[] = {"ARROW:extension:name", extension, "ARROW:extension:metadata", parameters};
    int32_t pairs = 2;
    size_t size = sizeof pairs;
    if (to != NULL) {
        memcpy(to, &pairs, sizeof pairs);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t length = (int32_t)strlen(texts[i]);
        if (to != NULL) {
            memcpy(to + size, &length, sizeof length);
            memcpy(to + size + sizeof length, texts[i], (size_t)length);
        }
        size += sizeof length + (size_t)length;
    }
    return size;
}

/* extension: NULL where the format says it all. NULL: error. */
static struct schema_block *fill_schema(struct ArrowSchema *schema, const char *format, const char *extension,
                                        const char *parameters)
{
    size_t metadata = extension == NULL ? 0 : write_metadata(NULL, extension, parameters);
    struct schema_block *block = malloc(sizeof *block + metadata);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    snprintf(block->format, sizeof block->format, "%s", format);
    *schema =
        (struct ArrowSchema){.format = block->format, .name = "", .release = release_schema, .private_data = block};
    if (extension != NULL) {
        write_metadata(block->metadata, extension, parameters);
        schema->metadata = block->metadata;
    }
    return block;
}

static int fill_items_schema(struct ArrowSchema *schema, const DLPackObject *self)
{
    bool boolean = strcmp(self->names.dtype, "bool") == 0;
    return fill_schema(schema, self->names.arrow, boolean ? "arrow.bool8" : NULL, "") == NULL ? -1 : 0;
}

static int fill_tensor_schema(struct ArrowSchema *schema, const DLPackObject *self, int64_t list_size)
{
    char format[16], parameters[16 + 22 * MAX_NDIM]; /* 22: a number of 64 bits, and what is between two */
    int length = snprintf(parameters, sizeof parameters, "{\"shape\":[");
    for (int32_t i = 1; i < self->tensor.ndim; i++) {
        length += snprintf(parameters + length, sizeof parameters - (size_t)length, "%s%lld", i > 1 ? "," : "",
                           (long long)self->tensor.shape[i]);
    }
    snprintf(parameters + length, sizeof parameters - (size_t)length, "]}");
    snprintf(format, sizeof format, "+w:%lld", (long long)list_size);
    struct schema_block *block = fill_schema(schema, format, "arrow.fixed_shape_tensor", parameters);
    if (block == NULL || fill_items_schema(&block->child, self) < 0) {
        return -1;
    }
    block->child.name = "item";
    block->children[0] = &block->child;
    schema->children = block->children;
    schema->n_children = 1;
    return 0;
}

static struct array_block *fill_array(struct ArrowArray *array, DLPackObject *self, int64_t length)
{
    struct array_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    block->owner = Py_NewRef((PyObject *)self);
    *array = (struct ArrowArray){.length = length,
                                 .n_buffers = 1,
                                 .buffers = block->buffers,
                                 .release = release_array,
                                 .private_data = block};
    return block;
}

static int fill_items(struct ArrowArray *array, DLPackObject *self, int64_t length)
{
    struct array_block *block = fill_array(array, self, length);
    if (block == NULL) {
        return -1;
    }
    block->buffers[1] = self->tensor.data;
    array->n_buffers = 2;
    return 0;
}

static int fill_tensor(struct ArrowArray *array, DLPackObject *self, int64_t list_size)
{
    int64_t length = self->tensor.shape[0];
    struct array_block *block = fill_array(array, self, length);
    if (block == NULL || fill_items(&block->child, self, length * list_size) < 0) {
        return -1;
    }
    block->children[0] = &block->child;
    array->children = block->children;
    array->n_children = 1;
    return 0;
}

/* Whether Arrow can say the memory, and how many items a row has. */
static int check(const DLPackObject *self, int64_t *list_size)
{
    if (self->names.arrow[0] == '\0') {
        PyErr_Format(PyExc_BufferError,
                     "dtype %s: expected bool, an int, a uint or a float16, float32 or float64, as Arrow has them "
                     "(dlpack.frombuffer(x, \"uint8\") shares the bytes)",
                     self->names.dtype);
        return -1;
    }
    if (self->tensor.ndim == 0) {
        PyErr_SetString(PyExc_BufferError, "shape (): expected one dimension or more, as Arrow's arrays have a length "
                                           "(numpy.asarray(x).reshape(1) has one)");
        return -1;
    }
    if (!object_is_compact(self, 'C')) {
        object_refuse_strides(self, "row-major memory without gaps (asdlpack(x, copy=True) makes it so)");
        return -1;
    }
    *list_size = 1;
    for (int32_t i = 1; i < self->tensor.ndim; i++) {
        *list_size *= self->tensor.shape[i];
    }
    if (*list_size > INT32_MAX) {
        PyErr_Format(PyExc_BufferError,
                     "shape: rows of %lld items; expected at most %d, the longest of Arrow's fixed-size lists "
                     "(numpy.asarray(x).reshape(-1) has no rows)",
                     (long long)*list_size, INT32_MAX);
        return -1;
    }
    return 0;
}

static const char schema_name[] = "arrow_schema", array_name[] = "arrow_array";

/* A consumer moves the structure's content out, and its release with it; what no one took is released here. */
static void destroy_schema(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, schema_name);
    if (schema->release != NULL) {
        schema->release(schema);
    }
    free(schema);
}

static void destroy_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, array_name);
    struct pending pending;
    set_aside(&pending);
    if (array->release != NULL) {
        array->release(array);
    }
    put_back(&pending);
    free(array);
}

/* A capsule with an empty structure. */
static PyObject *make_capsule(size_t size, const char *name, PyCapsule_Destructor destructor)
{
    void *structure = calloc(1, size);
    if (structure == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(structure, name, destructor);
    if (capsule == NULL) {
        free(structure);
    }
    return capsule;
}

static int fill(PyObject *schema_capsule, PyObject *array_capsule, DLPackObject *self, int64_t list_size)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(schema_capsule, schema_name);
    struct ArrowArray *array = PyCapsule_GetPointer(array_capsule, array_name);
    if (self->tensor.ndim == 1) {
        return fill_items_schema(schema, self) < 0 ? -1 : fill_items(array, self, self->tensor.shape[0]);
    }
    return fill_tensor_schema(schema, self, list_size) < 0 ? -1 : fill_tensor(array, self, list_size);
}

PyObject *object_arrow_c_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *requested_schema; /* to be met as well as can be: the consumer converts */
    const struct parameter parameters[] = {{names.requested_schema, &requested_schema}};
    if (read_arguments("__arrow_c_array__", parameters, 1, 1, 0, args, nargs, kwnames) < 0) {
        return NULL;
    }
    int64_t list_size;
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    if (holder == NULL || check(holder, &list_size) < 0) {
        return NULL;
    }
    PyObject *schema = make_capsule(sizeof(struct ArrowSchema), schema_name, destroy_schema);
    PyObject *array = schema == NULL ? NULL : make_capsule(sizeof(struct ArrowArray), array_name, destroy_array);
    PyObject *pair =
        array == NULL || fill(schema, array, holder, list_size) < 0 ? NULL : PyTuple_Pack(2, schema, array);
    Py_XDECREF(schema);
    Py_XDECREF(array);
    return pair;
}
