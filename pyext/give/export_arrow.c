/* export_arrow.c: exports a DLPackObject's memory by __arrow_c_array__ and __arrow_c_device_array__, the Arrow PyCapsule
 * interface.
 *
 * It is C because the structures of the Arrow C data interface are, and they are released on any thread, at any time.
 * Memory of several dimensions becomes a column of lists, whose child has the items. A consumer may move each structure
 * away. So all lie in one block, which is freed with the last one released. */
#include "give/give.h"
#include "read/arrow.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct ArrowSchema schema, schema_child, *schema_children[1];
    struct ArrowDeviceArray outer; /* for the host only its array */
    struct ArrowArray array_child, *array_children[1];
    atomic_int users;         /* the capsules, and the structures not yet released */
    atomic_int arrays;        /* those of them that are arrays: the last one releases the owner */
    PyObject *owner;          /* the DLPackObject, which keeps the memory alive */
    const void *buffers[2];   /* the first would be the validity bitmap */
    _Alignas(8) char texts[]; /* laid out by describe_column of dlpack._arrow */
};

static void drop_user(struct block *block)
{
    if (atomic_fetch_sub(&block->users, 1) == 1) {
        free(block);
    }
}

static void release_schema(struct ArrowSchema *schema)
{
    struct block *block = schema->private_data;
    if (schema->n_children > 0 && block->schema_child.release != NULL) {
        block->schema_child.release(&block->schema_child);
    }
    schema->release = NULL;
    drop_user(block);
}

static void release_array(struct ArrowArray *array)
{
    struct block *block = array->private_data;
    if (array->n_children > 0 && block->array_child.release != NULL) {
        block->array_child.release(&block->array_child);
    }
    array->release = NULL;
    if (atomic_fetch_sub(&block->arrays, 1) == 1) {
        release_export(block->owner, NULL);
    }
    drop_user(block);
}

/* Offsets of the texts in struct block.texts. */
enum { ITEM_FORMAT = 0, ITEM_METADATA = 8, LIST_FORMAT = 88, LIST_METADATA = 112 };

/* Makes a block for contiguous memory; the two capsules are users of it. NULL: error. */
static struct block *make_block(struct memory *self, PyObject *texts)
{
    size_t size = (size_t)PyBytes_Size(texts);
    bool has_lists = size > LIST_FORMAT, has_metadata = PyBytes_AsString(texts)[ITEM_METADATA] != 0;
    struct block *block = malloc(sizeof *block + size);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *block = (struct block){
        .schema = {.format = block->texts + ITEM_FORMAT,
                   .name = "",
                   .metadata = has_metadata ? block->texts + ITEM_METADATA : NULL,
                   .release = release_schema,
                   .private_data = block},
        .schema_children = {&block->schema_child},
        .outer = {.array = {.length = size_of(&self->tensor),
                            .n_buffers = 2,
                            .buffers = block->buffers,
                            .release = release_array,
                            .private_data = block},
                  .device_id = self->tensor.device.device_type == kDLCPU ? -1 : self->tensor.device.device_id,
                  .device_type = (int32_t)self->tensor.device.device_type},
        .array_children = {&block->array_child},
        .users = has_lists ? 6 : 4,
        .arrays = has_lists ? 2 : 1,
        .owner = Py_NewRef((PyObject *)self),
        .buffers = {NULL, self->tensor.data},
    };
    memcpy(block->texts, PyBytes_AsString(texts), size);
    if (has_lists) {
        block->schema_child = block->schema;
        block->schema_child.name = "item";
        block->schema.format = block->texts + LIST_FORMAT;
        block->schema.metadata = block->texts + LIST_METADATA;
        block->schema.children = block->schema_children;
        block->schema.n_children = 1;
        block->array_child = block->outer.array;
        block->outer.array.length = self->tensor.shape[0];
        block->outer.array.n_buffers = 1;
        block->outer.array.children = block->array_children;
        block->outer.array.n_children = 1;
    }
    return block;
}

/* Releases a structure, unless a consumer has moved its content out, which moves the release as well. */
static void drop_structure(struct block *block, const void *structure)
{
    if (structure == &block->schema && block->schema.release != NULL) {
        block->schema.release(&block->schema);
    }
    if (structure == &block->outer.array && block->outer.array.release != NULL) {
        block->outer.array.release(&block->outer.array);
    }
    drop_user(block);
}

static void destroy_capsule(PyObject *capsule)
{
    drop_structure(PyCapsule_GetContext(capsule), PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}

static PyObject *make_capsule(struct block *block, void *structure, const char *name)
{
    PyObject *capsule = PyCapsule_New(structure, name, destroy_capsule);
    if (capsule == NULL) {
        drop_structure(block, structure);
        return NULL;
    }
    PyCapsule_SetContext(capsule, block);
    return capsule;
}

/* Makes both capsules. */
static PyObject *make_pair(struct memory *self, const char *name)
{
    PyObject *texts =
        call_python(python.describe_column,
                    Py_BuildValue("(OsO)", self, self->names.arrow, object_is_compact(self, 'C') ? Py_True : Py_False));
    struct block *block = texts == NULL ? NULL : make_block(self, texts);
    Py_XDECREF(texts);
    if (block == NULL) {
        return NULL;
    }
    PyObject *schema = make_capsule(block, &block->schema, "arrow_schema");
    return Py_BuildValue("(NN)", schema, make_capsule(block, &block->outer.array, name));
}

PyObject *object_arrow_c_array(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *requested_schema; /* ignored, as the interface allows; the consumer converts */
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:__arrow_c_array__", (char *[]){"requested_schema", NULL},
                                     &requested_schema)) {
        return NULL;
    }
    struct memory *holder = cpu_tensor_of((DLPackObject *)self);
    return holder == NULL ? NULL : make_pair(holder, "arrow_array");
}

/* Like tensor_of, but a new reference, and waits for work on the memory to end. So no event is needed, whose release
 * would need the driver. */
static struct memory *complete_tensor_of(DLPackObject *self)
{
    struct memory *ordered = ordered_tensor_of(self);
    if (ordered == NULL || ordered->tensor.device.device_type == kDLCPU) {
        return ordered;
    }
    struct memory *complete = NULL;
    switch (ordered->tensor.device.device_type) {
    case kDLCUDA:
    case kDLCUDAHost:
    case kDLCUDAManaged:
        complete = object_meeting(ordered, &(struct terms){.exports = EXPORTS_COMPLETE});
        break;
    default:
        object_refuse(ordered, "no-arrow-device");
    }
    Py_DECREF((PyObject *)ordered);
    return complete;
}

PyObject *object_arrow_c_device_array(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *requested_schema, *name, *value; /* requested_schema is ignored, as above */
    Py_ssize_t at = 0;
    if (!PyArg_ParseTuple(args, "|O:__arrow_c_device_array__", &requested_schema)) {
        return NULL;
    }
    while (keywords != NULL && PyDict_Next(keywords, &at, &name, &value)) {
        if (value != Py_None && PyUnicode_CompareWithASCIIString(name, "requested_schema") != 0) {
            check_in_python(python.refuse_in_words, Py_BuildValue("(sO)", "unknown-keyword", name));
            return NULL;
        }
    }
    struct memory *complete = complete_tensor_of((DLPackObject *)self);
    PyObject *pair = complete == NULL ? NULL : make_pair(complete, "arrow_device_array");
    Py_XDECREF((PyObject *)complete);
    return pair;
}
