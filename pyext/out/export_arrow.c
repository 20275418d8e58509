/* export_arrow.c: gives a DLPackObject's memory by __arrow_c_array__, the Arrow PyCapsule interface.
 *
 * It is C because the structures of the Arrow C data interface are, and they are released on any thread, at any time.
 * Memory of several dimensions is a column of lists, whose child has the items. A consumer may move the child out of its
 * parent: both lie in one block, which the last one released frees. */
#include "out/out.h"
#include "read/arrow.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct schema_block {
    atomic_int structures; /* not yet released */
    struct ArrowSchema child, *children[1];
    char format[LETTERS_SIZE]; /* of the items */
    _Alignas(8) char lists[];  /* what Python's side says of the lists */
};

enum { METADATA_AT = 24 }; /* in `lists`, behind their format */

static void release_schema(struct ArrowSchema *schema)
{
    struct schema_block *block = schema->private_data;
    if (schema->n_children > 0 && block->child.release != NULL) {
        block->child.release(&block->child);
    }
    schema->release = NULL;
    if (atomic_fetch_sub(&block->structures, 1) == 1) {
        free(block);
    }
}

static int fill_schema(struct ArrowSchema *schema, const DLPackObject *self, PyObject *lists)
{
    /* Two pairs of texts behind their lengths. x86_64 and aarch64 have the low byte of a number first. */
    static const char bool8[] = "\2\0\0\0\24\0\0\0ARROW:extension:name\13\0\0\0arrow.bool8"
                                "\30\0\0\0ARROW:extension:metadata\0\0\0\0";
    size_t size = lists == Py_None ? 0 : (size_t)PyBytes_Size(lists);
    struct schema_block *block = calloc(1, sizeof *block + size);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(block->format, self->names.arrow, sizeof block->format);
    struct ArrowSchema items = {.format = block->format, .name = "", .release = release_schema, .private_data = block};
    if (strcmp(self->names.dtype, "bool") == 0) {
        items.metadata = bool8;
    }
    block->structures = 1;
    *schema = items;
    if (size > 0) {
        memcpy(block->lists, PyBytes_AsString(lists), size);
        block->structures = 2;
        block->child = items;
        block->child.name = "item";
        block->children[0] = &block->child;
        schema->format = block->lists;
        schema->metadata = block->lists + METADATA_AT;
        schema->children = block->children;
        schema->n_children = 1;
    }
    return 0;
}

/* owner is a reference to the DLPackObject, which keeps the memory alive. */
struct array_block {
    atomic_int structures; /* not yet released */
    PyObject *owner;
    const void *buffers[2]; /* the first would say which items are null */
    struct ArrowArray child, *children[1];
};

static void release_array(struct ArrowArray *array)
{
    struct array_block *block = array->private_data;
    if (array->n_children > 0 && block->child.release != NULL) {
        block->child.release(&block->child);
    }
    array->release = NULL;
    if (atomic_fetch_sub(&block->structures, 1) == 1) {
        release_export(block->owner, block);
    }
}

static int fill_array(struct ArrowArray *array, DLPackObject *self)
{
    struct array_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    block->owner = Py_NewRef((PyObject *)self);
    block->buffers[1] = self->tensor.data;
    block->structures = 1;
    *array = (struct ArrowArray){.length = object_nbytes(self) / self->itemsize,
                                 .n_buffers = 2,
                                 .buffers = block->buffers,
                                 .release = release_array,
                                 .private_data = block};
    if (self->tensor.ndim > 1) {
        block->structures = 2;
        block->child = *array;
        block->children[0] = &block->child;
        array->length = self->tensor.shape[0];
        array->n_buffers = 1;
        array->children = block->children;
        array->n_children = 1;
    }
    return 0;
}

/* What Python's side says of the lists that are the rows of self: bytes; None where there is one dimension. NULL: error,
 * also where Arrow can't say the memory. */
static PyObject *describe_lists(DLPackObject *self)
{
    bool has_type = self->names.arrow[0] != '\0', compact = object_is_compact(self, 'C');
    if (has_type && compact && self->tensor.ndim == 1) {
        return new_none();
    }
    return call_python(PYTHON_DESCRIBE_LISTS, Py_BuildValue("Oii", self, has_type, compact));
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

PyObject *object_arrow_c_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *requested_schema; /* ignored, as the interface allows: the consumer converts */
    const struct parameter parameters[] = {{names.requested_schema, &requested_schema}};
    if (read_arguments("__arrow_c_array__", parameters, 1, 1, 0, args, nargs, kwnames) < 0) {
        return NULL;
    }
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    if (holder == NULL) {
        return NULL;
    }
    PyObject *schema = NULL, *array = NULL, *pair = NULL, *lists = describe_lists(holder);
    if (lists != NULL) {
        schema = make_capsule(sizeof(struct ArrowSchema), schema_name, destroy_schema);
    }
    array = schema == NULL ? NULL : make_capsule(sizeof(struct ArrowArray), array_name, destroy_array);
    if (array != NULL && fill_schema(PyCapsule_GetPointer(schema, schema_name), holder, lists) == 0 &&
        fill_array(PyCapsule_GetPointer(array, array_name), holder) == 0) {
        pair = PyTuple_Pack(2, schema, array);
    }
    Py_XDECREF(schema);
    Py_XDECREF(array);
    Py_DecRef(lists);
    return pair;
}
